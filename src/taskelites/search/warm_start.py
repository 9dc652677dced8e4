"""Begin a search from an earlier result: its elites on known tasks, its predictions on new ones."""

from typing import Any

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError
from taskelites.problem.problem import Problem
from taskelites.problem.tasks import Box, Tasks
from taskelites.results.result import Result

__all__ = ["warm_initial"]


def warm_initial(earlier: Any, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return solutions and the numbers of their tasks, one for each task that `earlier` knows something about.

    Tasks are equal if all bits of their descriptors are; without descriptors, if their texts are.

    Raises:
        TypeError, ValueError: if `earlier` is not a result, or its solutions or tasks are of another kind.
    """
    if not isinstance(earlier, Result):
        hint = f"; read it with te.load({earlier!r})" if isinstance(earlier, str) else ""
        raise InvalidTypeError(f"warm_start must be a te.Result, not {type(earlier).__name__}{hint}")
    tasks = problem.tasks
    if isinstance(tasks, Box):
        raise InvalidValueError("warm_start needs a list of tasks, but tasks is a te.Box; leave warm_start out")
    dim = earlier.solutions.shape[1]
    if dim != problem.dim:
        raise InvalidValueError(f"warm_start must have solutions of {problem.dim} numbers, as this problem, not {dim}")
    if not earlier.solved.any():
        raise InvalidValueError("warm_start must have at least one solved task, but it has none")
    if tasks.descriptors is not None and earlier.tasks.descriptors is not None:
        if tasks.dim != earlier.tasks.dim:
            raise InvalidValueError(
                f"warm_start must have tasks of {tasks.dim} descriptors, as this problem, not {earlier.tasks.dim}"
            )
        numbers = np.arange(len(tasks))
        solutions = earlier.predict(tasks)
    else:
        numbers, solutions = _of_the_same(earlier, tasks)
    return np.clip(solutions, problem.lower, problem.upper), numbers


def _of_the_same(earlier: Result, tasks: Tasks) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of tasks that `earlier` has solved, compared by their text, and its elites of them."""
    known = {text: number for number, text in enumerate(_texts(earlier.tasks)) if earlier.solved[number]}
    pairs = [(number, known[text]) for number, text in enumerate(_texts(tasks)) if text in known]
    if not pairs:
        raise InvalidValueError(
            "warm_start must have a solved task in common with this problem if the tasks have no descriptors, but it "
            "has none; give both te.Tasks(objects, descriptors=...)"
        )
    numbers, old = np.array(pairs).T
    return numbers, earlier.solutions[old]


def _texts(tasks: Tasks) -> list[str]:
    return [] if tasks.objects is None else [str(task) for task in tasks.objects]
