"""`taskelites run`, `resume` and `replay`."""

import argparse
import contextlib
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from taskelites.cli.run_request import EVALUATION, RunRequest
from taskelites.cli.values import number
from taskelites.errors import Interrupted, InvalidValueError, whole_number
from taskelites.evaluation import Caller, RayExecutor
from taskelites.evaluation.dispatcher import undescribed
from taskelites.evaluation.engines.inline import InlineEngine, LostChunk, Work
from taskelites.evaluation.engines.workers import Workers
from taskelites.evaluation.options import MODES, ON_ERROR, EvaluationOptions
from taskelites.problem.problem import Domain
from taskelites.problem.tasks import Box, Tasks
from taskelites.results.result import Result
from taskelites.runs import CheckpointInterval, FailedEvaluation, RunFolder, read_failure, read_plan
from taskelites.search import MOST_EVALUATIONS, solve
from taskelites.storage import file_name


def add_evaluation_options(parser: argparse.ArgumentParser, *, modes: bool = True, samples: bool = True) -> None:
    """Add the options that say how a Python fitness is evaluated."""
    group = parser.add_argument_group("evaluation, for Python functions")
    add_workers(group)
    group.add_argument("--ray", metavar="auto|ADDRESS", help="evaluate on the Ray cluster there")
    group.add_argument(
        "--on-error", choices=ON_ERROR, help="what an evaluation does that fails (default: skip, and count it)"
    )
    group.add_argument("--retries", type=number, metavar="N", help="tries more, for --on-error retry (default: 2)")
    group.add_argument("--timeout", type=seconds, metavar="TIME", help="kill the process of a longer evaluation")
    if samples:
        group.add_argument("--samples", type=number, metavar="N", help="the mean of so many calls, against noise")
    if modes:
        group.add_argument(
            "--mode", choices=MODES, help="async: wait for no slow evaluation (default: sync, repeatable)"
        )


def add_workers(parser: Any) -> None:
    """Add the option for the number of processes that evaluate a Python fitness."""
    parser.add_argument(
        "--workers", type=_workers, metavar="N|auto", help="local processes; auto measures (default: none)"
    )


def _workers(text: str) -> int | str:
    try:
        return text if text == "auto" else number(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"expected a number of processes, or auto, not {text!r}") from None


def seconds(text: str) -> float:
    """A time in seconds, also as 30s, 5min or 2h."""
    try:
        return float(text)
    except ValueError:
        try:
            return float(CheckpointInterval.parse(text).seconds or 0)
        except ValueError:
            expected = f"expected seconds, or a time such as 30s, 5min or 2h, not {text!r}"
            raise argparse.ArgumentTypeError(expected) from None


def run(options: argparse.Namespace) -> int:
    """Run a domain from the beginning."""
    request = RunRequest.from_options(options)
    algorithm, domain = request.problem()
    made = RunFolder(options.out) if options.out else RunFolder.under("runs", file_name(domain.name))
    return _run(request, algorithm, domain, Path(made.named), quiet=options.quiet)


def resume(options: argparse.Namespace) -> int:
    """Go on with the run in a folder, with the options that it was begun and resumed with."""
    folder = Path(options.run).resolve()
    before = RunRequest.of_run(folder, options.run)
    names = ("evaluations", "checkpoint_every", "ray", *EVALUATION)
    given = {name: value for name in names if (value := getattr(options, name, None)) is not None}
    if given.get("on_error", "retry") != "retry":
        given["retries"] = None
    if "ray" in given:
        given["workers"] = None
    elif "workers" in given:
        given["ray"] = None
    request = replace(before, **given, no_report=options.no_report or before.no_report)
    with request.in_its_folder():
        return _run(request, *request.problem(), folder, quiet=options.quiet, resumed=True)


def _run(
    request: RunRequest, algorithm: Any, domain: Domain, folder: Path, *, quiet: bool, resumed: bool = False
) -> int:
    """Run, and say what was found."""
    from taskelites.cli.report_command import report_at_end

    _check_numbers(request)
    _announce(request, algorithm, domain)
    begin = time.monotonic()
    try:
        with joined_ray(request.ray) as cluster:
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
        stop.args = (f"{stop}; `taskelites resume {shlex.quote(str(folder))}` goes on",)
        raise
    finally:
        with contextlib.suppress(OSError):  # a folder that something was written to stays
            folder.rmdir()
    took = time.monotonic() - begin
    print(_closing(results, took, folder, resumed=resumed), flush=True)
    if not request.no_report:
        report_at_end(results, folder, domain)
    return 0


def _check_numbers(request: RunRequest) -> None:
    """Check what would otherwise be reported without the name of its option."""
    if request.replicates is not None:
        whole_number("--replicates", request.replicates, least=1)
    whole_number("--evaluations", request.evaluations, least=1, most=MOST_EVALUATIONS)
    whole_number("--batch-size", request.batch_size, least=1)
    whole_number("--ahead", request.ahead, least=1)


def _announce(request: RunRequest, algorithm: Any, domain: Domain) -> None:
    size = f"{len(domain.tasks):,} tasks, " if hasattr(domain.tasks, "__len__") else ""
    runs, seed = request.replicates or 1, request.seed
    seeds = f"seed {seed}" if runs == 1 else f"{runs} runs of seeds {seed} to {seed + runs - 1}"
    print(f"{domain.name}: {size}{request.evaluations:,} evaluations, {algorithm.name}, {seeds}", flush=True)


@contextlib.contextmanager
def joined_ray(address: str | None) -> Iterator[dict[str, Any]]:
    """Join the Ray cluster at an address, and leave it at the end; gives the keywords of `te.solve` that use it."""
    if address is None:
        yield {}
        return
    with RayExecutor(address) as executor:
        yield {"executor": executor}


def replay(options: argparse.Namespace) -> int:
    """Make a failed evaluation again."""
    failure = read_failure(options.run, options.id)
    EvaluationOptions(timeout=options.timeout)  # it must make sense
    folder = Path(options.run).resolve()
    named = options.run
    if read_plan(folder) is None and read_plan(folder.parent) is not None:  # a replicate of a run that has several
        folder, named = folder.parent, str(folder.parent)
    request = RunRequest.of_run(folder, named)
    with request.in_its_folder():
        _, domain = request.problem()
        if isinstance(domain.tasks, Tasks) and failure.task >= len(domain.tasks):
            raise InvalidValueError(
                f"the domain has {len(domain.tasks)} tasks, and the failure is on task {failure.task}"
            )
        numbers = ", ".join(f"{value:.6g}" for value in failure.solution)
        print(f"failure {failure.id}: evaluation {failure.evaluation:,}, task {failure.task}, solution [{numbers}]")
        print(f"then: {failure.kind}: {failure.message}")
        evaluation_options = EvaluationOptions(
            timeout=options.timeout or request.timeout,
            setup=getattr(domain, "setup", None),
            samples=request.samples or 1,
        )
        print(f"now:  {_replayed(domain, failure, evaluation_options, here=options.here)}")
    return 0


def _replayed(domain: Domain, failure: FailedEvaluation, evaluation_options: EvaluationOptions, *, here: bool) -> str:
    """What comes of it now, in words."""
    if domain.call == "jax":
        raise InvalidValueError(
            "a JAX fitness runs inside of a compiled program, whose failures are not kept one by one"
        )
    tasks: Tasks | Box = domain.tasks
    task = tasks.pick(np.array([failure.task])) if isinstance(tasks, Tasks) else np.array([failure.descriptors])
    work = Work(np.array([0]), failure.solution[None], task)
    behaviour = getattr(domain, "behaviour", None)
    caller = Caller(
        domain.fitness,
        domain.call,
        0 if behaviour is None else len(behaviour),
        evaluation_options.setup,
        evaluation_options.samples,
    )
    engine = InlineEngine(caller, lambda: False) if here else Workers(caller, 1, evaluation_options.timeout)
    try:
        engine.submit(work)
        begin = time.monotonic()
        found: list[Any] = []
        while not found:
            found = engine.collect(1.0)
        took = time.monotonic() - begin
    finally:
        engine.close()
    [(_, answer)] = found
    if isinstance(answer, LostChunk):
        return f"{answer.kind}: {answer.message}"
    if answer.failures:
        trace = answer.failures[0].trace
        if trace:
            print(trace, file=sys.stderr)
        return f"{answer.failures[0].kind}: {answer.failures[0].message}"
    if undescribed(answer.fitness, answer.behaviour).any():
        return f"nan: fitness returned {float(answer.fitness[0])!r}, and the behaviour has NaN in it"
    value = float(answer.fitness[0])
    what = (
        "fitness returned"
        if evaluation_options.samples == 1
        else f"the mean of {evaluation_options.samples} samples is"
    )
    return f"{'nan: ' if value != value else ''}{what} {value!r}, after {took:.3g} s"


def _closing(results: Result | list[Result], seconds: float, folder: Path, *, resumed: bool) -> str:
    """What a person wants to know at the end."""
    if isinstance(results, Result):
        told = results.evaluations
        lines = [results.summary()]
    else:
        told = sum(result.evaluations for result in results)
        lines = _table(results)
    rate = " this time" if resumed else f" ({told / seconds:,.0f} evaluations a second, start-up included)"
    lines.append(f"{'time':<12} {seconds:.1f} s{rate}")
    lines.append(f"{'saved':<12} {folder}")
    return "\n".join(lines)


def _table(results: list[Result]) -> list[str]:
    """A line for each replicate; the gap only where the optimum is known."""
    columns = {"mean": "mean", "median": "median", "best": "highest", "worst": "lowest", "gap": "gap"}
    if all(result.optimum is None for result in results):
        del columns["gap"]
    lines = [f"{'seed':>6} {'coverage':>10}" + "".join(f" {title:>12}" for title in columns)]
    for result in results:
        row = result.to_row()
        start = f"{result.settings['seed']:>6} {100 * row['coverage']:>8.4g} %"
        lines.append(start + "".join(f" {row[measure]:>12.6g}" for measure in columns.values()))
    return lines
