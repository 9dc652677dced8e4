"""`te.analysis.replay`: evaluate a solution again whose evaluation failed during a run."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError, counted, finite_array
from taskelites.evaluation import Caller
from taskelites.evaluation.dispatcher import undescribed
from taskelites.evaluation.engines.inline import InlineEngine, LostChunk, Work
from taskelites.evaluation.engines.workers import Workers
from taskelites.evaluation.options import EvaluationOptions
from taskelites.problem.problem import CALLS, Call, check_fitness, domain_in
from taskelites.problem.tasks import Tasks, as_tasks
from taskelites.runs import FailedEvaluation, read_failure, read_plan


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A failed evaluation that was repeated.

    Attributes:
        failure: the failure in the run.
        kind: the kind of failure this time, as in `failure`; an empty text if it succeeded.
        message: a sentence on what happened.
        fitness: what the fitness returned; NaN if it failed.
        traceback: the traceback, or an empty text.
    """

    failure: FailedEvaluation
    kind: str
    message: str
    fitness: float = math.nan
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.kind else self.message


def replay(
    run: str | PathLike[str],
    number: int,
    fitness: Any,
    tasks: Any = None,
    *,
    call: Call | None = None,
    setup: Callable[[], Any] | None = None,
    timeout: float | None = None,
    samples: int | None = None,
    here: bool = False,
) -> Replay:
    """Repeat a failed evaluation of a run, to see why it failed.

    Args:
        run: a run folder; for replicates, the folder of one of them.
        number: the `id` of the failure, as `te.analysis.failures` lists them.
        fitness: the fitness of the run, or its domain.
        tasks: the tasks of the run, if they are objects. Descriptors are in the run folder.
        call: "each" or "batch"; as in the run by default.
        setup: as for `te.solve`.
        timeout: seconds after which the evaluation is stopped.
        samples: the number of calls per evaluation; as in the run by default.
        here: whether to evaluate in this process rather than in a new one, for use with a debugger.

    Raises:
        FileNotFoundError: if there is no such folder.
        ValueError, TypeError: if there is no such failure, or an argument is wrong.

    Example:
        >>> import tempfile, warnings, taskelites as te
        >>> def fitness(solution, task):
        ...     return float("nan") if solution[0] < 0.9 else task[0]
        >>> run = tempfile.mkdtemp()
        >>> with warnings.catch_warnings(action="ignore"):
        ...     result = te.solve(fitness, [[0.0], [1.0]], bounds=(0, 1), dim=1, evaluations=20, out=run)
        >>> print(te.analysis.replay(run, 1, fitness, here=True))
        nan: fitness returned nan, after ... s
    """
    failure = read_failure(run, number)
    plan = _plan_of(Path(run))
    behaviour = plan.get("behaviour")
    if (domain := domain_in(fitness)) is not None:
        fitness, call, behaviour = domain.fitness, call or domain.call, domain.behaviour
        tasks = domain.tasks if tasks is None else tasks
        setup = domain.setup if setup is None else setup
    call = call or (plan["call"] if plan.get("call") in CALLS else "each")
    check_fitness(fitness, call)
    if call == "jax":
        raise InvalidValueError(
            "replay needs a Python fitness; a JAX fitness runs in a compiled program, whose failures are not recorded"
        )
    wanted = (plan.get("samples") or 1) if samples is None else samples
    options = EvaluationOptions(timeout=timeout, setup=setup, samples=wanted)
    work = Work(np.array([0]), failure.solution[None], _task_of(failure, tasks))
    numbers = len(behaviour) if isinstance(behaviour, list | np.ndarray) else 0
    caller = Caller(fitness, call, numbers, options.setup, options.samples)
    engine = InlineEngine(caller, lambda: False) if here else Workers(caller, 1, options.timeout)
    return _evaluate(engine, work, failure, samples=options.samples)


def _plan_of(folder: Path) -> dict[str, Any]:
    """Return the plan of the run in a folder, or of the run of which it is a replicate; empty if there is none."""
    plan = (read_plan(folder) or read_plan(folder.parent) or {}).get("plan")
    return plan if isinstance(plan, dict) else {}


def _task_of(failure: FailedEvaluation, tasks: Any) -> Any:
    """Return the task of a failure as a batch of one, as the fitness received it."""
    given = None if tasks is None else as_tasks(tasks)
    if isinstance(given, Tasks) and given.objects is not None:
        if failure.task >= len(given):
            raise InvalidValueError(
                f"the failure is on task {failure.task}, but tasks has only {counted(len(given), 'task')}; give those "
                "of the run"
            )
        return given.pick(np.array([failure.task]))
    if not isinstance(failure.descriptors, list):
        raise InvalidTypeError(
            "tasks must be given, since those of this run are objects, and the run folder has only their text"
        )
    return finite_array(f"the task of failure {failure.id}", [failure.descriptors], shape="(1, k)", ndim=2)


def _evaluate(engine: Any, work: Work, failure: FailedEvaluation, *, samples: int) -> Replay:
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
        return Replay(failure=failure, kind=answer.kind, message=answer.message)
    if answer.failures:
        again = answer.failures[0]
        return Replay(failure=failure, kind=again.kind, message=again.message, traceback=again.trace)
    value = float(answer.fitness[0])
    if undescribed(answer.fitness, answer.behaviour).any():
        message = f"fitness returned {value!r}, and the behaviour contains NaN"
        return Replay(failure=failure, kind="nan", message=message)
    what = "fitness returned" if samples == 1 else f"the mean of {samples} samples is"
    message = f"{what} {value!r}, after {took:.3g} s"
    return Replay(failure=failure, kind="nan" if math.isnan(value) else "", message=message, fitness=value)
