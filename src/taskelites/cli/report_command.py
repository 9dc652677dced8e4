"""`taskelites report`, and the report at the end of `run` and `compare`."""

import argparse
import contextlib
import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from taskelites.cli.find_run import domain_of, nearby, runs_in
from taskelites.cli.run_command import seconds
from taskelites.cli.run_request import RunRequest
from taskelites.experiments import Comparison
from taskelites.results.result import Result, load
from taskelites.runs import failures
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
    found = _found(options.run)
    if isinstance(found, Result):
        _report_run(options, found, home, path)
    else:
        write_report(found, path, command=_command_of(home))
    print(f"{'report':<12} {nearby(path)} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


def _found(run: str) -> Result | Comparison | list[Result]:
    """What is in a folder or a file: a comparison, one result, or replicates."""
    folder = Path(run)
    if (folder / "comparison.json").is_file():
        return Comparison.load(folder)
    runs = list(runs_in(folder))
    if runs[0][0]:  # which of several it is
        return [load(path) for _, path in runs]
    return load(folder)


def _report_run(options: argparse.Namespace, result: Result, home: Path, path: Path) -> None:
    """Write the report of one run, with pictures if its domain can be found."""
    with contextlib.ExitStack() as stack:
        domain = None
        if options.draw > 0:
            try:
                domain = stack.enter_context(domain_of(home, options.run, result))
            except (ValueError, ImportError, FileNotFoundError) as reason:
                print(
                    f"taskelites: no pictures of the solutions: {reason}; there, te.show.report(te.load(folder), path, "
                    "domain=...) has them",
                    file=sys.stderr,
                )
        shown = domain is not None and not options.quiet
        with tqdm(total=int(result.solved.sum()), desc="drawing", leave=False, disable=None if shown else True) as bar:
            write_report(
                result,
                path,
                domain=domain,
                command=_command_of(home),
                failures=_failures_in(home),
                drawing_time=options.draw,
                tell=lambda drawn: bar.update(drawn - bar.n),
            )


def _failures_in(folder: Path) -> list[Any]:
    try:
        return failures(folder)
    except (FileNotFoundError, ValueError):
        return []


def report_at_end(results: Result | Sequence[Result], folder: Path, domain: Any) -> None:
    """Write the report of a run that has ended, and say where it is."""
    path = folder.resolve() / "report.html"
    single = isinstance(results, Result)
    with _nothing_lost(folder / path.name):
        write_report(
            results,
            path,
            domain=domain if single else None,
            command=_command_of(path.parent),
            failures=_failures_in(path.parent) if single else None,
        )


def report_comparison(found: Comparison, folder: Path, options: argparse.Namespace) -> None:
    """Write the report of a comparison that has ended, and say where it is."""
    if options.no_report:
        return
    with _nothing_lost(folder / "report.html"):
        write_text(folder / _COMMAND_FILE, f"{_shown(options.arguments)}\n")
        write_report(found, folder / "report.html", command=_command_of(folder))


@contextlib.contextmanager
def _nothing_lost(path: Path) -> Iterator[None]:
    """Says where the report is, or why there is none: the run is saved, so that nothing here is worth an error."""
    try:
        yield
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a user's draw, a full disk, too little memory
        print(f"{'report':<12} none: {getattr(problem, 'strerror', None) or problem or type(problem).__name__}")
    else:
        print(f"{'report':<12} {path}")


def _command_of(folder: Path) -> str | None:
    """The command that makes what is in a folder again; None if it was begun in Python."""
    if (folder / _COMMAND_FILE).is_file():
        return (folder / _COMMAND_FILE).read_text(encoding="utf-8").strip()
    for place in (folder, folder.parent):
        with contextlib.suppress(ValueError, FileNotFoundError):
            return RunRequest.of_run(place, str(place)).command()
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
