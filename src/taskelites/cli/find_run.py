"""What is on disk: the domain of a run, and the results below a path."""

import contextlib
import inspect
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from taskelites.cli.run_request import RunRequest
from taskelites.domains import DOMAINS
from taskelites.domains import domain as make_domain
from taskelites.errors import InvalidValueError, MissingFileError
from taskelites.experiments.comparison.comparison import read_settings, run_folders, runs_of
from taskelites.problem.problem import Domain
from taskelites.problem.tasks import Box
from taskelites.results.result import Result
from taskelites.runs import read_plan

# With what a domain is made to be shown, whatever the run was made with: that machine may have had other simulators.
_SHOWN_WITH = {"hexapod": {"engine": "mujoco"}}


@contextlib.contextmanager
def domain_of(folder: Path, named: str, result: Result) -> Iterator[Domain]:
    """Give the domain of a run: as the command that began it states it, or by its settings if it is one of ours.

    Args:
        folder: of the run.
        named: what the user calls it.
        result: of the run.

    Raises:
        ValueError: if only the program that began the run has it, or if it is not the same any more.
    """
    place = next((place for place in (folder, folder.parent) if _begun_by_command(place)), None)
    if place is None:
        yield _checked(_one_of_ours(result, named), result)
        return
    request = RunRequest.of_run(place, str(place))
    shown_with = [f"{key}={value}" for key, value in _SHOWN_WITH.get(request.domain, {}).items()]
    with request.in_its_folder():
        yield _checked(replace(request, set=request.set + shown_with).problem()[1], result)


def _begun_by_command(folder: Path) -> bool:
    """Return whether `taskelites run` made the run in a folder."""
    return isinstance((read_plan(folder) or {}).get("request"), dict)


def _checked(domain: Domain, result: Result) -> Domain:
    """Return the domain with the tasks of the result, or raise if it has others."""
    if isinstance(domain.tasks, Box):  # the run has chosen its tasks
        if domain.tasks.dim != result.tasks.dim or not isinstance(domain, Domain):
            raise InvalidValueError("the tasks of the domain are not those of the run: it has been changed since")
        return replace(domain, tasks=result.tasks, optimum=None, worst=None)
    if len(domain.tasks) != len(result) or domain.tasks.digest != result.tasks.digest:
        raise InvalidValueError("the tasks of the domain are not those of the run: it has been changed since")
    return domain


def _one_of_ours(result: Result, run: str) -> Domain:
    """The domain that the settings of a result name, made with the options they hold."""
    name, options = result.settings.get("problem"), result.settings.get("options")
    if name not in DOMAINS or not isinstance(options, dict):
        raise InvalidValueError(
            f"the result in {run!r} is of {name!r}, which is no domain that ships with taskelites, and no command "
            "`taskelites run` is beside it; only its own program can show it"
        )
    accepted = inspect.signature(DOMAINS[name]).parameters
    given = {key: _as_given(value) for key, value in options.items() if key in accepted}
    if "dim" in accepted:
        given["dim"] = result.solutions.shape[1]
    return make_domain(name, **(given | {"tasks": result.tasks} | _SHOWN_WITH.get(name, {})))


def _as_given(value: Any) -> Any:
    """An option, from how settings keep it: keys of dicts as text."""
    if isinstance(value, dict):
        return {int(inner) if inner.isdecimal() else inner: entry for inner, entry in value.items()}
    return value


def nearby(path: Path) -> Path:
    """The path, from here if it is below."""
    with contextlib.suppress(ValueError):
        return path.relative_to(Path.cwd())
    return path


def runs_in(source: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """The results below a path, and what tells each of them from the others."""
    if not source.exists():
        raise MissingFileError(f"there is no run {str(source)!r}")
    if (source / "comparison.json").is_file():
        settings = read_settings(source)
        for label in settings["algorithms"]:
            place = runs_of(source, label)
            _warn_of_missing(f"{label}: ", len(run_folders(place)), settings["replicates"])
            for path in run_folders(place):
                yield {"algorithm": label, "replicate": _number(path)}, path
        return
    replicates = [] if (source / "result.npz").is_file() or source.is_file() else run_folders(source)
    if replicates:
        begun = sum(path.name.removeprefix("replicate-").isdecimal() for path in source.glob("replicate-*"))
        plan = (read_plan(source) or {}).get("plan") or {}
        _warn_of_missing("", len(replicates), plan.get("replicates") or begun)
        for path in replicates:
            yield {"replicate": _number(path)}, path
        return
    if source.is_dir() and not (source / "result.npz").is_file() and read_plan(source) is not None:
        raise MissingFileError(
            f"the run in {str(source)!r} has no result yet; it gets one when it ends or is stopped with Ctrl-C, and "
            "`taskelites resume` goes on with it"
        )
    yield {}, source


def _number(path: Path) -> int:
    return int(path.name.removeprefix("replicate-"))


def _warn_of_missing(whose: str, there: int, wanted: int) -> None:
    if there < wanted:
        warnings.warn(f"{whose}{there} of {wanted} runs have a result; the others are left out", stacklevel=3)
