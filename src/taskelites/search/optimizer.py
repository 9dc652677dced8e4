"""Ask and tell from the host, in 64 bits whatever the user's JAX has.

A step that the budget cuts is asked whole; its first rows are told and the others stay pending. What is reported then
is a preview, told to a copy of the state, so that going on later gives what a longer run would have given.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from taskelites import draws
from taskelites.algorithms import Candidates, Core, Evaluation, as_algorithm
from taskelites.errors import whole_number
from taskelites.evaluation.dispatch import undescribed
from taskelites.problem import Problem
from taskelites.result import Result
from taskelites.runs import Checkpoint, Snapshot
from taskelites.search.programs import make_room
from taskelites.search.record import Measures, about_run, findings, make_result, measure_inside
from taskelites.search.snapshot import from_arrays, to_arrays
from taskelites.search.statement import Initial, Job, as_initial, as_seed, warn_of_tasks
from taskelites.tasks import Tasks


@contextmanager
def host_precision() -> Iterator[None]:
    """64 bits on the CPU: Python functions return 64-bit numbers, and a step is too small to be worth a transfer."""
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        yield


@partial(jax.jit, donate_argnames="state")
def _tell_ask(core: Core, state: Any, candidates: Candidates, evaluation: Evaluation) -> tuple[Any, Candidates]:
    """Tell, and ask the next step: one dispatch, since each costs more than the work in it."""
    state, _ = core.tell(state, candidates, evaluation)
    candidates, state = core.ask(state)
    return state, candidates


@partial(jax.jit, donate_argnames="state")
def _adopt(core: Core, state: Any, candidates: Candidates, evaluation: Evaluation) -> Any:
    return core.adopt(state, candidates, evaluation)


@partial(jax.jit, donate_argnames="state")
def _ask(core: Core, state: Any) -> tuple[Any, Candidates]:
    candidates, state = core.ask(state)
    return state, candidates


_measure_inside = jax.jit(measure_inside)


@jax.jit
def _init(core: Core, key: Array) -> tuple[Any, Candidates | None]:
    state = core.init(key)
    return state, core.opening(state)


class Optimizer:
    """The search as an object with `ask` and `tell`, for people with a loop of their own.

    Args:
        tasks, bounds, dim, behaviour, algorithm, batch_size, seed, initial: as for `solve`.

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
        seed: int = 0,
        initial: Any = None,
    ) -> None:
        problem = Problem(tasks, bounds, dim, behaviour)
        settings = as_algorithm(algorithm)
        warn_of_tasks(problem, settings)
        self._start(problem, settings, batch_size, seed, as_initial(initial, problem))

    @classmethod
    def _of(cls, job: Job, seed: int) -> "Optimizer":
        """For a job that was checked, and warned of, already."""
        optimizer = cls.__new__(cls)
        optimizer._start(job.problem, job.settings, job.batch_size, seed, job.initial)
        return optimizer

    def _start(self, problem: Problem, settings: Any, batch_size: int, seed: int, initial: "Initial | None") -> None:
        self._problem = problem
        self._settings = settings
        self._seed = as_seed(seed)
        self._evaluations = 0
        self._asked: Candidates | None = None
        make_room()
        with host_precision():
            self._core = settings.bind(problem, whole_number("batch_size", batch_size, least=1, most=2**24))
            problem.returned_behaviour(self._core.behaviour_dim)  # which must fit
            key = jax.random.key(self._seed, impl=draws.IMPLEMENTATION)
            self._state, opening = _init(self._core, key)
            known = None if initial is None else initial.candidates(key, problem)
            self._before = [candidates for candidates in (known, opening) if candidates is not None]
            self._opening_rows = 0 if opening is None else len(opening)
            self._open_next()

    def _open_next(self) -> None:
        """Begin the next step, or what comes before the first one."""
        self._adopting = bool(self._before)
        if self._adopting:
            self._open(self._before.pop(0))
        else:
            self._state, candidates = _ask(self._core, self._state)
            self._open(candidates)

    def _open(self, candidates: Candidates) -> None:
        """Begin a step: these are to be evaluated."""
        self._candidates = candidates
        self._row = 0
        rows = len(candidates)
        self._fitness = np.full(rows, np.nan)
        self._behaviour = np.full((rows, self._core.behaviour_dim), np.nan) if self._core.behaviour_dim else None

    def __repr__(self) -> str:
        return f"<Optimizer: {self._settings.name} on {self._problem.tasks!r}, {self._evaluations:,} evaluations told>"

    @property
    def evaluations(self) -> int:
        """How many results were told."""
        return self._evaluations

    def ask(self, at_most: int | None = None) -> Candidates:
        """The next candidates: `solutions` `(rows, dim)`, `niches` `(rows,)`, and `tasks`, what the fitness receives.

        Args:
            at_most: how many; the rest of the batch comes with the next calls.

        Raises:
            RuntimeError: if the candidates of the last call were not told yet.
        """
        if self._asked is not None:
            raise RuntimeError(f"tell() the {len(self._asked)} candidates of the last ask() before you ask() for more")
        rows = len(self._candidates) - self._row
        if at_most is not None:
            rows = min(rows, whole_number("at_most", at_most, least=1))
        part = slice(self._row, self._row + rows)
        self._asked = self._as_asked(self._candidates, part)
        return self._asked

    def _as_asked(self, whole: Candidates, part: slice = slice(None)) -> Candidates:
        """Some candidates on the host, with the tasks as the fitness receives them."""
        niches = np.array(whole.niches)[part]
        numbers = niches if whole.numbers is None else np.array(whole.numbers)[part]
        if isinstance(self._problem.tasks, Tasks):
            tasks = self._problem.tasks.pick(numbers)
        else:
            tasks = np.array(whole.tasks)[part]
        return Candidates(solutions=np.array(whole.solutions)[part], niches=niches, tasks=tasks, numbers=numbers)

    def tell(self, candidates: Candidates, fitness: Any, behaviour: Any = None) -> None:
        """Learn the fitness of the candidates of the last `ask`.

        Args:
            candidates: what `ask` gave.
            fitness: `(rows,)`, higher is better; NaN or +inf = failed, -inf = infeasible: counted, never stored.
            behaviour: `(rows, b)`, for algorithms that use it; others do not look at it. NaN = failed.
        """
        if self._asked is None or candidates is not self._asked:
            raise ValueError("candidates must be those of the last ask(), each told once")
        rows = len(candidates)
        values = _told_numbers("fitness", fitness, (rows,))
        described = None
        if self._core.behaviour_dim:
            described = _told_numbers("behaviour", behaviour, (rows, self._core.behaviour_dim))
            values[undescribed(values, described)] = np.nan
        self._accept(values, described)

    def _accept(self, fitness: np.ndarray, behaviour: np.ndarray | None) -> None:
        """Take the results of the first rows that were asked; those of the others were not to be had."""
        rows = len(fitness)
        self._fitness[self._row : self._row + rows] = fitness
        if self._behaviour is not None:
            self._behaviour[self._row : self._row + rows] = behaviour
        self._row += rows
        self._evaluations += rows
        self._asked = None
        if self._row == len(self._candidates):
            with host_precision():
                if self._adopting:
                    self._state = _adopt(self._core, self._state, self._candidates, self._evaluation())
                    self._open_next()
                else:
                    self._state, candidates = self._step(self._state)
                    self._open(candidates)

    def _evaluation(self) -> Evaluation:
        """What is known of the step."""
        told = np.arange(len(self._candidates)) < self._row
        return Evaluation(fitness=self._fitness, told=told, behaviour=self._behaviour)  # type: ignore[arg-type]

    def _step(self, state: Any) -> tuple[Any, Candidates]:
        """Tell what is known to `state`, which is given away, and ask for more."""
        return _tell_ask(self._core, state, self._candidates, self._evaluation())

    def _state_now(self) -> Any:
        """The state with all that was told; where a step is not finished, a preview of it."""
        if self._row == 0:
            return self._state
        with host_precision():
            copy = jax.tree.map(jnp.copy, self._state)
            if self._adopting:
                return _adopt(self._core, copy, self._candidates, self._evaluation())
            return self._step(copy)[0]

    def _snapshot(self) -> Snapshot:
        """All that there is to know, in a step or between two."""
        with host_precision():
            arrays = to_arrays("state", self._state)
            if not self._adopting:
                arrays |= to_arrays("candidates", self._candidates)
        arrays["fitness"] = self._fitness.copy()
        if self._behaviour is not None:
            arrays["behaviour"] = self._behaviour.copy()
        about = {"row": self._row, "evaluations": self._evaluations, "adopting": self._adopting}
        return arrays, about | {"before": len(self._before)}

    def _restore(self, kept: Checkpoint) -> None:
        """Go on from a snapshot, in an optimizer that was just made with the same arguments."""
        about = kept.about
        with host_precision():
            self._state = from_arrays("state", self._state, kept.arrays)
            while len(self._before) > about["before"]:
                self._open(self._before.pop(0))
            self._adopting = about["adopting"]
            if not self._adopting:
                like, _ = jax.eval_shape(self._core.ask, self._state)
                self._open(from_arrays("candidates", like, kept.arrays))
        if kept.arrays["fitness"].shape != self._fitness.shape:
            raise ValueError("the checkpoint does not fit this problem: its step has another number of candidates")
        self._fitness = kept.arrays["fitness"]
        self._behaviour = kept.arrays.get("behaviour")
        self._row, self._evaluations = about["row"], about["evaluations"]

    def _glance(self) -> Measures:
        """What the history wants to know, without telling a step that is not finished."""
        with host_precision():
            inside = _measure_inside(self._core, self._state, self._candidates, self._fitness, self._row)
            return jax.device_get(inside)

    def _look(self, at: Callable[[Core, Any], list[Any]]) -> Any:
        """`measures`, `elites` or `findings` of the state."""
        with host_precision():
            return at(self._core, jax.tree.map(lambda leaf: leaf[None], self._state_now()))[0]

    def result(self) -> Result:
        """What was found so far."""
        about = about_run(self._settings, self._problem, self._core, seed=self._seed, call="ask/tell", bits=64)
        return make_result(self._look(findings), self._problem, about)


def _told_numbers(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiub":
            raise TypeError
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers of shape {shape}, not {values!r}") from None
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, one for each candidate, not {array.shape}")
    return array.astype(np.float64)
