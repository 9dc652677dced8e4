"""Fast bulk random numbers: the threefry-2x32 generator with its rounds unrolled.

The generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) and the keys are the same as in
`jax.random`. On the CPU, JAX compiles its own version to a loop that cannot be fused with other operations, and it
uses two words per number. Unrolled, drawing a batch of normals takes a fraction of the time
(`benchmarks/speed.py --part draws`).
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

# Implementation of the keys created here. It is JAX's default, but a user may have changed that default.
IMPLEMENTATION = "threefry2x32"
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def key(seed: Any) -> Array:
    """Return the key of a seed, a whole number below 2^32.

    Example:
        >>> from taskelites.core import random
        >>> random.key(7).shape
        ()
    """
    return jax.random.key(seed, impl=IMPLEMENTATION)


def words(key: Array, shape: tuple[int, ...]) -> Array:
    """Return random 32-bit words.

    Example:
        >>> import jax
        >>> from taskelites.core import random
        >>> random.words(jax.random.key(0), (3,)).tolist()
        [4146024105, 967050713, 2718843009]
    """
    number = math.prod(shape)
    half = (number + 1) // 2
    count = lax.iota(jnp.uint32, half)
    return jnp.concatenate(_threefry(key, count, count + jnp.uint32(half)))[:number].reshape(shape)


def split(key: Array, number: int = 2) -> Array:
    """Split a key into several, like `jax.random.split` but with different results. Do not reuse the original key.

    Example:
        >>> import jax
        >>> from taskelites.core import random
        >>> random.split(jax.random.key(0), 3).shape
        (3,)
    """
    return _as_keys(words(key, (number, 2)))


def fold_in(key: Array, number: Any) -> Array:
    """Derive a key from a key and a number, like `jax.random.fold_in` but with different results.

    Example:
        >>> import jax
        >>> from taskelites.core import random
        >>> random.fold_in(jax.random.key(0), 7).shape
        ()
    """
    count = jnp.asarray(number).astype(jnp.uint32)
    return _as_keys(jnp.stack(_threefry(key, jnp.zeros_like(count), count), axis=-1))


def _as_keys(data: Array) -> Array:
    # Without the barrier, the compiler would derive the key again for every number drawn with it.
    return jax.random.wrap_key_data(lax.optimization_barrier(data), impl=IMPLEMENTATION)  # type: ignore[no-untyped-call]


def _threefry(key: Array, left: Array, right: Array) -> tuple[Array, Array]:
    """Encrypt each pair of 32-bit words with threefry-2x32."""
    data = jax.random.key_data(key)
    schedule = (data[0], data[1], data[0] ^ data[1] ^ jnp.uint32(_PARITY))
    left, right = left + schedule[0], right + schedule[1]
    for turn in range(5):
        for rotation in _ROTATIONS[turn % 2]:
            left = left + right
            right = ((right << rotation) | (right >> (32 - rotation))) ^ left
        left = left + schedule[(turn + 1) % 3]
        right = right + schedule[(turn + 2) % 3] + jnp.uint32(turn + 1)
    return left, right


def uniform(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return uniform random numbers in [0, 1), with 24 random bits (53 in float64).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taskelites.core import random
        >>> bool((random.uniform(jax.random.key(0), (1000,), jnp.float32) < 1).all())
        True
    """
    number, real = math.prod(shape), jnp.dtype(dtype).type
    if real == np.float32:
        flat = units(words(key, (number,)), real)
    else:
        high, low = _pairs(key, number)
        flat = (_signed(high >> 5, real) * real(2.0**26) + _signed(low >> 6, real)) * real(2.0**-53)
    return flat.reshape(shape)


def units(words: Array, dtype: Any) -> Array:
    """Convert random 32-bit words to uniform numbers in [0, 1), with 24 random bits.

    Example:
        >>> import jax.numpy as jnp
        >>> from taskelites.core import random
        >>> random.units(jnp.array([0, 2**31], jnp.uint32), jnp.float32).tolist()
        [0.0, 0.5]
    """
    real = jnp.dtype(dtype).type
    return _signed(words >> 8, real) * real(2.0**-24)


def normal(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return random numbers from the standard normal distribution.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taskelites.core import random
        >>> bool(abs(random.normal(jax.random.key(0), (10_000,), jnp.float32).std() - 1) < 0.03)
        True
    """
    number, real = math.prod(shape), jnp.dtype(dtype).type
    if real == np.float32:
        return normals(words(key, (number,)), real).reshape(shape)
    high, low = _pairs(key, number)
    whole = _signed(high, real) * real(2.0**21) + _signed(low >> 11, real)
    return _normal_quantile((whole + real(0.5)) * real(2.0**-52)).reshape(shape)


def normals(words: Array, dtype: Any) -> Array:
    """Convert random 32-bit words to standard normal numbers, with 24 random bits.

    Example:
        >>> import jax.numpy as jnp
        >>> from taskelites.core import random
        >>> random.normals(jnp.array([2**30, 2**31], jnp.uint32), jnp.float32).round(3).tolist()
        [-0.6740000247955322, 0.0]
    """
    real = jnp.dtype(dtype).type
    return _normal_quantile((_signed(words >> 8, real) - real(2.0**23) + real(0.5)) * real(2.0**-23))


def _normal_quantile(centred: Array) -> Array:
    """Convert uniform numbers in (-1, 1) to standard normal numbers, by the inverse of the distribution function.

    The arguments are the midpoints of 2^24 (2^53 in float64) equal intervals. They are exact and never -1 or 1, where
    the result would be infinite.
    """
    return centred.dtype.type(math.sqrt(2.0)) * lax.erf_inv(centred)


def _pairs(key: Array, number: int) -> tuple[Array, Array]:
    """Return two arrays of random 32-bit words, each of shape `(number,)`."""
    count = lax.iota(jnp.uint32, number)
    return _threefry(key, count, count + jnp.uint32(number))


def _signed(values: Array, real: Any) -> Array:
    """Convert words to floats through int32, since CPUs have vector instructions only for signed integers."""
    return values.astype(jnp.int32).astype(real)
