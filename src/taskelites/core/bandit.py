"""Multi-armed bandits."""

import jax.numpy as jnp
from jax import Array


def ucb1(rewards: Array, pulls: Array) -> Array:
    """Return the arm chosen by UCB1 (Auer et al., 2002; line 2.5 and eq. 7 of the paper's pseudo-code).

    Arms that were never pulled come first, in order. The paper does not define this case (it divides by zero).

    Args:
        rewards: cumulative reward per arm, shape `(arms,)`.
        pulls: number of pulls per arm, shape `(arms,)`; may be fractional.

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
