"""Significance tests and effect sizes for groups of runs."""

import math
from typing import Any

import numpy as np

from taskelites.errors import InvalidValueError

# Up to this many pairs of runs, the exact distribution of U takes milliseconds.
_EXACT_PAIRS = 10_000


def _two_groups(first: Any, second: Any, test: str) -> tuple[np.ndarray, np.ndarray]:
    groups = [np.asarray(values, dtype=np.float64) for values in (first, second)]
    if any(len(group) == 0 or np.isnan(group).any() for group in groups):
        raise InvalidValueError(f"{test} needs at least one number in each group, and no NaN")
    return groups[0], groups[1]


def mann_whitney(first: Any, second: Any) -> float:
    """Return the two-sided p-value of the Mann-Whitney U test.

    The exact distribution is used if there are no ties and not too many runs, else the normal approximation. If all
    values are equal, the p-value is 1.

    Args:
        first: values of the first group.
        second: values of the second group.

    Raises:
        ValueError: if a group is empty or contains NaN.

    Example:
        >>> round(mann_whitney([1, 2, 3], [4, 5, 6]), 3)
        0.1
    """
    # It takes a third of a second to import, which only comparisons need.
    from scipy.stats import mannwhitneyu

    a, b = _two_groups(first, second, "the Mann-Whitney test")
    together = np.unique(np.concatenate([a, b]))
    if len(together) == 1:
        return 1.0
    exact = len(together) == len(a) + len(b) and len(a) * len(b) <= _EXACT_PAIRS
    return float(mannwhitneyu(a, b, alternative="two-sided", method="exact" if exact else "asymptotic").pvalue)


def least_p(runs: int) -> float:
    """Return the least p-value of the exact two-sided Mann-Whitney test for two groups of `runs` values.

    Example:
        >>> round(least_p(3), 3)
        0.1
    """
    return 2 / math.comb(2 * runs, runs)


def holm(p_values: Any) -> np.ndarray:
    """Return p-values corrected for multiple tests (Holm, 1979), which controls the family-wise error rate.

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
    """Return the A12 effect size (Vargha and Delaney, 2000): P(first > second) + P(first = second) / 2.

    0.5 means no effect; 1 means that every value of the first group is greater than every value of the second.

    Args:
        first: values of the first group.
        second: values of the second group.

    Raises:
        ValueError: if a group is empty or contains NaN.

    Example:
        >>> a12([1, 2, 3], [1, 2, 3]), a12([4, 5], [1, 2, 3])
        (0.5, 1.0)
    """
    a, b = _two_groups(first, second, "A12")
    greater, equal = a[:, None] > b[None, :], a[:, None] == b[None, :]
    return float(np.mean(greater + 0.5 * equal))


def nearest_to_median(values: Any, allowed: Any = True) -> int:
    """Return the index of the value nearest to the median of all values.

    Args:
        values: finite numbers, `(n,)`.
        allowed: flags of the values to choose from, `(n,)`; by default, all.

    Example:
        >>> nearest_to_median([1.0, 5.0, 3.0]), nearest_to_median([1.0, 5.0, 3.0], [True, True, False])
        (2, 0)
    """
    array = np.asarray(values, dtype=np.float64)
    return int(np.where(allowed, np.abs(array - np.median(array)), np.inf).argmin())


def quartiles(values: Any) -> tuple[float, float, float]:
    """Return the first quartile, the median and the third quartile; NaN if there are no values or any is NaN.

    If a value is infinite ("never"), quartiles are not interpolated.

    Example:
        >>> quartiles([1, 2, 3, 4, 5])
        (2.0, 3.0, 4.0)
        >>> quartiles([1, 2, math.inf, math.inf])
        (1.0, 2.0, inf)
    """
    array = np.asarray(values, dtype=np.float64)
    if len(array) == 0 or np.isnan(array).any():
        return (math.nan,) * 3
    # Interpolation between a number and infinity would give infinity or NaN.
    finite = np.isfinite(array).all()
    low, middle, high = np.quantile(array, [0.25, 0.5, 0.75], method="linear" if finite else "inverted_cdf")
    return float(low), float(middle), float(high)
