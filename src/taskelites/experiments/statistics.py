"""Whether two groups of runs differ, and by how much."""

import math
from typing import Any

import numpy as np
from scipy.stats import mannwhitneyu

from taskelites.errors import InvalidValueError

# Up to this many pairs of runs, the exact distribution of U takes milliseconds.
_EXACT_PAIRS = 10_000


def mann_whitney(first: Any, second: Any) -> float:
    """The two-sided p-value of the Mann-Whitney U test: exact where no values are equal, else by the normal limit.

    Values that are equal throughout give 1: nothing tells the groups apart.

    Example:
        >>> round(mann_whitney([1, 2, 3], [4, 5, 6]), 3)
        0.1
    """
    a, b = (np.asarray(values, dtype=np.float64) for values in (first, second))
    if len(a) == 0 or len(b) == 0 or np.isnan(a).any() or np.isnan(b).any():
        raise InvalidValueError("the Mann-Whitney test needs at least one number in each group, and no NaN")
    together = np.unique(np.concatenate([a, b]))
    if len(together) == 1:
        return 1.0
    exact = len(together) == len(a) + len(b) and len(a) * len(b) <= _EXACT_PAIRS
    return float(mannwhitneyu(a, b, alternative="two-sided", method="exact" if exact else "asymptotic").pvalue)


def holm(p_values: Any) -> np.ndarray:
    """P-values corrected for their number (Holm, 1979): of those below alpha, any is wrong at most so often.

    Example:
        >>> holm([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]
    """
    raw = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(raw, kind="stable")
    factors = len(raw) - np.arange(len(raw))
    corrected = np.empty_like(raw)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(factors * raw[order]))
    return corrected


def a12(first: Any, second: Any) -> float:
    """The effect size of Vargha and Delaney (2000): how likely a value of the first group is the greater one.

    Equal values count half; 0.5 means no effect, 1 that each value of the first is greater than all of the second.

    Example:
        >>> a12([1, 2, 3], [1, 2, 3]), a12([4, 5], [1, 2, 3])
        (0.5, 1.0)
    """
    a, b = (np.asarray(values, dtype=np.float64) for values in (first, second))
    if len(a) == 0 or len(b) == 0 or np.isnan(a).any() or np.isnan(b).any():
        raise InvalidValueError("A12 needs at least one number in each group, and no NaN")
    greater, equal = a[:, None] > b[None, :], a[:, None] == b[None, :]
    return float(np.mean(greater + 0.5 * equal))


def quartiles(values: Any) -> tuple[float, float, float]:
    """The first quartile, the median and the third quartile; NaN if any value is.

    Values may be infinite ("never"): then they are ranked, not averaged.

    Example:
        >>> quartiles([1, 2, 3, 4, 5])
        (2.0, 3.0, 4.0)
        >>> quartiles([1, 2, math.inf, math.inf])
        (1.0, 2.0, inf)
    """
    array = np.asarray(values, dtype=np.float64)
    if len(array) == 0 or np.isnan(array).any():
        return (math.nan,) * 3
    # Between a number and infinity there is no mean.
    finite = np.isfinite(array).all()
    low, middle, high = np.quantile(array, [0.25, 0.5, 0.75], method="linear" if finite else "inverted_cdf")
    return float(low), float(middle), float(high)
