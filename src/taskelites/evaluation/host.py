"""Fitness functions in Python, called in this process: one by one (`each`) or by the batch (`batch`)."""

import reprlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taskelites.errors import FitnessError


@dataclass(frozen=True)
class HostResults:
    """What came of a group of candidates, in order.

    Attributes:
        fitness: `(evaluated,)`, float64; fewer than were sent if something stopped it.
        behaviour: `(evaluated, behaviour_dim)`, or None.
        error: what went wrong with the first candidate that has no result.
    """

    fitness: np.ndarray
    behaviour: np.ndarray | None
    error: FitnessError | None = None


@dataclass(frozen=True)
class HostEvaluator:
    """Calls a Python fitness.

    Args:
        fitness: the function.
        call: "each" or "batch".
        behaviour_dim: how many numbers describe a behaviour; 0 if the fitness returns the fitness alone.
    """

    fitness: Callable[..., Any]
    call: str
    behaviour_dim: int = 0

    def __call__(self, solutions: np.ndarray, tasks: Any, numbers: np.ndarray, stop: Callable[[], bool]) -> HostResults:
        """Evaluate candidates, in order, until done, until one goes wrong, or until `stop()`."""
        return self._batch(solutions, tasks) if self.call == "batch" else self._each(solutions, tasks, numbers, stop)

    def _each(self, solutions: np.ndarray, tasks: Any, numbers: np.ndarray, stop: Callable[[], bool]) -> HostResults:
        fitness: list[float] = []
        behaviour: list[np.ndarray] = []
        error = None
        for solution, task, number in zip(solutions, tasks, numbers, strict=True):
            try:
                value = self.fitness(solution, task)
                if self.behaviour_dim:
                    value, described = self._pair(value)
                    behaviour.append(_numbers("the behaviour", described, (self.behaviour_dim,)))
                fitness.append(_number(value))
            except FitnessError as problem:
                error = FitnessError(f"{problem} (task {number}, solution {reprlib.repr(solution.tolist())})")
                break
            except Exception as problem:  # noqa: BLE001 - whatever the user's function raises is reported as its own
                error = _raised(problem, f"task {number}, solution {reprlib.repr(solution.tolist())}")
                break
            if stop():
                break
        rows = len(fitness)
        shaped = np.array(behaviour[:rows]).reshape(rows, self.behaviour_dim) if self.behaviour_dim else None
        return HostResults(np.array(fitness, np.float64), shaped, error)

    def _batch(self, solutions: np.ndarray, tasks: Any) -> HostResults:
        rows = len(solutions)
        described = None
        try:
            values = self.fitness(solutions, tasks)
            if self.behaviour_dim:
                values, described = self._pair(values)
                described = _numbers("the behaviour", described, (rows, self.behaviour_dim))
            return HostResults(_numbers("fitness", values, (rows,)), described)
        except FitnessError as problem:
            error = problem
        except Exception as problem:  # noqa: BLE001 - as above
            error = _raised(problem, f"a batch of {rows} candidates")
        return HostResults(np.empty(0), None if not self.behaviour_dim else np.empty((0, self.behaviour_dim)), error)

    def _pair(self, value: Any) -> tuple[Any, Any]:
        if not isinstance(value, tuple) or len(value) != 2:
            raise FitnessError(
                "fitness must return a pair (fitness, behaviour) for this algorithm, "
                f"but it returned {reprlib.repr(value)}"
            )
        return value


def _raised(problem: Exception, what: str) -> FitnessError:
    """What the user's function raised, with the line of it that did."""
    frames = traceback.extract_tb(problem.__traceback__)
    where = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}; " if len(frames) > 1 else ""
    error = FitnessError(f"fitness raised {type(problem).__name__}: {problem} ({where}{what})")
    error.__cause__ = problem
    return error


def _number(value: Any) -> float:
    if isinstance(value, float):
        return value
    array = _numbers("fitness", value, None)
    if array.size != 1:
        raise FitnessError(f"fitness must return one number, but it returned an array of shape {array.shape}")
    return float(array.item())


def _numbers(what: str, value: Any, shape: tuple[int, ...] | None) -> np.ndarray:
    """`value` as float64, or an error that says what came instead."""
    wanted = "one number" if shape is None else f"numbers of shape {shape}"
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise FitnessError(f"{what} must be {wanted}, but the function returned {reprlib.repr(value)}") from None
    if shape is not None and array.shape != shape:
        raise FitnessError(f"{what} must be {wanted}, but the function returned shape {array.shape}")
    return array
