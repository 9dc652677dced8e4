"""The domain of a run that is on disk, for commands that show it."""

import argparse
import contextlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from taskelites.cli.running import as_it_was, problem_of
from taskelites.domains import DOMAINS
from taskelites.domains import domain as make_domain
from taskelites.problem import Domain
from taskelites.result import Result
from taskelites.runs import read_plan

# With what a domain is made to be shown, whatever the run was made with: that machine may have had other simulators.
_SHOWN_WITH = {"hexapod": {"engine": "mujoco"}}


@contextlib.contextmanager
def domain_of(options: argparse.Namespace, folder: Path, result: Result) -> Iterator[Domain]:
    """The domain of a run: by the command that began it, or by its settings if it is one of ours.

    Raises:
        ValueError: if only the program that began the run has it, or if it is not the same any more.
    """
    with contextlib.ExitStack() as stack:
        place = next((place for place in (folder, folder.parent) if read_plan(place) is not None), None)
        origin = None if place is None else (read_plan(place) or {}).get("origin")
        command = origin.get("command") if isinstance(origin, dict) else None
        if isinstance(command, list) and command[:1] == ["run"]:
            options.run = str(place)
            before = stack.enter_context(as_it_was(options))
            before.set = before.set + [f"{key}={value}" for key, value in _SHOWN_WITH.get(before.domain, {}).items()]
            domain = problem_of(before)[1]
        else:
            domain = _one_of_ours(result, options.run)
        if len(domain.tasks) != len(result) or domain.tasks.digest != result.tasks.digest:
            raise ValueError("the tasks of the domain are not those of the run: it has been changed since")
        yield domain


def _one_of_ours(result: Result, run: str) -> Domain:
    """The domain that the settings of a result name, made with the options they hold."""
    name, options = result.settings.get("problem"), result.settings.get("options")
    if name not in DOMAINS or not isinstance(options, dict):
        raise ValueError(
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
