"""The measures, each defined once. All of them maximise, and all take NumPy arrays.

Fitness arrays have one entry a task, NaN or -inf where a task was never solved.
"""

from typing import Any

import numpy as np

_QUANTILES = {"lowest": 0.0, "q05": 0.05, "median": 0.5, "q95": 0.95, "highest": 1.0}


def solved(fitness: np.ndarray) -> np.ndarray:
    """Which tasks have an elite.

    Example:
        >>> import numpy as np
        >>> solved(np.array([1.0, np.nan, -np.inf])).tolist()
        [True, False, False]
    """
    return np.isfinite(fitness)


def coverage(fitness: np.ndarray) -> float:
    """Solved tasks / tasks.

    Example:
        >>> import numpy as np
        >>> coverage(np.array([1.0, np.nan]))
        0.5
    """
    return float(solved(fitness).mean())


def summary(fitness: np.ndarray) -> dict[str, float]:
    """Coverage, and over the solved tasks: mean, median, 5 % and 95 % quantiles, lowest and highest fitness.

    Example:
        >>> import numpy as np
        >>> summary(np.array([1.0, 3.0, np.nan, np.nan]))["mean"]
        2.0
    """
    ordered = np.sort(fitness[solved(fitness)]).astype(np.float64)
    if len(ordered) == 0:
        return {"coverage": 0.0} | dict.fromkeys(("mean", *_QUANTILES), float("nan"))
    # As np.quantile does it, which takes four times as long for a run that logs often.
    places = np.array(list(_QUANTILES.values())) * (len(ordered) - 1)
    quantiles = np.interp(places, np.arange(len(ordered)), ordered)
    return {
        "coverage": len(ordered) / len(fitness),
        "mean": float(ordered.mean()),
        **dict(zip(_QUANTILES, map(float, quantiles), strict=True)),
    }


def mean_all(fitness: np.ndarray, worst: Any) -> float:
    """Mean over all tasks, an unsolved one counting as `worst` (a number, or one a task).

    Example:
        >>> import numpy as np
        >>> mean_all(np.array([1.0, np.nan]), worst=-1.0)
        0.0
    """
    return float(np.where(solved(fitness), fitness, worst).mean(dtype=np.float64))


def gap(fitness: np.ndarray, optimum: np.ndarray) -> float:
    """Mean over tasks of optimum - fitness; NaN while a task is unsolved.

    Example:
        >>> import numpy as np
        >>> gap(np.array([0.5, 1.0]), np.array([1.0, 1.0]))
        0.25
    """
    if not solved(fitness).all():
        return float("nan")
    return float(np.mean(optimum - fitness.astype(np.float64)))


def area(evaluations: np.ndarray, values: np.ndarray, *, worst: float, budget: int) -> float:
    """Mean of `values` over evaluations 0 to `budget`, as a step function that counts `worst` before its first point.

    Between two logged points the value of the earlier one counts, so a coarse log errs towards less.

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
    """`values` as a step function, taken at other evaluations; `before` its first point.

    Example:
        >>> import numpy as np
        >>> held(np.array([50, 100]), np.array([0.5, 1.0]), at=np.array([10, 50, 99, 200]), before=0.0).tolist()
        [0.0, 0.5, 0.5, 1.0]
    """
    return np.asarray(np.concatenate([[before], values])[np.searchsorted(evaluations, at, side="right")])


def evaluations_to(evaluations: np.ndarray, values: np.ndarray, *, level: float) -> int | None:
    """The first logged point at which `values` reaches `level`; None if it never does.

    Example:
        >>> import numpy as np
        >>> evaluations_to(np.array([50, 100, 150]), np.array([0.1, 0.6, 0.9]), level=0.5)
        100
    """
    reached = np.flatnonzero(values >= level)
    return int(evaluations[reached[0]]) if len(reached) else None


def reached(fitness: Any, evaluations: Any, target: Any, share: Any) -> Any:
    """Whether a share of the solved tasks has its target, each task having been tried (NumPy or JAX arrays).

    Tasks not yet tried are waited for; tasks tried in vain are not.

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
