"""The page on the hexapod experiment: each claim of the paper with our figures, what they depend on, the tables."""

from typing import TYPE_CHECKING

import numpy as np

from taskelites.experiments.hexapod_claims import (
    ALL_TASKS,
    BANDIT,
    CLAIMS,
    CMA,
    FOUR,
    PAPER_BUDGET,
    PAPER_TASKS,
    Measured,
)
from taskelites.experiments.page import claim_table, made, markdown, pair_table, spacing, spread

if TYPE_CHECKING:
    import pandas as pd


def page_text(now: Measured, algorithms: list[str], command: str | None = None) -> str:
    """The page on the claims, in Markdown.

    Args:
        now: what was measured.
        algorithms: those of the comparison, in their order.
        command: how it was made.
    """
    lines = [
        "# The hexapod experiment of the paper, reproduced",
        "",
        *_sizes(now, command),
        "",
        "![Bodies, curves, final values, CMA-ES on one body](hexapod.png)",
        "",
        "A to D: bodies, seen from behind, the left and above, all joints at zero. E: the median over runs, with a "
        "band from the first to the third quartile. F: a point for each run; boxes from the first to the third "
        "quartile, with the median, and whiskers to the farthest run within 1.5 times their length. G: each run, and "
        "their median.",
        "",
        "![Genomes, transfer, best bodies](hexapod-map.png)",
        "",
        "A: the 36 genes of each elite, each in a column of its own, in the colour of its fitness. B: what top elites "
        "lose on other bodies. C: what the best bodies have in common. D: the best of them.",
        "",
        "## The claims",
        "",
        "The claims are those of section 5 of the paper and of its figures, in our words. The criteria are ours: it "
        f"gives none but the test. Evaluations are those of logged points, {spacing(now.comparison, BANDIT):,} apart "
        "except at the start.",
        "",
        "The mean is over all bodies; one without a gait yet counts as the worst that was seen.",
        "",
        *claim_table(CLAIMS, now),
        "",
        *_reasons(now),
        "",
        "## The algorithms",
        "",
        *markdown(_measures(now, algorithms)),
        "",
        "Median (first to third quartile), in m. Area: the mean over the run of the mean over all bodies: the greater, "
        "the earlier.",
        "",
        "## Each pair, by the final mean over all bodies",
        "",
        *markdown(pair_table(now.comparison, algorithms)),
        "",
        f"p: Mann-Whitney U, two-sided, exact; with {now.runs} runs each it can't be below {now.least_p:.2g}. Holm: "
        "corrected for the number of pairs. A12: the probability that a run of the first is better than one of the "
        "second.",
        "",
        *_tables(now),
        "",
        "The data: `replicates.csv` (final values of each run), `curves.csv` (quartiles over evaluations), `tests.csv` "
        "and `summary.csv`, `comparison.json` (settings and versions), the same in `single` for CMA-ES on one body; "
        "`claims.csv`, `single.csv`, `genes.csv`, `bodies.csv`, `transfer.csv` (each of the top elites on the others' "
        "bodies).",
        "",
    ]
    return "\n".join(lines)


def transfer_table(now: Measured) -> "pd.DataFrame":
    """One row an elite that was tried on all tasks: `rank`, `task`, `fitness`, and of the differences to own elites."""
    return now.transfer.table().assign(fitness=now.map.fitness[now.transfer.elites])


def _sizes(now: Measured, command: str | None) -> list[str]:
    settings = now.comparison.settings
    options = settings["options"]
    seconds = sum(found.replicates()["seconds"].sum() for found in (now.comparison, now.single))
    yaw = "ends a walk, too" if options["yaw"] else "ends no walk"
    lines = [
        'Mouret and Maguire, "Quality Diversity for Multi-task Optimization", GECCO 2020, section 5: '
        f"{settings['tasks']['number']:,} bodies (digest `{settings['tasks']['digest'][:12]}`), "
        f"{now.comparison.budget:,} evaluations, batches of {settings['batch_size']}, {now.runs} replicates of each "
        f"algorithm; simulator {options['simulator']}; turning by more than 22.5 degrees {yaw}. "
        f"CMA-ES on one body: {len(now.finals)} runs of {now.single.budget:,} evaluations on body {now.task} of the "
        f"map. The map: {len(now.map):,} bodies, {now.map.evaluations:,} evaluations, seed {now.map.settings['seed']}"
        + _map_origin(now),
        "",
    ]
    if now.comparison.budget < PAPER_BUDGET or len(now.comparison.worst) < PAPER_TASKS:
        lines += [
            f"The paper has {PAPER_TASKS:,} bodies and {PAPER_BUDGET:,} evaluations, "
            f"{PAPER_BUDGET // PAPER_TASKS} a body, 20 replicates, and 20 runs of 100,000 evaluations on one body; "
            f"here there are {now.per_task:.3g} evaluations a body.",
            "",
        ]
    lines.append(
        f"{made(command or 'taskelites reproduce hexapod')}, jax {settings['versions']['jax']}; the searches took "
        f"{seconds / 3600:.2f} hours in all."
    )
    return lines


def _map_origin(now: Measured) -> str:
    if any(run is now.map for run in now.comparison.results[BANDIT]):
        return ", the run of mt-map-elites in the comparison with the median final value."
    return f", a run of its own ({now.map.settings['options']['simulator']})."


def _reasons(now: Measured) -> list[str]:
    """What the outcomes depend on, as far as these runs tell."""
    again = now.transfer.own - now.map.fitness[now.transfer.tasks]
    same = int((again == 0).sum())
    apart = np.abs(again[(again != 0) & ~np.isnan(again)])
    others = f"; the others differ by {apart.mean():.3g} m in the mean" if len(apart) else ""
    failed = now.transfer.failed
    tried = now.transfer.fitness.size + now.transfer.own.size
    cma, every = now.median(CMA), now.median(ALL_TASKS)
    return [
        "## What the outcomes depend on",
        "",
        "- **The sign of CMA-ES.** The code that was published with the paper passes the distance to a minimiser as it "
        "is, and negates the best afterwards: read literally, that baseline optimised walking backwards. Ours "
        f"maximises. It reaches {cma:.3f} m in the mean, {'less' if cma < every else 'more'} than MAP-Elites on all "
        f"tasks with {every:.3f} m.",
        "- **The simulator.** The paper has PyBullet, which solves contacts otherwise; the published code, unlike the "
        "text, also ends a walk when the robot has turned by more than 22.5 degrees. Distances of different simulators "
        "and rules can be compared in order only, not in metres.",
        "- **Evaluations a task.** CMA-ES and MAP-Elites on all tasks share the budget among the bodies, so the order "
        f"depends on how many there are: {now.per_task:.3g} evaluations a body here, "
        f"{PAPER_BUDGET // PAPER_TASKS} in the paper.",
        f"- **Repeatability.** Evaluated again, {same:,} of {len(again):,} elites of the map walk exactly as far as "
        f"the map says{others}. Top elites are compared with what was evaluated again.",
        f"- **Failures.** {failed:,} of {tried:,} evaluations of the transfer diverged and are left out.",
    ]


def _measures(now: Measured, labels: list[str]) -> "pd.DataFrame":
    import pandas as pd

    rows = [
        {
            "algorithm": label + ("" if label in FOUR else " (not in the paper)"),
            "mean over all bodies": spread(now.values(label), ".3f"),
            "coverage": spread(100 * now.values(label, "coverage"), ".4g") + " %",
            "area": spread(now.values(label, "area"), ".3f"),
            "minutes": f"{now.median(label, 'seconds') / 60:.2g}",
        }
        for label in labels
    ]
    return pd.DataFrame(rows)


def _tables(now: Measured) -> list[str]:
    """What the claims about the map rest on."""
    single = now.single_table.assign(
        final=[f"{value:.3f}" for value in now.single_table["final"]],
        at_10000=[_known(value, ".3f") for value in now.single_table["at_10000"]],
        gained_after_10000=[_known(value, ".1%") for value in now.single_table["gained_after_10000"]],
    )
    bodies = now.bodies.assign(
        spearman=[_known(value, "+.3f") for value in now.bodies["spearman"]],
        mean=[f"{value:.4f}" for value in now.bodies["mean"]],
        mean_best=[f"{value:.4f}" for value in now.bodies["mean_best"]],
    )
    top = transfer_table(now).head(10).copy()
    for name in [name for name in top if top[name].dtype.kind == "f"]:
        top[name] = [_known(value, ".3f") for value in top[name]]
    return [
        "## CMA-ES on one body",
        "",
        *markdown(single.rename(columns={"at_10000": "after 10,000", "gained_after_10000": "gained after that"})),
        "",
        "Fitness in m; what is gained after 10,000 evaluations, as a share of the final value.",
        "",
        "## The ten best elites on other bodies",
        "",
        *markdown(top.rename(columns=lambda name: name.replace("_", " "))),
        "",
        "In m; differences are to each body's own elite.",
        "",
        "## Lengths and fitness",
        "",
        *markdown(bodies.rename(columns={"mean_best": f"mean of the best {now.best_number}"})),
        "",
        "Means in m. Spearman: rank correlation of the length with the fitness of the body's elite.",
    ]


def _known(value: float, digits: str) -> str:
    return "-" if np.isnan(value) else f"{value:{digits}}".replace("%", " %")
