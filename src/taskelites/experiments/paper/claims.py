"""Claims of a paper, their verdicts, and the measurements that both experiments need to check them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from taskelites.experiments.comparison.comparison import Comparison
from taskelites.experiments.statistics import least_p, mann_whitney


class Verdict(NamedTuple):
    """The verdict on a claim.

    Attributes:
        outcome: "holds", "does not hold", or why the runs can't tell.
        figures: the measured figures, in words.
    """

    outcome: str
    figures: str


class Measurements:
    """Measurements of a comparison that claims refer to."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.replicates = comparison.replicates()
        self.runs = min(len(runs) for runs in comparison.results.values())

    def values(self, label: str, measure: str = "mean_all") -> np.ndarray:
        """Return a measure of all replicates of an algorithm, `(replicates,)`."""
        own = self.replicates[self.replicates["algorithm"] == label]
        return own[measure].to_numpy()

    def median(self, label: str, measure: str = "mean_all") -> float:
        """Return the median over replicates."""
        return float(np.median(self.values(label, measure)))

    def p(self, first: str, second: str, measure: str = "mean_all") -> float:
        """Return the two-sided p-value of the Mann-Whitney test, not corrected."""
        return mann_whitney(self.values(first, measure), self.values(second, measure))

    @property
    def least_p(self) -> float:
        """The least p-value that this number of replicates can give."""
        return least_p(self.runs)

    def too_few(self, p: float, figures: str) -> Verdict | None:
        """Return a verdict if there are too few replicates for a p-value below `p`, else None."""
        if self.least_p < p:
            return None
        return Verdict(
            "too few replicates", f"{figures}; {self.runs} replicates can't give a p below {self.least_p:.2g}"
        )


M = TypeVar("M", bound=Measurements)


@dataclass(frozen=True)
class Claim(Generic[M]):
    """A claim of the paper and its check.

    Attributes:
        text: the claim, in our words.
        criterion: the condition under which we say that it holds.
        check: function from the measurements to the verdict.
    """

    text: str
    criterion: str
    check: Callable[[M], Verdict]


def outcome_of(holds: bool) -> str:
    """Return the outcome of a claim that could be checked.

    Example:
        >>> outcome_of(True), outcome_of(False)
        ('holds', 'does not hold')
    """
    return "holds" if holds else "does not hold"


def outcomes(claims: Iterable[Claim[M]], data: M) -> list[tuple[str, str]]:
    """Return the text and the outcome of each claim."""
    return [(claim.text, claim.check(data).outcome) for claim in claims]
