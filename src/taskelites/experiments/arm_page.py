"""The page on the arm experiment: each claim of the paper with our figures, what the outcomes depend on, the tables."""

import math
import os
import platform
from datetime import date
from typing import TYPE_CHECKING

import numpy as np

from taskelites.experiments.arm_claims import BANDIT, CLAIMS, FIVE, NEWER_CMA, Measured, size_label
from taskelites.experiments.comparison import Comparison
from taskelites.experiments.statistics import mann_whitney, quartiles

if TYPE_CHECKING:
    import pandas as pd


def page_text(comparison: Comparison, other: Comparison, command: str | None = None) -> str:
    """The page on the claims, in Markdown.

    Args:
        comparison: the five algorithms, the fixed sizes, and CMA-ES as the `cma` package is now.
        other: the five algorithms with the other target.
        command: how it was made.
    """
    now = Measured(comparison)
    settings = comparison.settings
    seconds = sum(found.replicates()["seconds"].sum() for found in (comparison, other))
    lines = [
        "# The arm experiment of the paper, reproduced",
        "",
        'Mouret and Maguire, "Quality Diversity for Multi-task Optimization", GECCO 2020, section 4: '
        f"{settings['tasks']['number']:,} tasks (digest `{settings['tasks']['digest'][:12]}`), {settings['dim']} "
        f"links, target {_target(comparison)}, {comparison.budget:,} evaluations, batches of {settings['batch_size']}, "
        f"{now.runs} replicates of each algorithm.",
        "",
        f"Made on {date.today().isoformat()} with `{command or 'taskelites reproduce arm'}` on {machine()}, "
        f"jax {settings['versions']['jax']}; the searches took {seconds / 60:.1f} minutes in all.",
        "",
        "![Arm, maps, curves and final values](arm.png)",
        "",
        "## The claims",
        "",
        '"Gap" is the mean over tasks of the optimum minus the fitness found, after the whole budget; a task that is '
        "not solved counts as the worst posture.",
        "",
        "| the paper says | taken to hold if | our figures | |",
        "|---|---|---|---|",
    ]
    for claim in CLAIMS:
        outcome, figures = claim.check(now)
        lines.append(f"| {claim.text} | {claim.criterion} | {figures} | **{outcome}** |")
    lines += ["", *_reasons(now, other)]
    lines += ["", "## The five algorithms", "", *_markdown(_measures(now, list(FIVE))), ""]
    lines += [
        "Median [first quartile, third quartile]. Area: the mean over the run of the mean over all tasks. To 99 %: "
        "evaluations until 99 % of the way from the final value of random sampling to the optimum.",
        "",
        "## Each pair of the five, by the final mean over all tasks",
        "",
        *_markdown(_pairs(comparison)),
        "",
        "p: Mann-Whitney U, two-sided, exact; Holm: corrected for the ten pairs; A12: the probability that a run of "
        "the first is better than one of the second.",
        "",
        "## The ablation: fixed tournament sizes against the bandit",
        "",
        *_markdown(_measures(now, [BANDIT, *map(size_label, now.sizes)])),
        "",
        "The data: `replicates.csv` (final values of each run), `curves.csv` (quartiles over evaluations), `tests.csv` "
        "(all pairs), `summary.csv`, `comparison.json` (settings and versions).",
        "",
    ]
    return "\n".join(lines)


def _target(comparison: Comparison) -> str:
    return f"({', '.join(f'{number:g}' for number in comparison.settings['options']['target'])})"


def _reasons(now: Measured, other: Comparison) -> list[str]:
    """What the outcomes depend on, as far as these runs tell."""
    there = Measured(other)
    gaps = "; ".join(f"{label} {there.median(label):.3g}" for label in FIVE)
    ratio = there.median("map-elites-random") / there.median("cma-es")
    newer = now.median(NEWER_CMA)
    children = (now.comparison.budget - 128) / now.comparison.settings["tasks"]["number"]
    newer_ratio = now.median("map-elites-random") / newer
    return [
        "## What the outcomes depend on",
        "",
        "- **The target.** The paper's text has (1, 1), its published code (0.5, 0.5). With "
        f"{_target(other)} the median gaps are: {gaps}. The ratio of map-elites-random to cma-es is {ratio:.3g} there "
        f"(p = {there.p('map-elites-random', 'cma-es'):.2g}), and p of map-elites-all against random is "
        f"{there.p('map-elites-all', 'random'):.2g}.",
        "- **The CMA-ES.** Ours is that of the `cma` package when the paper was written. As the package is now (4.5: "
        "no effective boundary penalty, standard deviation at most a third of the box) the gap is "
        f"{newer:.3g} instead of {now.median('cma-es'):.3g}, and the ratio of map-elites-random to it "
        f"{newer_ratio:.3g}.",
        f"- **Outliers.** {_outliers(now)}",
        "- **The start.** Until all tasks are solved, the mean over all tasks is mostly a matter of how many are; "
        "cma-es and map-elites-all try the tasks in turn, where the others draw them at random and must wait for the "
        "last ones.",
        f"- **All tasks.** map-elites-all tries {children:,.0f} children in the whole budget, each on all tasks; "
        "random tries as many solutions on each task, but others on each.",
        f"- **The bandit.** {_bandit(now)}",
    ]


def _outliers(now: Measured) -> str:
    values = now.values(BANDIT)
    far = now.best - values > 5 * now.median(BANDIT)
    text = f"{far.sum()} of {len(values)} runs of mt-map-elites end with more than five times its median gap"
    if not far.any():
        return f"{text}."
    p = mann_whitney(values[~far], now.values("map-elites-random"))
    return f"{text}; without them, p against map-elites-random would be {p:.2g}."


def _bandit(now: Measured) -> str:
    """What the bandit did with its sizes, over all replicates."""
    last = [run.history for run in now.comparison.results[BANDIT]]
    sizes = sorted(int(name.removeprefix("tried_")) for name in last[0] if name.startswith("tried_"))
    tried = np.array([sum(history[f"tried_{size}"][-1] for history in last) for size in sizes], float)
    good = np.array([sum(history[f"successes_{size}"][-1] for history in last) for size in sizes], float)
    shares = ", ".join(
        f"{size}: {100 * share:.0f} % of the candidates, {100 * rate:.1f} % of them successes"
        for size, share, rate in zip(sizes, tried / tried.sum(), good / np.maximum(tried, 1), strict=True)
    )
    return f"By size, {shares}. It counts successes, not what they gain."


def machine() -> str:
    """The kind of machine, in words."""
    import jax

    kind = jax.devices()[0].device_kind
    cores = f"{os.cpu_count()} CPU cores ({platform.machine()})"
    return cores if jax.default_backend() == "cpu" else f"one {kind} ({cores})"


def _pairs(comparison: Comparison) -> "pd.DataFrame":
    """The tests among the five, corrected for their number."""
    of_five = Comparison(results={label: comparison.results[label] for label in FIVE}, settings=comparison.settings)
    tests = of_five.tests()
    return tests.assign(
        p=[f"{value:.2g}" for value in tests["p"]],
        p_holm=[f"{value:.2g}" for value in tests["p_holm"]],
        a12=[f"{value:.3f}" for value in tests["a12"]],
    ).rename(columns={"p_holm": "p (Holm)", "a12": "A12"})


def _measures(now: Measured, labels: list[str]) -> "pd.DataFrame":
    import pandas as pd

    def cell(values: np.ndarray, digits: str) -> str:
        low, middle, high = quartiles(values)
        if math.isinf(middle):
            return "never"
        return f"{middle:{digits}} [{low:{digits}}, {'never' if math.isinf(high) else f'{high:{digits}}'}]"

    rows = [
        {
            "algorithm": label,
            "mean over all tasks": cell(now.values(label), ".5f"),
            "gap": cell(now.best - now.values(label), ".3g"),
            "area": cell(now.values(label, "area"), ".5f"),
            "to 99 %": cell(now.values(label, "evaluations_to_99"), ",.0f"),
            "seconds": f"{now.median(label, 'seconds'):.2g}",
        }
        for label in labels
    ]
    return pd.DataFrame(rows)


def _markdown(frame: "pd.DataFrame") -> list[str]:
    rows = [list(frame.columns), ["---"] * len(frame.columns), *frame.astype(str).to_numpy().tolist()]
    return [f"| {' | '.join(map(str, row))} |" for row in rows]
