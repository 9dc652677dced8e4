"""Find runs on disk: the domain of a run, and all results below a path."""

import argparse
import contextlib
import inspect
import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from taskelites.cli.run_request import RunRequest, settings_of_algorithm
from taskelites.cli.user_code import is_own
from taskelites.domains import DOMAINS
from taskelites.domains import domain as make_domain
from taskelites.errors import InvalidValueError, MissingFileError
from taskelites.experiments.comparison.comparison import read_settings, run_folders, runs_of
from taskelites.problem.problem import Domain
from taskelites.problem.tasks import Box
from taskelites.results.result import Result
from taskelites.runs import read_plan

# Options of domains for display. They override the options of the run, whose simulator may not be installed here.
_OPTIONS_FOR_DISPLAY = {"hexapod": {"engine": "mujoco"}}


@contextlib.contextmanager
def domain_of(folder: Path, result: Result, options: argparse.Namespace) -> Iterator[Domain]:
    """Provide the domain of a run: the user's, or the built-in one that the settings of the result name.

    Args:
        folder: run folder.
        result: result of the run.
        options: the options of the command, as for `RunRequest.allowed`.

    Raises:
        ValueError: if the domain is not built in and the user gave none, or if it has other tasks.
    """
    place = next((place for place in (folder, folder.parent) if RunRequest.started_by_command(place)), None)
    request = None if place is None else RunRequest.of_run(place, str(place))
    if options.domain is None and (request is None or not is_own(request.domain)):
        yield _with_tasks_of(_built_in_domain(result, options.run), result)
        return
    if request is None:
        request = RunRequest(domain=options.domain, set=[], evaluations=result.evaluations, folder=os.getcwd())
    with (request := request.allowed(options, "domain")).in_its_folder():
        yield _with_tasks_of(request.make_domain(settings_of_algorithm(result.settings)), result)


def _with_tasks_of(domain: Domain, result: Result) -> Domain:
    """Return the domain with the tasks of the result, or raise if it has different tasks."""
    if isinstance(domain.tasks, Box):  # a run on a continuous task space chooses its own tasks
        if domain.tasks.dim != result.tasks.dim or not isinstance(domain, Domain):
            raise InvalidValueError(
                "the tasks of the domain are not those of the run; the domain must not change after the run"
            )
        return replace(domain, tasks=result.tasks, optimum=None, worst=None)
    if len(domain.tasks) != len(result) or domain.tasks.digest != result.tasks.digest:
        raise InvalidValueError(
            "the tasks of the domain are not those of the run; the domain must not change after the run"
        )
    return domain


def _built_in_domain(result: Result, run: str) -> Domain:
    """Return the built-in domain that the settings of a result name, with the options of the run."""
    name, options = result.settings.get("problem"), result.settings.get("options")
    if name not in DOMAINS or not isinstance(options, dict):
        raise InvalidValueError(
            f"the result in {run!r} is of {name!r}, which is not a built-in domain, and it was not made by "
            "`taskelites run`; give its domain with --domain module:name or --domain file.py:name"
        )
    accepted = inspect.signature(DOMAINS[name]).parameters
    given = {key: _restore_keys(value) for key, value in options.items() if key in accepted}
    if "dim" in accepted:
        given["dim"] = result.solutions.shape[1]
    return make_domain(name, **(given | {"tasks": result.tasks} | _OPTIONS_FOR_DISPLAY.get(name, {})))


def _restore_keys(value: Any) -> Any:
    """Convert the keys of a dict back to integers, which JSON stores as text."""
    if isinstance(value, dict):
        return {int(inner) if inner.isdecimal() else inner: entry for inner, entry in value.items()}
    return value


def relative_to_cwd(path: Path) -> Path:
    """Return a path, relative to the current folder if it is inside."""
    with contextlib.suppress(ValueError):
        return path.relative_to(Path.cwd())
    return path


def runs_in(source: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """Yield the results below a path.

    Args:
        source: a run folder, the folder of a replicate or a comparison, or a result file.

    Yields:
        The columns that identify the run ("algorithm", "replicate"; none for a single run), and the path of its result.
    """
    if not source.exists():
        raise MissingFileError(f"there is no run {str(source)!r}")
    if (source / "comparison.json").is_file():
        settings = read_settings(source)
        for label in settings["algorithms"]:
            place = runs_of(source, label)
            _warn_if_missing(f"{label}: ", len(run_folders(place)), settings["replicates"])
            for path in run_folders(place):
                yield {"algorithm": label, "replicate": _replicate_number(path)}, path
        return
    replicates = [] if (source / "result.npz").is_file() or source.is_file() else run_folders(source)
    if replicates:
        started = sum(path.name.removeprefix("replicate-").isdecimal() for path in source.glob("replicate-*"))
        plan = (read_plan(source) or {}).get("plan") or {}
        _warn_if_missing("", len(replicates), plan.get("replicates") or started)
        for path in replicates:
            yield {"replicate": _replicate_number(path)}, path
        return
    if source.is_dir() and not (source / "result.npz").is_file() and read_plan(source) is not None:
        raise MissingFileError(
            f"the run in {str(source)!r} has no result yet, since it has neither ended nor been stopped with Ctrl-C; "
            "continue it with `taskelites resume`"
        )
    yield {}, source


def _replicate_number(path: Path) -> int:
    return int(path.name.removeprefix("replicate-"))


def _warn_if_missing(whose: str, there: int, wanted: int) -> None:
    if there < wanted:
        warnings.warn(f"{whose}{there} of {wanted} runs have a result; the others are ignored", stacklevel=3)
