"""`Optimizer`: the search as an object with `ask` and `tell`."""

import warnings
from typing import Any

import numpy as np

from taskelites.algorithms import Candidates, as_algorithm
from taskelites.errors import InvalidCallError, InvalidTypeError, InvalidValueError, TaskWarning, whole_number
from taskelites.evaluation.dispatcher import undescribed
from taskelites.problem.problem import Problem
from taskelites.results.result import Result
from taskelites.search.history import make_result
from taskelites.search.job import as_ahead, as_initial, task_warnings
from taskelites.search.stepper import Stepper


class Optimizer:
    """The search as an object with `ask` and `tell`, for a loop of your own.

    Args:
        tasks, bounds, dim, behaviour, algorithm, batch_size, ahead, seed, initial: as for `solve`. With `ahead=4`, up
            to four calls of `ask` may be open; `tell` takes their results in the order of the calls.

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
        self._asked: list[Candidates] = []  # not told yet

    def __repr__(self) -> str:
        name, tasks = self._stepper.settings.name, self._stepper.problem.tasks
        return f"<Optimizer: {name} on {tasks!r}, {self.evaluations:,} evaluations told>"

    @property
    def evaluations(self) -> int:
        """The number of results told."""
        return self._stepper.evaluations

    def ask(self, at_most: int | None = None) -> Candidates:
        """Return the next candidates: `solutions` `(rows, dim)`, `niches` `(rows,)` and `tasks`, for the fitness.

        Args:
            at_most: the largest number of candidates to return; the next calls return the rest of the batch.

        Raises:
            RuntimeError: if `ahead` batches were asked for and not told yet.
        """
        stepper = self._stepper
        start = stepper.round.row + sum(map(len, self._asked))
        rows = len(stepper.round.candidates)
        if start == rows:
            raise InvalidCallError(self._full())
        batch = rows if stepper.round.opening else rows // stepper.ahead
        left = batch - start % batch
        asked = stepper.part(start, left if at_most is None else min(left, whole_number("at_most", at_most, least=1)))
        self._asked.append(asked)
        return asked

    def _full(self) -> str:
        """Return the message for an `ask` that must wait for a `tell`."""
        rows, ahead = sum(map(len, self._asked)), self._stepper.ahead
        if ahead == 1:
            return f"tell() the fitness of the {rows} candidates of the last ask() before you ask() for more"
        return (
            f"all {ahead} batches of ahead={ahead} are open: tell() the fitness of their {rows} candidates before you "
            "ask() for more"
        )

    def tell(self, candidates: Candidates, fitness: Any, behaviour: Any = None) -> None:
        """Tell the fitness of the candidates of the first `ask` that was not told yet.

        Args:
            candidates: the return value of that `ask`.
            fitness: `(rows,)`, higher is better; NaN or +inf = failed, -inf = infeasible: counted, never stored.
            behaviour: `(rows, b)`, ignored by algorithms that use none. NaN = failed.
        """
        if not self._asked or candidates is not self._asked[0]:
            one = self._stepper.ahead == 1 and len(self._asked) < 2
            raise InvalidValueError(
                f"candidates must be the return value of the {'last ask()' if one else 'first ask() not told yet'}, "
                "and each is told once"
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
        """Return the elites found so far."""
        stepper = self._stepper
        return make_result(stepper.read(), stepper.problem, stepper.about("ask/tell"))


def _told_numbers(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiub":
            raise TypeError
        array = array.astype(np.float64)
        if isinstance(values, np.ma.MaskedArray):
            array[np.ma.getmaskarray(values)] = np.nan
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{name} must be an array of numbers of shape {shape}, not {values!r}") from None
    if array.shape != shape:
        raise InvalidValueError(f"{name} must have shape {shape}, one row per candidate, not {array.shape}")
    return array
