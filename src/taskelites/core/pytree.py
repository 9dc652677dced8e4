"""Frozen dataclasses that are registered as JAX pytrees."""

import inspect
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np
from jax import Array

T = TypeVar("T")


def constant(values: Any, dtype: Any = None) -> Array:
    """Return values as an array on the device, in the precision that JAX has now.

    `jnp.asarray` compiles a program for each new shape, which would make up half of the programs of a short run.

    Example:
        >>> from taskelites.core.pytree import constant
        >>> constant([1, 2]).tolist()
        [1, 2]
    """
    return jax.device_put(np.asarray(values, dtype))


def static(**kwargs: Any) -> Any:
    """Declare a static field, such as a size or a name: JAX compiles it into the program instead of tracing it."""
    return field(metadata={"static": True}, **kwargs)


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(static, field))
def record(cls: type[T]) -> type[T]:
    """Make a class a frozen, keyword-only dataclass and register it as a pytree.

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
    # JAX compares the structures of two dataclasses by their fields alone, although their hashes differ. It could then
    # run a program that was compiled for another class, so the class itself is a static field.
    cls.__annotations__ = {**inspect.get_annotations(cls), "_class": type}
    cls._class = static(default=cls, repr=False)  # type: ignore[attr-defined]
    return jax.tree_util.register_dataclass(dataclass(frozen=True, kw_only=True, eq=False)(cls))
