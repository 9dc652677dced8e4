"""The built-in domains and their registry."""

import inspect
from collections.abc import Callable
from typing import Any

from taskelites.domains import archery, arm, cartpole, hexapod, postures, valleys
from taskelites.errors import one_of
from taskelites.problem.problem import Domain

DOMAINS: dict[str, Callable[..., Domain]] = {
    "arm": arm.make,
    "hexapod": hexapod.make,
    "archery": archery.make,
    "cartpole": cartpole.make,
    "valleys": valleys.make,
    "postures": postures.make,
}

__all__ = ["DOMAINS", "domain"]


def domain(name: str, **options: Any) -> Domain:
    """Make a built-in domain.

    Args:
        name: one of those that `taskelites list` shows.
        options: options of the domain, such as `tasks` and `dim`.

    Example:
        >>> import taskelites as te
        >>> arm = te.domain("arm", tasks=500, dim=10)
        >>> arm.dim, len(arm.tasks), arm.call
        (10, 500, 'jax')
    """
    make = DOMAINS[one_of("name", name, DOMAINS)]
    for option in options:
        one_of(f"an option of {name!r}", option, inspect.signature(make).parameters)
    return make(**options)
