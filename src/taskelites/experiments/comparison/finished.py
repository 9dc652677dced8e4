"""Storage of finished runs of one algorithm in one small file, with the data for tables, tests and curves.

Solutions, which are most of the size of a result, are stored for one run only. So the runs of a whole experiment are
small enough to be copied between machines and committed next to the page about them.
"""

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taskelites.errors import InvalidValueError
from taskelites.problem.tasks import Tasks
from taskelites.results.result import Result
from taskelites.storage import check_format, write_arrays

FORMAT = "taskelites-finished-runs"
FORMAT_VERSION = 1
# The history columns that comparisons need.
_COLUMNS = ("evaluations", "seconds", "coverage", "mean", "lowest")


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
    write_arrays(path, {"about": np.array(json.dumps(about)), **arrays})


def load_runs(path: Path, tasks: Tasks) -> FinishedRuns:
    """Read runs that `save_runs` wrote.

    Args:
        path: path of the file.
        tasks: the tasks of the runs; the file contains their digest only.

    Raises:
        ValueError: if the file is damaged, has another format, or its runs have other tasks.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays["about"]))
        kind, version, digest = about["format"], int(about["version"]), about["tasks"]
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise InvalidValueError(f"{str(path)!r} is damaged or holds no finished runs ({error})") from None
    check_format(path, kind, version, expected=FORMAT, newest=FORMAT_VERSION)
    if digest != tasks.digest:
        raise InvalidValueError(f"{str(path)!r} holds runs on other tasks than this experiment; name a new folder")
    shape = (len(tasks), about["dim"])
    results = []
    for i, settings in enumerate(about["runs"]):
        solutions = arrays["solutions"] if i == about["whole"] else np.full(shape, np.nan)
        results.append(
            Result(
                solutions=solutions,
                fitness=arrays["fitness"][i],
                tasks=tasks,
                evaluations=about["evaluations"][i],
                task_evaluations=np.zeros(len(tasks), int),  # not stored
                last_improved=np.zeros(len(tasks), int),
                failed=about["failed"][i],
                history={name: arrays[f"history_{name}"][i] for name in _COLUMNS},
                settings=settings,
                corrected=arrays["corrected"][i] if "corrected" in arrays else None,
            )
        )
    return FinishedRuns(results, about["settings"])
