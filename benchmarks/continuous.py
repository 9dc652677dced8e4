"""Measure how the repertoire of `pt-map-elites` improves predictions: `python benchmarks/continuous.py`."""

import numpy as np
from scipy.spatial import KDTree

import taskelites as te
from taskelites.results.prediction import Predictor

BOX = te.Box([0, 0], [1, 1])
NEW = te.tasks.uniform(500, BOX.lower, BOX.upper, seed=1).descriptors
SLOPES = np.random.default_rng(5).normal(size=(2, 8))


def curve(solutions, tasks):
    """Return the fitness of the example in docs/continuous.md."""
    best = np.stack([np.sin(3 * tasks[:, 0]), tasks[:, 0] * tasks[:, 1]], axis=1)
    return -np.abs(solutions - best).sum(axis=1)


def hills(solutions, tasks):
    """Return the fitness of an 8-dimensional problem whose tasks differ in difficulty."""
    best = 0.9 * np.tanh(2 * (tasks - 0.5) @ SLOPES)
    return -(1 + 3 * tasks[:, 0]) * np.square(solutions - best).sum(axis=1) - 2 * tasks[:, 1]


def main():
    print(f"mean fitness of predictions for {len(NEW)} random tasks, seed 0")
    for fitness, dim in ((curve, 2), (hills, 8)):
        for evaluations in (10_000, 100_000, 400_000):
            options = {"bounds": (-1, 1), "dim": dim, "call": "batch", "algorithm": "pt-map-elites", "progress": False}
            result = te.solve(fitness, BOX, evaluations=evaluations, **options)
            repertoire, elites = result.repertoire, np.flatnonzero(result.solved)
            neighbours = result.fitness[elites][
                KDTree(result.tasks.descriptors[elites]).query(repertoire.tasks, k=6)[1]
            ]
            kept = {
                "elites alone": np.zeros(len(repertoire.fitness), bool),
                "as good as the median": repertoire.fitness >= np.median(neighbours, axis=1),
                "as good as the worst": repertoire.fitness >= neighbours.min(axis=1),
                "all": np.ones(len(repertoire.fitness), bool),
            }
            print(f"{fitness.__name__} {evaluations:>7,}", end="")
            for name, rows in kept.items():
                predictor = Predictor(
                    np.concatenate([result.tasks.descriptors[elites], repertoire.tasks[rows]]),
                    np.concatenate([result.solutions[elites], repertoire.solutions[rows]]),
                    np.concatenate([result.fitness[elites], repertoire.fitness[rows]]),
                    np.full(dim, -1.0),
                    np.full(dim, 1.0),
                )
                value = fitness(predictor.predict(NEW).solutions, NEW).mean()
                print(f"  {name} {value:.4f}", end="")
            print(flush=True)


if __name__ == "__main__":
    main()
