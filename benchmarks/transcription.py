"""The paper's pseudo-code, straight: NumPy, one candidate at a time, a vectorised arm. What we compare with.

Written for the benchmark from the paper. Distances are computed where the pseudo-code computes them.
"""

import numpy as np


def arm_fitness(solution: np.ndarray, task: np.ndarray) -> float:
    """Minus the distance from the tip to (1, 1)."""
    dim = len(solution)
    heading = np.cumsum((solution - 0.5) * (task[0] * 2 * np.pi / dim))
    length = task[1] / dim
    return -float(np.hypot(length * np.cos(heading).sum() - 1.0, length * np.sin(heading).sum() - 1.0))


def search(
    tasks: np.ndarray,
    dim: int,
    evaluations: int,
    *,
    batch_size: int = 64,
    random_start: int = 100,
    sizes: tuple[int, ...] = (1, 10, 50, 100, 500),
    sigma1: float = 0.01,
    sigma2: float = 0.2,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Multi-task MAP-Elites, algorithm 1 of the paper; returns solutions and fitness."""
    rng = np.random.default_rng(seed)
    number = len(tasks)
    solutions, fitness = np.zeros((number, dim)), np.full(number, -np.inf)
    solved: list[int] = []

    def add(solution: np.ndarray, task: int) -> bool:
        value = arm_fitness(solution, tasks[task])
        if value <= fitness[task]:
            return False
        if fitness[task] == -np.inf:
            solved.append(task)
        solutions[task], fitness[task] = solution, value
        return True

    for _ in range(random_start):
        add(rng.random(dim), int(rng.integers(number)))
    told = random_start
    selected, successes = np.zeros(len(sizes)), np.zeros(len(sizes))
    arm = 0
    while told < evaluations:
        selected[arm] += 1
        for _ in range(min(batch_size, evaluations - told)):
            first = solved[rng.integers(len(solved))]
            second = solved[rng.integers(len(solved))]
            x1, x2 = solutions[first], solutions[second]
            child = x1 + sigma1 * rng.normal(size=dim) + sigma2 * (x2 - x1) * rng.normal()
            opponents = rng.integers(number, size=sizes[arm])
            distance = np.linalg.norm(tasks[opponents] - tasks[first], axis=1)
            task = int(opponents[np.argmin(distance)])
            successes[arm] += add(np.clip(child, 0.0, 1.0), task)
            told += 1
        with np.errstate(divide="ignore", invalid="ignore"):
            bounds = successes / selected + np.sqrt(2 * np.log(selected.sum()) / selected)
        arm = int(np.argmax(np.where(selected == 0, np.inf, bounds)))
    return solutions, fitness
