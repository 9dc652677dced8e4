"""The hexapod experiment of the paper: four algorithms, CMA-ES on one body, analysis of a map, figures and a page.

Mouret and Maguire, "Quality Diversity for Multi-task Optimization" (GECCO 2020), section 5.
"""

import csv
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.analysis.elites import best_elites
from taskelites.analysis.transferring import evaluate_transfer
from taskelites.domains import domain
from taskelites.errors import InvalidValueError, TaskWarning, whole_number
from taskelites.experiments.comparison.comparison import Comparison, save_figure
from taskelites.experiments.comparison.run import label_algorithms
from taskelites.experiments.paper.hexapod.claims import BANDIT, CLAIMS, CMA, FOLLOWUPS, FOUR, TOP, HexapodMeasurements
from taskelites.experiments.paper.hexapod.map import SHARE
from taskelites.experiments.paper.hexapod.page import page_text, transfer_table
from taskelites.experiments.paper.hexapod.runs import RunMaker, run_curves, run_table, typical_map
from taskelites.problem.problem import Domain
from taskelites.process import shows_progress
from taskelites.results.export import write_csv
from taskelites.results.result import Result, load
from taskelites.runs import RunLock
from taskelites.storage import write_text

if TYPE_CHECKING:
    import pandas as pd


def reproduce_hexapod(
    out: str | os.PathLike[str],
    *,
    replicates: int = 20,
    evaluations: int = 1_000_000,
    tasks: Any = 2000,
    engine: str = "mujoco",
    yaw: bool = False,
    threads: int | None = None,
    device: str = "cuda",
    batch_size: int = 64,
    ahead: int | None = None,
    in_step: int = 10,
    single_replicates: int = 20,
    single_evaluations: int = 100_000,
    beside: str | Sequence[str] = "auto",
    followup_replicates: int | None = None,
    pilot_replicates: int | None = None,
    large_map: str | os.PathLike[str] | None = None,
    seed: int = 0,
    command: str | None = None,
    progress: bool | None = None,
) -> Path:
    """Run the experiment of section 5 of the paper and write its figures and a page about its claims.

    With the sizes of the paper it takes about a week on two CPU cores; `engine="warp"` is for one GPU. It can be
    interrupted at any time and resumed with the same folder.

    Args:
        out: a folder. Runs of this experiment that it already holds are not made again. For finished runs, the small
            files in its folder `finished` are enough.
        replicates: runs per algorithm.
        evaluations: evaluations per run.
        tasks: the number of bodies, or their lengths.
        engine: the simulator, as for `te.domain("hexapod")`. "warp" and "mjx" compute in 32 bits: each final map is
            then simulated again by "mujoco", and tables and tests use these values.
        yaw: whether turning ends a walk, as for `te.domain("hexapod")`.
        threads: threads of the simulator, as for `te.domain("hexapod")`.
        device: device of "warp", as for `te.domain("hexapod")`.
        batch_size: candidates per batch.
        ahead: the number of batches asked from one state, as for `te.solve`; by default 16 with "warp", else 1.
        in_step: the number of runs of one algorithm that are made together and stored in one file.
        single_replicates: runs of CMA-ES on one body, which is drawn from the bodies of the map. With "warp" and "mjx"
            they are simulated by "mujoco", because a generation of 14 walks leaves a GPU idle.
        single_evaluations: evaluations per run on one body.
        beside: additional algorithms that are not in the paper, such as "auto,random".
        followup_replicates: runs per algorithm of two later papers: MONET (with default settings, and tuned for the
            hexapod) and Parametric-task MAP-Elites; by default 5 with "warp", else 0.
        pilot_replicates: runs of mt-map-elites with and without asking ahead, on 200 bodies with 100,000 evaluations;
            by default 10 if batches are asked ahead, else 0.
        large_map: a run of mt-map-elites on the hexapod (its folder or file) for the analysis of genes, transfer and
            bodies; by default the run of the comparison with the median final value.
        seed: seed of the first replicate.
        command: the command to show on the page.
        progress: whether to show progress; by default, only in a terminal.

    Returns:
        The path of the page, `hexapod.md`. The same folder has the figures `hexapod` and `hexapod-map` as PNG and PDF,
        the tables as CSV and the runs; its folder `single` has the tables of CMA-ES on one body.

    Raises:
        ValueError: before any work, if an argument is wrong.
        Interrupted: after Ctrl-C; `out` keeps finished runs and the checkpoints of the others.
    """
    on_gpu = engine == "warp"
    place = {"device": device} if on_gpu else {}
    make = partial(domain, "hexapod", engine=engine, yaw=yaw, threads=threads, **place)
    bodies = make(tasks=tasks)
    chosen = None if large_map is None else _read_map(large_map, engine, yaw)
    ahead = (16 if on_gpu else 1) if ahead is None else whole_number("ahead", ahead, least=1)
    followups = (5 if on_gpu else 0) if followup_replicates is None else followup_replicates
    pilots = (10 if ahead > 1 else 0) if pilot_replicates is None else pilot_replicates
    for name, value, least in (
        ("replicates", replicates, 1),
        ("single_replicates", single_replicates, 1),
        ("single_evaluations", single_evaluations, 1),
        ("in_step", in_step, 1),
        ("followup_replicates", followups, 0),
        ("pilot_replicates", pilots, 0),
    ):
        whole_number(name, value, least=least)
    others = [name.strip() for name in (beside.split(",") if isinstance(beside, str) else beside) if name.strip()]
    algorithms = list(dict.fromkeys([*FOUR, *others]))
    label_algorithms(algorithms)  # raises before any run
    folder = Path(out)
    native = partial(domain, "hexapod", engine="mujoco", yaw=yaw, threads=threads)
    again = native if engine in _SINGLE_PRECISION else None
    if chosen is not None:
        _single_body(chosen, again or make)
    shown = shows_progress(progress)
    maker = RunMaker(folder, batch_size=batch_size, in_step=in_step, seed=seed, shown=shown, native=again)
    sizes: dict[str, Any] = {"replicates": replicates, "evaluations": evaluations, "ahead": ahead}
    folder.mkdir(parents=True, exist_ok=True)
    with RunLock(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore", TaskWarning)  # the runs on one body are meant to have one task
        main = maker.compare("", bodies, {label: label for label in algorithms}, **sizes)
        mapped = typical_map(main) if chosen is None else chosen
        task, alone = _single_body(mapped, again or make)
        sizes = {"replicates": single_replicates, "evaluations": single_evaluations, "ahead": 1}
        single = replace(maker, native=None).compare(f"body-{task}", alone, {CMA: CMA}, **sizes)
        later = pilot = None
        if followups:
            sizes = {"replicates": followups, "evaluations": evaluations, "ahead": ahead}
            later = maker.compare("followup", bodies, FOLLOWUPS, **sizes)
        if pilots:
            pilot = _run_pilot(maker, make, pilots, ahead)
        elites = best_elites(mapped, SHARE, least=TOP)
        transfer = evaluate_transfer(mapped, make(tasks=mapped.tasks), elites, folder / "transfer.npz", progress=shown)
        data = HexapodMeasurements(main, single, mapped, transfer, task, followups=later, pilot=pilot)
        return _write_outputs(data, algorithms, folder, command)


# Engines that compute in 32 bits; their maps are simulated again.
_SINGLE_PRECISION = ("warp", "mjx")
_PILOT_BODIES, _PILOT_EVALUATIONS = 200, 100_000


def _run_pilot(maker: RunMaker, make: Any, replicates: int, ahead: int) -> Comparison:
    """Return a comparison of Multi-task MAP-Elites with and without asking batches ahead."""
    bodies = make(tasks=_PILOT_BODIES)
    found: dict[str, list[Result]] = {}
    settings: dict[str, Any] = {}
    for number in (1, ahead):
        label = f"{number} asked at once"
        sizes = {"replicates": replicates, "evaluations": _PILOT_EVALUATIONS, "ahead": number}
        part = maker.compare("pilot", bodies, {label: BANDIT}, **sizes)
        found |= part.results
        settings = part.settings
    return Comparison(results=found, settings=settings)


def verdicts(out: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Return the text and the outcome of each claim, for the experiment in a folder."""
    with (Path(out) / "claims.csv").open(encoding="utf-8", newline="") as file:
        return [(row["claim"], row["outcome"]) for row in csv.DictReader(file)]


def _single_body(mapped: Result, make: Any) -> tuple[int, Domain]:
    """Return the body of the single runs, the same for all seeds: its index in the map, and its domain."""
    task = int(np.random.default_rng(0).integers(len(mapped)))
    return task, make(tasks=np.asarray(mapped.tasks.descriptors)[[task]])


def _read_map(path: str | os.PathLike[str], engine: str, yaw: bool) -> Result:
    """Load a saved map and check that its fitness is comparable with the experiment's."""
    result = load(path)
    about = result.settings
    if about.get("problem") != "hexapod" or about.get("algorithm", {}).get("name") != BANDIT:
        raise InvalidValueError(
            f"large_map must be a run of {BANDIT} on the hexapod, but {str(path)!r} is one of "
            f"{about.get('algorithm', {}).get('name')} on {about.get('problem')}"
        )
    options = about.get("options", {})
    if options.get("yaw") != bool(yaw) or options.get("damage"):
        raise InvalidValueError(
            f"large_map must have the rules of the experiment, yaw {bool(yaw)} and no damage, but {str(path)!r} has "
            f"yaw {options.get('yaw')} and damage {options.get('damage')}"
        )
    physics = dict.fromkeys(_SINGLE_PRECISION, "mujoco")  # the same physics up to rounding
    if physics.get(options.get("engine", ""), options.get("engine")) != physics.get(engine, engine):
        raise InvalidValueError(
            f"large_map must be simulated by {engine}, but {str(path)!r} is simulated by {options.get('engine')}"
        )
    if not result.solved.any():
        raise InvalidValueError(f"large_map must have elites, but {str(path)!r} has none")
    return result


def _write_outputs(data: HexapodMeasurements, algorithms: list[str], folder: Path, command: str | None) -> Path:
    """Write the page, the figures and the tables."""
    # Imported late because matplotlib is slow to import.
    from taskelites.experiments.paper.hexapod.figure import figure, map_figure

    for place, comparison in ((folder, data.comparison), (folder / "single", data.single)):
        comparison.save(place)
    tables = {
        "claims": _claim_frame(data),
        "single": data.single_table,
        "genes": data.genes,
        "bodies": data.bodies,
        "transfer": transfer_table(data),
        "replicates": run_table(data.comparison),
        "curves": run_curves(data.comparison),
        "single/replicates": run_table(data.single),
        "single/curves": run_curves(data.single),
    }
    for name, part in (("followups", data.followups), ("pilot", data.pilot)):
        if part is not None:
            tables |= {name: run_table(part), f"{name}-curves": run_curves(part)}
    for name, frame in tables.items():
        write_csv(folder / f"{name}.csv", frame)
    save_figure(figure(data, algorithms), folder / "hexapod")
    save_figure(map_figure(data), folder / "hexapod-map")
    page = folder / "hexapod.md"
    write_text(page, page_text(data, algorithms, command))
    return page


def _claim_frame(data: HexapodMeasurements) -> "pd.DataFrame":
    import pandas as pd

    rows = []
    for claim in CLAIMS:
        outcome, figures = claim.check(data)
        rows.append({"claim": claim.text, "criterion": claim.criterion, "figures": figures, "outcome": outcome})
    return pd.DataFrame(rows)
