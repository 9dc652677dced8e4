"""The arguments of `taskelites run`, which the run folder stores for `resume`, `replay`, `watch` and `report`."""

import argparse
import contextlib
import os
import shlex
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self, get_type_hints

from taskelites.cli.user_code import is_own
from taskelites.cli.values import (
    find_algorithm,
    make_algorithm,
    make_domain,
    parse_number,
    parse_setting,
    parse_specification,
    setting_names,
)
from taskelites.errors import InvalidTypeError, InvalidValueError, MissingFileError, StorageError
from taskelites.problem.problem import Domain
from taskelites.runs import read_plan

_FLAGS = ("no_report", "allow_failures")
EVALUATION = ("workers", "on_error", "retries", "timeout", "mode", "samples")


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """The arguments of a run on the command line, as plain values.

    Attributes:
        domain: NAME, module:name or file.py:name, optionally with options as in NAME(OPTION=VALUE, ...).
        algorithm: the same for the algorithm and its settings.
        set: NAME=VALUE, one entry per `--set`.
        tasks: a number of tasks, or a file.
        folder: working directory of the command; files and modules are relative to it.
        ray: address of a Ray cluster.

    The other attributes are the command-line options of the same name.
    """

    domain: str
    algorithm: str = "auto"
    set: list[str]
    tasks: str | None = None
    dim: int | None = None
    evaluations: int
    batch_size: int = 64
    ahead: int = 1
    seed: int = 0
    replicates: int | None = None
    samples: int | None = None
    workers: int | str | None = None
    ray: str | None = None
    on_error: str | None = None
    retries: int | None = None
    timeout: float | None = None
    mode: str | None = None
    checkpoint_every: str | None = None
    no_report: bool = False
    allow_failures: bool = False
    folder: str

    @classmethod
    def from_options(cls, options: argparse.Namespace) -> Self:
        """Return the request for the parsed options of `taskelites run`."""
        names = (field.name for field in fields(cls) if field.name != "folder")
        return cls(**{name: getattr(options, name) for name in names}, folder=os.getcwd())

    @classmethod
    def of_run(cls, folder: Path, named: str) -> Self:
        """Return the request with which the run in a folder was started or last resumed.

        Args:
            folder: run folder.
            named: the folder as the user wrote it, for error messages.

        Raises:
            FileNotFoundError: if the folder has no run.
            ValueError: if the run was started in Python.
            OSError: if the request is damaged.
        """
        if not folder.is_dir():
            raise MissingFileError(f"there is no run folder {named!r}")
        plan = read_plan(folder)
        if plan is None:
            raise MissingFileError(f"{named!r} is not a run folder: it has no run.json")
        if not isinstance(plan.get("request"), dict):
            raise InvalidValueError(
                f"the run in {named!r} was started in Python, so the command line does not know its fitness; in its "
                "program, te.solve(..., out=..., resume=True) with the same arguments resumes it, and "
                "te.analysis.failures lists failed evaluations"
            )
        try:
            request = cls(**plan["request"])
            request.check_types()
        except TypeError as error:
            raise StorageError(
                f"{str(folder / 'run.json')!r} has an invalid request ({error}); was it edited?"
            ) from None
        return request

    @classmethod
    def started_by_command(cls, folder: Path) -> bool:
        """Return whether the run in a folder was started by `taskelites run`."""
        return isinstance((read_plan(folder) or {}).get("request"), dict)

    def check_types(self) -> None:
        """Raise an InvalidTypeError if a value has another type than the command would give it."""
        for name, kinds in _TYPES.items():
            value = getattr(self, name)
            if not isinstance(value, kinds) or (isinstance(value, bool) and name not in _FLAGS):
                raise InvalidTypeError(f"{name} is {value!r}")
            for text in value if name == "set" else [value]:
                if (name == "set" or isinstance(text, str)) and not _is_text(text):
                    raise InvalidTypeError(f"{name} is {value!r}")

    def allowed(self, options: argparse.Namespace, *used: str) -> Self:
        """Return the request as a command may carry it out, in the current folder unless the user trusts the run.

        A run folder can come from anyone, and the domain of a request is code that will be called. So the request may
        name domains and algorithms that ship with the library; the user names any other, or trusts the folder.

        Args:
            options: the options of the command: `run`, `trust`, `domain` and, for some commands, `algorithm`.
            used: what the command uses of the request and the user did not give: "domain", "algorithm", "ray".

        Raises:
            ValueError: if the request names other code, and the user does not.
        """
        given = {name: value for name in ("domain", "algorithm") if (value := getattr(options, name, None)) is not None}
        if options.trust:
            if given:
                raise InvalidValueError(
                    f"--trust takes everything from the run folder, so it cannot be combined with "
                    f"--{next(iter(given))}; leave one of them out"
                )
            return self
        foreign = [name for name in used if name not in given and self._is_foreign(name)]
        if foreign:
            raise InvalidValueError(self._refusal(options.run, foreign))
        return replace(self, **given, folder=os.getcwd(), tasks=self._tasks_from_anywhere())

    def _is_foreign(self, name: str) -> bool:
        """Return whether a value names something beyond this library, and for Ray beyond this computer's cluster."""
        value = getattr(self, name)
        return value not in (None, "auto") if name == "ray" else is_own(value)

    def _tasks_from_anywhere(self) -> str | None:
        """Return the tasks, with the path of a file completed by the folder of the request."""
        if self.tasks is None:
            return None
        try:
            return str(parse_number(self.tasks))
        except argparse.ArgumentTypeError:
            return str(Path(self.folder) / self.tasks)

    def _refusal(self, run: str, foreign: list[str]) -> str:
        """Return what a command would have to run to carry out the request, and what the user can do."""
        code = [name for name in foreign if name != "ray"]
        would = []
        if code:
            with_options = self.command_words("set", "tasks", "dim")
            would.append(
                f"import {' and '.join(repr(getattr(self, name)) for name in code)} from {self.folder!r} and run "
                + ("them" if len(code) > 1 else "it")
                + (f" with {_printable(with_options)}" if with_options else "")
            )
        if "ray" in foreign:
            would.append(f"connect to the Ray cluster {self.ray!r}, which could then run code here")
        yours = _printable(self.command_words(*foreign)) + (" (looked for in the current folder)" if code else "")
        return (
            f"a run folder may come from anyone, so nothing that {run!r} names is run unasked. This command would "
            f"{' and '.join(would)}. If that is yours, name it: {yours}. If you trust the folder, add --trust"
        )

    def plain(self) -> dict[str, Any]:
        """Return the attributes as a dict of plain values, which the run folder stores."""
        return asdict(self)

    @contextlib.contextmanager
    def in_its_folder(self) -> Iterator[None]:
        """Change to the working directory of the request while the context is open, if it still exists."""
        with contextlib.chdir(self.folder) if Path(self.folder).is_dir() else contextlib.nullcontext():
            yield

    def problem(self) -> tuple[Any, Domain]:
        """Return the algorithm and the domain."""
        name, inline = parse_specification(self.algorithm)
        maker = find_algorithm("--algorithm", name)
        settings = setting_names(maker)
        given = dict(parse_setting(text) for text in self.set)
        algorithm = make_algorithm(
            name, maker, inline | {key: value for key, value in given.items() if key in settings}
        )
        return algorithm, self.make_domain(settings, f"with --algorithm {name}, --set")

    def make_domain(self, algorithm_settings: Collection[str], option: str = "--set") -> Domain:
        """Return the domain.

        Args:
            algorithm_settings: names of the settings of the algorithm; those of `--set` are not options of the domain.
            option: the option that gave the options of the domain, for error messages.
        """
        name, options = parse_specification(self.domain, "DOMAIN")
        given = dict(parse_setting(text) for text in self.set)
        options = {key: value for key, value in given.items() if key not in algorithm_settings} | options
        domain: Domain = make_domain(name, options, set(algorithm_settings), option, tasks=self.tasks, dim=self.dim)
        return domain

    def evaluation_options(self) -> dict[str, Any]:
        """Return the keyword arguments of `te.solve` for evaluation, except for Ray."""
        return {name: value for name in EVALUATION if (value := getattr(self, name)) is not None}

    def command(self) -> str:
        """Return the command that repeats the run.

        Example:
            >>> RunRequest(domain="arm", set=["tournament=50"], evaluations=100_000, seed=1, folder="/").command()
            'taskelites run arm --set tournament=50 --evaluations 100000 --seed 1'
        """
        names = (field.name for field in fields(self) if field.name not in ("domain", "folder", *_FLAGS))
        return shlex.join(["taskelites", "run", self.domain, *self.command_words(*names)])

    def words_for_resume(self) -> list[str]:
        """Return the options that `resume` needs to carry out this request, as words of a command."""
        return self.command_words(*(name for name in ("domain", "algorithm", "ray") if self._is_foreign(name)))

    def command_words(self, *names: str) -> list[str]:
        """Return the options with these names as words of a command; those with their default value are left out."""
        default = {field.name: field.default for field in fields(self)}
        words = []
        for name in names:
            value = getattr(self, name)
            if name == "set":
                words += [word for text in value for word in ("--set", text)]
            elif value != default[name]:
                words += [f"--{name.replace('_', '-')}", str(value)]
        return words


_TYPES: dict[str, Any] = get_type_hints(RunRequest) | {"set": list, "timeout": int | float | None}


def settings_of_algorithm(about: Any) -> set[str]:
    """Return the names of the settings of an algorithm, without importing it.

    Args:
        about: the plan of a run, or the settings of a result.
    """
    algorithm = about.get("algorithm") if isinstance(about, dict) else None
    return set(algorithm) - {"name", "type"} if isinstance(algorithm, dict) else set()


def _is_text(value: Any) -> bool:
    """Return whether a value is a text that can be part of a command."""
    return isinstance(value, str) and "\0" not in value and value == value.encode(errors="ignore").decode()


def _printable(words: list[str]) -> str:
    """Return words as part of a command; a text that could control the terminal is escaped."""
    text = shlex.join(words)
    return text if text.isprintable() else repr(text)
