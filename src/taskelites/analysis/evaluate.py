"""Evaluation of elites on tasks, shared by all analyses, with the evaluation options of `te.solve`."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskelites.algorithms import Candidates
from taskelites.errors import FitnessError, FitnessWarning, Interrupted, InvalidTypeError, InvalidValueError
from taskelites.evaluation import EvaluationOptions, Failure, JaxFitness, Outcomes, alone, compiled_errors
from taskelites.evaluation.dispatcher import Evaluator, evaluate_together
from taskelites.problem.problem import CALLS, DomainView, check_fitness, domain_in
from taskelites.problem.tasks import Box, Tasks, as_tasks
from taskelites.process import Interruption, shows_progress
from taskelites.results.result import Result
from taskelites.runs import FailureLog, Progress
from taskelites.runs.failure_log import raise_first
from taskelites.runs.identity import text_of
from taskelites.search.job import check_compiled

# Number of rows per step, and per call of a batch or JAX function: large enough for good throughput, small enough to
# react quickly to Ctrl-C.
BLOCK = {"each": 4096, "batch": 512, "jax": 8192}
_SAVE_SECONDS = 60.0

Pairs = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """Validated arguments of an analysis: a result and a fitness for its elites.

    Attributes:
        result: the result with the elites.
        fitness: the function.
        call: "each", "batch" or "jax".
        tasks: the tasks as the fitness receives them.
        evaluation_options: options for the evaluation.
        options: options of the domain; None for a function.
        behaviour_dim: length of the behaviour that the fitness returns, which is ignored; 0 if it returns none.
        rows_per_call: number of rows per call at which a domain's fitness is fastest; None if unknown.
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
    """Validate the arguments of an analysis.

    Raises:
        ValueError, TypeError: if the fitness is invalid or does not fit the tasks, or no task is solved.
        FitnessError: if JAX can't trace the fitness.
    """
    if not isinstance(result, Result):
        raise InvalidTypeError(f"result must be a Result, not {type(result).__name__}; te.load loads one from a file")
    if not result.solved.any():
        raise InvalidValueError(f"result must have elites, but none of its {len(result):,} tasks is solved")
    tasks, options, rows_per_call = result.tasks, None, None
    behaviour = result.settings.get("behaviour")
    if (domain := domain_in(fitness)) is not None:
        behaviour = domain.behaviour
        if call is not None:
            raise InvalidValueError("a domain has its own call; leave it out")
        tasks = tasks_of(fitness, result)
        options, rows_per_call = dict(domain.options), domain.rows_per_call
        evaluation_options = evaluation_options.with_setup(domain.setup)
        fitness, call = domain.fitness, domain.call
    elif call is None:
        call = _default_call(result)
    check_fitness(fitness, call)
    returned = 0 if behaviour is None else len(behaviour)
    if call == "jax":
        check_compiled(evaluation_options)
        if tasks.descriptors is None:
            raise InvalidValueError(
                "call='jax' needs tasks with descriptors, which the fitness receives, but these have none"
            )
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


def _default_call(result: Result) -> str:
    known = result.settings.get("call", "each")
    if known not in CALLS:  # from a loop written by the user
        raise InvalidValueError(
            f"call must be one of {', '.join(map(repr, CALLS))}: the result is from {known}, which does not record how "
            "the fitness is called"
        )
    return str(known)


def tasks_of(domain: Any, result: Result, name: str = "fitness") -> Tasks:
    """Return the tasks of a domain after checking that they match those of a result.

    A loaded result has only the text of task objects, whereas the domain has the objects.

    Args:
        domain: the domain.
        result: the result.
        name: name of the argument that holds the domain, for error messages.

    Raises:
        ValueError: if the tasks or the length of solutions differ.
    """
    remedy = "; create the domain with tasks=result.tasks, if it accepts such tasks"
    domain = DomainView(domain)
    whose = f"{name} must be a domain with the result's tasks, but {domain.name!r} has"
    dim = domain.dim
    if dim is not None and dim != result.solutions.shape[1]:
        raise InvalidValueError(
            f"{whose} solutions of length {dim}, and the result of length {result.solutions.shape[1]}"
        )
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
            raise InvalidValueError(f"{whose} other task objects")
    return tasks


class Rows:
    """Pairs of elites and tasks, evaluated in order; the value is NaN for a failed row, -inf for an infeasible one.

    Args:
        trial: the fitness and the elites.
        what: name of the analysis, for messages.
        total: number of rows.
        pairs: maps indices of rows to the tasks that the elites belong to, and the tasks to evaluate them on.
        known: values of the first rows from an earlier, interrupted analysis.

    Attributes:
        values: `(total,)`, of which the first `done` are known.
        failures: log of the failures in this analysis.
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
        save: Callable[[np.ndarray], None] | None = None,
        make_result: Callable[[np.ndarray], Any],
        hint: str = "",
        depth: int = 4,
    ) -> Any:
        """Evaluate all rows without a value.

        Args:
            progress: whether to show a progress bar; None for only in a terminal.
            about: description of the rows, shown at the start.
            save: called with the values so far, about once per minute and at the end, even after an error.
            make_result: converts the values so far to the return value, or to the `result` of an exception.
            hint: advice to the user after an interruption.
            depth: stack level of the user's call, for warnings.

        Returns:
            `make_result` of all values.

        Raises:
            Interrupted: after Ctrl-C, SIGTERM or SIGHUP.
            FitnessError: if all rows fail, one row fails with `on_error="raise"`, or workers can't be set up.
        """
        total = len(self.values)
        shown = shows_progress(progress)
        try:
            with Progress(total, self.what) if shown else nullcontext() as self._bar, Interruption() as interruption:
                self._note(f"{total:,} evaluations{self._samples_text()}: {about}{self._known_text()}")
                try:
                    self._evaluate(interruption, save)
                finally:
                    if save is not None and self.done > self._before:
                        save(self.values[: self.done])
            if interruption.noted and self.done < total:
                stop = Interrupted(f"interrupted after {self.done:,} of {total:,} evaluations of the {self.what}{hint}")
                stop.signal = interruption.signal
                raise stop
        except (Interrupted, FitnessError) as error:
            with suppress(AttributeError):
                error.result = make_result(self.values[: self.done])
            raise
        self._warn(depth)
        return make_result(self.values)

    def _evaluate(self, interruption: Interruption, save: Callable[[np.ndarray], None] | None) -> None:
        last_save = time.monotonic()
        total = len(self.values)

        def halt() -> bool:
            return interruption.noted

        try:
            with closing(self._evaluator(halt)) as evaluator:
                while self.done < total and not halt():
                    for _ in evaluate_together(evaluator, [self], halt, offset=self.done):
                        if self._bar is not None:
                            self._bar.update(self.done, self._counts)
                        if save is not None and time.monotonic() - last_save > _SAVE_SECONDS:
                            save(self.values[: self.done])
                            last_save = time.monotonic()
            self.failures.check(ended=self.done == total)
        except FitnessError as error:
            if not interruption.noted:  # else Ctrl-C ended the processes of a pool
                raise self._with_hint(error) from error.__cause__

    def ask(self) -> Candidates:
        """Return the next candidates; see `Evaluable`."""
        rows = np.arange(self.done, min(self.done + self._size, len(self.values)))
        elites, numbers = self._pairs(rows)
        solutions: Any = np.asarray(self.trial.result.solutions[elites], np.float64)
        niches: Any = numbers
        return Candidates(solutions=solutions, niches=niches, tasks=self.trial.tasks.pick(numbers), numbers=niches)

    def take(self, found: Outcomes, asked: Candidates) -> None:
        """Store the next results; see `Evaluable`."""
        fatal = self.trial.evaluation_options.on_error == "raise" and bool(found.failures)
        part = found.part(slice(min(found.failures))) if fatal else found
        self.failures.add_all(part, self.done, asked.numbers, asked.tasks, asked.solutions)
        self.failures.streak = 0  # an elite may fail on many tasks in a row although the simulator works
        self.values[self.done : self.done + len(part)] = part.fitness
        self.done += len(part)
        if fatal:
            raise_first(found, asked.numbers, asked.solutions)
        self.failures.check()

    @property
    def _size(self) -> int:
        """Number of rows per step."""
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
            on_rebuild=self.failures.add_rebuild,
        )

    def _with_hint(self, error: FitnessError) -> FitnessError:
        """Return the error, with a hint if all evaluations failed and the tasks may be text in place of objects."""
        objects = self.trial.tasks.objects
        if self.failures.succeeded or objects is None or not all(isinstance(task, str) for task in objects):
            return error
        explained = FitnessError(
            f"{error}; the tasks are text, and a loaded result has only the text of task objects: give a domain with "
            "the objects as fitness, or dataclasses.replace(result, tasks=te.Tasks(objects)) as result"
        )
        for note in getattr(error, "__notes__", ()):  # such as the traceback of a worker
            explained.add_note(note)
        return explained

    def _samples_text(self) -> str:
        samples = self.trial.evaluation_options.samples
        return f" of {samples:,} samples each" if samples > 1 else ""

    def _known_text(self) -> str:
        return f" ({self.done:,} of them already done)" if self.done else ""

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
    """Evaluator of a JAX function on blocks of equal size, so that it is compiled once, in JAX's default precision."""

    def __init__(self, fitness: Callable[..., Any], rows: int) -> None:
        import jax

        from taskelites.compile_cache import clear_full_compile_cache

        clear_full_compile_cache()
        self._mapped = jax.jit(jax.vmap(fitness))
        self._rows = rows

    def stream(
        self, solutions: np.ndarray, tasks: Any, *, offset: int, behaviour_dim: int, halt: Callable[[], bool]
    ) -> Iterator[Outcomes]:
        """Yield all results at once; see `Evaluator`."""
        import jax.numpy as jnp

        number = len(solutions)
        padding = ((0, self._rows - number), (0, 0))
        padded = [jnp.asarray(np.pad(part, padding, mode="edge")) for part in (solutions, tasks)]
        with compiled_errors():
            values = np.asarray(self._mapped(*padded), dtype=np.float64)[:number]
        bad = np.flatnonzero(np.isnan(values) | (values == np.inf))
        failures = {int(i): Failure("nan", f"fitness returned {values[i]}") for i in bad}
        yield Outcomes(np.arange(number), np.where(values == np.inf, np.nan, values), None, failures)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
