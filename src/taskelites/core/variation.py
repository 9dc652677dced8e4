"""Variation operators.

An operator is a callable frozen dataclass. JAX traces its parameters, so `vmap` can sweep them. Called with a key, two
arrays of parents of shape `(rows, dim)` and the bounds of the box, it returns children of shape `(rows, dim)` inside
the box. Step sizes are fractions of the box's width.
"""

import math
from dataclasses import fields, is_dataclass
from typing import Any, Protocol

import jax.numpy as jnp
from jax import Array

from taskelites.core import random
from taskelites.core.pytree import record
from taskelites.errors import InvalidTypeError, InvalidValueError, one_of


class Variation(Protocol):
    """Interface of a variation operator."""

    def __call__(self, key: Array, first: Array, second: Array, lower: Array, upper: Array) -> Array:
        """Return one child per pair of parents, inside the box.

        Args:
            key: random key.
            first: first parents, shape `(rows, dim)`.
            second: second parents, shape `(rows, dim)`.
            lower: lower bounds, shape `(dim,)`.
            upper: upper bounds, shape `(dim,)`.

        Returns:
            Children, shape `(rows, dim)`.
        """


@record
class IsoLine:
    """Iso+LineDD operator: isotropic noise plus a step along the line through both parents (eq. 1 of the paper).

    Vassiliades and Mouret, "Discovering the elite hypervolume by leveraging interspecies correlation" (GECCO 2018).
    The Multi-task MAP-Elites paper does not give the standard deviations; the defaults are those of its code.

    Attributes:
        sigma1: standard deviation of the isotropic noise.
        sigma2: standard deviation of the step along the line, as a fraction of the distance between the parents.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taskelites.core.variation import IsoLine
        >>> parents = jnp.array([[0.25, 0.75]]), jnp.array([[0.5, 0.5]])
        >>> IsoLine(sigma1=0.0, sigma2=0.0)(jax.random.key(0), *parents, 0.0, 1.0).tolist()
        [[0.25, 0.75]]
    """

    sigma1: float = 0.01
    sigma2: float = 0.2

    def __call__(self, key: Array, first: Array, second: Array, lower: Array, upper: Array) -> Array:
        """Return one child per pair of parents, inside the box."""
        key_iso, key_line = random.split(key)
        isotropic = random.normal(key_iso, first.shape, first.dtype) * (upper - lower)
        line = random.normal(key_line, (*first.shape[:-1], 1), first.dtype)
        return jnp.clip(first + self.sigma1 * isotropic + self.sigma2 * (second - first) * line, lower, upper)  # eq. 1


@record
class SBX:
    """Bounded simulated binary crossover (Deb and Agrawal, 1995) with one child per pair of parents.

    Attributes:
        eta: distribution index; the greater it is, the nearer the children are to their parents.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taskelites.core.variation import SBX
        >>> same = jnp.array([[0.25, 0.75]])
        >>> SBX()(jax.random.key(0), same, same, 0.0, 1.0).tolist()
        [[0.25, 0.75]]
    """

    eta: float = 10.0

    def __call__(self, key: Array, first: Array, second: Array, lower: Array, upper: Array) -> Array:
        """Return one child per pair of parents, inside the box."""
        key_spread, key_side = random.split(key)
        low, high = jnp.minimum(first, second), jnp.maximum(first, second)
        apart = high - low
        gap = jnp.where(apart > 0, apart, 1.0)
        draw = random.uniform(key_spread, first.shape, first.dtype)

        above = random.uniform(key_side, first.shape, first.dtype) >= 0.5
        room = jnp.where(above, upper - high, low - lower)
        # The density of the spread factor is truncated at the bound on this side.
        mass = draw * (2.0 - (1.0 + 2.0 * room / gap) ** -(self.eta + 1.0))
        base = jnp.where(mass <= 1.0, mass, 1.0 / jnp.maximum(2.0 - mass, 1e-12))
        half = 0.5 * base ** (1.0 / (self.eta + 1.0)) * apart
        child = 0.5 * (low + high) + jnp.where(above, half, -half)
        return jnp.clip(jnp.where(apart > 0, child, first), lower, upper)


@record
class Gaussian:
    """Gaussian mutation of the first parent; the second parent is ignored.

    Attributes:
        sigma: standard deviation of the noise.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taskelites.core.variation import Gaussian
        >>> parent = jnp.array([[5.0, -5.0]])
        >>> Gaussian(sigma=0.0)(jax.random.key(0), parent, parent, -10.0, 10.0).tolist()
        [[5.0, -5.0]]
    """

    sigma: float = 0.05

    def __call__(self, key: Array, first: Array, second: Array, lower: Array, upper: Array) -> Array:
        """Return one child per pair of parents, inside the box."""
        noise = random.normal(key, first.shape, first.dtype)
        return jnp.clip(first + self.sigma * (upper - lower) * noise, lower, upper)


@record
class Polynomial:
    """Bounded polynomial mutation of the first parent (Deb and Goyal, 1996); the second parent is ignored.

    Attributes:
        eta: distribution index; the greater it is, the smaller the steps.
        rate: mutation probability per gene; None for `1 / dim`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taskelites.core.variation import Polynomial
        >>> parent = jnp.array([[0.25, 0.5]])
        >>> Polynomial(rate=0.0)(jax.random.key(0), parent, parent, 0.0, 1.0).tolist()
        [[0.25, 0.5]]
    """

    eta: float = 20.0
    rate: float | None = None

    def __call__(self, key: Array, first: Array, second: Array, lower: Array, upper: Array) -> Array:
        """Return one child per pair of parents, inside the box."""
        key_step, key_gene = random.split(key)
        draw = random.uniform(key_step, first.shape, first.dtype)
        width = upper - lower
        power = self.eta + 1.0
        to_lower = (first - lower) / width
        to_upper = (upper - first) / width
        down = (2.0 * draw + (1.0 - 2.0 * draw) * (1.0 - to_lower) ** power) ** (1.0 / power) - 1.0
        up = 1.0 - (2.0 * (1.0 - draw) + (2.0 * draw - 1.0) * (1.0 - to_upper) ** power) ** (1.0 / power)
        step = jnp.where(draw < 0.5, down, up)
        rate = 1.0 / first.shape[-1] if self.rate is None else self.rate
        mutated = random.uniform(key_gene, first.shape, first.dtype) < rate
        return jnp.clip(jnp.where(mutated, first + step * width, first), lower, upper)


OPERATORS: dict[str, type] = {"iso_line": IsoLine, "sbx": SBX, "gaussian": Gaussian, "polynomial": Polynomial}


def as_variation(variation: Any) -> Any:
    """Return the operator of that name, with default parameters, or the given operator after checking it.

    Example:
        >>> from taskelites.core.variation import as_variation
        >>> as_variation("sbx")
        SBX(eta=10.0)
    """
    if isinstance(variation, str):
        return OPERATORS[one_of("variation", variation, OPERATORS)]()
    if not callable(variation) or isinstance(variation, type):
        raise InvalidTypeError(
            "variation must be a name such as 'iso_line' or an operator such as te.variation.IsoLine(), "
            f"not {variation!r}"
        )
    for item in fields(variation) if is_dataclass(variation) else ():
        value = getattr(variation, item.name)
        if isinstance(value, str) or (isinstance(value, int | float) and not math.isfinite(value)):
            raise InvalidValueError(f"{item.name} of {type(variation).__name__} must be a finite number, not {value!r}")
    return variation
