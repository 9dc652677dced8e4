"""Random numbers in bulk: threefry-2x32, written out flat.

The generator is that of `jax.random` (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), and keys
are JAX's. JAX compiles it for the CPU as a loop that nothing can be fused with, and spends two words on each; written
out, a batch of normals takes a fraction of the time (`benchmarks/speed.py --part draws`).
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def words(key: Array, shape: tuple[int, ...]) -> Array:
    """Random 32-bit words.

    Example:
        >>> import jax
        >>> from taskelites import draws
        >>> draws.words(jax.random.key(0), (3,)).tolist()
        [1797259609, 2579123966, 928981903]
    """
    number = math.prod(shape)
    half = (number + 1) // 2
    data = jax.random.key_data(key)
    schedule = (data[0], data[1], data[0] ^ data[1] ^ jnp.uint32(_PARITY))
    left = lax.iota(jnp.uint32, half) + schedule[0]
    right = lax.iota(jnp.uint32, half) + jnp.uint32(half) + schedule[1]
    for turn in range(5):
        for rotation in _ROTATIONS[turn % 2]:
            left = left + right
            right = ((right << rotation) | (right >> (32 - rotation))) ^ left
        left = left + schedule[(turn + 1) % 3]
        right = right + schedule[(turn + 2) % 3] + jnp.uint32(turn + 1)
    return jnp.concatenate([left, right])[:number].reshape(shape)


def uniform(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Numbers in [0, 1), with 24 random bits (53 in float64).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taskelites import draws
        >>> bool((draws.uniform(jax.random.key(0), (1000,), jnp.float32) < 1).all())
        True
    """
    number, real = math.prod(shape), jnp.dtype(dtype).type
    if real == np.float32:
        flat = (words(key, (number,)) >> 8).astype(real) * real(2.0**-24)
    else:
        high, low = words(key, (2, number))
        flat = (high.astype(real) * real(2.0**21) + (low >> 11).astype(real)) * real(2.0**-53)
    return flat.reshape(shape)


def normal(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Numbers of the standard normal distribution.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taskelites import draws
        >>> bool(abs(draws.normal(jax.random.key(0), (10_000,), jnp.float32).std() - 1) < 0.03)
        True
    """
    number, real = math.prod(shape), jnp.dtype(dtype).type
    # The middle of each of 2^24 (2^53) equal parts of (-1, 1): exact, and never an end, whose normal is infinite.
    if real == np.float32:
        whole = ((words(key, (number,)) >> 8).astype(jnp.int32) - 2**23).astype(real)
        centred = (whole + real(0.5)) * real(2.0**-23)
    else:
        high, low = words(key, (2, number))
        whole = high.astype(jnp.int32).astype(real) * real(2.0**21) + (low >> 11).astype(real)
        centred = (whole + real(0.5)) * real(2.0**-52)
    return (real(math.sqrt(2.0)) * lax.erf_inv(centred)).reshape(shape)
