"""A direct transcription of the paper's pseudo-code in NumPy, the baseline of the speed benchmark.

It handles one candidate at a time, with a vectorised arm, and computes distances where the pseudo-code does.
"""

import numpy as np


def arm_fitness(solution: np.ndarray, task: np.ndarray) -> float:
    """Return minus the distance from the tip of the arm to (1, 1)."""
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
    """Run multi-task MAP-Elites (algorithm 1 of the paper).

    Args:
        tasks: `(n, 2)`, descriptors of the arm.
        dim: number of links.
        evaluations: number of evaluations.
        batch_size: candidates per batch; all of a batch share one tournament size.
        random_start: number of random solutions at the start.
        sizes: tournament sizes.
        sigma1: standard deviation of the isotropic noise.
        sigma2: standard deviation of the step along the line between the parents.
        seed: random seed.

    Returns:
        Solutions `(n, dim)` and fitness `(n,)`.
    """
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
    evaluated = random_start
    selected, successes = np.zeros(len(sizes)), np.zeros(len(sizes))
    arm = 0
    while evaluated < evaluations:
        selected[arm] += 1
        for _ in range(min(batch_size, evaluations - evaluated)):
            first = solved[rng.integers(len(solved))]
            second = solved[rng.integers(len(solved))]
            x1, x2 = solutions[first], solutions[second]
            child = x1 + sigma1 * rng.normal(size=dim) + sigma2 * (x2 - x1) * rng.normal()
            opponents = rng.integers(number, size=sizes[arm])
            distance = np.linalg.norm(tasks[opponents] - tasks[first], axis=1)
            task = int(opponents[np.argmin(distance)])
            successes[arm] += add(np.clip(child, 0.0, 1.0), task)
            evaluated += 1
        with np.errstate(divide="ignore", invalid="ignore"):
            bounds = successes / selected + np.sqrt(2 * np.log(selected.sum()) / selected)
        arm = int(np.argmax(np.where(selected == 0, np.inf, bounds)))
    return solutions, fitness
