"""Selection of elites from a result: the best, those given by the user, or a representative subset."""

import math
import re
import warnings
from typing import Any

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.spatial import KDTree

from taskelites.errors import InvalidTypeError, InvalidValueError
from taskelites.results.result import Result

_TOP = re.compile(r"\s*top\s+([0-9.]+)\s*(%?)\s*", re.IGNORECASE)

# Clustering a sample of this size is enough to locate clusters.
_MAX_CLUSTER_SAMPLE = 10_000


def ranking(result: Result) -> np.ndarray:
    """Return the fitness that ranks elites, `(n,)`: `corrected` if the result has it, otherwise `fitness`.

    Example:
        >>> import taskelites as te
        >>> result = te.solve(te.domain("arm", tasks=200), evaluations=300)
        >>> ranking(result) is result.fitness
        True
    """
    return result.fitness if result.corrected is None else result.corrected


def best_elites(result: Result, share: float, least: int = 10) -> np.ndarray:
    """Return the tasks with the best elites, the best first.

    Args:
        result: the result; after `te.reevaluate`, elites are ranked by `corrected`.
        share: fraction of all tasks to return.
        least: minimum number of tasks to return, if that many are solved.

    Example:
        >>> import numpy as np, taskelites as te
        >>> tasks = np.linspace(0, 1, 300)[:, None]
        >>> result = te.solve(lambda x, t: x[0] * t[0], tasks, bounds=(0, 1), dim=1, evaluations=2000)
        >>> len(best_elites(result, 0.05))
        15
    """
    fitness = ranking(result)
    # Elites without a finite corrected fitness come last.
    rank = np.where(np.isfinite(fitness), -fitness, np.inf)
    solved = np.flatnonzero(result.solved)
    order = solved[np.argsort(rank[solved], kind="stable")]
    return order[: max(least, math.ceil(round(share * len(result), 9)))]


def chosen_elites(result: Result, which: Any, name: str, other: str = "") -> np.ndarray:
    """Return the tasks whose elites a user selects: "all", "top 5 %", "top 10", or indices of tasks.

    Args:
        result: the result.
        which: the user's selection.
        name: name of the argument, for error messages.
        other: further accepted values, for error messages.

    Raises:
        ValueError, TypeError: if the selection is invalid.

    Example:
        >>> import numpy as np, taskelites as te
        >>> tasks = np.linspace(0, 1, 300)[:, None]
        >>> result = te.solve(lambda x, t: x[0] * t[0], tasks, bounds=(0, 1), dim=1, evaluations=5000)
        >>> len(chosen_elites(result, "top 5 %", "elites")), chosen_elites(result, [7, 3], "elites").tolist()
        (15, [7, 3])
    """
    expected = f"{name} must be 'top 5 %', 'top 10', 'all'{other} or indices of solved tasks"
    if isinstance(which, str):
        if which.strip().lower() == "all":
            return np.flatnonzero(result.solved)
        match = _TOP.fullmatch(which)
        number = _positive(match[1]) if match else None
        if match is None or number is None or (match[2] and number > 100) or (not match[2] and number % 1):
            raise InvalidValueError(f"{expected}, not {which!r}")
        return best_elites(result, number / 100, least=1) if match[2] else best_elites(result, 0.0, int(number))
    try:
        numbers = np.asarray(which)
    except ValueError:
        raise InvalidTypeError(f"{expected}, not {which!r}") from None
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len(numbers) == 0:
        raise InvalidTypeError(f"{expected}, not {which!r}")
    if numbers.min() < 0 or numbers.max() >= len(result):
        raise InvalidValueError(f"{name} must be from 0 to {len(result) - 1}, not {numbers.min()} to {numbers.max()}")
    if len(np.unique(numbers)) < len(numbers):
        raise InvalidValueError(f"{name} must not contain a task twice")
    unsolved = numbers[~result.solved[numbers]]
    if len(unsolved):
        raise InvalidValueError(f"{name} must be solved tasks, but task {unsolved[0]} has no elite")
    return numbers.astype(np.int64)


def _positive(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def spread_elites(result: Result, number: int) -> np.ndarray:
    """Return the tasks of representative elites: half of them the best, half spread over the space of solutions.

    Of elites with equal solutions, only the best is used. The spread elites are those nearest to cluster centres.

    Args:
        result: the result.
        number: number of elites; fewer are returned if there are fewer different solutions.

    Example:
        >>> import numpy as np, taskelites as te
        >>> tasks = np.linspace(0, 1, 300)[:, None]
        >>> result = te.solve(lambda x, t: -abs(x[0] - t[0]), tasks, bounds=(0, 1), dim=1, evaluations=5000)
        >>> len(spread_elites(result, 20))
        20
    """
    ranked = best_elites(result, 1.0)
    unique = ranked[np.sort(np.unique(result.solutions[ranked], axis=0, return_index=True)[1])]
    if len(unique) <= number:
        return unique
    best, others = unique[: (number + 1) // 2], unique[(number + 1) // 2 :]
    points = np.asarray(result.solutions[others], np.float64)
    spread = np.ptp(points, axis=0)
    points = points / np.where(spread > 0, spread, 1.0)
    return np.concatenate([best, others[_centres(points, number - len(best))]])


def _centres(points: np.ndarray, number: int) -> np.ndarray:
    """Return indices of points near cluster centres, completed with random points if centres share one."""
    if number == 0:
        return np.empty(0, np.int64)
    order = np.random.default_rng(0).permutation(len(points))
    sample = points[order[:_MAX_CLUSTER_SAMPLE]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # clusters may be empty
        centres, _ = kmeans2(sample, sample[_farthest_first(sample, number)], minit="matrix")
    near = np.asarray(KDTree(points).query(centres)[1])
    return np.array(list(dict.fromkeys(np.concatenate([near, order]).tolist()))[:number])


def _farthest_first(points: np.ndarray, number: int) -> list[int]:
    """Return indices of points: the first, then repeatedly the one farthest from all chosen ones.

    Example:
        >>> _farthest_first(np.array([[0.0], [1.0], [9.0], [4.0]]), 3)
        [0, 2, 3]
    """
    chosen = [0]
    distance = np.square(points - points[0]).sum(axis=1)
    while len(chosen) < number:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.square(points - points[chosen[-1]]).sum(axis=1))
    return chosen
