"""Begin with what an earlier result knows: its elites on the tasks that it had, predictions on the others."""

from typing import Any

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError
from taskelites.problem.problem import Problem
from taskelites.problem.tasks import Box, Tasks
from taskelites.results.result import Result

__all__ = ["warm_initial"]


def warm_initial(earlier: Any, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Solutions, and the numbers of the tasks that each is evaluated on first: one for each task where one is known.

    A task is the same as one of `earlier` if its descriptors are, to the last bit; without descriptors, if its text is.

    Raises:
        TypeError, ValueError: if `earlier` is no result, or is one of another kind of solutions or tasks.
    """
    if not isinstance(earlier, Result):
        hint = f"; te.load({earlier!r}) reads one" if isinstance(earlier, str) else ""
        raise InvalidTypeError(f"warm_start must be a te.Result, not {type(earlier).__name__}{hint}")
    tasks = problem.tasks
    if isinstance(tasks, Box):
        raise InvalidValueError("warm_start needs a list of tasks to begin with, but tasks is a te.Box")
    dim = earlier.solutions.shape[1]
    if dim != problem.dim:
        raise InvalidValueError(
            f"warm_start has solutions of {dim} numbers, and these have {problem.dim}; they must agree"
        )
    if not earlier.solved.any():
        raise InvalidValueError("warm_start must have at least one solved task, and none is solved")
    if tasks.descriptors is not None and earlier.tasks.descriptors is not None:
        if tasks.dim != earlier.tasks.dim:
            raise InvalidValueError(
                f"warm_start has tasks of {earlier.tasks.dim} descriptors, and these have {tasks.dim}; they must agree"
            )
        numbers = np.arange(len(tasks))
        solutions = earlier.predict(tasks)
    else:
        numbers, solutions = _of_the_same(earlier, tasks)
    return np.clip(solutions, problem.lower, problem.upper), numbers


def _of_the_same(earlier: Result, tasks: Tasks) -> tuple[np.ndarray, np.ndarray]:
    """The elites of tasks that both have, by their text."""
    known = {text: number for number, text in enumerate(_texts(earlier.tasks)) if earlier.solved[number]}
    pairs = [(number, known[text]) for number, text in enumerate(_texts(tasks)) if text in known]
    if not pairs:
        raise InvalidValueError(
            "warm_start has no solved task in common with these, and without descriptors nothing is known of others; "
            "give both te.Tasks(objects, descriptors=...)"
        )
    numbers, old = np.array(pairs).T
    return numbers, earlier.solutions[old]


def _texts(tasks: Tasks) -> list[str]:
    return [] if tasks.objects is None else [str(task) for task in tasks.objects]
