"""The paper's hexapod experiment, whole: four algorithms, CMA-ES on one body, what a map tells, figures and a page.

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
from taskelites.experiments.paper.hexapod.claims import BANDIT, CLAIMS, CMA, FOLLOWUPS, FOUR, TOP, Measured
from taskelites.experiments.paper.hexapod.map import SHARE
from taskelites.experiments.paper.hexapod.page import page_text, transfer_table
from taskelites.experiments.paper.hexapod.runs import RunMaker, run_curves, run_table, typical_map
from taskelites.problem.problem import Domain
from taskelites.process import shows_progress
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
    """Run section 5 of the paper and write its figures and a page on its claims.

    At the paper's sizes it takes about a week on two processors; `engine="warp"` is for one GPU. It may be interrupted
    at any time: the same again, into the same folder, goes on.

    Args:
        out: a folder. Runs of this experiment that it holds are not made again; of finished ones, the small files in
            its folder `finished` are enough.
        replicates: of each algorithm.
        evaluations: of each run.
        tasks: how many bodies, or their lengths.
        engine: the simulator, as for `te.domain("hexapod")`. "warp" and "mjx" compute in 32 bits: each final map is
            then simulated again by "mujoco", and that is what tables and tests use.
        yaw: whether turning ends a walk, as for `te.domain("hexapod")`.
        threads: of the simulator, as for `te.domain("hexapod")`.
        device: of "warp", as for `te.domain("hexapod")`.
        batch_size: of each run.
        ahead: batches that are asked from one state, as for `te.solve`; by default 16 with "warp", else 1.
        in_step: runs of one algorithm that are made together, and kept in one file.
        single_replicates: runs of CMA-ES on one body, which is drawn from those of the map. With "warp" and "mjx" they
            are simulated by "mujoco": a generation of 14 walks leaves a GPU idle.
        single_evaluations: of each of these runs.
        beside: algorithms that take part and are not in the paper, such as "auto,random".
        followup_replicates: runs of each of the algorithms of two later papers, MONET (as it is, and tuned for the
            hexapod) and Parametric-task MAP-Elites; by default 5 with "warp", else none.
        pilot_replicates: runs of mt-map-elites with and without asking ahead, on 200 bodies with 100,000 evaluations;
            by default 10 where batches are asked ahead, else none.
        large_map: a run of mt-map-elites on the hexapod (its folder or file), of which genes, transfer and bodies are
            shown; by default that of the comparison with the median final value.
        seed: of the first replicate.
        command: how this was called, for the page.
        progress: whether to show it; by default, in a terminal.

    Returns:
        The page, `hexapod.md`; beside it are the figures `hexapod` and `hexapod-map` as PNG and PDF, the tables as CSV,
        the runs, and in `single` the tables of those of CMA-ES on one body.

    Raises:
        ValueError: before any work, if an argument is wrong.
        Interrupted: after Ctrl-C; what there is stays in `out`.
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
    label_algorithms(algorithms)  # refused now, not after days
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
        warnings.simplefilter("ignore", TaskWarning)  # that one task is few is what a part of this is about
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
            pilot = _pilot(maker, make, pilots, ahead)
        elites = best_elites(mapped, SHARE, least=TOP)
        transfer = evaluate_transfer(mapped, make(tasks=mapped.tasks), elites, folder / "transfer.npz", progress=shown)
        now = Measured(main, single, mapped, transfer, task, followups=later, pilot=pilot)
        return _write(now, algorithms, folder, command)


# What computes in 32 bits; its maps are simulated again.
_SINGLE_PRECISION = ("warp", "mjx")
_PILOT_BODIES, _PILOT_EVALUATIONS = 200, 100_000


def _pilot(maker: RunMaker, make: Any, replicates: int, ahead: int) -> Comparison:
    """Runs of Multi-task MAP-Elites, some with one batch after the other, some with several asked ahead."""
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
    """Each claim and what became of it, of the experiment in a folder."""
    with (Path(out) / "claims.csv").open(encoding="utf-8", newline="") as file:
        return [(row["claim"], row["outcome"]) for row in csv.DictReader(file)]


def _single_body(mapped: Result, make: Any) -> tuple[int, Domain]:
    """The body of the single runs, by its number in the map, the same for all of them whatever their seeds."""
    task = int(np.random.default_rng(0).integers(len(mapped)))
    return task, make(tasks=np.asarray(mapped.tasks.descriptors)[[task]])


def _read_map(path: str | os.PathLike[str], engine: str, yaw: bool) -> Result:
    """A saved map, if its fitness is what the experiment's is."""
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
    physics = dict.fromkeys(_SINGLE_PRECISION, "mujoco")  # the same, up to rounding
    if physics.get(options.get("engine", ""), options.get("engine")) != physics.get(engine, engine):
        raise InvalidValueError(
            f"large_map must be simulated by {engine}, but {str(path)!r} is by {options.get('engine')}"
        )
    if not result.solved.any():
        raise InvalidValueError(f"large_map must have elites, but {str(path)!r} has none")
    return result


def _write(now: Measured, algorithms: list[str], folder: Path, command: str | None) -> Path:
    """The page, the figures and the tables."""
    # Late, since matplotlib is slow to start.
    from taskelites.experiments.paper.hexapod.figure import figure, map_figure

    for place, comparison in ((folder, now.comparison), (folder / "single", now.single)):
        comparison.save(place)
    tables = {
        "claims": _claims(now),
        "single": now.single_table,
        "genes": now.genes,
        "bodies": now.bodies,
        "transfer": transfer_table(now),
        "replicates": run_table(now.comparison),
        "curves": run_curves(now.comparison),
        "single/replicates": run_table(now.single),
        "single/curves": run_curves(now.single),
    }
    for name, part in (("followups", now.followups), ("pilot", now.pilot)):
        if part is not None:
            tables |= {name: run_table(part), f"{name}-curves": run_curves(part)}
    for name, frame in tables.items():
        write_text(folder / f"{name}.csv", frame.to_csv(index=False))
    save_figure(figure(now, algorithms), folder / "hexapod")
    save_figure(map_figure(now), folder / "hexapod-map")
    page = folder / "hexapod.md"
    write_text(page, page_text(now, algorithms, command))
    return page


def _claims(now: Measured) -> "pd.DataFrame":
    import pandas as pd

    rows = []
    for claim in CLAIMS:
        outcome, figures = claim.check(now)
        rows.append({"claim": claim.text, "criterion": claim.criterion, "figures": figures, "outcome": outcome})
    return pd.DataFrame(rows)
