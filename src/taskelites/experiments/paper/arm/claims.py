"""The claims of the paper about the arm experiment, and their checks.

Mouret and Maguire, "Quality Diversity for Multi-task Optimization" (GECCO 2020), section 4.2. The paper names the
statistical test but no other criteria. The criteria are ours and are shown on the page next to the claims.
"""

import math

import numpy as np

from taskelites.experiments.comparison.comparison import Comparison
from taskelites.experiments.paper.claims import Claim, Measurements, Verdict, outcome_of
from taskelites.experiments.statistics import quartiles

FIVE = ("mt-map-elites", "map-elites-random", "cma-es", "map-elites-all", "random")
SIZES = (1, 10, 50, 100, 500, 1000, 5000)
BANDIT = "mt-map-elites"
NEWER_CMA = "cma-es as cma 4.5"


def size_label(size: int) -> str:
    """Return the label of a fixed tournament size."""
    return f"size {size}"


class ArmMeasurements(Measurements):
    """Measurements of the arm experiment."""

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(comparison)
        self.sizes = [size for size in SIZES if size_label(size) in comparison.labels]

    def median(self, label: str, measure: str = "gap") -> float:
        """Return the median over replicates; in the gap, an unsolved task counts as the worst."""
        if measure == "gap":  # at least the rounding error of 32 bits, so that ratios of gaps are finite
            return max(float(np.median(self.best - self.values(label))), 1e-7)
        return super().median(label, measure)

    @property
    def best(self) -> float:
        """The mean of the optima."""
        return float(np.mean(np.asarray(self.comparison.optimum)))

    def median_curve(self, label: str, mean: str) -> tuple[np.ndarray, np.ndarray]:
        """Return evaluations and the median curve of `mean_all`, or of the `mean` over solved tasks."""
        if mean == "mean_all":
            points, values = self.comparison.curves(label)
            return points, np.median(values, axis=0)
        runs = self.comparison.results[label]
        return runs[0].history["evaluations"], np.median([run.history[mean] for run in runs], axis=0)

    def ahead_from(self, mean: str, rival: str) -> int | None:
        """Return the evaluations from which the bandit's median stays above a rival's; None if it never does."""
        points, own = self.median_curve(BANDIT, mean)
        its_points, values = self.median_curve(rival, mean)
        held = np.clip(np.searchsorted(its_points, points, side="right") - 1, 0, None)
        behind = np.flatnonzero(~(own > values[held]))
        if len(behind) == 0:
            return int(points[0])
        return None if behind[-1] == len(points) - 1 else int(points[behind[-1] + 1])

    def closed(self, label: str) -> str:
        """Return the fraction of the gap of random sampling that an algorithm closes, in percent."""
        return f"{100 * (1 - self.median(label) / self.median('random')):.2f} %"

    def solved_after(self, label: str) -> float:
        """Return the median number of evaluations until every task is solved; infinite if never."""
        firsts = []
        for run in self.comparison.results[label]:
            whole = np.flatnonzero(run.history["coverage"] == 1)
            firsts.append(run.history["evaluations"][whole[0]] if len(whole) else math.inf)
        return quartiles(firsts)[1]

    def bandit_sizes(self) -> list[int]:
        """Return the sizes that the bandit chooses from and that were also run as fixed sizes."""
        columns = self.comparison.results[BANDIT][0].history
        chosen = [int(name.removeprefix("tried_")) for name in columns if name.startswith("tried_")]
        return [size for size in self.sizes if size in chosen] or self.sizes

    def best_size(self) -> int:
        """Return the fixed size with the least median gap."""
        return min(self.sizes, key=lambda size: self.median(size_label(size)))


def _best_of_five(data: ArmMeasurements) -> Verdict:
    gaps = {label: data.median(label) for label in FIVE}
    figures = "median gap: " + ", ".join(f"{label} {gap:.3g}" for label, gap in gaps.items())
    others = [data.p(BANDIT, label) for label in FIVE if label != BANDIT]
    holds = min(gaps, key=lambda label: gaps[label]) == BANDIT and max(others) < 0.05
    return data.too_few(0.05, figures) or Verdict(outcome_of(holds), f"{figures}; greatest p {max(others):.2g}")


def _all_pairs_differ(data: ArmMeasurements) -> Verdict:
    pairs = [(a, b) for i, a in enumerate(FIVE) for b in FIVE[i + 1 :] if {a, b} != {"map-elites-all", "random"}]
    worst = max(data.p(a, b) for a, b in pairs)
    figures = f"greatest p of the {len(pairs)} pairs: {worst:.2g}"
    return data.too_few(1e-10, figures) or Verdict(outcome_of(worst < 1e-10), figures)


def _all_tasks_is_random(data: ArmMeasurements) -> Verdict:
    p = data.p("map-elites-all", "random")
    ratio = data.median("map-elites-all") / data.median("random")
    figures = f"p = {p:.2g}; the gap of map-elites-all is {ratio:.3g} times that of random in the median"
    return data.too_few(0.05, figures) or Verdict(outcome_of(p >= 0.05), figures)


def _ahead_at_once(data: ArmMeasurements) -> Verdict:
    rivals = ("cma-es", "map-elites-random")
    points = {mean: [data.ahead_from(mean, rival) for rival in rivals] for mean in ("mean_all", "mean")}

    def text(mean: str) -> str:
        known = ("never" if point is None else f"from {point:,} evaluations on" for point in points[mean])
        return ", ".join(f"of {rival} {when}" for rival, when in zip(rivals, known, strict=True))

    figures = (
        f"ahead {text('mean_all')}; by the mean over the tasks that each has solved, which are not the same, "
        f"{text('mean')}"
    )
    early = [point is not None and point < 1000 for point in points["mean_all"]]
    return Verdict(outcome_of(all(early)), figures)


def _solved_quickly(data: ArmMeasurements) -> Verdict:
    after = {label: data.solved_after(label) for label in FIVE}
    figures = "median evaluations until all tasks are solved: " + ", ".join(
        f"{label} {'never' if math.isinf(number) else f'{number:,.0f}'}" for label, number in after.items()
    )
    tasks = len(np.asarray(data.comparison.optimum))
    # Random draws find the last of n tasks after about n log n of them.
    if 0.1 * data.comparison.budget < max(tasks * math.log(tasks), data.median_curve(BANDIT, "mean_all")[0][0]):
        return Verdict("too few evaluations", figures)
    return Verdict(outcome_of(max(after.values()) <= 0.1 * data.comparison.budget), figures)


def _random_task_is_cma(data: ArmMeasurements) -> Verdict:
    ratio = data.median("map-elites-random") / data.median("cma-es")
    figures = (
        f"gap of map-elites-random / gap of cma-es = {ratio:.3g}; of the way from random sampling to the optimum "
        f"map-elites-random goes {data.closed('map-elites-random')}, cma-es {data.closed('cma-es')}"
    )
    return Verdict(outcome_of(0.5 <= ratio <= 2), figures)


def _low_baselines(data: ArmMeasurements) -> Verdict:
    ratios = {label: data.median(label) / data.median(BANDIT) for label in ("map-elites-all", "random")}
    figures = "gap, in gaps of mt-map-elites: " + ", ".join(f"{label} {ratio:.0f}" for label, ratio in ratios.items())
    return Verdict(outcome_of(min(ratios.values()) >= 10), figures)


def _small_ends_lower(data: ArmMeasurements) -> Verdict:
    best = size_label(data.best_size())
    small = [size_label(size) for size in data.sizes if size < 50]
    if data.sizes[-1] < 50:
        return Verdict("too few tasks", "there are no tournaments of 50 tasks or more")
    rows = [(label, data.median(label), data.p(label, best)) for label in small]
    figures = f"{best} has the least gap, {data.median(best):.3g}; " + "; ".join(
        f"{label}: {gap:.3g} (p = {p:.2g})" for label, gap, p in rows
    )
    holds = all(gap > data.median(best) and p < 0.01 for _, gap, p in rows)
    return data.too_few(0.01, figures) or Verdict(outcome_of(holds), figures)


def _large_is_slow(data: ArmMeasurements) -> Verdict:
    labels = [size_label(size) for size in data.sizes if size > 1000]
    if not labels:
        return Verdict("too few tasks", "there are no tournaments of more than 1000 tasks")
    best = size_label(data.best_size())
    slow = all(data.median(label, "area") < data.median(BANDIT, "area") for label in labels)
    ratios = [data.median(label) / data.median(best) for label in labels]
    figures = "; ".join(
        f"{label}: area {data.median(label, 'area'):.5g} (bandit {data.median(BANDIT, 'area'):.5g}), "
        f"gap {data.median(label):.3g}, {ratio:.3g} times that of {best}; of the way from random sampling to the "
        f"optimum it goes {data.closed(label)}, {best} {data.closed(best)}"
        for label, ratio in zip(labels, ratios, strict=True)
    )
    return Verdict(outcome_of(slow and max(ratios) <= 1.5), figures)


def _bandit_is_best(data: ArmMeasurements) -> Verdict:
    best = size_label(data.best_size())
    own = size_label(min(data.bandit_sizes(), key=lambda size: data.median(size_label(size))))
    ratio = data.median(BANDIT) / data.median(best)
    figures = (
        f"gap of the bandit / gap of the best fixed size ({best}) = {ratio:.3g}, p = {data.p(BANDIT, best):.2g}; of "
        f"the way from random sampling to the optimum the bandit goes {data.closed(BANDIT)}, {best} "
        f"{data.closed(best)}; area {data.median(BANDIT, 'area'):.5g} against {data.median(best, 'area'):.5g}. "
        f"Against the best of the sizes that it chooses from ({own}) the ratio is "
        f"{data.median(BANDIT) / data.median(own):.3g}"
    )
    return Verdict(outcome_of(ratio <= 1.25), figures)


CLAIMS = (
    Claim(
        "Multi-task MAP-Elites is the best of the five.",
        "its median gap to the optimum is the least, with p < 0.05 against each other",
        _best_of_five,
    ),
    Claim(
        "All differences between the five are significant (p < 1e-10), but for all-tasks against random sampling.",
        "Mann-Whitney, two-sided, exact, uncorrected: p < 1e-10 for the nine other pairs",
        _all_pairs_differ,
    ),
    Claim(
        "MAP-Elites on all tasks and random sampling do not differ.",
        "p of the same test is at least 0.05",
        _all_tasks_is_random,
    ),
    Claim(
        "Multi-task MAP-Elites is ahead of CMA-ES and of MAP-Elites on random tasks within a few hundred evaluations.",
        "its median mean over all tasks is above theirs, and stays there, from before 1,000 evaluations on",
        _ahead_at_once,
    ),
    Claim(
        "All approaches solve all tasks quickly.",
        "each has solved all tasks within a tenth of the budget, in the median",
        _solved_quickly,
    ),
    Claim(
        "MAP-Elites on random tasks is about as good as CMA-ES.",
        "the ratio of their median gaps is between 1/2 and 2",
        _random_task_is_cma,
    ),
    Claim(
        "Random sampling and MAP-Elites on all tasks reach low fitness only.",
        "their median gaps are at least ten times that of Multi-task MAP-Elites",
        _low_baselines,
    ),
    Claim(
        "Tournaments of fewer than 50 tasks do not reach the best values.",
        "sizes 1 and 10 have greater median gaps than the best fixed size, with p < 0.01",
        _small_ends_lower,
    ),
    Claim(
        "Tournaments of more than 1000 tasks are slow, but reach the best values.",
        "less area than the bandit, and at most 1.5 times the median gap of the best fixed size",
        _large_is_slow,
    ),
    Claim(
        "The bandit is as good as the best fixed size.",
        "its median gap is at most 1.25 times that of the best fixed size",
        _bandit_is_best,
    ),
)
