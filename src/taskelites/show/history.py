"""Numbers from the history of a run that plots and reports share; no drawing here."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from taskelites.errors import InvalidValueError

_TRIED = re.compile(r"tried_(\w+)")


def bandit_arms(history: Mapping[str, Any]) -> list[str]:
    """What a run chose among, by the columns of its history: tournament sizes in their order, or ways by name.

    Example:
        >>> bandit_arms({"tried_10": [0], "tried_2": [64], "successes_10": [0], "successes_2": [9]})
        ['2', '10']
    """
    found = (_TRIED.fullmatch(name) for name in history)
    arms = (match[1] for match in found if match and f"successes_{match[1]}" in history)
    return sorted(arms, key=lambda arm: (int(arm) if arm.isdigit() else 0, arm))


def bandit_title(arms: Iterable[str]) -> str:
    """What such choices are, in a word or two.

    Example:
        >>> bandit_title(["2", "10"]), bandit_title(["copy", "step"])
        ('tournament sizes', 'ways')
    """
    return "tournament sizes" if all(arm.isdigit() for arm in arms) else "ways"


def bandit_table(
    history: Mapping[str, Any], *, window: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What the bandit chose between the logged points of a run, and how often that succeeded.

    Row `i` is about the evaluations after point `i - 1` (or from the first on) up to point `i`. Random solutions at the
    start are no choice of it, so the first rows may hold nothing.

    Args:
        history: of a result.
        window: a share of the run, such as 0.05: each row is then about at least as many evaluations, around the middle
            of its own. The counts in the window are added up, those of a point that it cuts in proportion.

    Returns:
        The evaluations `(p,)` of the logged points; the names `(a,)` of what was chosen among, see `bandit_arms`; the
        share of each among the candidates `(p, a)`, a row NaN where there was no choice; and the share of successes
        among the candidates of each `(p, a)`, NaN where there were none.

    Raises:
        ValueError: if the history counts no choices, or `window` is no share.

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
            "history has no columns tried_... and successes_..., which runs of auto and mt-map-elites have: this run "
            "had nothing to choose among"
        )
    if not 0 <= window <= 1:
        raise InvalidValueError(f"window must be a share of the run, from 0 to 1, not {window!r}")
    evaluations = np.asarray(history["evaluations"])
    edges = np.concatenate([[0], evaluations]).astype(float)
    half = 0.5 * window * edges[-1]
    middle = 0.5 * (edges[:-1] + edges[1:])
    begin, end = np.minimum(edges[:-1], middle - half), np.maximum(edges[1:], middle + half)

    def within(column: Any) -> np.ndarray:
        """How much a count grew in each window; beyond the ends of the run it does not."""
        total = np.concatenate([[0], np.asarray(column)])
        return np.asarray(np.interp(end, edges, total) - np.interp(begin, edges, total))

    tried, successes = (
        np.stack([within(history[f"{name}_{arm}"]) for arm in arms], axis=1) for name in ("tried", "successes")
    )
    # Nothing by nothing is unknown, and says so quietly.
    every = tried.sum(axis=1, keepdims=True)
    shares = np.divide(tried, every, out=np.full_like(tried, np.nan), where=every > 0)
    rates = np.divide(successes, tried, out=np.full_like(tried, np.nan), where=tried > 0)
    return evaluations, np.array(arms), shares, rates
