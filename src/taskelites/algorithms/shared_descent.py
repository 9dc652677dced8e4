"""Descent from predictions, in which neighbouring tasks share what they learn: what `Result.refine` runs.

It begins with solutions that are nearly right (`initial=`) and has a few evaluations for each. Three things make the
most of them:

1. *Steps of the right shape.* The errors that a predictor makes on the elites around a task, each left out in turn, are
   what its prediction for the task may be wrong by. Their covariance is the metric: long steps along what varies among
   good solutions, short ones across.
2. *A shared gradient.* Each trial says by how much the fitness changed along its step. The trials of a task and of its
   neighbours, together, give a direction by least squares in that metric; a trial goes along it, with some noise.
3. *Evaluations where they pay.* Half of them go round all tasks; the others go to tasks in proportion to what their
   last trials gained.

The length of the steps is each task's own: longer after a success, shorter after a failure. It is no algorithm for
beginning from nothing, so the registry does not name it.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from scipy.spatial import KDTree

from taskelites.algorithms.interface import (
    NOWHERE,
    Candidates,
    Core,
    Evaluation,
    Info,
    box_arrays,
    descriptors_of,
    random_solutions,
    replace,
    task_rows,
)
from taskelites.core import archive as archives
from taskelites.core import random
from taskelites.core.archive import Archive
from taskelites.core.pytree import constant, record, static
from taskelites.core.selection import uniform_parents
from taskelites.problem.problem import Problem

# Tasks that share their trials, the own one first; how many trials each remembers; how much more the own ones count.
_NEIGHBOURS, _MEMORY, _OWN = 20, 8, 5.0
# The first step, in units of the metric; what a success and a failure make of it; the noise beside the gradient.
_FIRST, _LONGER, _SHORTER, _NOISE = 0.3, 1.5, 0.8, 0.5
# In the least squares; and the least standard deviation of the metric, in widths of the box.
_RIDGE, _LEAST = 0.1, 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedDescent:
    """Its settings.

    Args:
        errors: `(e, dim)`, errors of predictions, in widths of the box.
        near: `(n, r)`, for each task the rows of `errors` that shape its steps.
        digest: tells these arrays from others; it is what is kept of them with a result.

    Example:
        >>> import numpy as np, taskelites as te
        >>> from taskelites.algorithms.shared_descent import SharedDescent
        >>> problem = te.algorithms.Problem(np.random.rand(300, 2), bounds=(0, 1), dim=3)
        >>> settings = SharedDescent(errors=np.eye(3), near=np.tile(np.arange(3), (300, 1)), digest="all alike")
        >>> settings.bind(problem).rows
        64
    """

    name: ClassVar[str] = "shared-descent"
    uses_distance: ClassVar[bool] = True

    errors: Any = field(repr=False)
    near: Any = field(repr=False)
    digest: str

    def bind(self, problem: Problem, batch_size: int = 64) -> "SharedDescentCore":
        """The algorithm on this problem, in the precision that JAX has now."""
        tasks = problem.finite_tasks(self.name)
        number = len(tasks)
        nearest = range(1, min(_NEIGHBOURS, number) + 1)
        neighbours = np.asarray(KDTree(tasks.positions).query(tasks.positions, k=nearest)[1])
        lower, upper = box_arrays(problem)
        return SharedDescentCore(
            lower=lower,
            upper=upper,
            descriptors=descriptors_of(tasks),
            neighbours=constant(_own_first(neighbours), np.int32),
            errors=constant(self.errors),
            near=constant(self.near, np.int32),
            batch_size=min(batch_size, -(-number // 2)),
        )


def _own_first(neighbours: np.ndarray) -> np.ndarray:
    """The task itself first, also among tasks in one place."""
    own = np.arange(len(neighbours))[:, None]
    others = np.where(neighbours == own, -1, neighbours)
    others[(others >= 0).all(axis=1), -1] = -1
    order = np.argsort(others >= 0, axis=1, kind="stable")
    return np.where(np.take_along_axis(others, order, axis=1) < 0, own, np.take_along_axis(others, order, axis=1))


@record
class State:
    """What the next step needs.

    Attributes:
        key: of the run.
        step: how many steps were asked.
        archive: the elites.
        length: `(n,)`, of a task's next step, in units of its metric.
        promise: `(n,)`, what its last trials gained.
        trials: `(n,)`, how many it remembers, and has forgotten.
        deltas: `(n, memory, dim)`, where they went from the elite, in widths of the box.
        gains: `(n, memory)`, and what it gained; 0, with deltas of 0, where there is none.
    """

    key: Array
    step: Array
    archive: Archive
    length: Array
    promise: Array
    trials: Array
    deltas: Array
    gains: Array


@record
class SharedDescentCore(Core):
    """Shared descent bound to a problem."""

    lower: Array
    upper: Array
    descriptors: Array | None
    neighbours: Array
    errors: Array
    near: Array
    batch_size: int = static()

    @property
    def rows(self) -> int:
        """The batch size, or half the tasks."""
        return self.batch_size

    def init(self, key: Array) -> State:
        """Nothing tried."""
        number, dim = len(self.neighbours), len(self.lower)
        return State(
            key=key,
            step=jnp.int32(0),
            archive=archives.empty(number, dim),
            length=jnp.full(number, _FIRST),
            promise=jnp.zeros(number),
            trials=jnp.zeros(number, jnp.int32),
            deltas=jnp.zeros((number, _MEMORY, dim)),
            gains=jnp.zeros((number, _MEMORY)),
        )

    def ask(self, state: State) -> tuple[Candidates, State]:
        """One step from the elite of each chosen task."""
        keys = random.split(random.fold_in(state.key, state.step), 4)
        tasks = self.chosen(keys[0], state)
        width = self.upper - self.lower
        factor = self.factor(tasks)
        noise = random.normal(keys[1], (self.rows, len(width)), width.dtype)
        along = self.direction(state, tasks, factor) * jnp.sqrt(float(len(width))) + _NOISE * noise
        steps = state.length[tasks][:, None] * jnp.einsum("bij,bj->bi", factor, along)
        # A task whose predictions all failed begins with the elite of another; while there is none, anywhere.
        elites, solved = state.archive.solutions, state.archive.fitness > -jnp.inf
        others = elites[uniform_parents(keys[2], state.archive, (self.rows,))]
        begin = jnp.where(solved[tasks][:, None], elites[tasks], others)
        anything = random_solutions(keys[3], self.rows, self.lower, self.upper)
        begin = jnp.where(state.archive.solved_count == 0, anything, begin)
        solutions = jnp.clip(begin + steps * width, self.lower, self.upper)
        candidates = Candidates(solutions=solutions, niches=tasks, tasks=task_rows(self.descriptors, tasks))
        return candidates, replace(state, step=state.step + 1)

    def chosen(self, key: Array, state: State) -> Array:
        """Tasks, none twice: half of them in turn, the others by a draw in proportion to their promise (3)."""
        number = len(self.neighbours)
        turn = (state.step * -(-self.rows // 2) + jnp.arange(-(-self.rows // 2))) % number
        # The greatest of log-weights with Gumbel noise are a draw without replacement.
        tiny = float(np.finfo(self.lower.dtype).tiny)
        gumbel = -jnp.log(-jnp.log(jnp.maximum(random.uniform(key, (number,), self.lower.dtype), tiny)) + tiny)
        score = jnp.log(state.promise + tiny) + gumbel
        return lax.top_k(score.at[turn].set(jnp.inf), self.rows)[1].astype(jnp.int32)

    def factor(self, tasks: Array) -> Array:
        """A root of the covariance of the errors around each task (1), `(rows, dim, dim)`, lower triangular."""
        errors = self.errors[self.near[tasks]]
        covariance = jnp.einsum("bri,brj->bij", errors, errors) / errors.shape[1]
        return jnp.linalg.cholesky(covariance + _LEAST**2 * jnp.eye(covariance.shape[-1]))

    def direction(self, state: State, tasks: Array, factor: Array) -> Array:
        """The direction of ascent, in units of the metric, of length 1, or 0 where nothing is known (2).

        Gains over lengths are fitted by the direction of each trial and its length, which stands for the curvature.
        """
        rows, dim = factor.shape[:2]
        near = self.neighbours[tasks]
        deltas = state.deltas[near].reshape(rows, -1, dim)
        gains = state.gains[near].reshape(rows, -1)
        weights = jnp.where(jnp.arange(near.shape[1]) == 0, _OWN, 1.0)
        weights = jnp.repeat(weights, _MEMORY) * (deltas != 0).any(axis=2)
        # The inverse, since a triangular solve of many columns takes twenty times as long on the CPU.
        identity = jnp.broadcast_to(jnp.eye(dim), factor.shape)
        inverse = jax.scipy.linalg.solve_triangular(factor, identity, lower=True)
        metric = deltas @ inverse.swapaxes(1, 2)
        length = jnp.sqrt(jnp.sum(metric**2, axis=2)) + 1e-12
        scale = state.length[tasks][:, None] * jnp.sqrt(float(dim))
        columns = jnp.concatenate([metric / length[..., None], (length / scale)[..., None]], axis=2)
        weighted = (columns * weights[..., None]).swapaxes(1, 2)
        square = weighted @ columns
        ridge = _RIDGE * jnp.trace(square, axis1=1, axis2=2) / (dim + 1) + 1e-12
        square += ridge[:, None, None] * jnp.eye(dim + 1)
        slope = jnp.linalg.solve(square, weighted @ (gains / length)[..., None])[:, :dim, 0]
        size = jnp.linalg.norm(slope, axis=1, keepdims=True)
        return jnp.where(size > 0, slope / jnp.where(size > 0, size, 1.0), 0.0)

    def tell(self, state: State, candidates: Candidates, evaluation: Evaluation) -> tuple[State, Info]:
        """Insert the trials, and remember them; no task is among them twice."""
        niches = evaluation.place(candidates.niches)
        before = state.archive
        after, success = archives.insert(before, candidates.solutions, niches, evaluation.fitness)
        gains = evaluation.fitness - before.fitness[candidates.niches]
        deltas = (candidates.solutions - before.solutions[candidates.niches]) / (self.upper - self.lower)
        state = self.remember(state, niches, deltas, gains, state.trials[candidates.niches])
        gained = jnp.where(jnp.isfinite(gains), jnp.maximum(gains, 0.0), 0.0)
        factor = jnp.where(success, _LONGER, _SHORTER)
        return replace(
            state,
            archive=after,
            length=state.length.at[niches].multiply(factor.astype(state.length.dtype), mode="drop"),
            promise=state.promise.at[niches].set(
                (0.5 * (state.promise[candidates.niches] + gained)).astype(state.promise.dtype), mode="drop"
            ),
        ), Info(success=success)

    def adopt(self, state: State, candidates: Candidates, evaluation: Evaluation) -> State:
        """Insert the predictions, several a task, and remember how those that lost differ from the best."""
        niches = evaluation.place(candidates.niches)
        archive, _ = archives.insert(state.archive, candidates.solutions, niches, evaluation.fitness)
        gains = evaluation.fitness - archive.fitness[candidates.niches]
        deltas = (candidates.solutions - archive.solutions[candidates.niches]) / (self.upper - self.lower)
        order = jnp.argsort(niches, stable=True)
        rank = jnp.arange(len(niches)) - jnp.searchsorted(niches[order], niches[order])
        places = jnp.zeros(len(niches), jnp.int32).at[order].set(rank.astype(jnp.int32))
        return self.remember(replace(state, archive=archive), niches, deltas, gains, places)

    def remember(self, state: State, niches: Array, deltas: Array, gains: Array, places: Array) -> State:
        """Write trials down, each in its place among those of its task; a failure or an unsolved task says nothing."""
        known = jnp.isfinite(gains)
        where = jnp.where(known, niches, NOWHERE)
        places = places % _MEMORY
        return replace(
            state,
            trials=state.trials.at[where].add(1, mode="drop"),
            deltas=state.deltas.at[where, places].set(deltas.astype(state.deltas.dtype), mode="drop"),
            gains=state.gains.at[where, places].set(gains.astype(state.gains.dtype), mode="drop"),
        )
