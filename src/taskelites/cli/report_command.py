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

from taskelites.cli.find_run import domain_of, relative_to_cwd, runs_in
from taskelites.cli.run_command import parse_seconds
from taskelites.cli.run_request import RunRequest
from taskelites.cli.values import split_list
from taskelites.errors import InvalidValueError, TaskelitesError
from taskelites.experiments import Comparison
from taskelites.results.result import Result, load
from taskelites.runs import failures
from taskelites.show.report import report as write_report
from taskelites.storage import write_text

# Options of a command without influence on its results: paths, which take a value, and flags.
_PATH_OPTIONS = ("--out",)
_FLAGS = ("--quiet", "--no-report", "--traceback", "--allow-failures")
_COMMAND_FILE = "command.txt"


def add_no_report(parser: argparse.ArgumentParser) -> None:
    """Add the option --no-report."""
    parser.add_argument("--no-report", action="store_true", help="do not write report.html at the end")


def parse_drawing_time(text: str) -> float:
    """Parse a time limit for drawing, in seconds: all, none or a time.

    Example:
        >>> parse_drawing_time("all"), parse_drawing_time("none"), parse_drawing_time("5min")
        (inf, 0.0, 300.0)
    """
    if text in ("all", "none"):
        return math.inf if text == "all" else 0.0
    try:
        return parse_seconds(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"expected all, none or a time such as 30s or 5min, not {text!r}") from None


def report(options: argparse.Namespace) -> int:
    """Run `taskelites report` and return the exit status."""
    folder = Path(options.run).resolve()
    home = folder if folder.is_dir() else folder.parent
    path = Path(options.out).absolute() if options.out else home / "report.html"
    found = _load_any(options.run)
    if isinstance(found, Result):
        _report_run(options, found, home, path)
    elif options.domain is not None:
        raise InvalidValueError(
            "--domain is for the drawings of a single run, and a report of several runs has none; leave it out"
        )
    else:
        write_report(found, path, command=_command_of(home))
    print(f"{'report':<12} {relative_to_cwd(path)} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


def _load_any(run: str) -> Result | Comparison | list[Result]:
    """Load a folder or file: a comparison, a single result, or a list of replicates."""
    folder = Path(run)
    if (folder / "comparison.json").is_file():
        return Comparison.load(folder)
    runs = list(runs_in(folder))
    if runs[0][0]:  # several replicates
        return [load(path) for _, path in runs]
    return load(folder)


def _report_run(options: argparse.Namespace, result: Result, home: Path, path: Path) -> None:
    """Write the report of a single run, with drawings of the solutions if its domain is known."""
    with contextlib.ExitStack() as stack:
        domain = None
        if options.draw > 0:
            try:
                domain = stack.enter_context(domain_of(home, result, options))
            except Exception as reason:  # a built-in domain may refuse the options in the folder in any way
                if options.domain is not None or options.trust:
                    raise
                print(f"taskelites: warning: the report has no drawings of the solutions: {reason}", file=sys.stderr)
        show_progress = domain is not None and not options.quiet
        with tqdm(
            total=int(result.solved.sum()), desc="drawing", leave=False, disable=None if show_progress else True
        ) as bar:
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
    except TaskelitesError:
        return []


def report_at_end(results: Result | Sequence[Result], folder: Path, domain: Any) -> None:
    """Write the report of a finished run, and print its path."""
    path = folder.resolve() / "report.html"
    single = isinstance(results, Result)
    with _print_outcome(folder / path.name):
        write_report(
            results,
            path,
            domain=domain if single else None,
            command=_command_of(path.parent),
            failures=_failures_in(path.parent) if single else None,
        )


def report_comparison(found: Comparison, folder: Path, options: argparse.Namespace) -> None:
    """Write the command and the report of a finished comparison, and print the path of the report."""
    path = folder / _COMMAND_FILE
    command = _without_output_options(options.arguments)
    earlier = path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else None
    if earlier is not None and earlier != command:
        with contextlib.suppress(ValueError, argparse.ArgumentError):  # the file was edited
            command = _with_algorithms(earlier, options.algorithms, found.settings["replicates"])
    if earlier is not None or not options.add:  # else it was begun in Python, and no command repeats it
        write_text(path, f"{command}\n")
    if options.no_report:
        return
    with _print_outcome(folder / "report.html"):
        write_report(found, folder / "report.html", command=_command_of(folder))


def _with_algorithms(command: str, algorithms: str, replicates: int) -> str:
    """Return the command of a comparison with further algorithms, and its present number of replicates.

    Example:
        >>> _with_algorithms("taskelites compare arm --algorithms random,cma-es --seed 1", "random, own=mine:Search", 5)
        'taskelites compare arm --seed 1 --algorithms random,cma-es,own=mine:Search --replicates 5'
    """
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--algorithms", default="")
    parser.add_argument("--replicates")
    earlier, others = parser.parse_known_args(shlex.split(command))
    every = dict.fromkeys(split_list(earlier.algorithms) + split_list(algorithms))
    return shlex.join([*others, "--algorithms", ",".join(every), "--replicates", str(replicates)])


@contextlib.contextmanager
def _print_outcome(path: Path) -> Iterator[None]:
    """Print the path of the report, or the reason why it could not be written.

    Exceptions are caught: the run is saved already, so a failed report must not fail the command.
    """
    try:
        yield
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code in draw, a full disk, no memory
        print(f"{'report':<12} not written: {getattr(error, 'strerror', None) or error or type(error).__name__}")
    else:
        print(f"{'report':<12} {path}")


def _command_of(folder: Path) -> str | None:
    """Return the command that repeats the run or comparison in a folder, or None if it was started in Python."""
    if (folder / _COMMAND_FILE).is_file():
        return (folder / _COMMAND_FILE).read_text(encoding="utf-8", errors="replace").strip()
    for place in (folder, folder.parent):
        with contextlib.suppress(TaskelitesError):
            return RunRequest.of_run(place, str(place)).command()
    return None


def _without_output_options(arguments: Sequence[Any]) -> str:
    """Return a command without the options that do not influence its results.

    Example:
        >>> _without_output_options(["run", "arm", "--out", "here", "--seed", "1", "--quiet"])
        'taskelites run arm --seed 1'
    """
    kept: list[str] = []
    rest = iter(str(argument) for argument in arguments)
    for argument in rest:
        if argument in _PATH_OPTIONS:
            next(rest, None)
        elif argument not in _FLAGS and not argument.startswith(tuple(f"{name}=" for name in _PATH_OPTIONS)):
            kept.append(argument)
    return shlex.join(["taskelites", *kept])
