"""Performance metrics of NumPy arrays, each defined once. Fitness is maximised.

Fitness arrays have one entry per task, NaN or -inf for unsolved tasks.
"""

from typing import Any

import numpy as np

_QUANTILES = {"lowest": 0.0, "q05": 0.05, "median": 0.5, "q95": 0.95, "highest": 1.0}


def solved(fitness: np.ndarray) -> np.ndarray:
    """Return a boolean mask of the solved tasks.

    Example:
        >>> import numpy as np
        >>> solved(np.array([1.0, np.nan, -np.inf])).tolist()
        [True, False, False]
    """
    return np.isfinite(fitness)


def coverage(fitness: np.ndarray) -> float:
    """Return the fraction of tasks that are solved.

    Example:
        >>> import numpy as np
        >>> coverage(np.array([1.0, np.nan]))
        0.5
    """
    return float(solved(fitness).mean())


def summary(fitness: np.ndarray) -> dict[str, float]:
    """Return the coverage, and the mean, quantiles, minimum and maximum of the fitness over solved tasks.

    Example:
        >>> import numpy as np
        >>> summary(np.array([1.0, 3.0, np.nan, np.nan]))["mean"]
        2.0
    """
    ordered = np.sort(fitness[solved(fitness)]).astype(np.float64)
    if len(ordered) == 0:
        return {"coverage": 0.0} | dict.fromkeys(("mean", *_QUANTILES), float("nan"))
    # Equal to np.quantile, which takes four times as long. That matters to a run that logs often.
    places = np.array(list(_QUANTILES.values())) * (len(ordered) - 1)
    quantiles = np.interp(places, np.arange(len(ordered)), ordered)
    return {
        "coverage": len(ordered) / len(fitness),
        "mean": float(ordered.mean()),
        **dict(zip(_QUANTILES, map(float, quantiles), strict=True)),
    }


def mean_all(fitness: np.ndarray, worst: Any) -> float:
    """Return the mean fitness over all tasks, with `worst` for unsolved ones (a scalar, or one value per task).

    Example:
        >>> import numpy as np
        >>> mean_all(np.array([1.0, np.nan]), worst=-1.0)
        0.0
    """
    return float(np.where(solved(fitness), fitness, worst).mean(dtype=np.float64))


def gap(fitness: np.ndarray, optimum: np.ndarray) -> float:
    """Return the mean of `optimum - fitness` over tasks; NaN if any task is unsolved.

    Example:
        >>> import numpy as np
        >>> gap(np.array([0.5, 1.0]), np.array([1.0, 1.0]))
        0.25
    """
    if not solved(fitness).all():
        return float("nan")
    return float(np.mean(optimum - fitness.astype(np.float64)))


def area(evaluations: np.ndarray, values: np.ndarray, *, worst: float, budget: int) -> float:
    """Return the mean of a logged metric over the evaluations from 0 to `budget`.

    The metric is a step function: `worst` before the first logged point, then the value of the latest logged point. A
    coarse log therefore underestimates the mean of a metric that increases.

    Args:
        evaluations: number of evaluations at each logged point, ascending, shape `(n,)`.
        values: the metric at each logged point, shape `(n,)`.
        worst: value before the first logged point.
        budget: number of evaluations to average over.

    Example:
        >>> import numpy as np
        >>> area(np.array([50, 100]), np.array([0.5, 1.0]), worst=0.0, budget=200)
        0.625
    """
    inside = evaluations < budget
    steps = np.concatenate([[0], evaluations[inside], [budget]])
    heights = np.concatenate([[worst], values[inside]])
    return float(np.sum(np.diff(steps) * heights) / budget)


def held(evaluations: np.ndarray, values: np.ndarray, *, at: np.ndarray, before: float) -> np.ndarray:
    """Return a logged metric at other numbers of evaluations, as a step function.

    Args:
        evaluations: number of evaluations at each logged point, ascending, shape `(n,)`.
        values: the metric at each logged point, shape `(n,)`.
        at: numbers of evaluations at which the metric is wanted.
        before: value before the first logged point.

    Example:
        >>> import numpy as np
        >>> held(np.array([50, 100]), np.array([0.5, 1.0]), at=np.array([10, 50, 99, 200]), before=0.0).tolist()
        [0.0, 0.5, 0.5, 1.0]
    """
    return np.asarray(np.concatenate([[before], values])[np.searchsorted(evaluations, at, side="right")])


def evaluations_to(evaluations: np.ndarray, values: np.ndarray, *, level: float) -> int | None:
    """Return the number of evaluations at the first logged point where `values` reaches `level`, or None.

    Example:
        >>> import numpy as np
        >>> evaluations_to(np.array([50, 100, 150]), np.array([0.1, 0.6, 0.9]), level=0.5)
        100
    """
    reached = np.flatnonzero(values >= level)
    return int(evaluations[reached[0]]) if len(reached) else None


def reached(fitness: Any, evaluations: Any, target: Any, share: Any) -> Any:
    """Return whether a share of the solved tasks has reached the target fitness.

    The result is False until every task was evaluated once. Tasks whose every evaluation failed are ignored. Works on
    NumPy and JAX arrays.

    Args:
        fitness: fitness of the elites, shape `(n,)`; -inf for unsolved tasks.
        evaluations: number of evaluations per task, shape `(n,)`.
        target: target fitness, a scalar or one value per task.
        share: required share of the solved tasks, in [0, 1].

    Example:
        >>> import numpy as np
        >>> bool(reached(np.array([1.0, 2.0, -np.inf]), np.array([3, 1, 5]), 1.0, 1.0))
        True
        >>> bool(reached(np.array([1.0, 2.0, -np.inf]), np.array([3, 1, 0]), 1.0, 1.0))
        False
    """
    has_elite = fitness > -np.inf
    good = has_elite & (fitness >= target)
    return (evaluations > 0).all() & has_elite.any() & (good.sum() >= share * has_elite.sum() - 1e-6)
