"""Elites on tasks: what every analysis evaluates, in one place, in the ways that `te.solve` does."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskelites.algorithms import Candidates
from taskelites.errors import FitnessError, FitnessWarning, Interrupted, InvalidTypeError, InvalidValueError
from taskelites.evaluation import EvaluationOptions, Failure, JaxFitness, Outcomes, alone, compiled_errors
from taskelites.evaluation.dispatcher import Evaluator, evaluate_together
from taskelites.problem.problem import CALLS, check_fitness, is_domain
from taskelites.problem.tasks import Box, Tasks, as_tasks
from taskelites.process import Interruption, shows_progress
from taskelites.results.result import Result
from taskelites.runs import FailureLog, Progress
from taskelites.runs.failure_log import raise_first
from taskelites.runs.identity import text_of
from taskelites.search.job import check_compiled

# Rows that are laid out at a time. A call of a function over arrays gets as many: enough to keep its threads busy, few
# enough to answer Ctrl-C soon.
BLOCK = {"each": 4096, "batch": 512, "jax": 8192}
_SAVE_SECONDS = 60.0

Pairs = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """A fitness to try the elites of a result with, checked.

    Attributes:
        result: the elites.
        fitness: the function.
        call: how it is called.
        tasks: as the fitness receives them.
        evaluation_options: how it is evaluated.
        options: of the domain; None for a function.
        behaviour_dim: how many numbers of behaviour, which nobody wants here, the fitness returns besides.
        rows_per_call: the number of rows that a domain's fitness likes per call; None if it says nothing.
    """

    result: Result
    fitness: Callable[..., Any]
    call: str
    tasks: Tasks
    evaluation_options: EvaluationOptions
    options: dict[str, Any] | None = None
    behaviour_dim: int = 0
    rows_per_call: int | None = None


def make_trial(result: Any, fitness: Any, call: Any, evaluation_options: EvaluationOptions) -> Trial:
    """Check what an analysis was given.

    Raises:
        ValueError, TypeError: if the fitness is none, or of other tasks; if no task is solved.
    """
    if not isinstance(result, Result):
        raise InvalidTypeError(f"result must be a Result, not {type(result).__name__}; te.load reads one from its file")
    if not result.solved.any():
        raise InvalidValueError(f"result must have elites, but none of its {len(result):,} tasks is solved")
    if isinstance(fitness, str):
        raise InvalidTypeError(
            f"fitness must be a function or a domain, not {fitness!r}; did you mean te.domain({fitness!r})?"
        )
    tasks, options, rows_per_call = result.tasks, None, None
    behaviour = result.settings.get("behaviour")
    if is_domain(fitness):
        behaviour = getattr(fitness, "behaviour", None)
        if call is not None:
            raise InvalidValueError("a domain brings its own call; leave it out")
        tasks = tasks_of(fitness, result)
        options = dict(getattr(fitness, "options", {}))
        rows_per_call = getattr(fitness, "rows_per_call", None)
        if evaluation_options.setup is None and getattr(fitness, "setup", None) is not None:
            evaluation_options = replace(evaluation_options, setup=fitness.setup)
        fitness, call = fitness.fitness, fitness.call
    elif call is None:
        call = _usual_call(result)
    check_fitness(fitness, call)
    returned = 0 if behaviour is None else len(behaviour)
    if call == "jax":
        check_compiled(evaluation_options)
        if tasks.descriptors is None:
            raise InvalidValueError("call='jax' needs tasks with descriptors, which is what the fitness receives")
        JaxFitness.made_of(fitness, returned).check(result.solutions.shape[1], tasks.dim)
    return Trial(
        result=result,
        fitness=fitness,
        call=call,
        tasks=tasks,
        evaluation_options=evaluation_options,
        options=options,
        behaviour_dim=returned,
        rows_per_call=rows_per_call,
    )


def _usual_call(result: Result) -> str:
    known = result.settings.get("call", "each")
    if known not in CALLS:  # a loop of the user's own
        raise InvalidValueError(
            f"call must be given, one of {', '.join(map(repr, CALLS))}: the result is of {known}, which does not say "
            "how the fitness is called"
        )
    return str(known)


def tasks_of(domain: Any, result: Result, name: str = "fitness") -> Tasks:
    """The tasks of a domain, if they are those of the result: a loaded result has only the text of objects.

    Args:
        domain: that the result is to be of.
        result: its tasks and elites.
        name: of the argument that the domain is.

    Raises:
        ValueError: if they are not.
    """
    remedy = "; a domain made with tasks=result.tasks fits, if it takes such tasks"
    whose = f"{name} must be a domain of the result's tasks, but {getattr(domain, 'name', 'it')!r} has"
    dim = getattr(domain, "dim", None)
    if dim is not None and dim != result.solutions.shape[1]:
        raise InvalidValueError(f"{whose} solutions of {dim} numbers, and the result of {result.solutions.shape[1]}")
    tasks, own = as_tasks(domain.tasks), result.tasks
    if isinstance(tasks, Box):
        if tasks.dim != own.dim:
            raise InvalidValueError(f"{whose} {tasks.dim} descriptors, and the result {own.dim}")
        return own
    if len(tasks) != len(own):
        raise InvalidValueError(f"{whose} {len(tasks):,} tasks, and the result {len(own):,}{remedy}")
    if tasks.digest and own.digest and tasks.digest != own.digest:
        raise InvalidValueError(f"{whose} other descriptors (digest {tasks.digest}, the result's {own.digest}){remedy}")
    if tasks.objects is not None and own.objects is not None:
        here, there = text_of(tasks.objects), text_of(own.objects)
        if None not in (here, there) and here != there:
            raise InvalidValueError(f"{whose} tasks of another text")
    return tasks


class Rows:
    """Elites on tasks, evaluated row by row; a failed row is NaN, an infeasible one -inf.

    Args:
        trial: what evaluates.
        what: a word for it, for messages.
        total: how many rows there are.
        pairs: for numbers of rows, the tasks whose elites they are, and the tasks that these are tried on.
        known: the values of the first rows, from an earlier time.

    Attributes:
        values: `(total,)`, of which the first `done` are known.
        failures: of those that were evaluated now.
    """

    def __init__(self, trial: Trial, what: str, total: int, pairs: Pairs, known: np.ndarray | None = None) -> None:
        self.trial = trial
        self.what = what
        self.values = np.full(total, np.nan)
        self.done = self._before = 0 if known is None else len(known)
        if known is not None:
            self.values[: self.done] = known
        self._pairs = pairs
        self._bar: Progress | None = None
        self.failures = FailureLog(None, self._note)
        self.failures.succeeded = bool(np.isfinite(self.values[: self.done]).any())

    def run(
        self,
        *,
        progress: bool | None,
        about: str,
        keep: Callable[[np.ndarray], None] | None = None,
        found: Callable[[np.ndarray], Any],
        hint: str = "",
        depth: int = 4,
    ) -> Any:
        """Evaluate all rows that are not known.

        Args:
            progress: whether to show it; by default, in a terminal.
            about: what the rows are, said at the start.
            keep: given the values so far, now and then and at the end, whatever it is.
            found: makes of the values so far what is returned, or carried by what is raised.
            hint: what the user may do after an interruption.
            depth: of the user's own call, for warnings.

        Raises:
            Interrupted: after Ctrl-C or SIGTERM.
            FitnessError: if every row fails, one does with `on_error="raise"`, or workers can't be set up.
        """
        total = len(self.values)
        shown = shows_progress(progress)
        try:
            with Progress(total, self.what) if shown else nullcontext() as self._bar, Interruption() as interruption:
                self._note(f"{total:,} evaluations{self._calls()}: {about}{self._known()}")
                try:
                    self._evaluate(interruption, keep)
                finally:
                    if keep is not None and self.done > self._before:
                        keep(self.values[: self.done])
            if interruption.noted and self.done < total:
                stop = Interrupted(f"interrupted after {self.done:,} of {total:,} evaluations of the {self.what}{hint}")
                stop.signal = interruption.signal
                raise stop
        except (Interrupted, FitnessError) as problem:
            with suppress(AttributeError):
                problem.result = found(self.values[: self.done])
            raise
        self._warn(depth)
        return found(self.values)

    def _evaluate(self, interruption: Interruption, keep: Callable[[np.ndarray], None] | None) -> None:
        saved = time.monotonic()
        total = len(self.values)

        def halt() -> bool:
            return interruption.noted

        try:
            with closing(self._evaluator(halt)) as evaluator:
                while self.done < total and not halt():
                    for _ in evaluate_together(evaluator, [self], halt, offset=self.done):
                        if self._bar is not None:
                            self._bar.update(self.done, self._counts)
                        if keep is not None and time.monotonic() - saved > _SAVE_SECONDS:
                            keep(self.values[: self.done])
                            saved = time.monotonic()
            self.failures.check(ended=self.done == total)
        except FitnessError as error:
            if not interruption.noted:  # or it is a pool whose processes heard of Ctrl-C first
                raise self._explained(error) from error.__cause__

    def ask(self) -> Candidates:
        """Return the next rows; see `Evaluable`."""
        rows = np.arange(self.done, min(self.done + self._size, len(self.values)))
        elites, numbers = self._pairs(rows)
        solutions: Any = np.asarray(self.trial.result.solutions[elites], np.float64)
        niches: Any = numbers
        return Candidates(solutions=solutions, niches=niches, tasks=self.trial.tasks.pick(numbers), numbers=niches)

    def take(self, found: Outcomes, asked: Candidates) -> None:
        """Keep results, which follow those before; see `Evaluable`."""
        fatal = self.trial.evaluation_options.on_error == "raise" and bool(found.failures)
        part = found.part(slice(min(found.failures))) if fatal else found
        self.failures.add_all(part, self.done, asked.numbers, asked.tasks, asked.solutions)
        self.failures.streak = 0  # an elite that fails on a thousand tasks in a row is no broken simulator
        self.values[self.done : self.done + len(part)] = part.fitness
        self.done += len(part)
        if fatal:
            raise_first(found, asked.numbers, asked.solutions)
        self.failures.check()

    @property
    def _size(self) -> int:
        """The number of rows to ask for."""
        return self.trial.rows_per_call or BLOCK[self.trial.call]

    def _evaluator(self, halt: Callable[[], bool]) -> Evaluator:
        trial = self.trial
        if trial.call == "jax":
            return _CompiledBlocks(alone(trial.fitness, trial.behaviour_dim), self._size)
        return trial.evaluation_options.dispatcher(
            trial.fitness,
            trial.call,
            behaviour_dim=trial.behaviour_dim,
            batch_size=self._size,
            rows_per_call=trial.rows_per_call,
            left=lambda: len(self.values) - self.done,
            halt=halt,
            note=self._note,
        )

    def _explained(self, problem: FitnessError) -> FitnessError:
        """The same; where nothing worked, and the tasks may be the text of objects, with that and its remedy."""
        objects = self.trial.tasks.objects
        if self.failures.succeeded or objects is None or not all(isinstance(task, str) for task in objects):
            return problem
        told = FitnessError(
            f"{problem}; the tasks are text, and a result that was loaded has nothing else of tasks that were objects: "
            "give a domain that has the objects as fitness, or dataclasses.replace(result, tasks=te.Tasks(objects)) as "
            "result"
        )
        for note in getattr(problem, "__notes__", ()):  # where it was raised
            told.add_note(note)
        return told

    def _calls(self) -> str:
        samples = self.trial.evaluation_options.samples
        return f" of {samples:,} samples each" if samples > 1 else ""

    def _known(self) -> str:
        return f" ({self.done:,} of them are there)" if self.done else ""

    def _note(self, text: str) -> None:
        if self._bar is not None:
            self._bar.note(text)

    def _counts(self) -> str:
        failed = self.failures.counts.total()
        return f"{failed:,} failed" if failed else ""

    def _warn(self, depth: int) -> None:
        counts = self.failures.counts
        if counts:
            words = ", ".join(f"{kind} {number:,}" for kind, number in sorted(counts.items()))
            made = len(self.values) - self._before
            text = f"{counts.total():,} of {made:,} evaluations of the {self.what} failed ({words})"
            warnings.warn(text, FitnessWarning, stacklevel=depth)


class _CompiledBlocks:
    """A JAX function, on blocks of one size, so that it is compiled once; in the precision that the user's JAX has."""

    def __init__(self, fitness: Callable[..., Any], rows: int) -> None:
        import jax

        from taskelites.compile_cache import clear_full_compile_cache

        clear_full_compile_cache()
        self._mapped = jax.jit(jax.vmap(fitness))
        self._rows = rows

    def stream(
        self, solutions: np.ndarray, tasks: Any, *, offset: int, behaviour_dim: int, halt: Callable[[], bool]
    ) -> Iterator[Outcomes]:
        """Yield the results, all at once; see `Evaluator`."""
        import jax.numpy as jnp

        number = len(solutions)
        room = ((0, self._rows - number), (0, 0))
        padded = [jnp.asarray(np.pad(part, room, mode="edge")) for part in (solutions, tasks)]
        with compiled_errors():
            values = np.asarray(self._mapped(*padded), dtype=np.float64)[:number]
        bad = np.flatnonzero(np.isnan(values) | (values == np.inf))
        failures = {int(i): Failure("nan", f"fitness returned {values[i]}") for i in bad}
        yield Outcomes(np.arange(number), np.where(values == np.inf, np.nan, values), None, failures)

    def close(self) -> None:
        """Nothing to end."""
