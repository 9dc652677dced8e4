"""Masked values count as failed evaluations."""

import numpy as np
import pytest

import taskelites as te

TASKS = np.linspace(0, 1, 250)[:, None]
PROBLEM = {"bounds": (0, 1), "dim": 2, "evaluations": 200, "seed": 3, "algorithm": "random"}


@pytest.mark.parametrize("workers", [None, 1])
def test_masked_fitness_counts_as_failure(workers):
    def each(solution, task):
        return np.ma.masked if solution[0] < 0.3 else -solution[0]

    def batch(solutions, tasks):
        return np.ma.masked_array(-solutions[:, 0], mask=solutions[:, 0] < 0.3)

    for fitness, call in ((each, "each"), (batch, "batch")):
        with pytest.warns(te.errors.FitnessWarning, match=r"\(nan \d+\)"):
            result = te.solve(fitness, TASKS, call=call, workers=workers, **PROBLEM)
        assert np.nanmax(result.fitness) < -0.3
        assert 30 < result.failures["nan"] < 90


def test_masked_fitness_passed_to_tell_counts_as_failure():
    optimizer = te.Optimizer(TASKS, bounds=(0, 1), dim=1, algorithm="random")
    candidates = optimizer.ask()
    optimizer.tell(candidates, np.ma.masked_array(np.arange(64), mask=np.arange(64) >= 10))
    result = optimizer.result()
    assert result.failed == 54
    assert np.nanmax(result.fitness) <= 9


def test_masked_behaviour_counts_as_failure():
    def fitness(solution, task):
        return -solution[0], np.ma.masked_array(solution, mask=solution[0] < 0.3)

    problem = PROBLEM | {"algorithm": "mtmb-map-elites", "behaviour": [(0, 1), (0, 1)]}
    with pytest.warns(te.errors.FitnessWarning, match=r"\(nan \d+\)"):
        result = te.solve(fitness, TASKS[::10], **problem)
    assert np.nanmax(result.fitness) < -0.3
