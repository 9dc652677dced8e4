"""The folder of a run.

`run.json` has the plan of the run, `settings.json` the settings of its result, `metrics.csv` the history, `run.log` the
events, `failures.jsonl` the failed evaluations, `checkpoints/` the state and `result.npz` the result.
"""

import csv
import io
import json
import re
import secrets
from collections.abc import Mapping
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from taskelites.errors import ExistingFileError, InvalidTypeError, InvalidValueError, whole_number
from taskelites.results.export import no_formula
from taskelites.results.result import Result
from taskelites.runs.checkpoint import Checkpoints
from taskelites.storage import appending, read_json, reading, refuse_link, write_json, write_text

FORMAT = "taskelites-run"
FORMAT_VERSION = 2
# Files that a run killed at its very start can leave behind.
_TRACES = re.compile(r"\.lock|run\.log|\..*\.part")
# What a run writes to. A link by one of these names, in a folder from a stranger, would lead to other places.
_OWN = re.compile(
    r"\.lock|run\.(json|log)|settings\.json|metrics\.csv|failures\.jsonl|result\.npz|report\.html|checkpoints|workers"
    r"|replicate-[0-9]+"
)


class RunFolder:
    """A folder that one run writes to.

    Args:
        path: path of the folder.
        resume: whether it may contain a run, which is then resumed; otherwise it must be empty.

    Raises:
        FileExistsError: if `path` is a file, or a folder with other contents.
        StorageError: if its `run.json` is damaged or from a newer version, or one of the files that a run writes is a
            symbolic link.

    Attributes:
        run_id: the id of the run, which its checkpoints repeat.
        known: the contents of `run.json`, if there is a run.

    Example:
        >>> import tempfile
        >>> folder = RunFolder(tempfile.mkdtemp() + "/first")
        >>> folder.path.name
        'first'
    """

    def __init__(self, path: str | PathLike[str], *, resume: bool = False) -> None:
        self.named = str(path)
        self.path = Path(path).absolute()  # a fitness may change the working directory
        self.known = read_plan(self.path) if resume else None
        self.run_id = _id_of(self.known)
        if self.path.is_file() or (self.known is None and _holds_anything(self.path)):
            hint = "it contains no run to resume" if resume else "a run never overwrites files"
            other = "" if resume or not (self.path / "run.json").exists() else ", or resume the run in it"
            raise ExistingFileError(f"out is {self.named!r}, which is not empty; {hint}: name a new folder{other}")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(
                error.errno, f"could not make the run folder {self.named!r}: {error.strerror}; check the path"
            ) from error
        _refuse_links(self.path)
        self.checkpoints = Checkpoints(self.path / "checkpoints", self.log)

    @classmethod
    def part(cls, path: Path, run_id: str | None = None) -> "RunFolder":
        """Make or open the folder of one replicate, without checking its contents.

        Args:
            path: path of the folder.
            run_id: the id of the run; by default that in its `run.json`, or a new one.
        """
        refuse_link(path)
        path.mkdir(exist_ok=True)
        _refuse_links(path)
        folder = cls.__new__(cls)
        folder.path = path
        folder.named = str(path)
        folder.known = None if run_id else read_plan(path)
        folder.run_id = run_id or _id_of(folder.known)
        folder.checkpoints = Checkpoints(path / "checkpoints", folder.log)
        return folder

    def identify(self, digest: str) -> None:
        """Accept only checkpoints of this run.

        Args:
            digest: hash of its settings, tasks and seed.
        """
        run = {"id": self.run_id, "digest": digest}
        self.checkpoints = Checkpoints(self.path / "checkpoints", self.log, run)

    @classmethod
    def under(cls, parent: str | PathLike[str], name: str) -> "RunFolder":
        """Make a folder below `parent`, named after the time and `name`, that no other run uses."""
        stamp = datetime.now().strftime("%Y-%m-%d-%H%M%S")
        for number in range(1, 1000):
            path = Path(parent) / (f"{stamp}-{name}" + (f"-{number}" if number > 1 else ""))
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                raise OSError(error.errno, f"could not make the run folder {str(path)!r}: {error.strerror}") from error
            return cls(path)
        raise ExistingFileError(f"there are a thousand folders {stamp}-{name} in {str(parent)!r}")

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Write `run.json`; from now on the run can be resumed."""
        document = {"format": FORMAT, "version": FORMAT_VERSION, "id": self.run_id}
        write_json(self.path / "run.json", document | dict(plan))

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Write `settings.json`, a copy for people of what `result.npz` has: nothing reads it."""
        write_json(self.path / "settings.json", settings)

    def log(self, text: str) -> None:
        """Add a line to the log."""
        stamp = datetime.now().strftime("%Y-%m-%d %H:%M:%S")
        with appending(self.path / "run.log") as file:
            file.write(f"{stamp}  {text}\n")

    def add_metrics(self, row: Mapping[str, Any]) -> None:
        """Append a row to the metrics."""
        path = self.path / "metrics.csv"
        with appending(path) as file:
            rows = csv.writer(file)
            if file.tell() == 0:
                rows.writerow(map(no_formula, row))
            rows.writerow(row.values())

    def write_metrics(self, history: Mapping[str, np.ndarray]) -> None:
        """Replace all metrics."""
        table = io.StringIO(newline="")
        rows = csv.writer(table)
        if history:
            rows.writerow(map(no_formula, history))
            rows.writerows(zip(*(column.tolist() for column in history.values()), strict=True))
        write_text(self.path / "metrics.csv", table.getvalue())

    def add_failure(self, record: Mapping[str, Any]) -> None:
        """Append a failed evaluation."""
        with appending(self.path / "failures.jsonl") as file:
            file.write(json.dumps(record, default=repr) + "\n")

    def keep_failures(self, number: int) -> None:
        """Remove all failures but the first `number`."""
        path = self.path / "failures.jsonl"
        if path.exists():
            lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:number]
            write_text(path, "".join(f"{line}\n" for line in lines))

    def begin_again(self) -> None:
        """Remove the metrics and failures of a run without a usable checkpoint, which starts again.

        Raises:
            ValueError: if the folder contains a result, which a new run would replace.
        """
        if (self.path / "result.npz").exists():
            raise InvalidValueError(
                f"the run in {self.named!r} has a result but no usable checkpoint (its run.log may say why), so it "
                "can't be resumed; name a new folder"
            )
        for name in ("metrics.csv", "failures.jsonl"):
            if (self.path / name).exists():
                (self.path / name).unlink()
                self.log(f"begins again, since there is no checkpoint; its {name} is removed")

    def write(self, result: Result) -> None:
        """Write the result, and its settings and history as text."""
        result.save(self.path / "result.npz")
        self.write_settings(result.settings)
        self.write_metrics(result.history)


def read_plan(path: Path) -> dict[str, Any] | None:
    """Return the contents of `run.json`, or None if the folder contains no run.

    Raises:
        StorageError: if it can't be read, is not of a taskelites run, was edited, or is from a newer version.
    """
    file = path / "run.json"
    if not file.is_file():
        return None
    what = "not of a taskelites run"
    remedy = (
        "restore it, or begin a new run; `taskelites resume` and te.solve(resume=True) take another budget and other "
        "evaluation options as arguments"
    )
    document = read_json(file, expected=FORMAT, newest=FORMAT_VERSION, what=what, remedy=remedy)
    with reading(file, what, remedy):
        plan = document.setdefault("plan", {})
        if not isinstance(plan, dict) or not isinstance(plan.get("versions", {}), dict):
            raise InvalidTypeError("its plan and versions must be JSON objects")
        for name in ("evaluations", "replicates"):
            if plan.get(name) is not None:
                whole_number(f"its {name}", plan[name], least=1, most=2**31 - 1)
        texts = {"id": document.get("id"), "code": plan.get("code")}
        for name, text in texts.items():
            if text is not None and not isinstance(text, str):
                raise InvalidTypeError(f"its {name} must be a text, not {text!r}")
    return document


def _id_of(known: Mapping[str, Any] | None) -> str:
    """Return the id of the run in a folder, or a new one."""
    return (known or {}).get("id") or secrets.token_hex(8)


def _refuse_links(folder: Path) -> None:
    """Raise an error if a name that a run writes to is a symbolic link."""
    for entry in folder.iterdir():
        if _OWN.fullmatch(entry.name):
            refuse_link(entry)


def _holds_anything(path: Path) -> bool:
    return path.is_dir() and not all(_TRACES.fullmatch(entry.name) for entry in path.iterdir())
