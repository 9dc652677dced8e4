"""Bounds near the largest float: every registered algorithm returns finite candidates within them."""

import warnings

import jax
import numpy as np
import pytest

import taskelites as te
from taskelites.algorithms import ALGORITHMS

MOST = np.finfo(np.float64).max
BOUNDS = {
    "the largest": [(-MOST, MOST)] * 3,
    "nearly the largest": [(-1.7e308, 1.7e308)] * 3,
    "in one dimension": [(0, 1), (-1.7e308, 1.7e308), (-5, 5)],
    "on one side": [(0, MOST)] * 3,
    "whose squares overflow": [(-1e200, 1e200)] * 3,
}
TASKS = np.linspace(0, 1, 60)[:, None]


def normalised(solutions, lower, upper):
    return (solutions / 2 - lower / 2) / (upper / 2 - lower / 2)


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_candidates_are_finite_and_within_bounds(algorithm, bounds):
    lower, upper = np.array(bounds).T
    seen = []

    def fitness(solutions, tasks):
        seen.append(solutions)
        value = -np.abs(normalised(solutions, lower, upper) - tasks).sum(axis=1)
        return (value, solutions[:, :1] / upper[0]) if algorithm == "mtmb-map-elites" else value

    behaviour = [(-1, 1)] if algorithm == "mtmb-map-elites" else None
    with warnings.catch_warnings(action="ignore", category=te.errors.TaskWarning):
        result = te.solve(
            fitness, TASKS, bounds=bounds, call="batch", evaluations=2000, algorithm=algorithm, behaviour=behaviour
        )
    solutions = np.concatenate(seen)
    assert np.isfinite(solutions).all()
    assert (solutions >= lower).all()
    assert (solutions <= upper).all()
    assert len(np.unique(solutions, axis=0)) >= 2000 // len(TASKS)
    assert (result.solutions[result.solved] >= lower).all()
    found = normalised(result.solutions[result.solved], lower, upper)
    assert np.allclose(result.fitness[result.solved], -np.abs(found - TASKS[result.solved]).sum(axis=1))


def test_scaling_bounds_by_power_of_two_scales_solutions():
    def run(factor):
        def fitness(solutions, tasks):
            return -np.abs(solutions / factor - tasks).sum(axis=1)

        problem = {"bounds": (0, factor), "dim": 2, "call": "batch", "evaluations": 3000}
        return te.solve(fitness, te.Tasks(descriptors=TASKS), algorithm="mt-map-elites", **problem)

    with warnings.catch_warnings(action="ignore", category=te.errors.TaskWarning):
        usual, large = run(1.0), run(2.0**1020)
    assert np.array_equal(usual.solutions, large.solutions / 2.0**1020, equal_nan=True)


def test_initial_solutions_and_checkpoints_are_in_user_units(tmp_path):
    seen = []

    def fitness(solution, task):
        seen.append(solution)
        return -abs(float(solution[0] / 1.7e308) - float(task[0]))

    with warnings.catch_warnings(action="ignore"):  # the list in its closure changes before the run is resumed
        for evaluations in (100, 300):
            problem = {"bounds": (-1.7e308, 1.7e308), "dim": 2, "evaluations": evaluations}
            result = te.solve(
                fitness, TASKS, initial=[[1.5e308, -1.5e308]], out=tmp_path / "run", resume=True, **problem
            )
        straight = te.solve(fitness, TASKS, initial=[[1.5e308, -1.5e308]], **problem)
    assert seen[0].tolist() == [1.5e308, -1.5e308]
    assert np.array_equal(result.solutions, straight.solutions, equal_nan=True)


@pytest.mark.parametrize("bounds", [(-3.4e38, 3.4e38), (-1e300, 1e300)])
def test_compiled_32_bit_run_stays_finite(bounds):
    def fitness(solution, task):
        return -jax.numpy.abs(solution * 2.0**-120 - 256 * task).sum()  # solutions are below 2**128

    with warnings.catch_warnings(action="ignore", category=te.errors.TaskWarning):
        result = te.solve(fitness, TASKS, bounds=bounds, dim=2, call="jax", evaluations=2000)
    assert result.failed == 0
    assert np.isfinite(result.solutions[result.solved]).all()
    assert np.nanmean(result.fitness) > -128
