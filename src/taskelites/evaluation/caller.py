"""The call of a fitness on a chunk of candidates, as every engine makes it, in this process or in another one.

This module travels to the workers by value, and answers in plain tuples and arrays; so a worker needs NumPy and what
the fitness needs, and never imports this library (or JAX, which is slow to start). It must import nothing of ours.
"""

import copy
import faulthandler
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

# How an evaluation fails: the function raises, gives NaN or +inf, gives something that is no number, takes too long,
# takes its process along. A failed `setup` is no evaluation's, and ends the run.
KINDS = ("raised", "nan", "nonsense", "timeout", "died")
SETUP = "setup"
_LONGEST_TEXT, _LONGEST_TRACE = 500, 5000


class Trouble(NamedTuple):
    """What went wrong with a row of a chunk, or with all of it (row -1)."""

    row: int
    kind: str
    message: str
    trace: str


class Answer(NamedTuple):
    """What came of a chunk: fitness and behaviour of its rows (NaN in those that failed), troubles, seconds it took."""

    fitness: np.ndarray
    behaviour: np.ndarray | None
    troubles: list[Trouble]
    seconds: float


class NonsenseError(Exception):
    """The function returned something that is no fitness."""


class HaltedError(Exception):
    """Somebody asked to stop in the middle of an evaluation."""


def nothing(*_: Any) -> None:
    """Note nothing."""


class Caller:
    """A user's fitness, ready to be called on chunks.

    Args:
        fitness: the function.
        call: "each" or "batch".
        behaviour_dim: how many numbers describe a behaviour; 0 if the fitness returns the fitness alone.
        keeps: whether anybody wants the behaviour; if not, it is dropped here, and does not travel.
        setup: makes what the fitness gets as its last argument, once in each worker; None if it gets none.
        samples: calls of the fitness for one evaluation, which is their mean.
    """

    def __init__(
        self,
        fitness: Callable[..., Any],
        call: str,
        behaviour_dim: int = 0,
        setup: Callable[[], Any] | None = None,
        samples: int = 1,
        keeps: bool = True,
    ) -> None:
        self.fitness = fitness
        self.call = call
        self.behaviour_dim = behaviour_dim
        self.kept_dim = behaviour_dim if keeps else 0
        self.setup = setup
        self.samples = samples
        self.sample = 1  # that is being made
        self.extra: tuple[Any, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"extra": ()}  # what `setup` made stays where it was made

    def prepare(self) -> "Caller":
        """Run `setup` in the process (and thread) that is going to call."""
        if self.setup is not None:
            self.extra = (self.setup(),)
        return self

    def __call__(
        self,
        solutions: np.ndarray,
        tasks: Any,
        begins: Callable[[int], None] = nothing,
        halt: Callable[[], Any] = nothing,
    ) -> tuple[Any, ...]:
        """The `Answer`, as a plain tuple.

        Args:
            solutions: `(rows, dim)`.
            tasks: as many.
            begins: told, before each call of the fitness, the row that it is for.
            halt: asked between two of them; True leaves what is not finished by then out of the answer.
        """
        start = time.perf_counter()
        evaluate = self._batch if self.call == "batch" else self._each
        fitness, behaviour, troubles = evaluate(solutions, tasks, begins, halt)
        return fitness, behaviour, [tuple(trouble) for trouble in troubles], time.perf_counter() - start

    def _each(
        self, solutions: np.ndarray, tasks: Any, begins: Callable[[int], None], halt: Callable[[], Any]
    ) -> tuple[np.ndarray, np.ndarray | None, list[Trouble]]:
        fitness = np.full(len(solutions), np.nan)
        behaviour = np.full((len(solutions), self.kept_dim), np.nan) if self.kept_dim else None
        troubles = []
        done = 0
        plain = self.samples == 1 and not self.behaviour_dim  # `_once`, without what a call more would cost
        for row, (solution, task) in enumerate(zip(solutions, tasks, strict=True)):
            begins(row)
            try:
                if plain:
                    value = self.fitness(solution, task, *self.extra)
                    fitness[row] = value if isinstance(value, float) else one_number(value)
                    described = None
                elif self.samples == 1:
                    fitness[row], described = self._once(solution, task, ())
                else:
                    fitness[row], described = self._mean(solution, task, (), partial(begins, row), halt)
                if behaviour is not None:
                    behaviour[row] = described
            except HaltedError:
                break
            except NonsenseError as problem:
                troubles.append(Trouble(row, "nonsense", f"{problem}{self._which()}", ""))
            except (Exception, SystemExit) as problem:  # noqa: BLE001 - what the user's function raises is its own
                message, trace = raised("fitness", problem)
                troubles.append(Trouble(row, "raised", f"{message}{self._which()}", trace))
            done = row + 1
            if halt():
                break
        return fitness[:done], None if behaviour is None else behaviour[:done], troubles

    def _batch(
        self, solutions: np.ndarray, tasks: Any, begins: Callable[[int], None], halt: Callable[[], Any]
    ) -> tuple[np.ndarray, np.ndarray | None, list[Trouble]]:
        rows = len(solutions)
        begins(0)
        try:
            if self.samples == 1:
                fitness, described = self._once(solutions, tasks, (rows,))
            else:
                fitness, described = self._mean(solutions, tasks, (rows,), partial(begins, 0), halt)
            return fitness, described, []
        except HaltedError:
            return np.empty(0), np.empty((0, self.kept_dim)) if self.kept_dim else None, []
        except NonsenseError as problem:
            trouble = Trouble(-1, "nonsense", f"{problem}{self._which()}", "")
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - as above
            message, trace = raised("fitness", problem)
            trouble = Trouble(-1, "raised", f"{message}{self._which()}", trace)
        behaviour = np.full((rows, self.kept_dim), np.nan) if self.kept_dim else None
        return np.full(rows, np.nan), behaviour, [trouble]

    def _once(self, solutions: np.ndarray, tasks: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
        """Fitness and behaviour of one call: of one solution (shape `()`), or of so many."""
        value = self.fitness(solutions, tasks, *self.extra)
        described = None
        if self.behaviour_dim:
            value, described = self._pair(value)
            described = numbers("the behaviour", described, (*shape, self.behaviour_dim))
            described = described if self.kept_dim else None
        if shape:
            value = numbers("fitness", value, shape)
        elif not isinstance(value, float):
            value = one_number(value)
        return value, described

    def _mean(
        self,
        solutions: np.ndarray,
        tasks: Any,
        shape: tuple[int, ...],
        begins: Callable[[], None],
        halt: Callable[[], Any],
    ) -> tuple[Any, Any]:
        """The same of several calls: their mean, or the first that is no finite number.

        The mean is moved by each sample, so that a function without noise gives the same bits as one call of it.
        """
        self.sample = 1
        value, described = self._once(*copies(solutions, tasks), shape)
        while self.sample < self.samples and np.isfinite(value).any():  # or nothing is left to be measured
            if halt():
                raise HaltedError
            self.sample += 1
            begins()
            more, also = self._once(*copies(solutions, tasks), shape)
            with np.errstate(over="ignore", invalid="ignore"):  # of a row that has failed, or two that are far apart
                value = np.where(np.isfinite(value), value + (more - value) / self.sample, value)
                if described is not None:
                    described = described + (also - described) / self.sample
        return value, described

    def _which(self) -> str:
        """Half a sentence on the sample that a message is of."""
        return f" (sample {self.sample} of {self.samples})" if self.samples > 1 else ""

    def _pair(self, value: Any) -> tuple[Any, Any]:
        if not isinstance(value, tuple) or len(value) != 2:
            raise NonsenseError(
                f"fitness must return a pair (fitness, behaviour), as behaviour= says, but it returned {shown(value)}"
            )
        return value


def copies(solutions: np.ndarray, tasks: Any) -> tuple[np.ndarray, Any]:
    """For a function that may write to its arguments, and is called with them once more."""
    return solutions.copy(), tasks.copy() if isinstance(tasks, np.ndarray) else tasks


def raised(what: str, problem: BaseException) -> tuple[str, str]:
    """What the user's function raised, with the line of it that did; and the whole traceback."""
    try:
        text = " ".join(str(problem).split())[:_LONGEST_TEXT]  # one line
    except Exception:  # noqa: BLE001 - an exception whose text can't be had is still an exception
        text = "(it has no text)"
    ours = raised.__code__.co_filename
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if frame.filename != ours]
    where = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    try:
        trace = "".join(traceback.format_exception(problem))
    except Exception:  # noqa: BLE001 - as above
        trace = "".join(traceback.format_tb(problem.__traceback__))
    if len(trace) > 2 * _LONGEST_TRACE:
        trace = f"{trace[:_LONGEST_TRACE]}\n...\n{trace[-_LONGEST_TRACE:]}"
    return f"{what} raised {type(problem).__name__}: {text}{where}", trace


def shown(value: Any) -> str:
    """A value in few letters, whatever it is."""
    try:
        return reprlib.repr(value)
    except Exception:  # noqa: BLE001 - a user's object may do anything
        return f"a {type(value).__name__}"


def one_number(value: Any) -> float:
    """`value` as a float, or an error that says what came instead."""
    if isinstance(value, tuple) and len(value) == 2:
        raise NonsenseError(
            f"fitness must return one number, but it returned the pair {shown(value)}; if the second is a behaviour, "
            "behaviour=[(lower, upper), ...] says so"
        )
    array = numbers("fitness", value, None)
    if array.size != 1:
        raise NonsenseError(f"fitness must return one number, but it returned an array of shape {array.shape}")
    return float(array.item())


def numbers(what: str, value: Any, shape: tuple[int, ...] | None) -> np.ndarray:
    """`value` as float64, or an error that says what came instead."""
    wanted = "one number" if shape is None else f"numbers of shape {shape}"
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise NonsenseError(f"{what} must be {wanted}, but the function returned {shown(value)}") from None
    if shape is not None and array.shape != shape:
        raise NonsenseError(f"{what} must be {wanted}, but the function returned shape {array.shape}")
    return array


class Remote:
    """A caller at the other end of an executor, made ready once for each process and thread.

    Args:
        token: tells one run's caller from another's.
        caller: the caller, or what cloudpickle made of it.
        timeout: after so many seconds the process ends itself; None for never.
    """

    def __init__(self, token: str, caller: Any, timeout: float | None) -> None:
        self.token = token
        self.caller = caller
        self.timeout = timeout

    def __call__(self, chunk: bytes) -> tuple[Any, ...]:
        """Evaluate a pickled chunk: its number, solutions, tasks."""
        import cloudpickle

        # A place that outlives this object, which arrives anew with each chunk.
        kept = vars(sys.modules.setdefault("_taskelites_callers", types.ModuleType("_taskelites_callers")))
        key = f"{self.token} {threading.get_ident()}"
        _, solutions, tasks = cloudpickle.loads(chunk)
        if key not in kept:
            for old in [name for name in kept if name.endswith(f" {threading.get_ident()}")]:
                del kept[old]  # of a run that is over
            doing = "reading the fitness"
            try:
                own = cloudpickle.loads(self.caller) if isinstance(self.caller, bytes) else copy.copy(self.caller)
                doing = "setup"
                kept[key] = own.prepare()
            except Exception as problem:  # noqa: BLE001 - whatever it is, the run must hear of it
                return np.empty(0), None, [(-1, SETUP, *raised(doing, problem))], 0.0
        if self.timeout is None:
            return kept[key](solutions, tasks)
        seconds = self.timeout * (len(solutions) if kept[key].call == "batch" else 1)
        try:
            # Python's own watchdog needs no lock of the interpreter, so a loop in C does not stop it.
            return kept[key](solutions, tasks, lambda row: faulthandler.dump_traceback_later(seconds, exit=True))
        finally:
            faulthandler.cancel_dump_traceback_later()
