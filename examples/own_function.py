"""Find the best solution for each of 400 tasks, with your own function."""

import numpy as np

import taskelites as te


def fitness(solution, task):
    """Return how well a wing with this angle and sweep works at this speed and load (an invented formula)."""
    angle, sweep = solution
    speed, load = task
    lift = speed**2 * np.sin(2 * angle) * np.cos(sweep)
    drag = speed**2 * (0.02 + angle**2) * np.cos(sweep) ** 3
    return -abs(lift - load) - drag


tasks = te.tasks.grid((20, 20), lower=[0.5, 0.1], upper=[2.0, 1.0], names=["speed", "load"])
result = te.solve(fitness, tasks, bounds=[(0.0, 0.5), (0.0, 1.2)], evaluations=20_000, seed=1)

print(result.summary())
print(result.to_dataframe().head())
print("for speed 1.23 and load 0.4:", result.predict([[1.23, 0.4]])[0].round(3))
