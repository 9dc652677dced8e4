"""What a map of the hexapod tells: which genes its elites share, and which bodies walk far."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import spearmanr

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
    """How a mean over the best bodies differs from that over all of them, and its standard error if nothing did."""

    difference: float
    error: float

    @property
    def errors(self) -> float:
        """The difference, in standard errors."""
        return self.difference / self.error if self.error > 0 else 0.0


def gene_table(result: Result) -> "pd.DataFrame":
    """One row a gene: quartiles over elites, the median over the best ones, and `half`.

    `half` is how wide the shortest interval is that holds half of the elites: 0.5 for genes that are uniform, little if
    elites share a range. Phases go round.
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
    """The width of the shortest interval that holds half of the values, which are in [0, 1].

    Args:
        values: one or more.
        circular: whether 1 is 0 again.

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
    """One row a length, in m: mean over all bodies and over the best ones, and Spearman's correlation with the fitness.

    The best bodies are those of the best 5 % of elites.
    """
    import pandas as pd

    lengths, fitness, best = _bodies(result)
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
    """Of each pair of legs, and of its femurs, its tibias and both: how much longer they are in the best bodies, m."""
    lengths, _, best = _bodies(result)
    found: dict[str, dict[str, Shift]] = {}
    for place, legs in PAIRS.items():
        tibia, femur = (lengths[:, [offset + leg for leg in legs]].mean(axis=1) for offset in (0, LEGS))
        parts = {"leg": femur + tibia, "femur": femur, "tibia": tibia}
        found[place] = {part: _shift(values, best) for part, values in parts.items()}
    return found


def asymmetry(result: Result) -> tuple[float, Shift]:
    """How much left and right lengths differ on average, in widths of their ranges (uniform: 1/3); and in the best."""
    lengths, _, best = _bodies(result)
    pairs = [(offset + left, offset + right) for offset in (0, LEGS) for left, right in PAIRS.values()]
    widths = [np.ptp(TIBIA)] * len(PAIRS) + [np.ptp(FEMUR)] * len(PAIRS)
    apart = np.mean(
        [np.abs(lengths[:, a] - lengths[:, b]) / width for (a, b), width in zip(pairs, widths, strict=True)], axis=0
    )
    return float(apart.mean()), _shift(apart, best)


def _shift(values: np.ndarray, best: np.ndarray) -> Shift:
    number, drawn = len(values), len(best)
    # Of a mean over bodies drawn without replacement, had the fitness nothing to do with it.
    error = values.std() / np.sqrt(drawn) * np.sqrt(max(1 - drawn / number, 0))
    return Shift(float(values[best].mean() - values.mean()), float(error))


def _bodies(result: Result) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lengths and fitness of the solved tasks, and which of these are the best ones."""
    solved = np.flatnonzero(result.solved)
    lengths = np.asarray(result.tasks.descriptors)[solved]
    return lengths, result.fitness[solved], np.flatnonzero(np.isin(solved, best_elites(result, SHARE, least=1)))
