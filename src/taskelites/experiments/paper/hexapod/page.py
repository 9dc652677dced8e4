"""The page about the hexapod experiment: claims with our figures, what the outcomes depend on, and tables."""

from typing import TYPE_CHECKING

import numpy as np

from taskelites.experiments.paper.hexapod.claims import (
    ALL_TASKS,
    BANDIT,
    CLAIMS,
    CMA,
    FOLLOWUPS,
    FOUR,
    PAPER_BUDGET,
    PAPER_TASKS,
    PUBLISHED,
    HexapodMeasurements,
)
from taskelites.experiments.paper.hexapod.runs import run_table
from taskelites.experiments.paper.page import (
    claim_table,
    format_quartiles,
    logging_interval,
    markdown,
    pair_table,
    provenance,
)

if TYPE_CHECKING:
    import pandas as pd


def page_text(data: HexapodMeasurements, algorithms: list[str], command: str | None = None) -> str:
    """Return the page in Markdown.

    Args:
        data: the measurements.
        algorithms: labels of the comparison, in the order of the tables.
        command: the command to show on the page.
    """
    lines = [
        "# The hexapod experiment of the paper, reproduced",
        "",
        *_setup_section(data, command),
        "",
        "![Bodies, curves, final values, CMA-ES on one body](hexapod.png)",
        "",
        "A to D: bodies, seen from behind, the left and above, after settling. E: the median over runs, with a "
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
        "gives none but the test. Evaluations are those of logged points, "
        f"{logging_interval(data.comparison, BANDIT):,} apart except at the start.",
        "",
        "The mean is over all bodies; one without a gait yet counts as the worst that was seen.",
        "",
        *claim_table(CLAIMS, data),
        "",
        *_outcomes_section(data),
        "",
        "## The algorithms",
        "",
        *markdown(_measure_table(data, algorithms)),
        "",
        "Median (first to third quartile), in m. Area: the mean over the run of the mean over all bodies: the greater, "
        "the earlier.",
        "",
        "## Each pair, by the final mean over all bodies",
        "",
        *markdown(pair_table(data.comparison, algorithms)),
        "",
        f"p: Mann-Whitney U, two-sided, exact; with {data.runs} runs each it can't be below {data.least_p:.2g}. Holm: "
        "corrected for the number of pairs. A12: the probability that a run of the first is better than one of the "
        "second.",
        "",
        *_simulated_again_section(data),
        *_followup_section(data),
        *_pilot_section(data),
        *_data_sections(data),
        "",
        "The data: `replicates.csv` (final values of each run), `curves.csv` (quartiles over evaluations), `tests.csv` "
        "and `summary.csv`, `comparison.json` (settings and versions), the same in `single` for CMA-ES on one body; "
        "`claims.csv`, `single.csv`, `genes.csv`, `bodies.csv`, `transfer.csv` (each of the top elites on the others' "
        "bodies); `finished` has the final fitness of each body in each run.",
        "",
    ]
    return "\n".join(lines)


def transfer_table(data: HexapodMeasurements) -> "pd.DataFrame":
    """Return a table with one row per transferred elite: `fitness` and the columns of `Transfer.table`."""
    return data.transfer.table().assign(fitness=data.map.fitness[data.transfer.elites])


def _setup_section(data: HexapodMeasurements, command: str | None) -> list[str]:
    settings = data.comparison.settings
    options = settings["options"]
    seconds = sum(found.replicates()["seconds"].sum() for found in data.comparisons)
    ahead = settings.get("ahead", 1)
    batches = f"batches of {settings['batch_size']}" + (f", {ahead} of them asked from one state" if ahead > 1 else "")
    return [
        'Mouret and Maguire, "Quality Diversity for Multi-task Optimization", GECCO 2020, section 5: '
        f"{settings['tasks']['number']:,} bodies (digest `{settings['tasks']['digest'][:12]}`), "
        f"{data.comparison.budget:,} evaluations, {batches}, {data.runs} replicates of each "
        f"algorithm; simulator {options['simulator']}. "
        f"CMA-ES on one body: {len(data.finals)} runs of {data.single.budget:,} evaluations on body {data.task} of the "
        f"map, simulated by {data.single.settings['options']['simulator']}. "
        f"The map: {len(data.map):,} bodies, {data.map.evaluations:,} evaluations, seed {data.map.settings['seed']}"
        + _map_origin(data),
        "",
        "What differs from the paper: " + "; ".join(_differences(data)) + ".",
        "",
        f"{provenance(command or 'taskelites reproduce hexapod')}, jax {settings['versions']['jax']}; the searches "
        f"took {seconds / 3600:.2f} hours in all.",
    ]


def _differences(data: HexapodMeasurements) -> list[str]:
    """Return the deviations from the paper, one phrase each."""
    settings = data.comparison.settings
    options, ahead = settings["options"], settings.get("ahead", 1)
    found = [f"the simulator is {options['simulator']}, and the paper's is PyBullet"]
    if options["yaw"]:
        found.append("turning by more than 22.5 degrees ends a walk, as in the paper's code but not in its text")
    else:
        found.append("turning by more than 22.5 degrees ends no walk, as in the paper's text but not in its code")
    if ahead > 1:
        found.append(f"{ahead} batches are asked before the first of them is told")
    if _any_simulated_again(data):
        found.append("each final map is simulated again in native MuJoCo, which all final values below are from")
    if data.comparison.budget < PAPER_BUDGET or len(data.comparison.worst) < PAPER_TASKS:
        found.append(
            f"the paper has {PAPER_TASKS:,} bodies and {PAPER_BUDGET:,} evaluations, {PAPER_BUDGET // PAPER_TASKS} per "
            f"body, 20 replicates, and 20 runs of 100,000 evaluations on one body, and here there are "
            f"{data.per_task:.3g} evaluations per body"
        )
    return found


def _any_simulated_again(data: HexapodMeasurements) -> bool:
    """Return whether final maps were simulated again."""
    return any(run.corrected is not None for runs in data.comparison.results.values() for run in runs)


def _simulated_again_section(data: HexapodMeasurements) -> list[str]:
    """Return the section that compares the fitness in the search with native MuJoCo."""
    import pandas as pd

    if not _any_simulated_again(data):
        return []
    rows = []
    for label, own in run_table(data.comparison).groupby("algorithm", sort=False):
        change = 100 * (own["mean_all"] / own["believed"] - 1)
        rows.append(
            {
                "algorithm": label,
                "in the search": format_quartiles(own["believed"].to_numpy(), ".3f"),
                "in native MuJoCo": format_quartiles(own["mean_all"].to_numpy(), ".3f"),
                "difference": format_quartiles(change.to_numpy(), "+.2f") + " %",
                "ranks of the elites": format_quartiles(own["ranks"].to_numpy(), ".4f"),
            }
        )
    return [
        "## Simulated again",
        "",
        *markdown(pd.DataFrame(rows)),
        "",
        "The mean over all bodies of each final map, in m, as the search believed it and as native MuJoCo simulates "
        "the same elites; and Spearman's rank correlation of the two over the elites of a map. Median (first to third "
        "quartile) over runs.",
        "",
    ]


def _followup_section(data: HexapodMeasurements) -> list[str]:
    """Return the section about the algorithms of later papers and their published order."""
    import pandas as pd

    if data.followups is None:
        return []
    finals = {label: data.followups.replicates().query("algorithm == @label")["mean_all"] for label in FOLLOWUPS}
    finals = {BANDIT: data.replicates.query("algorithm == @BANDIT")["mean_all"], **finals}
    order = sorted(finals, key=lambda label: finals[label].median())
    published = sorted(PUBLISHED, key=lambda label: PUBLISHED[label])
    rows = [
        {
            "algorithm": label,
            "runs": len(finals[label]),
            "mean over all bodies": format_quartiles(finals[label].to_numpy(), ".3f"),
            "published": f"{PUBLISHED[label]:.3f}",
        }
        for label in order
    ]
    holds = "holds" if order == published else "does not hold"
    return [
        "## The follow-ups",
        "",
        f"The published order, {' < '.join(published)}, **{holds}**: ours is {' < '.join(order)}.",
        "",
        *markdown(pd.DataFrame(rows)),
        "",
        f"In m, median (first to third quartile) over runs of {data.followups.budget:,} evaluations. Published: the "
        "means of the paper on MONET (arXiv 2604.21991), 20 runs in PyBullet on other bodies.",
        "",
    ]


def _pilot_section(data: HexapodMeasurements) -> list[str]:
    """Return the section about the effect of asking ahead."""
    import pandas as pd

    if data.pilot is None:
        return []
    frame = data.pilot.replicates()
    rows = [
        {
            "batches": label,
            "final mean": format_quartiles(own["mean_all"].to_numpy(), ".3f"),
            "area": format_quartiles(own["area"].to_numpy(), ".3f"),
        }
        for label, own in frame.groupby("algorithm", sort=False)
    ]
    tests = data.pilot.tests().iloc[0]
    areas = data.pilot.tests("area").iloc[0]
    return [
        "## What asking ahead changes",
        "",
        *markdown(pd.DataFrame(rows)),
        "",
        f"mt-map-elites on {len(data.pilot.worst):,} bodies, {data.pilot.budget:,} evaluations, {len(frame) // 2} runs "
        f"each, in m. Mann-Whitney on the final mean: p = {tests['p']:.2g}, A12 = {tests['a12']:.2f}; on the area: p = "
        f"{areas['p']:.2g}, A12 = {areas['a12']:.2f}.",
        "",
    ]


def _map_origin(data: HexapodMeasurements) -> str:
    if any(run is data.map for run in data.comparison.results[BANDIT]):
        return ", the run of mt-map-elites in the comparison with the median final value."
    return f", a run of its own ({data.map.settings['options']['simulator']})."


def _outcomes_section(data: HexapodMeasurements) -> list[str]:
    """Return the section on what the outcomes depend on."""
    failed = data.transfer.failed
    tried = data.transfer.fitness.size + data.transfer.own.size
    cma, every = data.median(CMA), data.median(ALL_TASKS)
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
        f"depends on how many there are: {data.per_task:.3g} evaluations a body here, "
        f"{PAPER_BUDGET // PAPER_TASKS} in the paper.",
        _repeatability_text(data),
        f"- **Failures.** {failed:,} of {tried:,} evaluations of the transfer diverged and are left out.",
    ]


def _repeatability_text(data: HexapodMeasurements) -> str:
    again = data.transfer.own - data.map.fitness[data.transfer.tasks]
    same = int((again == 0).sum())
    apart = np.abs(again[(again != 0) & ~np.isnan(again)])
    if data.map.corrected is not None:
        return (
            "- **Repeatability.** The simulator of the search gives other bits each time. What is shown of the map is "
            "from native MuJoCo; top elites are compared with the map's elites as the search's simulator walks them "
            f"once more, {apart.mean():.3g} m apart in the mean."
        )
    others = f"; the others differ by {apart.mean():.3g} m in the mean" if len(apart) else ""
    return (
        f"- **Repeatability.** Evaluated again, {same:,} of {len(again):,} elites of the map walk exactly as far as "
        f"the map says{others}. Top elites are compared with what was evaluated again."
    )


def _measure_table(data: HexapodMeasurements, labels: list[str]) -> "pd.DataFrame":
    import pandas as pd

    rows = [
        {
            "algorithm": label + ("" if label in FOUR else " (not in the paper)"),
            "mean over all bodies": format_quartiles(data.values(label), ".3f"),
            "coverage": format_quartiles(100 * data.values(label, "coverage"), ".4g") + " %",
            "area": format_quartiles(data.values(label, "area"), ".3f"),
            "minutes": f"{data.median(label, 'seconds') / 60:.2g}",
        }
        for label in labels
    ]
    return pd.DataFrame(rows)


def _data_sections(data: HexapodMeasurements) -> list[str]:
    """Return the sections with the data for the claims about single runs and the map."""
    single = data.single_table.assign(
        final=[f"{value:.3f}" for value in data.single_table["final"]],
        at_10000=[_or_dash(value, ".3f") for value in data.single_table["at_10000"]],
        gained_after_10000=[_or_dash(value, ".1%") for value in data.single_table["gained_after_10000"]],
    )
    bodies = data.bodies.assign(
        spearman=[_or_dash(value, "+.3f") for value in data.bodies["spearman"]],
        mean=[f"{value:.4f}" for value in data.bodies["mean"]],
        mean_best=[f"{value:.4f}" for value in data.bodies["mean_best"]],
    )
    top = transfer_table(data).head(10).copy()
    for name in [name for name in top if top[name].dtype.kind == "f"]:
        top[name] = [_or_dash(value, ".3f") for value in top[name]]
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
        *markdown(bodies.rename(columns={"mean_best": f"mean of the best {data.best_number}"})),
        "",
        "Means in m. Spearman: rank correlation of the length with the fitness of the body's elite.",
    ]


def _or_dash(value: float, digits: str) -> str:
    return "-" if np.isnan(value) else f"{value:{digits}}".replace("%", " %")
