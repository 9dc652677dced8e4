"""A report on a run or a comparison: one HTML file that opens offline in any browser.

The page's script is in `assets/`, plain JavaScript without libraries. Python passes it arrays (`blob.py`) and plain
values, never markup (`page.py`).
"""

import warnings
from collections.abc import Callable, Sequence
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any

from taskelites.errors import ExistingFileError, InvalidTypeError, InvalidValueError, MissingFileError
from taskelites.experiments import Comparison
from taskelites.results.result import Result
from taskelites.show.report.blob import Blob
from taskelites.show.report.comparison import comparison_contents
from taskelites.show.report.page import is_report, render
from taskelites.show.report.run import run_contents
from taskelites.storage import write_text

__all__ = ["DRAWING_TIME", "report"]

# Seconds for drawing by default, so that a report takes a few seconds.
DRAWING_TIME = 2.0


def report(
    result: Result | Comparison | Sequence[Result],
    path: str | PathLike[str] = "report.html",
    *,
    domain: Any = None,
    command: str | None = None,
    failures: list[Any] | None = None,
    drawing_time: float = DRAWING_TIME,
    tell: Callable[[int], object] = lambda drawn: None,
) -> Path:
    """Write an HTML file with a map to click on, curves, the distribution, solutions and settings.

    It opens offline in any current browser. It has at most 6 MB for 5,000 tasks and 25 MB for 100,000. Of more tasks it
    shows a random sample. Solutions that do not fit are rounded, and the page says so.

    Args:
        result: a result, a comparison, or a list of replicates.
        path: the file to write. An earlier report is replaced, any other file is not.
        domain: the domain of the run. Its `draw` shows the solution of the chosen task, above a bar per number of the
            solution. Without a domain there are only the bars.
        command: the command that repeats the run, shown on the page.
        failures: failed evaluations to list, as `te.analysis.failures(run_folder)` returns them.
        drawing_time: time limit of `draw` in seconds, for all tasks together; `math.inf` draws all of them, 0 none. A
            `draw` with a method `many` (`te.show.Sketch`) draws thousands at once.
        tell: called with the number of tasks drawn so far.

    Returns:
        The path.

    Raises:
        TypeError, ValueError: if there is nothing to report on, or the domain has other tasks.
        FileExistsError: if `path` is a file that is not a report.
        OSError: if the file can't be written.

    Example:
        >>> import tempfile, taskelites as te
        >>> arm = te.domain("arm", tasks=200)
        >>> result = te.solve(arm, evaluations=2000)
        >>> te.show.report(result, tempfile.mkdtemp() + "/report.html", domain=arm).name
        'report.html'
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InvalidValueError(f"path must end in .html, not {path.name!r}")
    if not path.parent.is_dir():
        raise MissingFileError(f"path must be in an existing folder, but there is no folder {str(path.parent)!r}")
    if path.exists() and not is_report(path):
        raise ExistingFileError(
            f"path must be a new file or a report, but {str(path)!r} is another file; choose another name"
        )
    if not (isinstance(drawing_time, int | float) and drawing_time >= 0):
        raise InvalidValueError(
            f"drawing_time must be a number of seconds, at least 0, or math.inf, not {drawing_time!r}"
        )
    blob = Blob()
    about = _contents(result, blob, domain, command, failures, drawing_time, tell)
    about["written"] = f"written on {datetime.now():%Y-%m-%d at %H:%M} by taskelites"
    write_text(path, render(f"{about['name']}: {about['algorithm']}", about, blob))
    trouble = about.get("undrawn", {}).get("trouble")
    if trouble:
        warnings.warn(f"drawing solutions for {str(path)!r}: {trouble}", UserWarning, stacklevel=2)
    return path


def _contents(
    result: Any, blob: Blob, domain: Any, command: str | None, failures: Any, drawing_time: float, tell: Any
) -> dict[str, Any]:
    if isinstance(result, Result):
        return run_contents(
            result,
            blob,
            domain=domain,
            command=command,
            failures=failures,
            drawing_time=drawing_time,
            tell=tell,
        )
    if isinstance(result, Sequence) and len(result) == 0:
        raise InvalidValueError("result must hold at least one Result, but the list is empty")
    if isinstance(result, Sequence) and all(isinstance(each, Result) for each in result):
        name = str(result[0].settings.get("algorithm", {}).get("name", "runs"))
        result = Comparison(results={name: list(result)}, settings=result[0].settings)
    if not isinstance(result, Comparison):
        raise InvalidTypeError(f"result must be a Result, a list of them or a Comparison, not {type(result).__name__}")
    return comparison_contents(result, blob, command=command)
