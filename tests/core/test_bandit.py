import math

import jax.numpy as jnp
import pytest

from taskelites.core.bandit import ucb1


def test_each_arm_first_in_list_order():
    assert int(ucb1(jnp.zeros(3), jnp.zeros(3))) == 0
    assert int(ucb1(jnp.array([64.0, 0.0, 0.0]), jnp.array([1.0, 0.0, 0.0]))) == 1
    assert int(ucb1(jnp.array([64.0, 60.0, 0.0]), jnp.array([1.0, 1.0, 0.0]))) == 2


def test_a_hand_worked_sequence():
    """Three arms that always give 2.0, 1.5 and 1.0.

    g = 3: each has sqrt(2 ln 3) = 1.482 on top, so the first (3.482) leads.
    g = 4: arm 0 has 2 + sqrt(2 ln 4 / 2) = 3.177, arm 1 has 1.5 + sqrt(2 ln 4) = 3.165: the first again.
    g = 5: arm 0 has 2 + sqrt(2 ln 5 / 3) = 3.036, arm 1 has 1.5 + 1.794 = 3.294: the second.
    g = 6: arm 0 has 2 + sqrt(2 ln 6 / 3) = 3.093, arm 1 has 2.839, arm 2 has 1 + 1.893 = 2.893: the first.
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


def test_equal_arms_take_the_first():
    assert int(ucb1(jnp.array([5.0, 5.0]), jnp.array([2.0, 2.0]))) == 0


@pytest.mark.parametrize("pulls", [0.5, 1.0, 1e6])
def test_fractions_and_many_pulls_are_finite(pulls):
    assert int(ucb1(jnp.array([0.0, 1.0]), jnp.array([pulls, pulls]))) == 1
