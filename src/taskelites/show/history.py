"""Statistics of the history of a run that plots and reports share."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from taskelites.errors import InvalidValueError

_TRIED_COLUMN = re.compile(r"tried_(\w+)")


def bandit_arms(history: Mapping[str, Any]) -> list[str]:
    """Return the arms of the bandit in a history: tournament sizes in ascending order, or ways by name.

    Example:
        >>> bandit_arms({"tried_10": [0], "tried_2": [64], "successes_10": [0], "successes_2": [9]})
        ['2', '10']
    """
    found = (_TRIED_COLUMN.fullmatch(name) for name in history)
    arms = (match[1] for match in found if match and f"successes_{match[1]}" in history)
    return sorted(arms, key=lambda arm: (int(arm) if arm.isdigit() else 0, arm))


def bandit_title(arms: Iterable[str]) -> str:
    """Return the title of a legend for the arms of the bandit.

    Example:
        >>> bandit_title(["2", "10"]), bandit_title(["copy", "step"])
        ('tournament sizes', 'ways')
    """
    return "tournament sizes" if all(arm.isdigit() for arm in arms) else "ways"


def bandit_table(
    history: Mapping[str, Any], *, window: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return how often the bandit chose each arm between logged points, and how often the arm succeeded.

    Row `i` covers the evaluations from point `i - 1` (or the start of the run) to point `i`. The first rows may be NaN,
    since the random solutions at the start are not chosen by the bandit.

    Args:
        history: history of a result.
        window: width of a moving average, as a share of the run from 0 to 1. Each row then covers at least this share
            of the evaluations, centred on its own interval. Counts are interpolated linearly between logged points.

    Returns:
        evaluations: `(p,)`, the logged points.
        arms: `(a,)`, the names of the arms (see `bandit_arms`).
        shares: `(p, a)`, the share of the candidates per arm; a row is NaN if the bandit chose nothing.
        rates: `(p, a)`, successes per candidate of each arm; NaN if there were no candidates.

    Raises:
        ValueError: if the history has no columns of a bandit, or `window` is not in [0, 1].

    Example:
        >>> history = {"evaluations": [64, 128, 192], "tried_1": [0, 64, 80], "tried_10": [0, 0, 48]}
        >>> history |= {"successes_1": [0, 32, 36], "successes_10": [0, 0, 12]}
        >>> evaluations, arms, shares, rates = bandit_table(history)
        >>> shares.tolist(), rates.tolist()
        ([[nan, nan], [1.0, 0.0], [0.25, 0.75]], [[nan, nan], [0.5, nan], [0.25, 0.25]])
    """
    arms = bandit_arms(history)
    if not arms:
        raise InvalidValueError(
            "history has no columns tried_... and successes_..., which runs of auto and mt-map-elites have; this run "
            "had no bandit"
        )
    if not 0 <= window <= 1:
        raise InvalidValueError(f"window must be a share of the run, from 0 to 1, not {window!r}")
    evaluations = np.asarray(history["evaluations"])
    edges = np.concatenate([[0], evaluations]).astype(float)
    half = 0.5 * window * edges[-1]
    middle = 0.5 * (edges[:-1] + edges[1:])
    begin, end = np.minimum(edges[:-1], middle - half), np.maximum(edges[1:], middle + half)

    def increase(column: Any) -> np.ndarray:
        """Return the increase of a cumulative count in each window; counts are constant outside of the run."""
        total = np.concatenate([[0], np.asarray(column)])
        return np.asarray(np.interp(end, edges, total) - np.interp(begin, edges, total))

    tried, successes = (
        np.stack([increase(history[f"{name}_{arm}"]) for arm in arms], axis=1) for name in ("tried", "successes")
    )
    # 0 / 0 becomes NaN without a warning.
    total_tried = tried.sum(axis=1, keepdims=True)
    shares = np.divide(tried, total_tried, out=np.full_like(tried, np.nan), where=total_tried > 0)
    rates = np.divide(successes, tried, out=np.full_like(tried, np.nan), where=tried > 0)
    return evaluations, np.array(arms), shares, rates
