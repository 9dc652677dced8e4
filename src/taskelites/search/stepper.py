"""The state of one run, and its steps from the host: ask, tell, look, save, restore.

Candidates are asked in rounds: `ahead` batches from one state, told in the order in which they were asked. A round that
the budget cuts is asked whole; its first rows are told and the others stay pending. What is reported then is a preview,
told to a copy of the state, so that going on later gives what a longer run would have given.

Everything runs in 64 bits on the CPU, whatever the user's JAX has.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from taskelites.algorithms import Candidates, Core, Evaluation
from taskelites.core import random
from taskelites.errors import InvalidValueError, whole_number
from taskelites.problem.problem import Problem
from taskelites.problem.tasks import Tasks
from taskelites.runs import Checkpoint, Snapshot
from taskelites.search.compile_cache import clear_full_compile_cache
from taskelites.search.history import Measures, about_run, measure_inside
from taskelites.search.job import Initial, Job, as_seed
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


@partial(jax.jit, donate_argnames="state")
def _tell(core: Core, state: Any, candidates: Candidates, evaluation: Evaluation) -> Any:
    return core.tell(state, candidates, evaluation)[0]


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


class Stepper:
    """One run: the algorithm's state, and the round that is being evaluated.

    Nothing else changes that state: `Optimizer` and the loops go through this object.

    Args:
        problem: what is solved.
        settings: of the algorithm.
        batch_size: as for `solve`.
        ahead: as for `solve`; an algorithm that can't ask ahead gets 1.
        seed: as for `solve`.
        initial: solutions that are evaluated before the first round.

    Attributes:
        core: the algorithm, bound to the problem.
        candidates: of the round; before the first round, of what is evaluated first.
        row: the number of rows of the round that were told.
        evaluations: the number of results that were told in all.
        adopting: whether `candidates` come before the first round.
        opening_rows: the number of candidates with which the algorithm itself begins.
    """

    def __init__(
        self, problem: Problem, settings: Any, *, batch_size: int, ahead: int, seed: int, initial: Initial | None
    ) -> None:
        self.problem = problem
        self.settings = settings
        self.seed = as_seed(seed)
        self.evaluations = 0
        self.row = 0
        batch_size = whole_number("batch_size", batch_size, least=1, most=2**24)
        clear_full_compile_cache()
        with host_precision():
            self.core = settings.bind(problem, batch_size)
            self.ahead = batches_ahead(self.core, batch_size, ahead)
            problem.returned_behaviour(self.core.behaviour_dim)  # which must fit
            key = jax.random.key(self.seed, impl=random.IMPLEMENTATION)
            self._state, opening = _init(self.core, key)
            known = None if initial is None else initial.candidates(key, problem)
            self._before = [candidates for candidates in (known, opening) if candidates is not None]
            self.opening_rows = 0 if opening is None else len(opening)
            self.adopting = bool(self._before)
            self.candidates = self._next()
        self._on_host: Candidates | None = None  # until somebody asks for some of them
        self._fitness, self._behaviour = self._nothing_told()

    @classmethod
    def of_job(cls, job: Job, seed: int) -> "Stepper":
        """Make the run of a job that was checked, and warned of, already."""
        return cls(
            job.problem, job.settings, batch_size=job.batch_size, ahead=job.ahead, seed=seed, initial=job.initial
        )

    @property
    def behaviour_dim(self) -> int:
        """How many numbers of the behaviour the algorithm uses; 0 for none."""
        return int(self.core.behaviour_dim)

    def _next(self) -> Candidates:
        """Take what comes next: candidates before the first round, or a round."""
        if self.adopting:
            return self._before.pop(0)
        self._state, candidates = _ask(self.core, self._state, self.ahead)
        return candidates

    def _nothing_told(self) -> tuple[np.ndarray, np.ndarray | None]:
        rows, behaviour_dim = len(self.candidates), self.behaviour_dim
        return np.full(rows, np.nan), np.full((rows, behaviour_dim), np.nan) if behaviour_dim else None

    def _begin(self, candidates: Candidates) -> None:
        """Begin a round: these are to be evaluated."""
        self.candidates = candidates
        self._on_host = None
        self.row = 0
        self._fitness, self._behaviour = self._nothing_told()

    def rest(self, at_most: int) -> Candidates:
        """Return the rest of the round, or its first rows; their results are for `accept`, in any number of parts."""
        return self.part(self.row, len(self.candidates) - self.row, at_most)

    def part(self, start: int, rows: int, at_most: int | None) -> Candidates:
        """Return some candidates of the round, on the host."""
        if at_most is not None:
            rows = min(rows, whole_number("at_most", at_most, least=1))
        if self._on_host is None:
            self._on_host = self.on_host(self.candidates)
        part = slice(start, start + rows)
        # By hand, since the tasks may be a list.
        fields = ("solutions", "niches", "tasks", "numbers")
        return Candidates(**{name: getattr(self._on_host, name)[part] for name in fields})

    def on_host(self, whole: Candidates) -> Candidates:
        """Return candidates on the host, with the tasks as the fitness receives them."""
        niches = np.array(whole.niches)
        numbers = niches if whole.numbers is None else np.array(whole.numbers)
        tasks = self.problem.tasks.pick(numbers) if isinstance(self.problem.tasks, Tasks) else np.array(whole.tasks)
        return Candidates(solutions=np.array(whole.solutions), niches=niches, tasks=tasks, numbers=numbers)

    def accept(self, fitness: np.ndarray, behaviour: np.ndarray | None) -> None:
        """Take the results of the next rows of the round; after its last row, tell it and ask the next one."""
        rows = len(fitness)
        self._fitness[self.row : self.row + rows] = fitness
        if self._behaviour is not None:
            self._behaviour[self.row : self.row + rows] = behaviour
        self.row += rows
        self.evaluations += rows
        if self.row < len(self.candidates):
            return
        with host_precision():
            if self.adopting:
                self._state = _adopt(self.core, self._state, self.candidates, self._evaluation())
                self.adopting = bool(self._before)
                self._begin(self._next())
            else:
                self._state, candidates = self._told_and_asked(self._state)
                self._begin(candidates)

    def ask_batch(self) -> Candidates:
        """Ask a further batch, which `tell_rows` takes in any order and grouping; the round is not touched."""
        with host_precision():
            self._state, candidates = _ask(self.core, self._state, 1)
        return candidates

    def tell_rows(self, candidates: Candidates, evaluation: Evaluation, rows: int) -> None:
        """Tell candidates of any batches; `rows` of them count, the others are there to fill up."""
        with host_precision():
            self._state = _tell(self.core, self._state, candidates, evaluation)
        self.evaluations += rows

    def _evaluation(self) -> Evaluation:
        """What is known of the round."""
        told = np.arange(len(self.candidates)) < self.row
        return Evaluation(fitness=self._fitness, told=told, behaviour=self._behaviour)  # type: ignore[arg-type]

    def _told_and_asked(self, state: Any) -> tuple[Any, Candidates]:
        """Tell what is known to `state`, which is given away, and ask for more."""
        return _tell_ask(self.core, state, self.candidates, self._evaluation(), self.ahead)

    def state_now(self) -> Any:
        """Return the state with all that was told; where a round is not finished, a preview of it."""
        if self.row == 0:
            return self._state
        with host_precision():
            copy = jax.tree.map(jnp.copy, self._state)
            if self.adopting:
                return _adopt(self.core, copy, self.candidates, self._evaluation())
            return self._told_and_asked(copy)[0]

    def snapshot(self) -> Snapshot:
        """Return all that there is to know, in a round or between two."""
        with host_precision():
            arrays = to_arrays("state", self._state)
            if not self.adopting:
                arrays |= to_arrays("candidates", self.candidates)
        arrays["fitness"] = self._fitness.copy()
        if self._behaviour is not None:
            arrays["behaviour"] = self._behaviour.copy()
        about = {"row": self.row, "evaluations": self.evaluations, "adopting": self.adopting}
        return arrays, about | {"before": len(self._before)}

    def restore(self, kept: Checkpoint) -> None:
        """Go on from a snapshot, in a stepper that was just made with the same arguments."""
        about = kept.about
        with host_precision():
            self._state = from_arrays("state", self._state, kept.arrays)
            while len(self._before) > about["before"]:
                self._begin(self._before.pop(0))
            self.adopting = about["adopting"]
            if not self.adopting:
                _, like = jax.eval_shape(lambda state: _ask_round(self.core, state, self.ahead), self._state)
                self._begin(from_arrays("candidates", like, kept.arrays))
        if kept.arrays["fitness"].shape != self._fitness.shape:
            raise InvalidValueError(
                "the checkpoint does not fit this problem: its round has another number of candidates"
            )
        self._fitness = kept.arrays["fitness"]
        self._behaviour = kept.arrays.get("behaviour")
        self.row, self.evaluations = about["row"], about["evaluations"]

    def glance(self) -> Measures:
        """Return what the history wants to know, without telling a round that is not finished."""
        with host_precision():
            inside = _measure_inside(self.core, self._state, self.candidates, self._fitness, self.row)
            return jax.device_get(inside)

    def look(self, at: Callable[[Core, Any], list[Any]]) -> Any:
        """Return `measures`, `elites` or `findings` of the state."""
        with host_precision():
            return at(self.core, jax.tree.map(lambda leaf: leaf[None], self.state_now()))[0]

    def about(self, call: str, job: Job | None = None) -> dict[str, Any]:
        """Say how the result is made, as plain values."""
        return about_run(
            self.settings, self.problem, self.core, seed=self.seed, call=call, bits=64, ahead=self.ahead, job=job
        )
