"""Does the distance between tasks help on my problem? Compare three algorithms, five runs each."""

import numpy as np

import taskelites as te


def fitness(solutions: np.ndarray, tasks: np.ndarray) -> np.ndarray:  # higher is better; one row per candidate
    wanted = np.sin(3 * tasks[:, :1] + np.arange(6))
    return -np.sum((solutions - wanted) ** 2, axis=1) - np.abs(tasks[:, 1] * solutions[:, 0])


problem = te.Domain(
    name="sines",
    fitness=fitness,
    tasks=te.tasks.cvt(300, lower=[0, 0], upper=[1, 1]),
    bounds=(-1, 1),
    dim=6,
    call="batch",
)
comparison = te.compare(
    problem,
    algorithms=["mt-map-elites", "map-elites-random", "random"],
    replicates=5,
    evaluations=20_000,
    out="sines",  # tables, tests, figure and all runs; calling it again resumes an interrupted comparison
)
print(comparison.summary())
