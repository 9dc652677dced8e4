"""Storage of finished runs of one algorithm in one small file, with the data for tables, tests and curves.

Solutions, which are most of the size of a result, are stored for one run only. So the runs of a whole experiment are
small enough to be copied between machines and committed next to the page about them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError, whole_number
from taskelites.problem.tasks import Tasks
from taskelites.results.result import Result
from taskelites.storage import ArrayFile, check_format, reading, write_arrays

FORMAT = "taskelites-finished-runs"
FORMAT_VERSION = 1
# The history columns that comparisons need.
_COLUMNS = ("evaluations", "seconds", "coverage", "mean", "lowest")
_LAYOUT = {
    **{f"history_{name}": ("iuf", ("runs", "points")) for name in _COLUMNS},
    "fitness": ("f", ("runs", "tasks")),
    "corrected": ("f", ("runs", "tasks")),
    "solutions": ("f", ("tasks", "dimensions")),
}


@dataclass(frozen=True)
class FinishedRuns:
    """Finished runs of one algorithm.

    Attributes:
        results: one result per run. Solutions are NaN, except those of one run.
        settings: settings of the comparison that the runs belong to.
    """

    results: list[Result]
    settings: dict[str, Any]


def save_runs(path: Path, runs: FinishedRuns, whole: int | None = None) -> None:
    """Write runs to a file. All must have the same tasks and logged points.

    Args:
        path: path of the file.
        runs: the runs to write.
        whole: index of the run whose solutions are stored; None for none.
    """
    results = runs.results
    arrays = {f"history_{name}": np.array([run.history[name] for run in results]) for name in _COLUMNS}
    arrays["fitness"] = np.array([run.fitness for run in results])
    if all(run.corrected is not None for run in results):
        arrays["corrected"] = np.array([run.corrected for run in results])
    if whole is not None:
        arrays["solutions"] = results[whole].solutions
    about = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "settings": runs.settings,
        "runs": [run.settings for run in results],
        "evaluations": [run.evaluations for run in results],
        "failed": [run.failed for run in results],
        "dim": results[0].solutions.shape[1],
        "tasks": results[0].tasks.digest,
        "whole": whole,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_arrays(path, arrays, about)


def load_runs(path: Path, tasks: Tasks) -> FinishedRuns:
    """Read runs that `save_runs` wrote.

    Args:
        path: path of the file.
        tasks: the tasks of the runs; the file contains their digest only.

    Raises:
        StorageError: if the file is damaged, or has another format.
        ValueError: if its runs have other tasks.
    """
    remedy = "delete it, and run the same experiment again, which makes these runs again"
    with reading(path, "holds no finished runs", remedy), path.open("rb") as stream:
        members = ArrayFile(stream)
        about = members.document()
        check_format(path, about, expected=FORMAT, newest=FORMAT_VERSION)
        arrays = members.read(_LAYOUT, optional=("corrected", "solutions"))
        runs, digest = _from_contents(arrays, about, tasks), about["tasks"]
    if digest != tasks.digest:
        raise InvalidValueError(f"{str(path)!r} holds runs on other tasks than this experiment; name a new folder")
    return runs


def _from_contents(arrays: dict[str, np.ndarray], about: dict[str, Any], tasks: Tasks) -> FinishedRuns:
    """Return the runs in a file, after a check of its values."""
    number, whole = len(arrays["fitness"]), about["whole"]
    settings, runs, dim = about["settings"], about["runs"], whole_number("its dim", about["dim"], least=1)
    if not all(
        isinstance(each, dict) for each in [settings, settings["algorithms"], *settings["algorithms"].values(), *runs]
    ):
        raise InvalidTypeError("its settings must be JSON objects")
    if whole is not None:
        whole = whole_number("its whole", whole, least=0, most=number - 1)
    results = []
    columns = zip(runs, about["evaluations"], about["failed"], arrays["fitness"], strict=True)
    for i, (settings_of_run, evaluations, failed, fitness) in enumerate(columns):
        solutions = arrays["solutions"] if i == whole else np.full((len(fitness), dim), np.nan)
        results.append(
            Result(
                solutions=solutions,
                fitness=fitness,
                tasks=tasks,
                evaluations=whole_number("its evaluations", evaluations, least=0),
                task_evaluations=np.zeros(len(fitness), int),  # not stored
                last_improved=np.zeros(len(fitness), int),
                failed=whole_number("its failed", failed, least=0),
                history={name: arrays[f"history_{name}"][i] for name in _COLUMNS},
                settings=settings_of_run,
                corrected=arrays["corrected"][i] if "corrected" in arrays else None,
            )
        )
    return FinishedRuns(results, settings)
