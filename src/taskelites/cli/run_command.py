"""`taskelites run`, `resume` and `replay`."""

import argparse
import contextlib
import os
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from taskelites.analysis import replay as repeat
from taskelites.cli.failures import exit_status, print_reasons
from taskelites.cli.run_request import EVALUATION, RunRequest, settings_of_algorithm
from taskelites.cli.values import parse_number
from taskelites.errors import Interrupted, InvalidValueError, counted, whole_number
from taskelites.evaluation import RayExecutor
from taskelites.evaluation.options import MODES, ON_ERROR, EvaluationOptions
from taskelites.problem.problem import Domain
from taskelites.results.result import Result
from taskelites.runs import CheckpointInterval, FailedEvaluation, RunFolder, read_failure, read_plan
from taskelites.search import MOST_EVALUATIONS, solve
from taskelites.storage import file_name

# Numbers of a failed solution that are printed.
_SHOWN_NUMBERS = 12


def add_evaluation_options(parser: argparse.ArgumentParser, *, modes: bool = True, samples: bool = True) -> None:
    """Add the options for the evaluation of a Python fitness.

    Args:
        parser: parser of a command.
        modes: whether to add --mode.
        samples: whether to add --samples.
    """
    group = parser.add_argument_group("evaluation of Python functions")
    add_workers(group)
    group.add_argument(
        "--ray",
        metavar="auto|ADDRESS",
        help="evaluate on the Ray cluster at this address; auto: the cluster that this machine is part of",
    )
    group.add_argument(
        "--on-error",
        choices=ON_ERROR,
        help="what to do with a failed evaluation: record it and continue, repeat it, or end the run (default: skip)",
    )
    group.add_argument(
        "--retries",
        type=parse_number,
        metavar="N",
        help="repetitions of a failed evaluation, with --on-error retry (default: 2)",
    )
    group.add_argument(
        "--timeout",
        type=parse_seconds,
        metavar="TIME",
        help="time limit per evaluation, in seconds or as 30s, 5min or 2h (default: no limit)",
    )
    if samples:
        group.add_argument(
            "--samples",
            type=parse_number,
            metavar="N",
            help="calls per evaluation of a noisy fitness, which are averaged (default: 1)",
        )
    if modes:
        group.add_argument(
            "--mode",
            choices=MODES,
            help="async does not wait for slow evaluations, but is not reproducible (default: sync)",
        )


def add_workers(parser: Any) -> None:
    """Add the option --workers."""
    parser.add_argument(
        "--workers",
        type=_parse_workers,
        metavar="N|auto",
        help="processes on this machine; auto: measure whether they are faster (default: evaluate in this process)",
    )


def _parse_workers(text: str) -> int | str:
    try:
        return text if text == "auto" else parse_number(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"expected a number of processes or auto, not {text!r}") from None


def parse_seconds(text: str) -> float:
    """Parse a time such as 30, 30s, 5min or 2h into seconds."""
    try:
        return float(text)
    except ValueError:
        try:
            return float(CheckpointInterval.parse(text).seconds or 0)
        except ValueError:
            expected = f"expected a number of seconds or a time such as 30s, 5min or 2h, not {text!r}"
            raise argparse.ArgumentTypeError(expected) from None


def run(options: argparse.Namespace) -> int:
    """Run `taskelites run` and return the exit status."""
    request = RunRequest.from_options(options)
    _check_numbers(request)  # before a folder is made
    algorithm, domain = request.problem()
    made = RunFolder(options.out) if options.out else RunFolder.under("runs", file_name(domain.name))
    return _run_and_report(request, algorithm, domain, Path(made.named), quiet=options.quiet)


def resume(options: argparse.Namespace) -> int:
    """Run `taskelites resume` and return the exit status."""
    folder = Path(options.run).resolve()
    cluster = () if options.ray or options.workers else ("ray",)
    request = RunRequest.of_run(folder, options.run).allowed(options, "domain", "algorithm", *cluster)
    names = ("evaluations", "checkpoint_every", "ray", *EVALUATION)
    given = {name: value for name in names if (value := getattr(options, name, None)) is not None}
    if given.get("on_error", "retry") != "retry":
        given["retries"] = None
    if "ray" in given:
        given["workers"] = None
    elif "workers" in given:
        given["ray"] = None
    flags = {name: getattr(options, name) or getattr(request, name) for name in ("no_report", "allow_failures")}
    request = replace(request, **given, **flags)
    _check_numbers(request)
    with request.in_its_folder():
        return _run_and_report(request, *request.problem(), folder, quiet=options.quiet, resumed=True)


def _run_and_report(
    request: RunRequest, algorithm: Any, domain: Domain, folder: Path, *, quiet: bool, resumed: bool = False
) -> int:
    """Start or resume a run, print its summary and write its report."""
    from taskelites.cli.report_command import report_at_end

    _print_start(request, algorithm, domain)
    begin = time.monotonic()
    try:
        with ray_executor(request.ray) as cluster:
            results: Any = solve(
                domain,
                evaluations=request.evaluations,
                algorithm=algorithm,
                batch_size=request.batch_size,
                ahead=request.ahead,
                seed=request.seed,
                replicates=request.replicates,
                out=folder,
                resume=resumed,
                checkpoint_every=request.checkpoint_every,
                progress=not quiet,
                request=request.plain(),
                **request.evaluation_options(),
                **cluster,
            )
    except Interrupted as stop:
        again = shlex.join(["taskelites", "resume", str(folder), *request.words_for_resume()])
        stop.args = (f"{stop}; `{again}` continues it",)
        raise
    finally:
        with contextlib.suppress(OSError):  # not empty
            folder.rmdir()
    took = time.monotonic() - begin
    every = [results] if isinstance(results, Result) else results
    print(_final_lines(results, took, folder, resumed=resumed), flush=True)
    print_reasons(every)
    if not request.no_report:
        report_at_end(results, folder, domain)
    return exit_status(every, allow_failures=request.allow_failures)


def _check_numbers(request: RunRequest) -> None:
    """Check numbers, so that error messages name the command-line option."""
    if request.replicates is not None:
        whole_number("--replicates", request.replicates, least=1)
    whole_number("--evaluations", request.evaluations, least=1, most=MOST_EVALUATIONS)
    whole_number("--batch-size", request.batch_size, least=1)
    whole_number("--ahead", request.ahead, least=1)


def _print_start(request: RunRequest, algorithm: Any, domain: Domain) -> None:
    size = f"{counted(len(domain.tasks), 'task')}, " if hasattr(domain.tasks, "__len__") else ""
    runs, seed = request.replicates or 1, request.seed
    seeds = f"seed {seed}" if runs == 1 else f"{runs} runs with seeds {seed} to {seed + runs - 1}"
    print(f"{domain.name}: {size}{counted(request.evaluations, 'evaluation')}, {algorithm.name}, {seeds}", flush=True)


@contextlib.contextmanager
def ray_executor(address: str | None) -> Iterator[dict[str, Any]]:
    """Connect to the Ray cluster at an address, if any, and provide the keyword arguments of `te.solve` for it."""
    if address is None:
        yield {}
        return
    with RayExecutor(address) as executor:
        yield {"executor": executor}


def replay(options: argparse.Namespace) -> int:
    """Run `taskelites replay` and return the exit status."""
    failure = read_failure(options.run, options.id)
    EvaluationOptions(timeout=options.timeout)  # raises if it is invalid
    folder = Path(options.run).resolve()
    # For a replicate, the request is in the folder above.
    place = folder.parent if read_plan(folder) is None and read_plan(folder.parent) is not None else folder
    if RunRequest.started_by_command(place):
        request = RunRequest.of_run(place, str(place)).allowed(options, "domain")
    elif options.domain is not None:
        request = RunRequest(domain=options.domain, set=[], evaluations=1, folder=os.getcwd())
    else:
        raise InvalidValueError(
            f"the run in {options.run!r} was started in Python, so the command line does not know its fitness; give "
            "its domain with --domain module:name or --domain file.py:name, or call "
            f"te.analysis.replay({options.run!r}, {failure.id}, fitness) in Python"
        )
    with request.in_its_folder():
        domain = request.make_domain(settings_of_algorithm((read_plan(place) or {}).get("plan")))
        solution = _solution_text(failure, options.run)
        print(f"failure {failure.id}: evaluation {failure.evaluation:,}, task {failure.task}, {solution}")
        print(f"then: {failure.kind}: {failure.message}", flush=True)
        timeout = options.timeout or request.timeout
        found = repeat(folder, failure.id, domain, timeout=timeout, samples=request.samples, here=options.here)
    if found.traceback:
        print(found.traceback, file=sys.stderr)
    print(f"now:  {found}")
    return 0


def _solution_text(failure: FailedEvaluation, run: str) -> str:
    """Return the solution of a failure, shortened if it is long."""
    numbers = [f"{value:.6g}" for value in failure.solution]
    if len(numbers) <= _SHOWN_NUMBERS:
        return f"solution [{', '.join(numbers)}]"
    return (
        f"solution [{', '.join(numbers[:_SHOWN_NUMBERS])}, ...] of {len(numbers):,} numbers; in Python, "
        f"te.analysis.failures({run!r}) has all of them"
    )


def _final_lines(results: Result | list[Result], seconds: float, folder: Path, *, resumed: bool) -> str:
    """Return the lines to print at the end of a run."""
    if isinstance(results, Result):
        evaluations = results.evaluations
        lines = [results.summary()]
    else:
        evaluations = sum(result.evaluations for result in results)
        lines = _replicate_table(results)
    rate = (
        " since it was resumed"
        if resumed
        else f" ({counted(round(evaluations / seconds), 'evaluation')} per second, start-up included)"
    )
    lines.append(f"{'time':<12} {seconds:.1f} s{rate}")
    lines.append(f"{'saved':<12} {folder}")
    return "\n".join(lines)


def _replicate_table(results: list[Result]) -> list[str]:
    """Return a table with one line per replicate; the gap is included if the optimum is known."""
    columns = {"mean": "mean", "median": "median", "best": "highest", "worst": "lowest", "gap": "gap"}
    if all(result.optimum is None for result in results):
        del columns["gap"]
    lines = [f"{'seed':>6} {'coverage':>10}" + "".join(f" {title:>12}" for title in columns)]
    for result in results:
        row = result.to_row()
        start = f"{result.settings['seed']:>6} {100 * row['coverage']:>8.4g} %"
        lines.append(start + "".join(f" {row[measure]:>12.6g}" for measure in columns.values()))
    return lines
