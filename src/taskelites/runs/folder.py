"""A run on disk: `settings.json`, `metrics.csv`, `result.npz`."""

import csv
import io
import json
from datetime import datetime
from os import PathLike
from pathlib import Path

from taskelites.result import Result
from taskelites.storage import write_text


class RunFolder:
    """A new folder that one run writes to.

    Args:
        path: of the folder; it must not hold anything yet.

    Raises:
        FileExistsError: if there is something at `path`.

    Example:
        >>> import tempfile
        >>> folder = RunFolder(tempfile.mkdtemp() + "/first")
        >>> folder.path.name
        'first'
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.is_file() or (self.path.is_dir() and any(self.path.iterdir())):
            raise FileExistsError(
                f"out is {str(self.path)!r}, which is not empty; runs never overwrite: name a new folder"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(error.errno, f"could not make the run folder {str(self.path)!r}: {error.strerror}") from error

    @classmethod
    def under(cls, parent: str | PathLike[str], name: str) -> "RunFolder":
        """A new folder below `parent` that no other run has or gets, named after the time and `name`."""
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
        raise FileExistsError(f"there are a thousand folders {stamp}-{name} in {str(parent)!r}")

    def write(self, result: Result) -> None:
        """Write the result, and beside it what a person can read without Python."""
        write_run(self.path, result)


def write_run(path: Path, result: Result) -> None:
    """Write a result, and beside it what a person can read without Python, to a folder that exists."""
    result.save(path / "result.npz")
    write_text(path / "settings.json", json.dumps(result.settings, indent=2, ensure_ascii=False) + "\n")
    table = io.StringIO(newline="")
    rows = csv.writer(table)
    rows.writerow(result.history)
    rows.writerows(zip(*(column.tolist() for column in result.history.values()), strict=True))
    write_text(path / "metrics.csv", table.getvalue())
