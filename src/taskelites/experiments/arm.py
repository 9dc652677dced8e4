"""The paper's arm experiment, whole: five algorithms, the ablation of tournament sizes, a figure and a page.

Mouret and Maguire, "Quality Diversity for Multi-task Optimization" (GECCO 2020), section 4.
"""

import math
import os
import platform
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.algorithms import MultiTaskMapElites
from taskelites.domains import domain
from taskelites.experiments.arm_claims import BANDIT, CLAIMS, FIVE, SIZES, Measured, size_label
from taskelites.experiments.comparison import Comparison, save_figure
from taskelites.experiments.running import compare
from taskelites.experiments.statistics import quartiles
from taskelites.problem import Domain
from taskelites.storage import write_text

if TYPE_CHECKING:
    import pandas as pd


def reproduce_arm(
    out: str | os.PathLike[str],
    *,
    replicates: int = 30,
    evaluations: int = 1_000_000,
    tasks: int = 5000,
    dim: int = 10,
    target: tuple[float, float] = (1.0, 1.0),
    seed: int = 0,
    command: str | None = None,
    progress: bool | None = None,
) -> Path:
    """Run section 4 of the paper and write its figure and a page on its claims.

    Args:
        out: a folder. If it holds runs of this experiment already, they are not made again.
        replicates: of each algorithm.
        evaluations: of each run.
        tasks: how many.
        dim: links of the arm.
        target: the point to reach; (1, 1) in the paper, (0.5, 0.5) in its published code.
        seed: of the first replicate.
        command: how this was called, for the page.
        progress: whether to show it; by default, in a terminal.

    Returns:
        The page, `arm.md`; beside it are `arm.png` and `arm.pdf`, the tables as CSV, and the runs.
    """
    arm = domain("arm", tasks=tasks, dim=dim, target=target)
    sizes = {size_label(size): MultiTaskMapElites(tournament=size) for size in SIZES if size <= len(arm.tasks)}
    algorithms = {name: name for name in FIVE} | sizes
    comparison = compare(
        arm,
        algorithms=algorithms,
        evaluations=evaluations,
        replicates=replicates,
        seed=seed,
        out=out,
        progress=progress,
    )
    save_figure(figure(comparison, arm), Path(out) / "arm")
    page = Path(out) / "arm.md"
    write_text(page, page_text(comparison, command))
    return page


def verdicts(out: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Each claim and what became of it, of the experiment in a folder."""
    now = Measured(Comparison.load(out))
    return [(claim.text, claim.check(now).outcome) for claim in CLAIMS]


def page_text(comparison: Comparison, command: str | None = None) -> str:
    """The page on the claims, in Markdown."""
    now = Measured(comparison)
    settings = comparison.settings
    seconds = now.replicates["seconds"].sum()
    target = ", ".join(f"{number:g}" for number in settings["options"].get("target", (1.0, 1.0)))
    lines = [
        "# The arm experiment of the paper, reproduced",
        "",
        'Mouret and Maguire, "Quality Diversity for Multi-task Optimization", GECCO 2020, section 4: '
        f"{settings['tasks']['number']:,} tasks (digest `{settings['tasks']['digest'][:12]}`), {settings['dim']} "
        f"links, target ({target}), {comparison.budget:,} evaluations, batches of {settings['batch_size']}, "
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


def figure(comparison: Comparison, arm: Domain) -> Any:
    """The figure, in the arrangement of the paper's."""
    import matplotlib.pyplot as plt

    from taskelites import show

    sizes = [size_label(size) for size in SIZES if size_label(size) in comparison.labels]
    whole = plt.figure(figsize=(14, 12.5), layout="constrained")
    parts: Any = whole.subfigures(3, 1, height_ratios=[1, 1.15, 1.15])
    top, middle, bottom = parts
    drawing, *panels = top.subplots(1, 4)
    best = comparison.typical(BANDIT)
    example = int(np.square(arm.tasks.descriptors - [0.8, 0.9]).sum(axis=1).argmin())
    if arm.draw is not None:
        arm.draw(best.solutions[example], arm.tasks.descriptors[example], ax=drawing)
    drawing.set_title(f"A  arm of task {example}", fontsize="medium")
    mapped = {"B  mt-map-elites": BANDIT, "C  cma-es": "cma-es", "D  map-elites-all": "map-elites-all"}
    typical = {title: comparison.typical(label) for title, label in mapped.items()}
    # From 32-bit rounding upwards; on the scale of the fitness itself the maps would look the same.
    gaps = [np.log10(np.maximum(run.optimum - run.fitness, 1e-7)) for run in typical.values()]
    show.maps(typical, axs=panels, values=gaps, label="gap to the optimum, log10", vmin=-6, vmax=-1)
    for panel in panels:
        panel.title.set_fontsize("medium")
    for part, labels, letters in (
        (middle, list(FIVE), "EF"),
        (bottom, [BANDIT, *sizes], "GH"),
    ):
        left, right = part.subplots(1, 2, width_ratios=[1.35, 1])
        show.curves(comparison, ax=left, labels=labels)
        show.finals(comparison, ax=right, labels=labels)
        left.set_title(f"{letters[0]}  {'algorithms' if letters == 'EF' else 'tournament sizes'}", fontsize="medium")
        right.set_title(f"{letters[1]}  final values", fontsize="medium")
    return whole
