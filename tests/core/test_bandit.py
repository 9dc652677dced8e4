import math

import jax.numpy as jnp
import pytest

from taskelites.core.bandit import ucb1


def test_every_arm_is_tried_once_in_order():
    assert int(ucb1(jnp.zeros(3), jnp.zeros(3))) == 0
    assert int(ucb1(jnp.array([64.0, 0.0, 0.0]), jnp.array([1.0, 0.0, 0.0]))) == 1
    assert int(ucb1(jnp.array([64.0, 60.0, 0.0]), jnp.array([1.0, 1.0, 0.0]))) == 2


def test_hand_calculated_sequence():
    """Three arms with constant rewards of 2.0, 1.5 and 1.0.

    g = 3: sqrt(2 ln 3) = 1.482 is added to each, so arm 0 has the highest bound, 3.482.
    g = 4: arm 0 has 2 + sqrt(2 ln 4 / 2) = 3.177, arm 1 has 1.5 + sqrt(2 ln 4) = 3.165: arm 0 again.
    g = 5: arm 0 has 2 + sqrt(2 ln 5 / 3) = 3.036, arm 1 has 1.5 + 1.794 = 3.294: arm 1.
    g = 6: arm 0 has 2 + sqrt(2 ln 6 / 3) = 3.093, arm 1 has 2.839, arm 2 has 1 + 1.893 = 2.893: arm 0.
    """
    assert math.isclose(2 + math.sqrt(2 * math.log(4) / 2), 3.177, abs_tol=1e-3)
    gains = [2.0, 1.5, 1.0]
    rewards, pulls, chosen = [0.0] * 3, [0.0] * 3, []
    for _ in range(7):
        arm = int(ucb1(jnp.array(rewards), jnp.array(pulls)))
        chosen.append(arm)
        rewards[arm] += gains[arm]
        pulls[arm] += 1
    assert chosen == [0, 1, 2, 0, 0, 1, 0]


def test_first_of_equal_arms_is_chosen():
    assert int(ucb1(jnp.array([5.0, 5.0]), jnp.array([2.0, 2.0]))) == 0


@pytest.mark.parametrize("pulls", [0.5, 1.0, 1e6])
def test_fractional_and_many_pulls_give_finite_bounds(pulls):
    assert int(ucb1(jnp.array([0.0, 1.0]), jnp.array([pulls, pulls]))) == 1
