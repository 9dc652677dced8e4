"""The page about the arm experiment: claims with our figures, what the outcomes depend on, and tables."""

from typing import TYPE_CHECKING

import numpy as np

from taskelites.algorithms import MapElitesAll
from taskelites.algorithms.interface import start_steps
from taskelites.experiments.comparison.comparison import Comparison
from taskelites.experiments.paper.arm.claims import BANDIT, CLAIMS, FIVE, NEWER_CMA, ArmMeasurements, size_label
from taskelites.experiments.paper.page import (
    claim_table,
    format_quartiles,
    logging_interval,
    markdown,
    pair_table,
    provenance,
)
from taskelites.experiments.statistics import mann_whitney

if TYPE_CHECKING:
    import pandas as pd


def page_text(comparison: Comparison, other: Comparison, command: str | None = None) -> str:
    """Return the page in Markdown.

    Args:
        comparison: the five algorithms, the fixed tournament sizes, and CMA-ES as in recent versions of `cma`.
        other: the five algorithms with the other target.
        command: the command to show on the page.
    """
    data = ArmMeasurements(comparison)
    settings = comparison.settings
    seconds = sum(found.replicates()["seconds"].sum() for found in (comparison, other))
    lines = [
        "# The arm experiment of the paper, reproduced",
        "",
        'Mouret and Maguire, "Quality Diversity for Multi-task Optimization", GECCO 2020, section 4: '
        f"{settings['tasks']['number']:,} tasks (digest `{settings['tasks']['digest'][:12]}`), {settings['dim']} "
        f"links, target {_target_text(comparison)}, {comparison.budget:,} evaluations, batches of "
        f"{settings['batch_size']}, {data.runs} replicates of each algorithm.",
        "",
        f"{provenance(command or 'taskelites reproduce arm')}, "
        f"jax {settings['versions']['jax']}; the searches took {seconds / 60:.1f} minutes in all.",
        "",
        "![Arm, maps, curves and final values](arm.png)",
        "",
        "A: the solution of one task in the typical run of mt-map-elites, that with the median final value. B to D: "
        "the gap of each task in the typical run of three algorithms. E, G: the median over runs, with a band from the "
        "first to the third quartile. F, H: a point for each run; boxes from the first to the third quartile, with the "
        "median, and whiskers to the farthest run within 1.5 times their length.",
        "",
        "## The claims",
        "",
        "The claims are those of section 4 of the paper and of its figure, in our words. The criteria are ours: it "
        f"gives none but the test. Evaluations are those of logged points, {logging_interval(comparison, BANDIT):,} "
        "apart except at the start.",
        "",
        '"Gap" is the mean over tasks of the optimum minus the fitness found, after the whole budget; a task that is '
        "not solved counts as the worst posture.",
        "",
        *claim_table(CLAIMS, data),
        "",
        *_outcomes_section(data, other),
    ]
    lines += ["", "## The five algorithms", "", *markdown(_measure_table(data, list(FIVE))), ""]
    lines += [
        "Median (first to third quartile). Area: the mean over the run of the mean over all tasks: the greater, the "
        "earlier. To 99 %: evaluations until 99 % of the way from the final value of random sampling to the optimum.",
        "",
        "## Each pair of the five, by the final mean over all tasks",
        "",
        *markdown(pair_table(comparison, FIVE)),
        "",
        f"p: Mann-Whitney U, two-sided, exact; with {data.runs} runs each it can't be below "
        f"{data.least_p:.2g}. Holm: corrected for the ten pairs (in `tests.csv`, for all "
        "pairs that were run). A12: the probability that a run of the first is better than one of the second.",
        "",
        "## The ablation: fixed tournament sizes against the bandit",
        "",
        *markdown(_measure_table(data, [BANDIT, *map(size_label, data.sizes)])),
        "",
        "The data: `replicates.csv` (final values of each run), `curves.csv` (quartiles over evaluations), `tests.csv` "
        "(all pairs), `summary.csv`, `comparison.json` (settings and versions).",
        "",
    ]
    return "\n".join(lines)


def _target_text(comparison: Comparison) -> str:
    return f"({', '.join(f'{number:g}' for number in comparison.settings['options']['target'])})"


def _outcomes_section(data: ArmMeasurements, other: Comparison) -> list[str]:
    """Return the section on what the outcomes depend on."""
    there = ArmMeasurements(other)
    gaps = "; ".join(f"{label} {there.median(label):.3g}" for label in FIVE)
    ratio = there.median("map-elites-random") / there.median("cma-es")
    newer = data.median(NEWER_CMA)
    settings = data.comparison.settings
    number, batch = settings["tasks"]["number"], settings["batch_size"]
    opening = start_steps(MapElitesAll().random_start, number, batch) * batch
    children = max(data.comparison.budget - opening, 0) / number
    newer_ratio = data.median("map-elites-random") / newer
    return [
        "## What the outcomes depend on",
        "",
        "- **The target.** The paper's text has (1, 1), its published code (0.5, 0.5). With "
        f"{_target_text(other)} the median gaps are: {gaps}. The ratio of map-elites-random to cma-es is {ratio:.3g} "
        f"there (p = {there.p('map-elites-random', 'cma-es'):.2g}), and p of map-elites-all against random is "
        f"{there.p('map-elites-all', 'random'):.2g}.",
        "- **The CMA-ES.** Ours is that of the `cma` package when the paper was written. As the package is now (4.5: "
        "no effective boundary penalty, standard deviation at most a third of the box) the gap is "
        f"{newer:.3g} instead of {data.median('cma-es'):.3g}, and the ratio of map-elites-random to it "
        f"{newer_ratio:.3g}.",
        f"- **Outliers.** {_outlier_text(data)}",
        "- **The start.** Until all tasks are solved, the mean over all tasks is mostly a matter of how many are; "
        "cma-es and map-elites-all try the tasks in turn, where the others draw them at random and must wait for the "
        "last ones.",
        f"- **All tasks.** map-elites-all tries {children:,.0f} children in the whole budget, each on all tasks; "
        "random tries as many solutions on each task, but others on each.",
        "- **The bandit** counts successes, not what they gain, and this is what it saw over all runs:",
        "",
        *_bandit_table(data),
    ]


def _outlier_text(data: ArmMeasurements) -> str:
    kept, parts = {}, []
    for label in (BANDIT, "map-elites-random"):
        values = data.values(label)
        far = data.best - values > 5 * data.median(label)
        kept[label] = values[~far]
        parts.append(f"{far.sum()} of {len(values)} runs of {label}")
    text = f"{' and '.join(parts)} end with more than five times the median gap of their algorithm"
    if sum(map(len, kept.values())) == 2 * data.runs:
        return f"{text}."
    return f"{text}; without these, p between the two would be {mann_whitney(*kept.values()):.2g}."


def _bandit_table(data: ArmMeasurements) -> list[str]:
    """Return a table of the bandit's tournament sizes and successes, over all replicates."""
    import pandas as pd

    last = [run.history for run in data.comparison.results[BANDIT]]
    sizes = [int(name.removeprefix("tried_")) for name in last[0] if name.startswith("tried_")]
    tried = np.array([sum(history[f"tried_{size}"][-1] for history in last) for size in sizes], float)
    good = np.array([sum(history[f"successes_{size}"][-1] for history in last) for size in sizes], float)
    rows = {
        "size": sizes,
        "share of the candidates": [f"{100 * share:.0f} %" for share in tried / max(tried.sum(), 1)],
        "of them successes": [f"{100 * rate:.1f} %" for rate in good / np.maximum(tried, 1)],
    }
    return markdown(pd.DataFrame(rows))


def _measure_table(data: ArmMeasurements, labels: list[str]) -> "pd.DataFrame":
    import pandas as pd

    rows = [
        {
            "algorithm": label,
            "mean over all tasks": format_quartiles(data.values(label), ".5f"),
            "gap": format_quartiles(data.best - data.values(label), ".2e"),
            "area": format_quartiles(data.values(label, "area"), ".5f"),
            "to 99 %": format_quartiles(data.values(label, "evaluations_to_99"), ",.0f"),
            "seconds": f"{data.median(label, 'seconds'):.2g}",
        }
        for label in labels
    ]
    return pd.DataFrame(rows)
