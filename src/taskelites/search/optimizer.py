"""The search as an object with `ask` and `tell`."""

import warnings
from typing import Any

import numpy as np

from taskelites.algorithms import Candidates, as_algorithm
from taskelites.errors import InvalidCallError, InvalidTypeError, InvalidValueError, TaskWarning
from taskelites.evaluation.dispatcher import undescribed
from taskelites.problem.problem import Problem
from taskelites.results.result import Result
from taskelites.search.history import findings, make_result
from taskelites.search.job import as_ahead, as_initial, task_warnings
from taskelites.search.stepper import Stepper


class Optimizer:
    """The search as an object with `ask` and `tell`, for people with a loop of their own.

    Args:
        tasks, bounds, dim, behaviour, algorithm, batch_size, ahead, seed, initial: as for `solve`. With `ahead=4`, four
            calls of `ask` may be open at a time; `tell` takes them in the order of the calls.

    Example:
        >>> import numpy as np, taskelites as te
        >>> tasks = te.tasks.cvt(300, [0, 0], [1, 1])
        >>> optimizer = te.Optimizer(tasks, bounds=(0, 1), dim=2)
        >>> while optimizer.evaluations < 1000:
        ...     candidates = optimizer.ask(at_most=1000 - optimizer.evaluations)
        ...     optimizer.tell(candidates, -np.abs(candidates.solutions - candidates.tasks).sum(axis=1))
        >>> optimizer.result()
        <Result: ... of 300 tasks solved, mean fitness ..., 1,000 evaluations>
    """

    def __init__(
        self,
        tasks: Any,
        *,
        bounds: Any,
        dim: int | None = None,
        behaviour: Any = None,
        algorithm: Any = "auto",
        batch_size: int = 64,
        ahead: int = 1,
        seed: int = 0,
        initial: Any = None,
    ) -> None:
        problem = Problem(tasks, bounds, dim, behaviour)
        settings = as_algorithm(algorithm)
        for sentence in task_warnings(problem, settings):
            warnings.warn(sentence, TaskWarning, stacklevel=2)
        self._stepper = Stepper(
            problem,
            settings,
            batch_size=batch_size,
            ahead=as_ahead(ahead),
            seed=seed,
            initial=None if initial is None else as_initial(initial, problem),
        )
        self._asked: list[Candidates] = []  # and not told yet

    def __repr__(self) -> str:
        name, tasks = self._stepper.settings.name, self._stepper.problem.tasks
        return f"<Optimizer: {name} on {tasks!r}, {self.evaluations:,} evaluations told>"

    @property
    def evaluations(self) -> int:
        """How many results were told."""
        return self._stepper.evaluations

    def ask(self, at_most: int | None = None) -> Candidates:
        """The next candidates: `solutions` `(rows, dim)`, `niches` `(rows,)`, and `tasks`, what the fitness receives.

        Args:
            at_most: how many; the rest of the batch comes with the next calls.

        Raises:
            RuntimeError: if all candidates that may be asked for by now (`ahead` batches) are, and were not told yet.
        """
        stepper = self._stepper
        start = stepper.row + sum(map(len, self._asked))
        rows = len(stepper.candidates)
        if start == rows:
            raise InvalidCallError(self._full())
        batch = rows if stepper.adopting else rows // stepper.ahead
        asked = stepper.part(start, batch - start % batch, at_most)
        self._asked.append(asked)
        return asked

    def _full(self) -> str:
        """Say why there is nothing to ask for."""
        rows, ahead = sum(map(len, self._asked)), self._stepper.ahead
        if ahead == 1:
            return f"tell() the {rows} candidates of the last ask() before you ask() for more"
        return (
            f"all {ahead} batches of ahead={ahead} were asked for: tell() the {rows} candidates that are open before "
            "you ask() for more"
        )

    def tell(self, candidates: Candidates, fitness: Any, behaviour: Any = None) -> None:
        """Learn the fitness of the candidates of an `ask`: the first one that was not told yet.

        Args:
            candidates: what `ask` gave.
            fitness: `(rows,)`, higher is better; NaN or +inf = failed, -inf = infeasible: counted, never stored.
            behaviour: `(rows, b)`, for algorithms that use it; others do not look at it. NaN = failed.
        """
        if not self._asked or candidates is not self._asked[0]:
            one = self._stepper.ahead == 1 and len(self._asked) < 2
            raise InvalidValueError(
                f"candidates must be those of the {'last ask()' if one else 'first ask() that was not told yet'}, "
                "each told once"
            )
        rows = len(candidates)
        values = _told_numbers("fitness", fitness, (rows,))
        described = None
        if self._stepper.behaviour_dim:
            described = _told_numbers("behaviour", behaviour, (rows, self._stepper.behaviour_dim))
            values[undescribed(values, described)] = np.nan
        del self._asked[0]
        self._stepper.accept(values, described)

    def result(self) -> Result:
        """What was found so far."""
        stepper = self._stepper
        return make_result(stepper.look(findings), stepper.problem, stepper.about("ask/tell"))


def _told_numbers(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiub":
            raise TypeError
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{name} must be numbers of shape {shape}, not {values!r}") from None
    if array.shape != shape:
        raise InvalidValueError(f"{name} must have shape {shape}, one for each candidate, not {array.shape}")
    return array.astype(np.float64)
