"""`taskelites run`, `resume` and `replay`."""

import argparse
import contextlib
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from taskelites.cli.values import (
    algorithm_maker,
    make_algorithm,
    make_domain,
    number,
    pair,
    parameters,
    specification,
)
from taskelites.errors import Interrupted, InvalidValueError, MissingFileError, whole_number
from taskelites.evaluation import Caller, RayExecutor
from taskelites.evaluation.dispatcher import undescribed
from taskelites.evaluation.engines.inline import InlineEngine, Lost, Work
from taskelites.evaluation.engines.workers import Workers
from taskelites.evaluation.options import MODES, ON_ERROR, EvaluationOptions
from taskelites.problem.problem import Domain
from taskelites.problem.tasks import Box, Tasks
from taskelites.results.result import Result
from taskelites.runs import CheckpointInterval, FailedEvaluation, RunFolder, read_failure, read_plan
from taskelites.search import MOST_EVALUATIONS, solve
from taskelites.storage import file_name

_MANNER = ("workers", "on_error", "retries", "timeout", "mode")


def add_manner(parser: argparse.ArgumentParser, *, modes: bool = True, samples: bool = True) -> None:
    """The options that say how a Python fitness is evaluated, and kept."""
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
    """The option of how many processes evaluate a Python fitness."""
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
    """Run a domain, from its beginning or from where it stopped."""
    from taskelites.cli.report_command import report_at_end

    algorithm, domain = problem_of(options)
    runs = 1 if options.replicates is None else whole_number("--replicates", options.replicates, least=1)
    evaluations = whole_number("--evaluations", options.evaluations, least=1, most=MOST_EVALUATIONS)
    whole_number("--batch-size", options.batch_size, least=1)
    whole_number("--ahead", options.ahead, least=1)
    resumed = options.resume is not None
    if resumed:
        folder = options.resume
    else:
        made = RunFolder(options.out) if options.out else RunFolder.under("runs", file_name(domain.name))
        folder = Path(made.named)
    size = f"{len(domain.tasks):,} tasks, " if hasattr(domain.tasks, "__len__") else ""
    budget = f"{evaluations:,} evaluations, {algorithm.name}"
    seeds = f"seed {options.seed}" if runs == 1 else f"{runs} runs of seeds {options.seed} to {options.seed + runs - 1}"
    print(f"{domain.name}: {size}{budget}, {seeds}", flush=True)
    begin = time.monotonic()
    try:
        with evaluation_options_of(options) as evaluation_options:
            results: Any = solve(
                domain,
                evaluations=evaluations,
                algorithm=algorithm,
                batch_size=options.batch_size,
                ahead=options.ahead,
                seed=options.seed,
                replicates=options.replicates,
                out=folder,
                resume=resumed,
                checkpoint_every=options.checkpoint_every,
                progress=not options.quiet,
                origin={"command": options.arguments, "folder": os.getcwd(), "since": getattr(options, "since", {})},
                **evaluation_options,
            )
    except Interrupted as stop:
        stop.args = (f"{stop}; `taskelites resume {shlex.quote(str(folder))}` goes on",)
        raise
    finally:
        with contextlib.suppress(OSError):  # a folder that something was written to stays
            folder.rmdir()
    took = time.monotonic() - begin
    print(_closing(results, took, folder, resumed=resumed), flush=True)
    report_at_end(results, folder, domain, options)
    return 0


def problem_of(options: argparse.Namespace) -> tuple[Any, Domain]:
    """The algorithm and the domain that a command names."""
    name, inline = specification(options.algorithm)
    maker = algorithm_maker("--algorithm", name)
    own = parameters(maker)
    given = dict(pair(text) for text in options.set)
    algorithm = make_algorithm(name, maker, inline | {key: value for key, value in given.items() if key in own})
    others = {key: value for key, value in given.items() if key not in own}
    return algorithm, make_domain(options, others, own, f"with --algorithm {name}, --set")


@contextlib.contextmanager
def evaluation_options_of(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """How to evaluate, as `te.solve` takes it; Ray is joined for as long."""
    given = {name: value for name in (*_MANNER, "samples") if (value := getattr(options, name, None)) is not None}
    if options.ray is None:
        yield given
        return
    with RayExecutor(options.ray) as executor:
        yield given | {"executor": executor}


def resume(options: argparse.Namespace) -> int:
    """Go on with the run in a folder, by the command that began it."""
    with as_it_was(options) as before:
        names = ("evaluations", "checkpoint_every", "ray", *_MANNER)
        given = {name: value for name in names if (value := getattr(options, name)) is not None}
        before.since |= given  # kept for the next time
        for name, value in before.since.items():
            setattr(before, name, value)
        if options.on_error not in (None, "retry"):
            before.retries = None
        if options.ray is not None:
            before.workers = None
        elif options.workers is not None:
            before.ray = None
        before.quiet = options.quiet
        before.no_report = options.no_report or before.no_report
        return run(before)


@contextlib.contextmanager
def as_it_was(options: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """The options of the command that began a run, in the folder that it was given in."""
    folder = Path(options.run).resolve()
    if not folder.is_dir():
        raise MissingFileError(f"there is no run folder {options.run!r}")
    plan = read_plan(folder)
    if plan is None:
        raise MissingFileError(f"{options.run!r} holds no run (no run.json is in it)")
    origin = plan.get("origin")
    if not isinstance(origin, dict) or not isinstance(origin.get("command"), list):
        raise InvalidValueError(
            f"the run in {options.run!r} was begun in Python, and only its program has the fitness: there, "
            "te.solve(..., out=..., resume=True) with the same arguments goes on, and te.analysis.failures lists what "
            "failed"
        )
    place = origin.get("folder")
    there = contextlib.chdir(place) if isinstance(place, str) and Path(place).is_dir() else contextlib.nullcontext()
    with there:
        before = options.parser.parse_args([str(part) for part in origin["command"]])
        before.arguments = origin["command"]
        before.resume = folder
        before.since = dict(origin.get("since", {}))
        before.evaluations = plan["plan"]["evaluations"]  # it may have been raised since
        yield before


def replay(options: argparse.Namespace) -> int:
    """Make a failed evaluation again."""
    failure = read_failure(options.run, options.id)
    EvaluationOptions(timeout=options.timeout)  # it must make sense
    folder = Path(options.run).resolve()
    if read_plan(folder) is None and read_plan(folder.parent) is not None:  # a replicate of a run that has several
        options.run = str(folder.parent)
    with as_it_was(options) as before:
        _, domain = problem_of(before)
        if isinstance(domain.tasks, Tasks) and failure.task >= len(domain.tasks):
            raise InvalidValueError(
                f"the domain has {len(domain.tasks)} tasks, and the failure is on task {failure.task}"
            )
        numbers = ", ".join(f"{value:.6g}" for value in failure.solution)
        print(f"failure {failure.id}: evaluation {failure.evaluation:,}, task {failure.task}, solution [{numbers}]")
        print(f"then: {failure.kind}: {failure.message}")
        evaluation_options = EvaluationOptions(
            timeout=options.timeout or before.timeout, setup=getattr(domain, "setup", None), samples=before.samples or 1
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
    if isinstance(answer, Lost):
        return f"{answer.kind}: {answer.message}"
    if answer.troubles:
        trace = answer.troubles[0].trace
        if trace:
            print(trace, file=sys.stderr)
        return f"{answer.troubles[0].kind}: {answer.troubles[0].message}"
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
