"""The paper's hexapod experiment, whole: four algorithms, CMA-ES on one body, what a map tells, figures and a page.

Mouret and Maguire, "Quality Diversity for Multi-task Optimization" (GECCO 2020), section 5.
"""

import csv
import os
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.analysis.choice import best_elites
from taskelites.analysis.transferring import evaluate_transfer
from taskelites.domains import domain
from taskelites.errors import TaskWarning, whole_number
from taskelites.experiments.comparison import read_settings, save_figure
from taskelites.experiments.hexapod_claims import BANDIT, CLAIMS, CMA, FOUR, TOP, Measured
from taskelites.experiments.hexapod_map import SHARE
from taskelites.experiments.hexapod_page import page_text, transfer_table
from taskelites.experiments.running import compare
from taskelites.problem import Domain
from taskelites.result import Result, load
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
    batch_size: int = 64,
    single_replicates: int = 20,
    single_evaluations: int = 100_000,
    sampling: bool = False,
    large_map: str | os.PathLike[str] | None = None,
    seed: int = 0,
    command: str | None = None,
    progress: bool | None = None,
) -> Path:
    """Run section 5 of the paper and write its figures and a page on its claims.

    At the paper's sizes it takes about a week on two processors. It may be interrupted at any time: the same again,
    into the same folder, goes on.

    Args:
        out: a folder. If it holds runs of this experiment already, they are not made again.
        replicates: of each algorithm.
        evaluations: of each run.
        tasks: how many bodies, or their lengths.
        engine: the simulator, as for `te.domain("hexapod")`.
        yaw: whether turning ends a walk, as for `te.domain("hexapod")`.
        threads: of the simulator, as for `te.domain("hexapod")`.
        batch_size: of each run.
        single_replicates: runs of CMA-ES on one body, which is drawn from those of the map.
        single_evaluations: of each of these runs.
        sampling: whether random sampling takes part, which it does not in the paper.
        large_map: a run of mt-map-elites on the hexapod (its folder or file), of which genes, transfer and bodies are
            shown; by default that of the comparison with the median final value.
        seed: of the first replicate.
        command: how this was called, for the page.
        progress: whether to show it; by default, in a terminal.

    Returns:
        The page, `hexapod.md`; beside it are the figures `hexapod` and `hexapod-map` as PNG and PDF, the tables as CSV,
        the runs, and in `single` those of CMA-ES on one body.

    Raises:
        ValueError: before any work, if an argument is wrong.
        Interrupted: after Ctrl-C; what there is stays in `out`.
    """
    make = partial(domain, "hexapod", engine=engine, yaw=yaw, threads=threads)
    bodies = make(tasks=tasks)
    chosen = None if large_map is None else _read_map(large_map, engine, yaw)
    whole_number("single_replicates", single_replicates, least=1)
    whole_number("single_evaluations", single_evaluations, least=1)
    folder = Path(out)
    if chosen is not None:
        _single_body(chosen, make, folder)  # refused now, not after days
    algorithms = [*FOUR, *(["random"] if sampling else [])]
    common: dict[str, Any] = {"batch_size": batch_size, "seed": seed, "progress": progress}
    shown = progress if progress is not None else sys.stderr is not None and sys.stderr.isatty()
    if shown:
        print(f"{len(bodies.tasks):,} bodies: {len(algorithms)} groups of {replicates} runs", file=sys.stderr)
    sizes: dict[str, Any] = {"evaluations": evaluations, "replicates": replicates}
    added = sampling and (folder / "comparison.json").exists()
    main = compare(bodies, algorithms=algorithms, out=folder, add=added, **sizes, **common)
    mapped = main.typical(BANDIT) if chosen is None else chosen
    task, alone = _single_body(mapped, make, folder)
    if shown:
        print(f"body {task} alone: {single_replicates} runs of {CMA}", file=sys.stderr)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TaskWarning)  # that one task is few is what this is about
        sizes = {"evaluations": single_evaluations, "replicates": single_replicates}
        single = compare(alone, algorithms=[CMA], out=folder / "single", **sizes, **common)
    with RunLock(folder):
        elites = best_elites(mapped, SHARE, least=TOP)
        transfer = evaluate_transfer(mapped, make(tasks=mapped.tasks), elites, folder / "transfer.npz", progress=shown)
        return _write(Measured(main, single, mapped, transfer, task), algorithms, folder, command)


def verdicts(out: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Each claim and what became of it, of the experiment in a folder."""
    with (Path(out) / "claims.csv").open(encoding="utf-8", newline="") as file:
        return [(row["claim"], row["outcome"]) for row in csv.DictReader(file)]


def _single_body(mapped: Result, make: Any, folder: Path) -> tuple[int, Domain]:
    """The body of the single runs, by its number in the map, the same for all of them whatever their seeds.

    Raises:
        ValueError: if there are single runs of another body.
    """
    task = int(np.random.default_rng(0).integers(len(mapped)))
    alone = make(tasks=np.asarray(mapped.tasks.descriptors)[[task]])
    place = folder / "single"
    if (place / "comparison.json").exists() and read_settings(place)["tasks"]["digest"] != alone.tasks.digest:
        raise ValueError(
            f"{str(place)!r} holds runs on another body than body {task} of this map: delete that folder, or name "
            "a new one for all"
        )
    return task, alone


def _read_map(path: str | os.PathLike[str], engine: str, yaw: bool) -> Result:
    """A saved map, if its fitness is what the experiment's is."""
    result = load(path)
    about = result.settings
    if about.get("problem") != "hexapod" or about.get("algorithm", {}).get("name") != BANDIT:
        raise ValueError(
            f"large_map must be a run of {BANDIT} on the hexapod, but {str(path)!r} is one of "
            f"{about.get('algorithm', {}).get('name')} on {about.get('problem')}"
        )
    options = about.get("options", {})
    if options.get("yaw") != bool(yaw) or options.get("damage"):
        raise ValueError(
            f"large_map must have the rules of the experiment, yaw {bool(yaw)} and no damage, but {str(path)!r} has "
            f"yaw {options.get('yaw')} and damage {options.get('damage')}"
        )
    physics = {"mjx": "mujoco"}  # the same, up to rounding
    if physics.get(options.get("engine", ""), options.get("engine")) != physics.get(engine, engine):
        raise ValueError(f"large_map must be simulated by {engine}, but {str(path)!r} is by {options.get('engine')}")
    if not result.solved.any():
        raise ValueError(f"large_map must have elites, but {str(path)!r} has none")
    return result


def _write(now: Measured, algorithms: list[str], folder: Path, command: str | None) -> Path:
    """The page, the figures and the tables."""
    # Late, since matplotlib is slow to start.
    from taskelites.experiments.hexapod_figure import figure, map_figure

    tables = {
        "claims": _claims(now),
        "single": now.single_table,
        "genes": now.genes,
        "bodies": now.bodies,
        "transfer": transfer_table(now),
    }
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
