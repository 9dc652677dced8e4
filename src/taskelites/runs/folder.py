"""The folder of a run.

`run.json` has the plan of the run, `settings.json` the settings of its result, `metrics.csv` the history, `run.log` the
events, `failures.jsonl` the failed evaluations, `checkpoints/` the state and `result.npz` the result.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from taskelites.errors import ExistingFileError, InvalidValueError, StorageError
from taskelites.results.result import Result
from taskelites.runs.checkpoint import Checkpoints
from taskelites.storage import check_format, write_text

FORMAT = "taskelites-run"
FORMAT_VERSION = 1
# Files that a run killed at its very start can leave behind.
_TRACES = re.compile(r"\.lock|run\.log|\..*\.part")


class RunFolder:
    """A folder that one run writes to.

    Args:
        path: path of the folder.
        resume: whether it may contain a run, which is then resumed; otherwise it must be empty.

    Raises:
        FileExistsError: if `path` is a file, or a folder with other contents.
        ValueError: if its `run.json` is damaged or from a newer version.

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
        self.checkpoints = Checkpoints(self.path / "checkpoints", self.log)

    @classmethod
    def part(cls, path: Path) -> "RunFolder":
        """Make or open the folder of one replicate, without checking its contents."""
        path.mkdir(exist_ok=True)
        folder = cls.__new__(cls)
        folder.path = path
        folder.named = str(path)
        folder.known = None
        folder.checkpoints = Checkpoints(path / "checkpoints", folder.log)
        return folder

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
        document = {"format": FORMAT, "version": FORMAT_VERSION} | dict(plan)
        write_text(self.path / "run.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Write `settings.json`."""
        write_text(self.path / "settings.json", json.dumps(settings, indent=2, ensure_ascii=False) + "\n")

    def log(self, text: str) -> None:
        """Add a line to the log."""
        stamp = datetime.now().strftime("%Y-%m-%d %H:%M:%S")
        with _appended(self.path / "run.log") as file:
            file.write(f"{stamp}  {text}\n")

    def add_metrics(self, row: Mapping[str, Any]) -> None:
        """Append a row to the metrics."""
        path = self.path / "metrics.csv"
        with _appended(path) as file:
            rows = csv.writer(file)
            if file.tell() == 0:
                rows.writerow(row)
            rows.writerow(row.values())

    def write_metrics(self, history: Mapping[str, np.ndarray]) -> None:
        """Replace all metrics."""
        table = io.StringIO(newline="")
        rows = csv.writer(table)
        if history:
            rows.writerow(history)
            rows.writerows(zip(*(column.tolist() for column in history.values()), strict=True))
        write_text(self.path / "metrics.csv", table.getvalue())

    def add_failure(self, record: Mapping[str, Any]) -> None:
        """Append a failed evaluation."""
        with _appended(self.path / "failures.jsonl") as file:
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
        ValueError: if it can't be read, is not of a taskelites run, or is from a newer version.
    """
    file = path / "run.json"
    if not file.is_file():
        return None
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        kind, version = document["format"], int(document["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidValueError(f"{str(file)!r} is damaged or not of a taskelites run ({error})") from None
    check_format(file, kind, version, expected=FORMAT, newest=FORMAT_VERSION)
    return dict(document)


def _holds_anything(path: Path) -> bool:
    return path.is_dir() and not all(_TRACES.fullmatch(entry.name) for entry in path.iterdir())


@contextmanager
def _appended(path: Path) -> Iterator[TextIO]:
    """Open a file for appending; characters that UTF-8 can't encode are written as escapes."""
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace", newline="") as file:
            yield file
    except OSError as error:
        raise StorageError(error.errno, f"could not write {str(path)!r}: {error.strerror or error}") from error
