"""Which arm to pull next."""

import jax.numpy as jnp
from jax import Array


def ucb1(rewards: Array, pulls: Array) -> Array:
    """The arm that UCB1 chooses (Auer et al., 2002; line 2.5 and eq. 7 of the paper's pseudo-code).

    An arm that was never pulled comes first, in list order; the paper leaves that case open (it divides by zero).

    Args:
        rewards: `(arms,)`, the sum of each arm's rewards.
        pulls: `(arms,)`, how often each was pulled; fractions are legal.

    Example:
        >>> import jax.numpy as jnp
        >>> from taskelites.core.bandit import ucb1
        >>> int(ucb1(jnp.array([30.0, 50.0, 0.0]), jnp.array([1.0, 1.0, 0.0])))
        2
        >>> int(ucb1(jnp.array([30.0, 50.0, 10.0]), jnp.array([1.0, 1.0, 1.0])))
        1
    """
    safe = jnp.where(pulls > 0, pulls, 1.0)
    generation = jnp.maximum(jnp.sum(pulls), 1.0)
    bound = rewards / safe + jnp.sqrt(2.0 * jnp.log(generation) / safe)
    return jnp.argmax(jnp.where(pulls > 0, bound, jnp.inf)).astype(jnp.int32)
