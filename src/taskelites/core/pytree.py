"""One way to declare the frozen records that JAX traces."""

import inspect
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


def static(**kwargs: Any) -> Any:
    """A field that JAX treats as part of the program, not as data: sizes and names."""
    return field(metadata={"static": True}, **kwargs)


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(static, field))
def record(cls: type[T]) -> type[T]:
    """A frozen dataclass with keyword arguments, registered as a pytree.

    Example:
        >>> import jax
        >>> from taskelites.core.pytree import record, static
        >>> @record
        ... class Step:
        ...     size: float
        ...     name: str = static(default="iso")
        >>> jax.tree.map(lambda leaf: 2 * leaf, Step(size=1.0))
        Step(size=2.0, name='iso')
    """
    # JAX takes two dataclasses with fields alike for the same structure (their hashes differ, `==` does not), and would
    # once in a while run the program that it compiled for the other: so the class is a static field of its own.
    cls.__annotations__ = {**inspect.get_annotations(cls), "_class": type}
    cls._class = static(default=cls, repr=False)  # type: ignore[attr-defined]
    return jax.tree_util.register_dataclass(dataclass(frozen=True, kw_only=True, eq=False)(cls))
