import jax.numpy as jnp
import numpy as np
import pytest

from taskelites.core import metrics

FITNESS = np.array([1.0, 3.0, np.nan, -np.inf])


def test_summary_ignores_unsolved_tasks():
    numbers = metrics.summary(FITNESS)
    assert numbers["coverage"] == 0.5
    assert numbers["mean"] == numbers["median"] == 2.0
    assert (numbers["lowest"], numbers["highest"]) == (1.0, 3.0)
    assert numbers["q05"] == pytest.approx(1.1)
    assert np.isnan(metrics.summary(np.full(3, np.nan))["mean"])


def test_mean_all_counts_unsolved_tasks_as_worst_fitness():
    assert metrics.mean_all(FITNESS, -2.0) == 0.0
    assert metrics.mean_all(FITNESS, np.array([9.0, 9.0, 0.0, -4.0])) == 0.0


def test_gap_is_nan_unless_all_tasks_are_solved():
    assert metrics.gap(np.array([1.0, 2.0]), np.array([1.5, 2.5])) == 0.5
    assert np.isnan(metrics.gap(FITNESS, np.zeros(4)))


def test_area_under_step_function():
    """The fitness is -1 (the worst) until 10, 0 until 30 and 1 until 40: (-10 + 0 + 10) / 40."""
    assert metrics.area(np.array([10, 30, 40]), np.array([0.0, 1.0, 5.0]), worst=-1.0, budget=40) == 0.0
    assert metrics.area(np.array([10, 30, 40]), np.array([0.0, 1.0, 5.0]), worst=-1.0, budget=20) == -0.5


def test_evaluations_to_level():
    assert metrics.evaluations_to(np.array([10, 30, 40]), np.array([0.0, 1.0, 5.0]), level=1.0) == 30
    assert metrics.evaluations_to(np.array([10, 30, 40]), np.array([0.0, 1.0, 5.0]), level=6.0) is None


@pytest.mark.parametrize("xp", [np, jnp])
def test_target_is_reached_on_share_of_tasks(xp):
    fitness = xp.array([1.0, 2.0, -xp.inf, 0.0])
    tried = xp.array([1, 1, 1, 1])
    assert not metrics.reached(fitness, tried, 1.0, 1.0)
    assert metrics.reached(fitness, tried, 1.0, 0.6)
    assert metrics.reached(fitness, tried, xp.array([1.0, 2.0, 99.0, 0.0]), 1.0)
    assert not metrics.reached(fitness, xp.array([1, 1, 0, 1]), 0.0, 1.0)
    hundred = xp.where(xp.arange(100) < 7, 1.0, 0.0)
    assert metrics.reached(hundred, xp.ones(100), 1.0, 0.07)  # 0.07 * 100 is slightly more than 7 in floating point
    assert not metrics.reached(xp.full(4, -xp.inf), tried, 0.0, 1.0)
