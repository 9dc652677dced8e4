"""The state of one run, and its steps from the host: ask, tell, look, save, restore.

Candidates are asked in rounds: `ahead` batches from one state, told in the order in which they were asked. A round that
exceeds the budget is asked whole; its first rows are told and the others stay pending. The result is then a preview,
told to a copy of the state, so that a run whose budget is raised later gives what the longer run would have given.

Everything runs in 64 bits on the CPU, whatever the user's JAX uses.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from taskelites.algorithms import Candidates, Core, Evaluation
from taskelites.algorithms.large_bounds import bind
from taskelites.compile_cache import clear_full_compile_cache
from taskelites.core import random
from taskelites.errors import InvalidValueError, whole_number
from taskelites.problem.problem import Problem
from taskelites.problem.tasks import Tasks
from taskelites.runs import Checkpoint, Snapshot
from taskelites.search.history import Findings, Measures, about_run, check_archive, findings, measure_inside
from taskelites.search.job import MOST_EVALUATIONS, Initial, Job, as_seed
from taskelites.search.snapshot import from_arrays, to_arrays


@contextmanager
def host_precision() -> Iterator[None]:
    """Use 64 bits, since Python functions return them, and the CPU, since a step is too small to pay for a transfer."""
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        yield


def _ask_round(core: Core, state: Any, ahead: int) -> tuple[Any, Candidates]:
    """Ask `ahead` batches from one state; concatenate their rows."""
    if ahead == 1:
        candidates, state = core.ask(state)
        return state, candidates
    state, batches = lax.scan(lambda state, _: core.ask(state)[::-1], state, length=ahead)
    return state, jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:]), batches)


# Traced once for its shapes and for `_step`.
_asked = jax.jit(_ask_round, static_argnames="ahead", inline=True)


def _tell_round(core: Core, state: Any, candidates: Candidates, evaluation: Evaluation, ahead: int) -> Any:
    """Tell the batches of a round in order; a batch without results does not change the state."""

    def tell(state: Any, batch: tuple[Candidates, Evaluation]) -> tuple[Any, None]:
        # Some algorithms count a batch without results as an attempt.
        some = batch[1].told.any()  # type: ignore[union-attr]  # a Stepper always says which rows are told
        return lax.cond(some, lambda: core.tell(state, *batch)[0], lambda: state), None

    if ahead == 1:
        return tell(state, (candidates, evaluation))[0]
    batches = jax.tree.map(
        lambda leaf: leaf.reshape(ahead, leaf.shape[0] // ahead, *leaf.shape[1:]), (candidates, evaluation)
    )
    return lax.scan(tell, state, batches)[0]


@partial(jax.jit, static_argnames="ahead", donate_argnames="state")
def _step(core: Core, state: Any, candidates: Candidates, evaluation: Evaluation, ahead: int) -> tuple[Any, Candidates]:
    """Tell a round, and ask the next one in the same dispatch, which costs more than the work in it.

    The first round follows an empty one, so it needs no program of its own, which would take seconds to compile.
    """
    return _asked(core, _tell_round(core, state, candidates, evaluation, ahead), ahead)


@partial(jax.jit, donate_argnames="state")
def _adopt(core: Core, state: Any, candidates: Candidates, evaluation: Evaluation) -> Any:
    return core.adopt(state, candidates, evaluation)


@partial(jax.jit, donate_argnames="state")
def _tell(core: Core, state: Any, candidates: Candidates, evaluation: Evaluation) -> Any:
    return core.tell(state, candidates, evaluation)[0]


@partial(jax.jit, static_argnames="ahead")
def _init(core: Core, seed: Array, ahead: int) -> tuple[Array, Any, Candidates | None, Candidates]:
    """Return the key of the run, the first state, the algorithm's opening, and candidates for an empty round."""
    key = random.key(seed)
    state = core.init(key)
    like = jax.eval_shape(partial(_asked, ahead=ahead), core, state)[1]
    return key, state, core.opening(state), jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)


_measure_inside = jax.jit(measure_inside)
_findings = jax.jit(findings)
_copy = jax.jit(partial(jax.tree.map, jnp.copy))


def batches_ahead(core: Core, batch_size: int, ahead: int) -> int:
    """Return the number of batches to ask from one state.

    It is 1 for an algorithm that learns from whole steps, or whose step is larger than a batch.
    """
    return ahead if core.any_order and core.rows <= batch_size else 1


class Round:
    """Candidates that are evaluated together, and their results so far.

    Attributes:
        candidates: as the algorithm asked them.
        opening: whether they come before the first step: the user's initial solutions or the algorithm's own.
        row: the number of rows told.
        fitness: `(rows,)`, NaN where nothing was told.
        behaviour: `(rows, behaviour_dim)`, or None if the algorithm uses none.
        on_host: the candidates as the fitness receives them; None until they are first asked for.
    """

    def __init__(self, candidates: Candidates, behaviour_dim: int, *, opening: bool) -> None:
        rows = len(candidates)
        self.candidates = candidates
        self.opening = opening
        self.row = 0
        self.fitness = np.full(rows, np.nan)
        self.behaviour = np.full((rows, behaviour_dim), np.nan) if behaviour_dim else None
        self.on_host: Candidates | None = None

    def evaluation(self) -> Evaluation:
        """Return the results so far."""
        told = np.arange(len(self.candidates)) < self.row
        return Evaluation(fitness=self.fitness, told=told, behaviour=self.behaviour)  # type: ignore[arg-type]


class Stepper:
    """One run: the algorithm's state and the current round.

    Only this object changes that state. `Optimizer` and the loops go through it.

    Args:
        problem: the problem to solve.
        settings: settings of the algorithm.
        batch_size: as for `solve`.
        ahead: as for `solve`; 1 for an algorithm that can't ask ahead.
        seed: as for `solve`.
        initial: solutions to evaluate before the first step.

    Attributes:
        core: the algorithm, bound to the problem.
        behaviour_dim: the length of the behaviours that the algorithm uses; 0 for none.
        opening_rows: the number of candidates that the algorithm asks for before its first step.
        evaluations: the number of results told in all rounds.
        round: the current round.
    """

    def __init__(
        self, problem: Problem, settings: Any, *, batch_size: int, ahead: int, seed: int, initial: Initial | None
    ) -> None:
        self.problem = problem
        self.settings = settings
        self.seed = as_seed(seed)
        self.evaluations = 0
        batch_size = whole_number("batch_size", batch_size, least=1, most=2**24)
        clear_full_compile_cache()
        with host_precision():
            self.core = bind(settings, problem, batch_size)
            self.behaviour_dim = int(self.core.behaviour_dim)
            self.ahead = batches_ahead(self.core, batch_size, ahead)
            problem.returned_behaviour(self.behaviour_dim)  # raises if it does not fit
            key, self._state, opening, self._no_candidates = _init(self.core, np.uint32(self.seed), self.ahead)
            known = None if initial is None else initial.candidates(key, problem)
            self._openings = [candidates for candidates in (known, opening) if candidates is not None]
            self.opening_rows = 0 if opening is None else len(opening)
            self.round = self._round_after(self._empty_round())

    def _empty_round(self) -> Round:
        return Round(self._no_candidates, self.behaviour_dim, opening=False)

    def _round_after(self, told: Round) -> Round:
        """Tell a round; return the next one of those before the first step or, after them, ask one."""
        if told.opening:
            self._state = _adopt(self.core, self._state, told.candidates, told.evaluation())
            told = self._empty_round()
        if self._openings:
            return Round(self._openings.pop(0), self.behaviour_dim, opening=True)
        self._state, asked = _step(self.core, self._state, told.candidates, told.evaluation(), self.ahead)
        return Round(asked, self.behaviour_dim, opening=False)

    def part(self, start: int, at_most: int | None) -> Candidates:
        """Return candidates of the round on the host, from row `start` and at most `at_most` of them.

        Their results go to `accept`, in the order of the rows and in any grouping.
        """
        stop = None if at_most is None else start + at_most
        if self.round.on_host is None:
            self.round.on_host = self.on_host(self.round.candidates)
        part = slice(start, stop)
        # Not jax.tree.map, since the tasks may be a list.
        fields = ("solutions", "niches", "tasks", "numbers")
        return Candidates(**{name: getattr(self.round.on_host, name)[part] for name in fields})

    def on_host(self, whole: Candidates) -> Candidates:
        """Return candidates on the host, with the tasks as the fitness receives them."""
        niches = np.array(whole.niches)
        numbers = niches if whole.numbers is None else np.array(whole.numbers)
        tasks = self.problem.tasks.pick(numbers) if isinstance(self.problem.tasks, Tasks) else np.array(whole.tasks)
        return Candidates(solutions=np.array(whole.solutions), niches=niches, tasks=tasks, numbers=numbers)

    def accept(self, fitness: np.ndarray, behaviour: np.ndarray | None) -> None:
        """Take the results of the next rows of the round; after its last row, tell it and ask the next one."""
        now, rows = self.round, len(fitness)
        now.fitness[now.row : now.row + rows] = fitness
        if now.behaviour is not None:
            now.behaviour[now.row : now.row + rows] = behaviour
        now.row += rows
        self.evaluations += rows
        if now.row < len(now.candidates):
            return
        with host_precision():
            self.round = self._round_after(now)

    def ask_batch(self) -> Candidates:
        """Ask a batch beside the round. Its results go to `tell_rows`, in any order and grouping."""
        empty = self._empty_round()
        with host_precision():
            self._state, candidates = _step(self.core, self._state, empty.candidates, empty.evaluation(), 1)
        return candidates

    def tell_rows(self, candidates: Candidates, evaluation: Evaluation, rows: int) -> None:
        """Tell results of any batches; the first `rows` of them count, the others are padding."""
        with host_precision():
            self._state = _tell(self.core, self._state, candidates, evaluation)
        self.evaluations += rows

    def state_now(self) -> Any:
        """Return the state after all results; in the middle of a round, a preview told to a copy."""
        now = self.round
        if now.row == 0:
            return self._state
        with host_precision():
            copy = _copy(self._state)
            if now.opening:
                return _adopt(self.core, copy, now.candidates, now.evaluation())
            return _step(self.core, copy, now.candidates, now.evaluation(), self.ahead)[0]

    def snapshot(self) -> Snapshot:
        """Return what a checkpoint keeps, in the middle of a round or between two."""
        now = self.round
        with host_precision():
            arrays = to_arrays("state", self._state)
            if not now.opening:
                arrays |= to_arrays("candidates", now.candidates)
        arrays["fitness"] = now.fitness.copy()
        if now.behaviour is not None:
            arrays["behaviour"] = now.behaviour.copy()
        about = {"row": now.row, "evaluations": self.evaluations, "opening": now.opening}
        return arrays, about | {"openings": len(self._openings)}

    def restore(self, kept: Checkpoint) -> None:
        """Continue from a snapshot, in a stepper that was just made with the same arguments.

        Raises:
            ValueError, TypeError, KeyError: if it does not fit the arguments, or its values do not fit together.
        """
        about, now = kept.about, self.round
        opening = about["opening"]
        left = whole_number("its openings", about["openings"], least=0, most=len(self._openings) if opening else 0)
        if opening not in (True, False) or (opening and not now.opening):
            raise InvalidValueError(f"its opening must be {now.opening}, not {opening!r}")
        with host_precision():
            self._state = from_arrays("state", self._state, kept.arrays)
            while len(self._openings) > left:
                now = Round(self._openings.pop(0), self.behaviour_dim, opening=True)
            if not opening:
                candidates = from_arrays("candidates", self._no_candidates, kept.arrays)
                now = Round(candidates, self.behaviour_dim, opening=False)
        results = {"fitness": now.fitness, "behaviour": now.behaviour}
        for name, fresh in results.items():
            array = kept.arrays.get(name)
            if getattr(array, "shape", None) != getattr(fresh, "shape", None):
                raise InvalidValueError(
                    f"the checkpoint does not fit this problem: the {name} of its round has another shape; resume with "
                    "the arguments of the run that saved it"
                )
        now.fitness, now.behaviour = kept.arrays["fitness"], kept.arrays.get("behaviour")
        now.row = whole_number("its row", about["row"], least=0, most=len(now.candidates) - 1)
        self.evaluations = whole_number("its evaluations", about["evaluations"], least=0, most=MOST_EVALUATIONS)
        self.round = now
        with host_precision():
            found = jax.device_get(_findings(self.core, self._state))
        check_archive(found.elites.archive, self.evaluations - now.row)

    def glance(self) -> Measures:
        """Return the measures after the rows told so far, without telling an unfinished round."""
        now = self.round
        with host_precision():
            inside = _measure_inside(self.core, self._state, now.candidates, now.fitness, now.row)
            return jax.device_get(inside)

    def read(self) -> Findings:
        """Return what was found after all results, as NumPy arrays."""
        with host_precision():
            return jax.device_get(_findings(self.core, self.state_now()))

    def about(self, call: str, job: Job | None = None) -> dict[str, Any]:
        """Return the settings of the result, as plain values."""
        return about_run(
            self.settings, self.problem, self.core, seed=self.seed, call=call, bits=64, ahead=self.ahead, job=job
        )
