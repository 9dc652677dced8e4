"""The claims of the paper about the hexapod experiment, and their checks.

Mouret and Maguire, "Quality Diversity for Multi-task Optimization" (GECCO 2020), section 5. The paper names the
statistical test but no other criteria. The criteria are ours and are shown on the page next to the claims.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.algorithms import Monet
from taskelites.analysis import Transfer
from taskelites.experiments.comparison.comparison import Comparison
from taskelites.experiments.paper.claims import Claim, Measurements, Verdict, outcome_of
from taskelites.experiments.paper.hexapod.map import SHARE, asymmetry, body_table, gene_table, leg_shifts
from taskelites.results.result import Result

if TYPE_CHECKING:
    import pandas as pd

BANDIT, RANDOM_TASK, CMA, ALL_TASKS = FOUR = ("mt-map-elites", "map-elites-random", "cma-es", "map-elites-all")
# The algorithms of two later papers, and the mean that MONET's paper reports for each after 1,000,000 evaluations, m.
FOLLOWUPS: dict[str, Any] = {"monet": Monet(), "monet, tuned": Monet(tuned="hexapod"), "pt-map-elites": "pt-map-elites"}
PUBLISHED = {BANDIT: 0.530, "monet": 0.695, "pt-map-elites": 0.727, "monet, tuned": 0.956}
TOP = 10
# Figures of the paper: means in m, evaluations per run, number of bodies.
PAPER_MEAN, PAPER_TRANSFER, PAPER_BUDGET, PAPER_TASKS = 0.7, -0.4, 1_000_000, 2000
STALLED_AFTER = 10_000
# With fewer evaluations per task, most elites are close to random; the paper has 500.
_FEW_A_TASK = 50
_FEW_RUNS = 5
_FEW_BODIES = 10


class HexapodMeasurements(Measurements):
    """Measurements of the hexapod experiment.

    Args:
        comparison: comparison of the four algorithms.
        single: runs of CMA-ES on one body.
        mapped: a run of Multi-task MAP-Elites, the map.
        transfer: transfer of the best elites of the map to other bodies.
        task: index of the body of the single runs in the map.
        followups: comparison of the algorithms of later papers, on the same bodies.
        pilot: comparison of Multi-task MAP-Elites with and without asking ahead.
    """

    def __init__(
        self,
        comparison: Comparison,
        single: Comparison,
        mapped: Result,
        transfer: Transfer,
        task: int,
        *,
        followups: Comparison | None = None,
        pilot: Comparison | None = None,
    ) -> None:
        super().__init__(comparison)
        self.followups = followups
        self.pilot = pilot
        self.single = single
        self.map = mapped
        self.transfer = transfer
        self.task = task

    @property
    def comparisons(self) -> list[Comparison]:
        """All comparisons that are not None."""
        return [found for found in (self.comparison, self.single, self.followups, self.pilot) if found is not None]

    @property
    def per_task(self) -> float:
        """The number of evaluations per task in a run of the comparison."""
        return self.comparison.budget / len(self.comparison.worst)

    @property
    def map_per_task(self) -> float:
        """The number of evaluations per task in the map."""
        return self.map.evaluations / len(self.map)

    @cached_property
    def map_mean(self) -> float:
        """The mean fitness of the elites of the map when simulated again, which removes selection bias."""
        own = self.transfer.own[~np.isnan(self.transfer.own)]
        return float(own.mean()) if len(own) else np.nan

    @property
    def level(self) -> float:
        """The mean of Multi-task MAP-Elites, from the map or the comparison: whichever has more budget per task."""
        return self.map_mean if self.map_per_task > self.per_task else self.median(BANDIT)

    @cached_property
    def single_table(self) -> "pd.DataFrame":
        """One row per run of CMA-ES on one body: `seed`, `final`, `at_10000`, `gained_after_10000`.

        `at_10000` is the fitness after 10,000 evaluations. `gained_after_10000` is the later gain as a fraction of the
        final fitness. Both are NaN for runs of at most 10,000 evaluations.
        """
        import pandas as pd

        rows = []
        for run in self.single.results[CMA]:
            points, values = run.history["evaluations"], run.history["mean"]
            early = float(values[max(int(np.searchsorted(points, STALLED_AFTER, side="right")) - 1, 0)])
            early = early if points[-1] > STALLED_AFTER else np.nan
            final = float(run.fitness[0])
            gained = (final - early) / abs(final) if final else np.nan
            rows.append(
                {"seed": run.settings.get("seed"), "final": final, "at_10000": early, "gained_after_10000": gained}
            )
        return pd.DataFrame(rows)

    @property
    def finals(self) -> np.ndarray:
        """The final fitness of each single run, `(runs,)`."""
        return self.single_table["final"].to_numpy()

    @cached_property
    def genes(self) -> "pd.DataFrame":
        """The table of genes (`gene_table`)."""
        return gene_table(self.map)

    @cached_property
    def bodies(self) -> "pd.DataFrame":
        """The table of bodies (`body_table`)."""
        return body_table(self.map)

    @cached_property
    def pooled(self) -> dict[str, np.ndarray]:
        """The transfer differences of the best ten and of the best 5 % of elites, without failures."""
        every = {f"top {TOP}": TOP, f"top {SHARE:.0%}".replace("%", " %"): self.best_number}
        found = {name: self.transfer.differences(number).ravel() for name, number in every.items()}
        return {name: values[~np.isnan(values)] for name, values in found.items()}

    @property
    def best_number(self) -> int:
        """The number of elites in the best 5 %."""
        return max(1, int(np.ceil(SHARE * len(self.map))))

    def order(self) -> list[str]:
        """Return the four algorithms, the best median first."""
        return sorted(FOUR, key=lambda label: -self.median(label))

    def medians(self) -> str:
        """Return the medians of the four algorithms, in words."""
        return "median of the mean over all tasks: " + ", ".join(
            f"{label} {self.median(label):.3f} m" for label in FOUR
        )

    def too_short(self, per_task: float, figures: str) -> Verdict | None:
        """Return a verdict if there are too few evaluations per task to tell, else None."""
        if per_task >= _FEW_A_TASK:
            return None
        return Verdict("too few evaluations", f"{figures}; {per_task:.3g} evaluations a task")


def _ranked(data: HexapodMeasurements, label: str, rivals: list[str], holds: bool) -> Verdict:
    """Return the verdict on an algorithm's rank, which must also differ significantly from these rivals."""
    greatest = max((data.p(label, rival) for rival in rivals), default=1.0)
    figures = data.medians() + (f"; greatest p {greatest:.2g}" if rivals else "")
    early = data.too_short(data.per_task, figures) or data.too_few(0.05, figures)
    return early or Verdict(outcome_of(holds and greatest < 0.05), figures)


def _best_of_four(data: HexapodMeasurements) -> Verdict:
    return _ranked(data, BANDIT, [label for label in FOUR if label != BANDIT], data.order()[0] == BANDIT)


def _all_pairs_differ(data: HexapodMeasurements) -> Verdict:
    pairs = [(a, b) for i, a in enumerate(FOUR) for b in FOUR[i + 1 :]]
    found = {pair: data.p(*pair) for pair in pairs}
    worst = max(found, key=lambda pair: found[pair])
    figures = f"greatest p of the {len(pairs)} pairs: {found[worst]:.2g} ({worst[0]} and {worst[1]})"
    early = data.too_short(data.per_task, figures) or data.too_few(0.0005, figures)
    return early or Verdict(outcome_of(found[worst] < 0.0005), figures)


def _random_task_second(data: HexapodMeasurements) -> Verdict:
    order = data.order()
    behind = order[order.index(RANDOM_TASK) + 1 :]
    return _ranked(data, RANDOM_TASK, behind, order[1] == RANDOM_TASK)


def _cma_last(data: HexapodMeasurements) -> Verdict:
    return _ranked(data, CMA, [label for label in FOUR if label != CMA], data.order()[-1] == CMA)


def _mean(data: HexapodMeasurements) -> Verdict:
    figures = (
        f"{data.median(BANDIT):.3f} m in the median of {data.runs} runs of {data.comparison.budget:,} evaluations on "
        f"{len(data.comparison.worst):,} bodies; {data.map_mean:.3f} m in the map of {len(data.map):,} bodies after "
        f"{data.map.evaluations:,}, each gait simulated again. Another simulator and other rules: metres can't be "
        "compared exactly"
    )
    short = max(data.per_task, data.map_per_task) < 0.9 * PAPER_BUDGET / PAPER_TASKS
    if short and data.level < PAPER_MEAN - 0.1:
        return Verdict("too few evaluations", figures)
    return Verdict(outcome_of(abs(data.level - PAPER_MEAN) <= 0.1), figures)


def _few_single_runs_pass(data: HexapodMeasurements) -> Verdict:
    finals, budget = data.finals, data.single.budget
    above = int((finals > data.level).sum())
    own = data.map.fitness[data.task]
    figures = (
        f"{above} of {len(finals)} runs of {budget:,} evaluations end above {data.level:.3f} m, the mean of "
        f"mt-map-elites, and {int((finals > PAPER_MEAN).sum())} above 0.7 m; they end between {finals.min():.3f} and "
        f"{finals.max():.3f} m, {np.median(finals):.3f} in the median. On the same body the map has "
        + (f"{own:.3f} m, which {int((finals > own).sum())} pass" if np.isfinite(own) else "no gait")
    )
    if len(finals) < _FEW_RUNS:
        return Verdict("too few replicates", figures)
    if budget < STALLED_AFTER:
        return Verdict("too few evaluations", figures)
    return Verdict(outcome_of(above < len(finals) / 2), figures)


def _single_runs_stall(data: HexapodMeasurements) -> Verdict:
    table = data.single_table
    stalled = int((table["gained_after_10000"] < 0.05).sum())
    gained = table["gained_after_10000"].median()
    figures = (
        f"{stalled} of {len(table)} runs gain less than 5 % of their final value after {STALLED_AFTER:,} evaluations; "
        f"the median run gains {100 * gained:.1f} %"
    )
    if data.single.budget < 2 * STALLED_AFTER:
        return Verdict("too few evaluations", f"runs of {data.single.budget:,} evaluations can't tell")
    if len(table) < _FEW_RUNS:
        return Verdict("too few replicates", figures)
    return Verdict(outcome_of(stalled > len(table) / 2), figures)


def _genes_share_ranges(data: HexapodMeasurements) -> Verdict:
    half = data.genes["half"].to_numpy()
    narrow = half < 0.25
    tightest, widest = data.genes["gene"][half.argmin()], data.genes["gene"][half.argmax()]
    figures = (
        f"{narrow.sum()} of {len(half)} genes; half of the elites lie within {np.median(half):.2f} of the range in the "
        f"median gene, {half.min():.2f} in the tightest ({tightest}), {half.max():.2f} in the widest ({widest})"
    )
    return data.too_short(data.map_per_task, figures) or Verdict(outcome_of(narrow.mean() >= 0.75), figures)


def _transfer_text(data: HexapodMeasurements) -> str:
    parts = [
        f"{name}: {np.median(values):.3f} m in the median, {values.mean():.3f} in the mean"
        for name, values in data.pooled.items()
        if len(values)
    ]
    return "; ".join(parts)


def _copies_fail(data: HexapodMeasurements) -> Verdict:
    values = list(data.pooled.values())[-1]
    own = float(np.nanmedian(data.transfer.own))
    if not len(values):
        return Verdict("too few tasks", "no elite could be tried on another task")
    apart = data.transfer.differences(data.best_number)
    each = [float(np.median(row[~np.isnan(row)])) for row in apart if not np.isnan(row).all()]
    figures = (
        f"{_transfer_text(data)}, where a task's own elite walks {own:.3f} m in the median; the copy is better in "
        f"{100 * np.mean(values > 0):.1f} % of the cases, and the elite that is copied best loses "
        f"{-max(each):.3f} m in the median"
    )
    holds = own > 0 and float(np.median(values)) <= -0.5 * own
    return data.too_short(data.map_per_task, figures) or Verdict(outcome_of(holds), figures)


def _about_minus_04(data: HexapodMeasurements) -> Verdict:
    values = list(data.pooled.values())[-1]
    figures = _transfer_text(data)
    if not len(values):
        return Verdict("too few tasks", "no elite could be tried on another task")
    near = abs(float(np.median(values)) - PAPER_TRANSFER) <= 0.1
    return data.too_short(data.map_per_task, figures) or Verdict(outcome_of(near), figures)


def _large_middle_legs(data: HexapodMeasurements) -> Verdict:
    shifts = leg_shifts(data.map)
    parts = []
    for place, found in shifts.items():
        femur, tibia = (1000 * found[part].difference for part in ("femur", "tibia"))
        leg = found["leg"]
        parts.append(
            f"{place} {1000 * leg.difference:+.1f} mm ({leg.errors:+.1f} standard errors; femurs {femur:+.1f}, "
            f"tibias {tibia:+.1f})"
        )
    number = min(data.best_number, int(data.map.solved.sum()))
    usual, best = asymmetry(data.map)
    figures = (
        f"legs of the best {number} of {len(data.map):,} bodies against all: {'; '.join(parts)}. Left and right differ "
        f"by {usual + best.difference:.3f} of their range in the best, {usual:.3f} in all "
        f"({best.errors:+.1f} standard errors)"
    )
    if len(data.map) * SHARE < _FEW_BODIES:
        return Verdict("too few tasks", figures)
    wanted = {"middle": 1, "front": -1, "rear": -1}
    holds = all(sign * shifts[place]["leg"].errors >= 2 for place, sign in wanted.items())
    return data.too_short(data.map_per_task, figures) or Verdict(outcome_of(holds), figures)


CLAIMS: tuple[Claim[HexapodMeasurements], ...] = (
    Claim(
        "Multi-task MAP-Elites is the best of the four.",
        "its median final mean over all tasks is the highest, with p < 0.05 against each other",
        _best_of_four,
    ),
    Claim(
        "All differences between the four are significant (p < 0.0005).",
        "Mann-Whitney, two-sided, exact, uncorrected: p < 0.0005 for all six pairs",
        _all_pairs_differ,
    ),
    Claim(
        "MAP-Elites on random tasks is second.",
        "its median is the second highest, with p < 0.05 against those below it",
        _random_task_second,
    ),
    Claim(
        "CMA-ES is the last of the four, below even MAP-Elites on all tasks.",
        "its median is the lowest, with p < 0.05 against each other",
        _cma_last,
    ),
    Claim(
        "Multi-task MAP-Elites reaches a mean of about 0.7 m.",
        "its mean is between 0.6 and 0.8 m, where it had most evaluations a task",
        _mean,
    ),
    Claim(
        "Of 20 runs of CMA-ES on one body only 4 pass 0.7 m, the mean of Multi-task MAP-Elites.",
        "fewer than half of ours end above our mean of mt-map-elites",
        _few_single_runs_pass,
    ),
    Claim(
        "Most of these runs stop improving after about 10,000 evaluations.",
        "more than half gain less than 5 % of their final value after that",
        _single_runs_stall,
    ),
    Claim(
        "The elites of a map share ranges of their genes.",
        "for at least 3/4 of the genes, half of the elites lie within a quarter of the range (uniform: within a half)",
        _genes_share_ranges,
    ),
    Claim(
        "The best elites do not perform well on other tasks: copying one of them would not do.",
        "the median loss by a copy of one of the top 5 % is at least half of what own elites walk in the median",
        _copies_fail,
    ),
    Claim(
        "The top elites lie at about -0.4 m of the tasks' own ones.",
        "the median difference of the top 5 % is between -0.5 and -0.3 m",
        _about_minus_04,
    ),
    Claim(
        "The best bodies have large middle legs, and short front and rear legs.",
        "in the top 5 %, middle legs (femur and tibia together) are longer than in all bodies and the others shorter, "
        "each by at least 2 standard errors",
        _large_middle_legs,
    ),
)
