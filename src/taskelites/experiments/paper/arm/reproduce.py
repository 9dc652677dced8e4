"""The arm experiment of the paper: five algorithms, the ablation of tournament sizes, a figure and a page.

Mouret and Maguire, "Quality Diversity for Multi-task Optimization" (GECCO 2020), section 4.
"""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from taskelites.algorithms import CmaEs, MultiTaskMapElites
from taskelites.domains import domain
from taskelites.experiments.comparison.comparison import Comparison, save_figure
from taskelites.experiments.comparison.run import compare
from taskelites.experiments.paper.arm.claims import BANDIT, CLAIMS, FIVE, NEWER_CMA, SIZES, ArmMeasurements, size_label
from taskelites.experiments.paper.arm.page import page_text
from taskelites.experiments.paper.claims import outcomes
from taskelites.problem.problem import Domain
from taskelites.process import shows_progress
from taskelites.storage import write_text

# The target in the paper's published code; the text has (1, 1).
OTHER_TARGET = (0.5, 0.5)


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
    """Run the experiment of section 4 of the paper and write its figure and a page about its claims.

    Args:
        out: a folder. Runs of this experiment that it already holds are not made again.
        replicates: runs per algorithm.
        evaluations: evaluations per run.
        tasks: the number of tasks.
        dim: the number of links of the arm.
        target: the point to reach; (1, 1) in the paper, (0.5, 0.5) in its published code.
        seed: seed of the first replicate.
        command: the command to show on the page.
        progress: whether to show progress; by default, only in a terminal.

    Returns:
        The path of the page, `arm.md`. The same folder has `arm.png` and `arm.pdf`, the tables as CSV and the runs; its
        folder `other-target` has the five algorithms with the other target.
    """
    arm = domain("arm", tasks=tasks, dim=dim, target=target)
    sizes = {size_label(size): MultiTaskMapElites(tournament=size) for size in SIZES if size <= len(arm.tasks)}
    five = {name: name for name in FIVE}
    options: dict[str, Any] = {"evaluations": evaluations, "replicates": replicates, "seed": seed, "progress": progress}
    newer = {NEWER_CMA: CmaEs(penalty=False, max_std=1 / 3)}
    shown = shows_progress(progress)
    if shown:
        print(f"target {tuple(target)}: {len(five | newer | sizes)} groups of {replicates} runs", file=sys.stderr)
    main = compare(arm, algorithms=five | newer | sizes, out=out, **options)
    elsewhere = OTHER_TARGET if tuple(target) != OTHER_TARGET else (1.0, 1.0)
    if shown:
        print(f"target {elsewhere}: {len(five)} groups of {replicates} runs", file=sys.stderr)
    other_arm = domain("arm", tasks=arm.tasks, dim=dim, target=elsewhere)
    other = compare(other_arm, algorithms=five, out=Path(out) / "other-target", **options)
    page = Path(out) / "arm.md"
    write_text(page, page_text(main, other, command))
    save_figure(figure(main, arm), Path(out) / "arm")
    return page


def verdicts(out: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Return the text and the outcome of each claim, for the experiment in a folder."""
    return outcomes(CLAIMS, ArmMeasurements(Comparison.load(out)))


def figure(comparison: Comparison, arm: Domain) -> Any:
    """Return the figure, arranged as in the paper."""
    import matplotlib.pyplot as plt

    from taskelites import show

    sizes = [size_label(size) for size in SIZES if size_label(size) in comparison.labels]
    whole = plt.figure(figsize=(14, 12.5), layout="constrained")
    parts: Any = whole.subfigures(3, 1, height_ratios=[1, 1.15, 1.15])
    top, middle, bottom = parts
    drawing, *panels = top.subplots(1, 4)
    best = comparison.typical(BANDIT)
    away = np.square(arm.tasks.descriptors - [0.8, 0.9]).sum(axis=1)
    example = int(np.where(best.solved, away, np.inf).argmin())
    if arm.draw is not None:
        arm.draw(best.solutions[example], arm.tasks.descriptors[example], ax=drawing)
    drawing.set_title(f"A  arm of task {example}", fontsize="medium")
    mapped = {"B  mt-map-elites": BANDIT, "C  cma-es": "cma-es", "D  map-elites-all": "map-elites-all"}
    typical = {title: comparison.typical(label) for title, label in mapped.items()}
    # At least the rounding error of 32 bits. On the scale of the fitness itself, all maps would look the same.
    gaps = [np.log10(np.maximum(run.optimum - run.fitness, 1e-7)) for run in typical.values()]
    label = "gap to the optimum, log10\n(colours end at -6 and -1)"
    show.maps(typical, axs=panels, values=gaps, label=label, vmin=-6, vmax=-1)
    for panel in panels:
        panel.title.set_fontsize("medium")
    # Sizes have a colour map of their own, because they are ordered.
    shades = plt.get_cmap("YlOrBr")(np.linspace(0.3, 1.0, len(sizes)))
    for part, labels, letters, colours in (
        (middle, list(FIVE), "EF", None),
        (bottom, [BANDIT, *sizes], "GH", [show.comparison_plots.COLOURS[0], *shades]),
    ):
        left, right = part.subplots(1, 2, width_ratios=[1.35, 1])
        show.curves(comparison, ax=left, labels=labels, colours=colours)
        show.finals(comparison, ax=right, labels=labels, colours=colours)
        left.set_title(f"{letters[0]}  {'algorithms' if letters == 'EF' else 'tournament sizes'}", fontsize="medium")
        right.set_title(f"{letters[1]}  final values", fontsize="medium")
    return whole
