"""Convert the states of algorithms to named arrays, for checkpoints, and back."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from taskelites.errors import InvalidValueError


def to_arrays(prefix: str, tree: Any) -> dict[str, np.ndarray]:
    """Return the arrays of a state, named by prefix and path.

    Example:
        >>> to_arrays("state", {"step": np.int32(3)})
        {"state['step']": array(3, dtype=int32)}
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    plain = {prefix + jax.tree_util.keystr(path): _plain(leaf) for path, leaf in leaves}
    return {name: np.asarray(leaf) for name, leaf in jax.device_get(plain).items()}


def from_arrays(prefix: str, like: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return a state with the structure of `like`, from the arrays that `to_arrays` returned.

    Raises:
        ValueError: if names, shapes or dtypes differ from those of `like`.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    names = [prefix + jax.tree_util.keystr(path) for path, _ in leaves]
    kept = {name for name in arrays if name.startswith(prefix)}
    if set(names) != kept:
        odd = sorted(set(names) ^ kept)
        where = "only in the checkpoint" if odd[0] in kept else "missing in the checkpoint"
        raise InvalidValueError(f"the checkpoint does not fit this algorithm: {odd[0]!r} is {where}")
    found = []
    for name, (_, leaf) in zip(names, leaves, strict=True):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        wanted = jax.eval_shape(jax.random.key_data, leaf) if is_key else leaf
        array = arrays[name]
        if array.shape != wanted.shape or array.dtype != wanted.dtype:
            raise InvalidValueError(
                f"the checkpoint does not fit this problem: {name!r} must be {wanted.dtype}{list(wanted.shape)}, not "
                f"{array.dtype}{list(array.shape)}"
            )
        fresh = jnp.asarray(array)
        found.append(jax.random.wrap_key_data(fresh, impl=jax.random.key_impl(leaf)) if is_key else fresh)
    return jax.tree_util.tree_unflatten(structure, found)


def _plain(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
