"""Ask and tell from the host, in 64 bits whatever the user's JAX has.

Candidates are asked in rounds: `ahead` batches from one state, told in the order in which they were asked. A round that
the budget cuts is asked whole; its first rows are told and the others stay pending. What is reported then is a preview,
told to a copy of the state, so that going on later gives what a longer run would have given.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from taskelites.algorithms import Candidates, Core, Evaluation, as_algorithm
from taskelites.core import random
from taskelites.errors import InvalidCallError, InvalidTypeError, InvalidValueError, whole_number
from taskelites.evaluation.dispatcher import undescribed
from taskelites.problem.problem import Problem
from taskelites.problem.tasks import Tasks
from taskelites.results.result import Result
from taskelites.runs import Checkpoint, Snapshot
from taskelites.search.compile_cache import clear_full_compile_cache
from taskelites.search.history import Measures, about_run, findings, make_result, measure_inside
from taskelites.search.job import Initial, Job, as_ahead, as_initial, as_seed, warn_of_tasks
from taskelites.search.snapshot import from_arrays, to_arrays


@contextmanager
def host_precision() -> Iterator[None]:
    """64 bits on the CPU: Python functions return 64-bit numbers, and a step is too small to be worth a transfer."""
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        yield


def _ask_round(core: Core, state: Any, ahead: int) -> tuple[Any, Candidates]:
    """Ask `ahead` batches from one state; their rows stand one batch after another."""
    if ahead == 1:
        candidates, state = core.ask(state)
        return state, candidates
    state, batches = jax.lax.scan(lambda state, _: core.ask(state)[::-1], state, length=ahead)
    return state, jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:]), batches)


def _tell_round(core: Core, state: Any, candidates: Candidates, evaluation: Evaluation, ahead: int) -> Any:
    """Tell the batches of a round in order; those without a told row leave the state as it is."""
    if ahead == 1:
        return core.tell(state, candidates, evaluation)[0]

    def tell(state: Any, batch: tuple[Candidates, Evaluation]) -> tuple[Any, None]:
        # A batch without results may still count as tried, depending on the algorithm.
        some = batch[1].told.any()  # type: ignore[union-attr]  # an Optimizer always says which rows are told
        return jax.lax.cond(some, lambda: core.tell(state, *batch)[0], lambda: state), None

    batches = jax.tree.map(
        lambda leaf: leaf.reshape(ahead, leaf.shape[0] // ahead, *leaf.shape[1:]), (candidates, evaluation)
    )
    return jax.lax.scan(tell, state, batches)[0]


@partial(jax.jit, static_argnames="ahead", donate_argnames="state")
def _tell_ask(
    core: Core, state: Any, candidates: Candidates, evaluation: Evaluation, ahead: int
) -> tuple[Any, Candidates]:
    """Tell, and ask the next round: one dispatch, since each costs more than the work in it."""
    return _ask_round(core, _tell_round(core, state, candidates, evaluation, ahead), ahead)


@partial(jax.jit, donate_argnames="state")
def _adopt(core: Core, state: Any, candidates: Candidates, evaluation: Evaluation) -> Any:
    return core.adopt(state, candidates, evaluation)


_ask = jax.jit(_ask_round, static_argnames="ahead", donate_argnames="state")


_measure_inside = jax.jit(measure_inside)


def batches_ahead(core: Core, batch_size: int, ahead: int) -> int:
    """Return the number of batches to ask from one state.

    It is 1 for an algorithm that learns from whole steps, or whose step is larger than a batch.
    """
    return ahead if core.any_order and core.rows <= batch_size else 1


@jax.jit
def _init(core: Core, key: Array) -> tuple[Any, Candidates | None]:
    state = core.init(key)
    return state, core.opening(state)


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
        warn_of_tasks(problem, settings)
        self._start(problem, settings, batch_size, as_ahead(ahead), seed, as_initial(initial, problem))

    @classmethod
    def _of(cls, job: Job, seed: int) -> "Optimizer":
        """For a job that was checked, and warned of, already."""
        optimizer = cls.__new__(cls)
        optimizer._start(job.problem, job.settings, job.batch_size, job.ahead, seed, job.initial)
        return optimizer

    def _start(
        self, problem: Problem, settings: Any, batch_size: int, ahead: int, seed: int, initial: "Initial | None"
    ) -> None:
        self._problem = problem
        self._settings = settings
        self._seed = as_seed(seed)
        self._evaluations = 0
        batch_size = whole_number("batch_size", batch_size, least=1, most=2**24)
        clear_full_compile_cache()
        with host_precision():
            self._core = settings.bind(problem, batch_size)
            self._ahead = batches_ahead(self._core, batch_size, ahead)
            problem.returned_behaviour(self._core.behaviour_dim)  # which must fit
            key = jax.random.key(self._seed, impl=random.IMPLEMENTATION)
            self._state, opening = _init(self._core, key)
            known = None if initial is None else initial.candidates(key, problem)
            self._before = [candidates for candidates in (known, opening) if candidates is not None]
            self._opening_rows = 0 if opening is None else len(opening)
            self._open_next()

    def _open_next(self) -> None:
        """Begin the next round, or what comes before the first one."""
        self._adopting = bool(self._before)
        if self._adopting:
            self._open(self._before.pop(0))
        else:
            self._state, candidates = _ask(self._core, self._state, self._ahead)
            self._open(candidates)

    def _open(self, candidates: Candidates) -> None:
        """Begin a round: these are to be evaluated."""
        self._candidates = candidates
        self._on_host: Candidates | None = None  # until somebody asks for some of them
        self._asked: list[Candidates] = []  # and not told yet
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
            RuntimeError: if all candidates that may be asked for by now (`ahead` batches) are, and were not told yet.
        """
        start = self._row + sum(map(len, self._asked))
        rows = len(self._candidates)
        if start == rows:
            raise InvalidCallError(self._full())
        batch = rows if self._adopting else rows // self._ahead
        asked = self._part(start, batch - start % batch, at_most)
        self._asked.append(asked)
        return asked

    def _full(self) -> str:
        """Say why there is nothing to ask for."""
        rows = sum(map(len, self._asked))
        if self._ahead == 1:
            return f"tell() the {rows} candidates of the last ask() before you ask() for more"
        return (
            f"all {self._ahead} batches of ahead={self._ahead} were asked for: tell() the {rows} candidates that are "
            "open before you ask() for more"
        )

    def _rest(self, at_most: int) -> Candidates:
        """The rest of the round; its results are for `_accept`, in as many parts as they come in."""
        return self._part(self._row, len(self._candidates) - self._row, at_most)

    def _part(self, start: int, rows: int, at_most: int | None) -> Candidates:
        """Some candidates of the round."""
        if at_most is not None:
            rows = min(rows, whole_number("at_most", at_most, least=1))
        if self._on_host is None:
            self._on_host = self._as_asked(self._candidates)
        part = slice(start, start + rows)
        # By hand, since the tasks may be a list.
        fields = ("solutions", "niches", "tasks", "numbers")
        return Candidates(**{name: getattr(self._on_host, name)[part] for name in fields})

    def _as_asked(self, whole: Candidates) -> Candidates:
        """Candidates on the host, with the tasks as the fitness receives them."""
        niches = np.array(whole.niches)
        numbers = niches if whole.numbers is None else np.array(whole.numbers)
        tasks = self._problem.tasks.pick(numbers) if isinstance(self._problem.tasks, Tasks) else np.array(whole.tasks)
        return Candidates(solutions=np.array(whole.solutions), niches=niches, tasks=tasks, numbers=numbers)

    def tell(self, candidates: Candidates, fitness: Any, behaviour: Any = None) -> None:
        """Learn the fitness of the candidates of an `ask`: the first one that was not told yet.

        Args:
            candidates: what `ask` gave.
            fitness: `(rows,)`, higher is better; NaN or +inf = failed, -inf = infeasible: counted, never stored.
            behaviour: `(rows, b)`, for algorithms that use it; others do not look at it. NaN = failed.
        """
        if not self._asked or candidates is not self._asked[0]:
            one = self._ahead == 1 and len(self._asked) < 2
            raise InvalidValueError(
                f"candidates must be those of the {'last ask()' if one else 'first ask() that was not told yet'}, "
                "each told once"
            )
        rows = len(candidates)
        values = _told_numbers("fitness", fitness, (rows,))
        described = None
        if self._core.behaviour_dim:
            described = _told_numbers("behaviour", behaviour, (rows, self._core.behaviour_dim))
            values[undescribed(values, described)] = np.nan
        del self._asked[0]
        self._accept(values, described)

    def _accept(self, fitness: np.ndarray, behaviour: np.ndarray | None) -> None:
        """Take the results of the next rows of the round."""
        rows = len(fitness)
        self._fitness[self._row : self._row + rows] = fitness
        if self._behaviour is not None:
            self._behaviour[self._row : self._row + rows] = behaviour
        self._row += rows
        self._evaluations += rows
        if self._row == len(self._candidates):
            with host_precision():
                if self._adopting:
                    self._state = _adopt(self._core, self._state, self._candidates, self._evaluation())
                    self._open_next()
                else:
                    self._state, candidates = self._step(self._state)
                    self._open(candidates)

    def _evaluation(self) -> Evaluation:
        """What is known of the round."""
        told = np.arange(len(self._candidates)) < self._row
        return Evaluation(fitness=self._fitness, told=told, behaviour=self._behaviour)  # type: ignore[arg-type]

    def _step(self, state: Any) -> tuple[Any, Candidates]:
        """Tell what is known to `state`, which is given away, and ask for more."""
        return _tell_ask(self._core, state, self._candidates, self._evaluation(), self._ahead)

    def _state_now(self) -> Any:
        """The state with all that was told; where a round is not finished, a preview of it."""
        if self._row == 0:
            return self._state
        with host_precision():
            copy = jax.tree.map(jnp.copy, self._state)
            if self._adopting:
                return _adopt(self._core, copy, self._candidates, self._evaluation())
            return self._step(copy)[0]

    def _snapshot(self) -> Snapshot:
        """All that there is to know, in a round or between two."""
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
                _, like = jax.eval_shape(lambda state: _ask_round(self._core, state, self._ahead), self._state)
                self._open(from_arrays("candidates", like, kept.arrays))
        if kept.arrays["fitness"].shape != self._fitness.shape:
            raise InvalidValueError(
                "the checkpoint does not fit this problem: its round has another number of candidates"
            )
        self._fitness = kept.arrays["fitness"]
        self._behaviour = kept.arrays.get("behaviour")
        self._row, self._evaluations = about["row"], about["evaluations"]

    def _glance(self) -> Measures:
        """What the history wants to know, without telling a round that is not finished."""
        with host_precision():
            inside = _measure_inside(self._core, self._state, self._candidates, self._fitness, self._row)
            return jax.device_get(inside)

    def _look(self, at: Callable[[Core, Any], list[Any]]) -> Any:
        """`measures`, `elites` or `findings` of the state."""
        with host_precision():
            return at(self._core, jax.tree.map(lambda leaf: leaf[None], self._state_now()))[0]

    def result(self) -> Result:
        """What was found so far."""
        return make_result(self._look(findings), self._problem, self._about("ask/tell"))

    def _about(self, call: str, job: Job | None = None) -> dict[str, Any]:
        """How the result is made, as plain values."""
        return about_run(
            self._settings, self._problem, self._core, seed=self._seed, call=call, bits=64, ahead=self._ahead, job=job
        )


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
