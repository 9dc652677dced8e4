"""What the repertoire of `pt-map-elites` is worth for predictions: `python benchmarks/continuous.py`."""

import numpy as np
from scipy.spatial import KDTree

import taskelites as te
from taskelites.results.prediction import Predictor

BOX = te.Box([0, 0], [1, 1])
NEW = te.tasks.uniform(500, BOX.lower, BOX.upper, seed=1).descriptors
SLOPES = np.random.default_rng(5).normal(size=(2, 8))


def curve(solutions, tasks):
    """The function of docs/continuous.md."""
    best = np.stack([np.sin(3 * tasks[:, 0]), tasks[:, 0] * tasks[:, 1]], axis=1)
    return -np.abs(solutions - best).sum(axis=1)


def hills(solutions, tasks):
    """Eight numbers, and tasks that differ in difficulty."""
    best = 0.9 * np.tanh(2 * (tasks - 0.5) @ SLOPES)
    return -(1 + 3 * tasks[:, 0]) * np.square(solutions - best).sum(axis=1) - 2 * tasks[:, 1]


def main():
    print(f"mean fitness of predictions for {len(NEW)} random tasks, seed 0")
    for fitness, dim in ((curve, 2), (hills, 8)):
        for evaluations in (10_000, 100_000, 400_000):
            options = {"bounds": (-1, 1), "dim": dim, "call": "batch", "algorithm": "pt-map-elites", "progress": False}
            result = te.solve(fitness, BOX, evaluations=evaluations, **options)
            more, elites = result.repertoire, np.flatnonzero(result.solved)
            around = result.fitness[elites][KDTree(result.tasks.descriptors[elites]).query(more.tasks, k=6)[1]]
            kept = {
                "elites alone": np.zeros(len(more.fitness), bool),
                "as good as the median": more.fitness >= np.median(around, axis=1),
                "as good as the worst": more.fitness >= around.min(axis=1),
                "all": np.ones(len(more.fitness), bool),
            }
            print(f"{fitness.__name__} {evaluations:>7,}", end="")
            for name, rows in kept.items():
                predictor = Predictor(
                    np.concatenate([result.tasks.descriptors[elites], more.tasks[rows]]),
                    np.concatenate([result.solutions[elites], more.solutions[rows]]),
                    np.concatenate([result.fitness[elites], more.fitness[rows]]),
                    np.full(dim, -1.0),
                    np.full(dim, 1.0),
                )
                value = fitness(predictor.predict(NEW).solutions, NEW).mean()
                print(f"  {name} {value:.4f}", end="")
            print(flush=True)


if __name__ == "__main__":
    main()
