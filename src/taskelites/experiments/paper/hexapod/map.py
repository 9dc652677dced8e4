"""Statistics of a map of the hexapod: which genes its elites share, and which bodies walk far."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from taskelites.analysis.elites import best_elites
from taskelites.domains.hexapod.body import FEMUR, LEG_NAMES, LEGS, NAMES, TIBIA
from taskelites.results.result import Result

if TYPE_CHECKING:
    import pandas as pd

JOINTS = ("coxa", "femur")
PARTS = ("amplitude", "phase", "duty")
GENES = tuple(f"{leg} {joint} {part}" for leg in LEG_NAMES for joint in JOINTS for part in PARTS)
# The legs of each pair, left and right.
PAIRS = {"front": (2, 3), "middle": (1, 4), "rear": (0, 5)}
SHARE = 0.05


class Shift(NamedTuple):
    """Difference between the mean over the best bodies and over all bodies, with its standard error.

    The standard error is for the null hypothesis that the best bodies are a random sample.
    """

    difference: float
    error: float

    @property
    def errors(self) -> float:
        """The difference, in standard errors."""
        return self.difference / self.error if self.error > 0 else 0.0


def gene_table(result: Result) -> "pd.DataFrame":
    """Return a table with one row per gene: quartiles over elites, the median over the best ones, and `half`.

    `half` is the width of the shortest interval that contains half of the elites: 0.5 for a uniform gene, less if
    elites share a range. Phases are circular.
    """
    import pandas as pd

    genes = result.solutions[result.solved]
    best = result.solutions[best_elites(result, SHARE, least=1)]
    low, middle, high = np.quantile(genes, [0.25, 0.5, 0.75], axis=0)
    rows = {
        "gene": GENES,
        "q1": low,
        "median": middle,
        "q3": high,
        "median_best": np.median(best, axis=0),
        "half": [shortest_half(genes[:, i], circular="phase" in name) for i, name in enumerate(GENES)],
    }
    return pd.DataFrame(rows)


def shortest_half(values: np.ndarray, *, circular: bool = False) -> float:
    """Return the width of the shortest interval that contains half of the values.

    Args:
        values: one or more values in [0, 1], `(n,)`.
        circular: whether 1 is the same as 0.

    Example:
        >>> round(shortest_half(np.array([0.0, 0.5, 0.55, 0.9])), 2)
        0.05
        >>> round(shortest_half(np.array([0.02, 0.3, 0.6, 0.98]), circular=True), 2)
        0.04
    """
    ordered = np.sort(values)
    held = -(-len(ordered) // 2)
    if circular:
        ordered = np.concatenate([ordered, ordered[: held - 1] + 1])
    return float((ordered[held - 1 :] - ordered[: len(ordered) - held + 1]).min())


def body_table(result: Result) -> "pd.DataFrame":
    """Return a table with one row per length: means over all bodies and the best, and Spearman's correlation.

    Means are in m. The correlation is with the fitness. The best bodies are those with the best 5 % of elites.
    """
    import pandas as pd

    lengths, fitness, best = _bodies(result)
    from scipy.stats import spearmanr

    rows = []
    for column, name in enumerate(NAMES):
        segment, leg = name.split("_")
        place = next(place for place, legs in PAIRS.items() if int(leg) in legs)
        own = lengths[:, column]
        varied = np.ptp(own) > 0 and np.ptp(fitness) > 0
        rows.append(
            {
                "length": name,
                "segment": segment,
                "place": place,
                "side": "left" if int(leg) < LEGS // 2 else "right",
                "spearman": float(spearmanr(own, fitness).statistic) if varied else np.nan,
                "mean": own.mean(),
                "mean_best": own[best].mean(),
            }
        )
    return pd.DataFrame(rows)


def leg_shifts(result: Result) -> dict[str, dict[str, Shift]]:
    """Return how much longer legs, femurs and tibias are in the best bodies, m, by pair of legs and part."""
    lengths, _, best = _bodies(result)
    found: dict[str, dict[str, Shift]] = {}
    for place, legs in PAIRS.items():
        tibia, femur = (lengths[:, [offset + leg for leg in legs]].mean(axis=1) for offset in (0, LEGS))
        parts = {"leg": femur + tibia, "femur": femur, "tibia": tibia}
        found[place] = {part: _shift(values, best) for part, values in parts.items()}
    return found


def asymmetry(result: Result) -> tuple[float, Shift]:
    """Return the mean difference between left and right lengths, and its shift in the best bodies.

    Both are in units of the range of the length, so the mean difference of uniform lengths is 1/3.
    """
    lengths, _, best = _bodies(result)
    pairs = [(offset + left, offset + right) for offset in (0, LEGS) for left, right in PAIRS.values()]
    widths = [np.ptp(TIBIA)] * len(PAIRS) + [np.ptp(FEMUR)] * len(PAIRS)
    apart = np.mean(
        [np.abs(lengths[:, a] - lengths[:, b]) / width for (a, b), width in zip(pairs, widths, strict=True)], axis=0
    )
    return float(apart.mean()), _shift(apart, best)


def _shift(values: np.ndarray, best: np.ndarray) -> Shift:
    number, drawn = len(values), len(best)
    # Standard error of a mean over bodies drawn without replacement, independently of the fitness.
    error = values.std() / np.sqrt(drawn) * np.sqrt(max(1 - drawn / number, 0))
    return Shift(float(values[best].mean() - values.mean()), float(error))


def _bodies(result: Result) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return lengths and fitness of the solved tasks, and the indices of the best among them."""
    solved = np.flatnonzero(result.solved)
    lengths = np.asarray(result.tasks.descriptors)[solved]
    return lengths, result.fitness[solved], np.flatnonzero(np.isin(solved, best_elites(result, SHARE, least=1)))
