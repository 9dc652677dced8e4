"""A fitness receives a copy of a task object, in this process and in workers."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import taskelites as te

PROBLEM = {"bounds": (0, 1), "dim": 2, "evaluations": 200, "seed": 3, "algorithm": "random"}


class Level:
    def __init__(self, height):
        self.heights = [height]


@pytest.mark.parametrize("call", ["each", "batch"])
def test_fitness_modifies_only_copy_of_task(call):
    def each(solution, level):
        level.heights.append(level.heights[-1] + solution[0])
        return -abs(level.heights[-1] - 0.5)

    def batch(solutions, levels):
        return np.array([each(*row) for row in zip(solutions, levels, strict=True)])

    def run(**options):
        levels = te.Tasks([Level(i / 50) for i in range(50)], descriptors=np.linspace(0, 1, 50)[:, None])
        with warnings.catch_warnings(action="ignore"):
            result = te.solve(each if call == "each" else batch, levels, call=call, **PROBLEM, **options)
        assert all(len(level.heights) == 1 for level in levels.objects)
        return result

    with ThreadPoolExecutor(2) as pool:
        results = [run(), run(samples=2), run(workers=2), run(executor=pool)]
    for other in results[1:]:
        assert np.array_equal(results[0].fitness, other.fitness, equal_nan=True)


def test_uncopyable_task_is_passed_without_copying():
    locks = te.Tasks([threading.Lock() for _ in range(50)], descriptors=np.linspace(0, 1, 50)[:, None])
    seen = set()
    with warnings.catch_warnings(action="ignore"):
        te.solve(lambda x, lock: float(seen.add(id(lock)) is None), locks, **PROBLEM)
    assert seen <= {id(lock) for lock in locks.objects}
