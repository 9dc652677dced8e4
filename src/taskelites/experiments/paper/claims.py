"""Claims of a paper, and what is measured to check them: what its experiments share."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from taskelites.experiments.comparison.comparison import Comparison
from taskelites.experiments.statistics import mann_whitney


class Verdict(NamedTuple):
    """What became of a claim.

    Attributes:
        outcome: "holds", "does not hold", or why it can't be said.
        figures: what was measured.
    """

    outcome: str
    figures: str


class Measured:
    """The figures that claims are about, of groups of runs."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.replicates = comparison.replicates()
        self.runs = min(len(runs) for runs in comparison.results.values())

    def values(self, label: str, measure: str = "mean_all") -> np.ndarray:
        """Of all replicates."""
        own = self.replicates[self.replicates["algorithm"] == label]
        return own[measure].to_numpy()

    def median(self, label: str, measure: str = "mean_all") -> float:
        """The median over replicates."""
        return float(np.median(self.values(label, measure)))

    def p(self, first: str, second: str, measure: str = "mean_all") -> float:
        """Mann-Whitney, two-sided, not corrected."""
        return mann_whitney(self.values(first, measure), self.values(second, measure))

    @property
    def least_p(self) -> float:
        """What so many replicates give at least, whatever they find."""
        return least_p(self.runs)

    def too_few(self, p: float, figures: str) -> Verdict | None:
        """The verdict where so few replicates can't give such a p-value."""
        if self.least_p < p:
            return None
        return Verdict(
            "too few replicates", f"{figures}; {self.runs} replicates can't give a p below {self.least_p:.2g}"
        )


M = TypeVar("M", bound=Measured)


@dataclass(frozen=True)
class Claim(Generic[M]):
    """A claim of the paper, and how it is checked.

    Attributes:
        text: in our words.
        criterion: when it is taken to hold.
        check: gives the verdict.
    """

    text: str
    criterion: str
    check: Callable[[M], Verdict]


def said(holds: bool) -> str:
    """The outcome of a claim that could be checked.

    Example:
        >>> said(True), said(False)
        ('holds', 'does not hold')
    """
    return "holds" if holds else "does not hold"


def least_p(runs: int) -> float:
    """The least p-value that the exact two-sided Mann-Whitney test can give for two groups of so many.

    Example:
        >>> round(least_p(3), 3)
        0.1
    """
    return 2 / math.comb(2 * runs, runs)


def outcomes(claims: Iterable[Claim[M]], now: M) -> list[tuple[str, str]]:
    """Each claim's text, and what became of it."""
    return [(claim.text, claim.check(now).outcome) for claim in claims]
