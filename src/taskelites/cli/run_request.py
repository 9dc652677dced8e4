"""The arguments of `taskelites run`, which the run folder stores for `resume`, `replay`, `watch` and `report`."""

import argparse
import contextlib
import os
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from taskelites.cli.values import (
    find_algorithm,
    make_algorithm,
    make_domain,
    parse_setting,
    parse_specification,
    setting_names,
)
from taskelites.errors import InvalidValueError, MissingFileError
from taskelites.problem.problem import Domain
from taskelites.runs import read_plan

EVALUATION = ("workers", "on_error", "retries", "timeout", "mode", "samples")


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """The arguments of a run on the command line, as plain values.

    Attributes:
        domain: NAME or module:name.
        algorithm: NAME, NAME(SETTING=VALUE, ...) or module:name.
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
            return cls(**plan["request"])
        except TypeError as error:
            raise InvalidValueError(
                f"{str(folder / 'run.json')!r} has an invalid request ({error}); was it edited?"
            ) from None

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
        others = {key: value for key, value in given.items() if key not in settings}
        option = f"with --algorithm {name}, --set"
        return algorithm, make_domain(self.domain, others, settings, option, tasks=self.tasks, dim=self.dim)

    def evaluation_options(self) -> dict[str, Any]:
        """Return the keyword arguments of `te.solve` for evaluation, except for Ray."""
        return {name: value for name in EVALUATION if (value := getattr(self, name)) is not None}

    def command(self) -> str:
        """Return the command that repeats the run.

        Example:
            >>> RunRequest(domain="arm", set=["tournament=50"], evaluations=100_000, seed=1, folder="/").command()
            'taskelites run arm --set tournament=50 --evaluations 100000 --seed 1'
        """
        words = ["taskelites", "run", self.domain]
        for field in fields(self):
            value = getattr(self, field.name)
            option = f"--{field.name.replace('_', '-')}"
            if field.name == "set":
                words += [word for text in value for word in (option, text)]
            elif field.name not in ("domain", "folder", "no_report") and value != field.default:
                words += [option, str(value)]
        return shlex.join(words)
