"""`taskelites report`, and the report at the end of `run` and `compare`."""

import argparse
import contextlib
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from taskelites.cli.finding import domain_of, nearby
from taskelites.cli.running import seconds
from taskelites.errors import StorageError
from taskelites.experiments import Comparison
from taskelites.result import Result, load
from taskelites.runs import failures, read_plan
from taskelites.show.report import report as write_report
from taskelites.storage import write_text

# Options of a command that say where it goes or what it prints, not what is found.
_ELSEWHERE = ("--out",)
_QUIET = ("--quiet", "--no-report", "--traceback")
_COMMAND_FILE = "command.txt"


def add_no_report(parser: argparse.ArgumentParser) -> None:
    """The option of commands that end with a report."""
    parser.add_argument("--no-report", action="store_true", help="write no report.html at the end")


def drawing_time(text: str) -> float:
    """Seconds for drawing, from a time, all or none.

    Example:
        >>> drawing_time("all"), drawing_time("none"), drawing_time("5min")
        (inf, 0.0, 300.0)
    """
    if text in ("all", "none"):
        return math.inf if text == "all" else 0.0
    try:
        return seconds(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"expected all, none or a time such as 30s or 5min, not {text!r}") from None


def report(options: argparse.Namespace) -> int:
    """Write the report of what is in a folder."""
    folder = Path(options.run).resolve()
    home = folder if folder.is_dir() else folder.parent
    path = Path(options.out).absolute() if options.out else home / "report.html"
    found, replicates = _found(options.run)
    if isinstance(found, Comparison):
        write_report(found, path, command=_command_of(home))
    elif replicates:
        write_report(replicates, path, command=_command_of(home))
    else:
        assert isinstance(found, Result)
        _report_run(options, found, home, path)
    print(f"{'report':<12} {nearby(path)} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


def _found(run: str) -> tuple[Result | Comparison | None, list[Result]]:
    """What is in a folder or a file: a comparison, one result, or replicates."""
    folder = Path(run)
    if (folder / "comparison.json").is_file():
        return Comparison.load(folder), []
    parts = sorted(folder.glob("replicate-*/result.npz"), key=lambda part: int(part.parent.name.split("-")[-1]))
    if parts and not (folder / "result.npz").is_file():
        return None, [load(part) for part in parts]
    return load(folder), []


def _report_run(options: argparse.Namespace, result: Result, home: Path, path: Path) -> None:
    """Write the report of one run, with pictures if its domain can be found."""
    with contextlib.ExitStack() as stack:
        domain = None
        if options.draw > 0:
            try:
                domain = stack.enter_context(domain_of(options, home, result))
            except (ValueError, ImportError, FileNotFoundError) as reason:
                print(f"taskelites: no pictures of the solutions: {reason}", file=sys.stderr)
        write_report(
            result,
            path,
            domain=domain,
            command=_command_of(home),
            failures=_failures_in(home),
            drawing_time=options.draw,
            tell=_progress(int(result.solved.sum()), shown=not options.quiet),
        )


def _progress(total: int, *, shown: bool) -> Any:
    """Tells how many are drawn, in a terminal."""
    if not shown or sys.stderr is None or not sys.stderr.isatty():
        return lambda drawn: None

    def tell(drawn: int) -> None:
        end = "\n" if drawn == total else ""
        print(f"\rdrawing: {drawn:,} of {total:,} solutions", end=end, file=sys.stderr, flush=True)

    return tell


def _failures_in(folder: Path) -> list[Any]:
    try:
        return failures(folder)
    except (FileNotFoundError, ValueError):
        return []


def report_at_end(results: Result | Sequence[Result], folder: Path, domain: Any, options: argparse.Namespace) -> str:
    """Write the report of a run that has ended; a line on where it is.

    The run is saved, so that nothing which goes wrong here is worth an error.
    """
    if options.no_report:
        return ""
    path = folder.resolve() / "report.html"
    single = isinstance(results, Result)
    try:
        write_report(
            results,
            path,
            domain=domain if single else None,
            command=_command_of(path.parent),
            failures=_failures_in(path.parent) if single else None,
        )
    except (StorageError, ValueError, TypeError) as problem:
        return f"\n{'report':<12} none: {getattr(problem, 'strerror', None) or problem}"
    return f"\n{'report':<12} {folder / path.name}"


def report_comparison(found: Comparison, folder: Path, options: argparse.Namespace) -> str:
    """Write the report of a comparison that has ended; a line on where it is."""
    if options.no_report:
        return ""
    try:
        write_text(folder / _COMMAND_FILE, f"{_shown(options.arguments)}\n")
        write_report(found, folder / "report.html", command=_command_of(folder))
    except (StorageError, ValueError, TypeError) as problem:
        return f"\n{'report':<12} none: {getattr(problem, 'strerror', None) or problem}"
    return f"\n{'report':<12} {folder / 'report.html'}"


def _command_of(folder: Path) -> str | None:
    """The command that makes what is in a folder again; None if it was begun in Python."""
    if (folder / _COMMAND_FILE).is_file():
        return (folder / _COMMAND_FILE).read_text(encoding="utf-8").strip()
    with contextlib.suppress(ValueError):
        plan = read_plan(folder) or read_plan(folder.parent)
        origin = (plan or {}).get("origin")
        if plan is not None and isinstance(origin, dict) and isinstance(origin.get("command"), list):
            raised = isinstance(origin.get("since"), dict) and "evaluations" in origin["since"]
            return _shown(origin["command"]) + (f" --evaluations {plan['plan']['evaluations']}" if raised else "")
    return None


def _shown(arguments: Sequence[Any]) -> str:
    """A command without what says only where its results go.

    Example:
        >>> _shown(["run", "arm", "--out", "here", "--seed", "1", "--quiet"])
        'taskelites run arm --seed 1'
    """
    kept: list[str] = []
    rest = iter(str(argument) for argument in arguments)
    for argument in rest:
        if argument in _ELSEWHERE:
            next(rest, None)
        elif argument not in _QUIET and not argument.startswith(tuple(f"{name}=" for name in _ELSEWHERE)):
            kept.append(argument)
    return shlex.join(["taskelites", *kept])
