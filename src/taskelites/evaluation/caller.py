"""Calls to the user's fitness for a chunk of candidates, shared by all engines.

This module is pickled by value and returns plain tuples and arrays. A worker therefore needs only NumPy and the
dependencies of the fitness: it never imports this library, nor JAX, which is slow to start. For the same reason, this
module must not import anything from `taskelites`.
"""

import copy
import faulthandler
import math
import os
import reprlib
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

# Kinds of failed evaluations: the fitness raised an exception, returned NaN or +inf, returned something other than a
# number, exceeded the timeout, or its process died. A failed `setup` belongs to no evaluation and ends the run.
KINDS = ("raised", "nan", "nonsense", "timeout", "died")
SETUP = "setup"
_MAX_MESSAGE_CHARS, _TRACE_HALF_CHARS = 500, 5000
# `setup` is called again after this number of exceptions in a row.
_MAX_EXCEPTIONS = 2


class RowFailure(NamedTuple):
    """Failure of one row of a chunk, or of the whole chunk (row -1)."""

    row: int
    kind: str
    message: str
    trace: str


class Answer(NamedTuple):
    """Result of a chunk.

    Attributes:
        fitness: per row, NaN where a row failed.
        behaviour: per row, NaN where a row failed; None if there is none.
        failures: rows that failed.
        seconds: duration.
        rebuilt: the exceptions after which `setup` was called again.
    """

    fitness: np.ndarray
    behaviour: np.ndarray | None
    failures: list[RowFailure]
    seconds: float
    rebuilt: tuple[str, ...] = ()


class InvalidReturnError(Exception):
    """The user's function returned something other than a fitness."""


class StopRequestedError(Exception):
    """A stop was requested between two samples of an evaluation."""


def do_nothing(*_: Any) -> None:
    """Return None for any arguments: the default callback."""


class Caller:
    """Callable that evaluates chunks of candidates with a user's fitness.

    Args:
        fitness: the user's function.
        call: "each" to call it per solution, "batch" to call it per chunk.
        behaviour_dim: length of a behaviour; 0 if the fitness returns no behaviour.
        setup: called once per worker; its return value is passed to the fitness as the last argument. None for no such
            argument.
        samples: number of calls per evaluation, whose mean is the result.
        keeps: whether to return the behaviour. If not, it is dropped before the result is sent back.
        retries: whether failed evaluations are retried. Then `setup` is called again after each exception; otherwise
            after two in a row.
    """

    def __init__(
        self,
        fitness: Callable[..., Any],
        call: str,
        behaviour_dim: int = 0,
        setup: Callable[[], Any] | None = None,
        samples: int = 1,
        keeps: bool = True,
        retries: bool = False,
    ) -> None:
        self.fitness = fitness
        self.call = call
        self.behaviour_dim = behaviour_dim
        self.kept_dim = behaviour_dim if keeps else 0
        self.setup = setup
        self.samples = samples
        self.sample = 1  # the current one, for messages
        self.extra: tuple[Any, ...] = ()
        self.exceptions = 0  # in a row
        self.max_exceptions = math.inf if setup is None else 1 if retries else _MAX_EXCEPTIONS
        self.last_exception = ""
        self.rebuilt: list[str] = []

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"extra": ()}  # the result of `setup` belongs to one process

    def set_up(self) -> tuple[str, str] | None:
        """Run `setup` in the process and thread that will call the fitness.

        Returns:
            None, or a message and the traceback if it failed.
        """
        if self.setup is not None:
            self.extra = ()  # first, so that two simulators never share a port or a licence
            try:
                self.extra = (self.setup(),)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's function may raise anything
                return describe_exception("setup", error)
        self.exceptions = 0
        return None

    def _rebuild(self, on_row: Callable[[int | None], None]) -> tuple[str, str] | None:
        """Run `setup` again, since its object may be broken."""
        on_row(None)
        self.rebuilt.append(self.last_exception)
        return self.set_up()

    def __call__(
        self,
        solutions: np.ndarray,
        tasks: Any,
        on_row: Callable[[int | None], None] = do_nothing,
        halt: Callable[[], Any] = do_nothing,
    ) -> tuple[Any, ...]:
        """Evaluate a chunk and return the fields of an `Answer` as a plain tuple.

        Args:
            solutions: `(rows, dim)`.
            tasks: `rows` tasks.
            on_row: called with the row before each call of the fitness, and with None before `setup` is called again.
            halt: called between two calls of the fitness. If it returns True, unfinished rows are left out.
        """
        start = time.perf_counter()
        evaluate = self._batch if self.call == "batch" else self._each
        self.rebuilt = []
        fitness, behaviour, failures = evaluate(solutions, tasks, on_row, halt)
        plain = [tuple(failure) for failure in failures]
        return fitness, behaviour, plain, time.perf_counter() - start, tuple(self.rebuilt)

    def _each(
        self, solutions: np.ndarray, tasks: Any, on_row: Callable[[int | None], None], halt: Callable[[], Any]
    ) -> tuple[np.ndarray, np.ndarray | None, list[RowFailure]]:
        fitness = np.full(len(solutions), np.nan)
        behaviour = np.full((len(solutions), self.kept_dim), np.nan) if self.kept_dim else None
        failures = []
        done = 0
        fast = self.samples == 1 and not self.behaviour_dim  # saves the overhead of `_call_once`
        are_objects = not isinstance(tasks, np.ndarray)
        for row, (solution, task) in enumerate(zip(solutions, tasks, strict=True)):
            done = row + 1
            if self.exceptions >= self.max_exceptions and (problem := self._rebuild(on_row)):
                failures.append(RowFailure(row, "raised", *problem))
                continue
            on_row(row)
            try:
                if fast:
                    value = self.fitness(solution, copied(task) if are_objects else task, *self.extra)
                    fitness[row] = value if isinstance(value, float) else as_float(value)
                    row_behaviour = None
                elif self.samples == 1:
                    fitness[row], row_behaviour = self._call_once(solution, task, ())
                else:
                    fitness[row], row_behaviour = self._mean_of_samples(solution, task, (), partial(on_row, row), halt)
                if behaviour is not None:
                    behaviour[row] = row_behaviour
                self.exceptions = 0
            except StopRequestedError:
                done = row
                break
            except InvalidReturnError as error:
                failures.append(RowFailure(row, "nonsense", f"{error}{self._sample_note()}", ""))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's function may raise anything
                failures.append(self._raised(row, error))
            if halt():
                break
        return fitness[:done], None if behaviour is None else behaviour[:done], failures

    def _batch(
        self, solutions: np.ndarray, tasks: Any, on_row: Callable[[int | None], None], halt: Callable[[], Any]
    ) -> tuple[np.ndarray, np.ndarray | None, list[RowFailure]]:
        rows = len(solutions)
        behaviour = np.full((rows, self.kept_dim), np.nan) if self.kept_dim else None
        if self.exceptions >= self.max_exceptions and (problem := self._rebuild(on_row)):
            return np.full(rows, np.nan), behaviour, [RowFailure(-1, "raised", *problem)]
        on_row(0)
        try:
            if self.samples == 1:
                fitness, batch_behaviour = self._call_once(solutions, tasks, (rows,))
            else:
                fitness, batch_behaviour = self._mean_of_samples(solutions, tasks, (rows,), partial(on_row, 0), halt)
            self.exceptions = 0
            return fitness, batch_behaviour, []
        except StopRequestedError:
            return np.empty(0), np.empty((0, self.kept_dim)) if self.kept_dim else None, []
        except InvalidReturnError as error:
            failure = RowFailure(-1, "nonsense", f"{error}{self._sample_note()}", "")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
            failure = self._raised(-1, error)
        return np.full(rows, np.nan), behaviour, [failure]

    def _raised(self, row: int, error: BaseException) -> RowFailure:
        """Count an exception of the fitness and describe it."""
        message, trace = describe_exception("fitness", error)
        self.exceptions += 1
        self.last_exception = message
        return RowFailure(row, "raised", f"{message}{self._sample_note()}", trace)

    def _call_once(self, solutions: np.ndarray, tasks: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
        """Return fitness and behaviour from one call, for one solution (shape `()`) or a batch (shape `(rows,)`)."""
        if not isinstance(tasks, np.ndarray):
            tasks = [copied(task) for task in tasks] if shape else copied(tasks)
        value = self.fitness(solutions, tasks, *self.extra)
        behaviour = None
        if self.behaviour_dim:
            value, behaviour = self._check_pair(value)
            behaviour = as_floats("the behaviour", behaviour, (*shape, self.behaviour_dim))
            behaviour = behaviour if self.kept_dim else None
        if shape:
            value = as_floats("fitness", value, shape)
        elif not isinstance(value, float):
            value = as_float(value)
        return value, behaviour

    def _mean_of_samples(
        self,
        solutions: np.ndarray,
        tasks: Any,
        shape: tuple[int, ...],
        on_row: Callable[[], None],
        halt: Callable[[], Any],
    ) -> tuple[Any, Any]:
        """Return the mean fitness and behaviour of several calls, or the first fitness that is not finite.

        The running mean makes the result of a function without noise bitwise equal to that of one call.
        """
        self.sample = 1
        value, behaviour = self._call_once(*copies(solutions, tasks), shape)
        while self.sample < self.samples and np.isfinite(value).any():  # else every row has its result
            if halt():
                raise StopRequestedError
            self.sample += 1
            on_row()
            new_value, new_behaviour = self._call_once(*copies(solutions, tasks), shape)
            with np.errstate(over="ignore", invalid="ignore"):  # rows that failed, or huge differences
                value = np.where(np.isfinite(value), value + (new_value - value) / self.sample, value)
                if behaviour is not None:
                    behaviour = behaviour + (new_behaviour - behaviour) / self.sample
        return value, behaviour

    def _sample_note(self) -> str:
        """Return a suffix that names the current sample in an error message."""
        return f" (sample {self.sample} of {self.samples})" if self.samples > 1 else ""

    def _check_pair(self, value: Any) -> tuple[Any, Any]:
        if not isinstance(value, tuple) or len(value) != 2:
            raise InvalidReturnError(
                "fitness must return a pair (fitness, behaviour), since behaviour= is given, but it returned "
                f"{shown(value)}"
            )
        return value


def copies(solutions: np.ndarray, tasks: Any) -> tuple[np.ndarray, Any]:
    """Copy the arrays among the arguments of a fitness, which may modify them in place."""
    return solutions.copy(), tasks.copy() if isinstance(tasks, np.ndarray) else tasks


def copied(task: Any) -> Any:
    """Return a copy of a task that is an object, which the fitness may modify; the object itself if it can't be copied.

    Every evaluation has its own copy, so results do not depend on which evaluations share a process.
    """
    try:
        return copy.deepcopy(task)
    except Exception:  # noqa: BLE001 - a lock or a socket, which no other process could receive either
        return task


def describe_exception(what: str, error: BaseException) -> tuple[str, str]:
    """Return a one-line message on an exception, with the user's line that raised it, and the traceback."""
    try:
        text = " ".join(str(error).split())[:_MAX_MESSAGE_CHARS]
    except Exception:  # noqa: BLE001 - a user's __str__ may raise anything
        text = "(no message available)"
    this_file = describe_exception.__code__.co_filename
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != this_file]
    where = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    try:
        trace = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - as above
        trace = "".join(traceback.format_tb(error.__traceback__))
    if len(trace) > 2 * _TRACE_HALF_CHARS:
        trace = f"{trace[:_TRACE_HALF_CHARS]}\n...\n{trace[-_TRACE_HALF_CHARS:]}"
    return f"{what} raised {type(error).__name__}: {text}{where}", trace


def shown(value: Any) -> str:
    """Return a short `repr` of any value."""
    try:
        return reprlib.repr(value)
    except Exception:  # noqa: BLE001 - a user's object may do anything
        return f"a {type(value).__name__}"


def as_float(value: Any) -> float:
    """Convert a return value of the fitness to a float.

    Raises:
        InvalidReturnError: if it is not one number.
    """
    if isinstance(value, tuple) and len(value) == 2:
        raise InvalidReturnError(
            f"fitness must return one number, but it returned the pair {shown(value)}; if the second element is a "
            "behaviour, give behaviour=[(lower, upper), ...]"
        )
    array = as_floats("fitness", value, None)
    if array.size != 1:
        raise InvalidReturnError(f"fitness must return one number, but it returned an array of shape {array.shape}")
    return float(array.item())


def as_floats(what: str, value: Any, shape: tuple[int, ...] | None) -> np.ndarray:
    """Convert a return value of the fitness to a float64 array.

    Args:
        what: name of the value in error messages.
        value: what the fitness returned.
        shape: expected shape; None where one number is expected, whose shape is not checked here.

    Raises:
        InvalidReturnError: if it is not numeric or has another shape.
    """
    expected = "one number" if shape is None else f"numbers of shape {shape}"
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError
        array = array.astype(np.float64)
        if isinstance(value, np.ma.MaskedArray):
            array[np.ma.getmaskarray(value)] = np.nan
    except (TypeError, ValueError):
        raise InvalidReturnError(f"{what} must be {expected}, but the function returned {shown(value)}") from None
    if shape is not None and array.shape != shape:
        raise InvalidReturnError(f"{what} must be {expected}, but the function returned shape {array.shape}")
    return array


class Remote:
    """Callable for executors that prepares its caller once per process and thread.

    Args:
        token: unique identifier of the run.
        caller: the caller, or its cloudpickle bytes.
        timeout: seconds per evaluation after which the process ends itself; None for no limit.
    """

    def __init__(self, token: str, caller: Any, timeout: float | None) -> None:
        self.token = token
        self.caller = caller
        self.timeout = timeout

    def __call__(self, chunk: bytes) -> tuple[Any, ...]:
        """Evaluate a pickled chunk `(number, solutions, tasks)`."""
        import cloudpickle

        # This object is unpickled anew for each chunk, so prepared callers are cached in a module.
        callers = vars(sys.modules.setdefault("_taskelites_callers", types.ModuleType("_taskelites_callers")))
        key = f"{self.token} {threading.get_ident()}"
        _, solutions, tasks = cloudpickle.loads(chunk)
        if key not in callers:
            for old in [name for name in callers if name.endswith(f" {threading.get_ident()}")]:
                del callers[old]  # from an earlier run
            problem: tuple[str, str] | None
            try:
                caller = cloudpickle.loads(self.caller) if isinstance(self.caller, bytes) else copy.copy(self.caller)
            except Exception as error:  # noqa: BLE001 - any failure must be reported to the run
                problem = describe_exception("reading the fitness", error)
            else:
                problem = caller.set_up()
            if problem:
                return np.empty(0), None, [(-1, SETUP, *problem)], 0.0
            callers[key] = caller
        if self.timeout is None:
            return callers[key](solutions, tasks)
        seconds = self.timeout * (len(solutions) if callers[key].call == "batch" else 1)

        def on_row(row: int | None) -> None:
            if row is None:  # `setup` is called again, and has no timeout
                faulthandler.cancel_dump_traceback_later()
            else:  # Python's watchdog thread does not need the GIL, so it also interrupts loops in C
                faulthandler.dump_traceback_later(seconds, exit=True)

        try:
            return callers[key](solutions, tasks, on_row)
        finally:
            faulthandler.cancel_dump_traceback_later()
