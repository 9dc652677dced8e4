"""What `taskelites run` was asked for, kept in the run folder so that other commands know it."""

import argparse
import contextlib
import os
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from taskelites.cli.values import algorithm_maker, make_algorithm, make_domain, pair, parameters, specification
from taskelites.errors import InvalidValueError, MissingFileError
from taskelites.problem.problem import Domain
from taskelites.runs import read_plan

EVALUATION = ("workers", "on_error", "retries", "timeout", "mode", "samples")


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """A run as the command line states it, in plain values.

    Attributes:
        domain: NAME or module:name.
        algorithm: NAME, NAME(SETTING=VALUE, ...) or module:name.
        set: NAME=VALUE, one for each `--set`.
        tasks: a number or a file.
        folder: the working directory, to which names of files and modules are relative.
        ray: address of a Ray cluster.

    The other attributes are the options of the same name.
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
        """Return what the options of `taskelites run` say."""
        names = (field.name for field in fields(cls) if field.name != "folder")
        return cls(**{name: getattr(options, name) for name in names}, folder=os.getcwd())

    @classmethod
    def of_run(cls, folder: Path, named: str) -> Self:
        """Return the request that the run in a folder was begun or last resumed with.

        Args:
            folder: of the run.
            named: what the user calls it.

        Raises:
            FileNotFoundError: if there is no run.
            ValueError: if it was begun in Python.
        """
        if not folder.is_dir():
            raise MissingFileError(f"there is no run folder {named!r}")
        plan = read_plan(folder)
        if plan is None:
            raise MissingFileError(f"{named!r} holds no run (no run.json is in it)")
        if not isinstance(plan.get("request"), dict):
            raise InvalidValueError(
                f"the run in {named!r} was begun in Python, and only its program has the fitness: there, "
                "te.solve(..., out=..., resume=True) with the same arguments goes on, and te.analysis.failures lists "
                "what failed"
            )
        try:
            return cls(**plan["request"])
        except TypeError as error:
            raise InvalidValueError(
                f"{str(folder / 'run.json')!r} does not say how the run was begun ({error})"
            ) from None

    def plain(self) -> dict[str, Any]:
        """Return what the run folder keeps."""
        return asdict(self)

    @contextlib.contextmanager
    def in_its_folder(self) -> Iterator[None]:
        """Work in the folder in which the request was made, if it still exists."""
        with contextlib.chdir(self.folder) if Path(self.folder).is_dir() else contextlib.nullcontext():
            yield

    def problem(self) -> tuple[Any, Domain]:
        """Return the algorithm and the domain."""
        name, inline = specification(self.algorithm)
        maker = algorithm_maker("--algorithm", name)
        own = parameters(maker)
        given = dict(pair(text) for text in self.set)
        algorithm = make_algorithm(name, maker, inline | {key: value for key, value in given.items() if key in own})
        others = {key: value for key, value in given.items() if key not in own}
        said = f"with --algorithm {name}, --set"
        return algorithm, make_domain(self.domain, others, own, said, tasks=self.tasks, dim=self.dim)

    def evaluation_options(self) -> dict[str, Any]:
        """Return the keywords of `te.solve` that say how to evaluate; Ray is not among them."""
        return {name: value for name in EVALUATION if (value := getattr(self, name)) is not None}

    def command(self) -> str:
        """Return the command that makes the run again.

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
