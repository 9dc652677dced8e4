"""Local search from predicted solutions, with gradient estimates shared between tasks; used by `Result.refine`.

The search starts from nearly optimal solutions (`initial=`) and has a budget of a few evaluations per task. It uses
them efficiently in three ways:

1. *Metric from prediction errors.* The leave-one-out errors of a predictor on the elites around a task estimate the
   errors of its prediction for the task. Their covariance is the metric. Steps are long in directions in which good
   solutions vary, and short in the others.
2. *Shared gradient.* Each trial measures the change of the fitness along its step. Least squares in the metric, over
   the trials of a task and of its neighbours, estimates the gradient. The next trial follows it, plus noise.
3. *Allocation by gain.* Half of the evaluations go to all tasks in turn. The other half go to tasks in proportion to
   the gain of their last trials.

Each task has its own step length, which increases after a success and decreases after a failure. The algorithm is not
in the registry, since it needs initial solutions.
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

# Number of tasks that share their trials, including the task itself; number of stored trials per task; weight of the
# task's own trials relative to its neighbours'.
_NEIGHBOURS, _MEMORY, _OWN = 20, 8, 5.0
# Initial step length in units of the metric; its factors after a success and after a failure; noise of a step.
_FIRST, _LONGER, _SHORTER, _NOISE = 0.3, 1.5, 0.8, 0.5
# Ridge of the least squares; minimum standard deviation of the metric, in box widths.
_RIDGE, _LEAST = 0.1, 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedDescent:
    """Settings of shared descent.

    Args:
        errors: prediction errors in box widths, shape `(e, dim)`.
        near: for each task, the rows of `errors` that define its metric, shape `(n, r)`.
        digest: hash of both arrays, which represents them in a saved result.

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
        """Return the core of the algorithm for a problem, in JAX's default precision."""
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
    """Move each task to the front of its row of neighbours, which may lack it if tasks coincide."""
    own = np.arange(len(neighbours))[:, None]
    others = np.where(neighbours == own, -1, neighbours)
    others[(others >= 0).all(axis=1), -1] = -1
    order = np.argsort(others >= 0, axis=1, kind="stable")
    return np.where(np.take_along_axis(others, order, axis=1) < 0, own, np.take_along_axis(others, order, axis=1))


@record
class State:
    """State of shared descent.

    Attributes:
        key: random key of the run.
        step: number of calls of `ask`.
        archive: the elites.
        length: length of each task's next step, in units of its metric, shape `(n,)`.
        promise: moving average of each task's gains, shape `(n,)`.
        trials: number of trials per task, including those no longer stored, shape `(n,)`.
        deltas: steps of the stored trials from the elite, in box widths, shape `(n, memory, dim)`; zeros in unused
            entries.
        gains: change of the fitness by each stored trial, shape `(n, memory)`; zeros in unused entries.
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
    """Core of shared descent."""

    lower: Array
    upper: Array
    descriptors: Array | None
    neighbours: Array
    errors: Array
    near: Array
    batch_size: int = static()

    @property
    def rows(self) -> int:
        """Number of candidates per `ask`: the batch size, or half the number of tasks if that is smaller."""
        return self.batch_size

    def init(self, key: Array) -> State:
        """Return a state without elites and trials."""
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
        """Return one step from the elite of each chosen task."""
        keys = random.split(random.fold_in(state.key, state.step), 4)
        tasks = self.chosen(keys[0], state)
        width = self.upper - self.lower
        factor = self.factor(tasks)
        noise = random.normal(keys[1], (self.rows, len(width)), width.dtype)
        along = self.direction(state, tasks, factor) * jnp.sqrt(float(len(width))) + _NOISE * noise
        steps = state.length[tasks][:, None] * jnp.einsum("bij,bj->bi", factor, along)
        # A task whose predictions all failed starts from another task's elite; without elites, from a random solution.
        elites, solved = state.archive.solutions, state.archive.fitness > -jnp.inf
        others = elites[uniform_parents(keys[2], state.archive, (self.rows,))]
        begin = jnp.where(solved[tasks][:, None], elites[tasks], others)
        anything = random_solutions(keys[3], self.rows, self.lower, self.upper)
        begin = jnp.where(state.archive.solved_count == 0, anything, begin)
        solutions = jnp.clip(begin + steps * width, self.lower, self.upper)
        candidates = Candidates(solutions=solutions, niches=tasks, tasks=task_rows(self.descriptors, tasks))
        return candidates, replace(state, step=state.step + 1)

    def chosen(self, key: Array, state: State) -> Array:
        """Return distinct tasks: half of them in turn, the others drawn in proportion to their promise (3)."""
        number = len(self.neighbours)
        turn = (state.step * -(-self.rows // 2) + jnp.arange(-(-self.rows // 2))) % number
        # Adding Gumbel noise to log-weights and taking the largest is a draw without replacement.
        tiny = float(np.finfo(self.lower.dtype).tiny)
        gumbel = -jnp.log(-jnp.log(jnp.maximum(random.uniform(key, (number,), self.lower.dtype), tiny)) + tiny)
        score = jnp.log(state.promise + tiny) + gumbel
        return lax.top_k(score.at[turn].set(jnp.inf), self.rows)[1].astype(jnp.int32)

    def factor(self, tasks: Array) -> Array:
        """Return the Cholesky factor of the covariance of the errors around each task (1), shape `(rows, dim, dim)`."""
        errors = self.errors[self.near[tasks]]
        covariance = jnp.einsum("bri,brj->bij", errors, errors) / errors.shape[1]
        return jnp.linalg.cholesky(covariance + _LEAST**2 * jnp.eye(covariance.shape[-1]))

    def direction(self, state: State, tasks: Array, factor: Array) -> Array:
        """Return the unit vector of the estimated gradient in the metric, or zeros without trials (2).

        The regression predicts the gain per step length of a trial from its direction and its length. The coefficient
        of the length captures the curvature.

        Args:
            state: the state with the trials.
            tasks: the tasks, shape `(rows,)`.
            factor: Cholesky factors of their metrics, shape `(rows, dim, dim)`.
        """
        rows, dim = factor.shape[:2]
        near = self.neighbours[tasks]
        deltas = state.deltas[near].reshape(rows, -1, dim)
        gains = state.gains[near].reshape(rows, -1)
        weights = jnp.where(jnp.arange(near.shape[1]) == 0, _OWN, 1.0)
        weights = jnp.repeat(weights, _MEMORY) * (deltas != 0).any(axis=2)
        # On the CPU, a triangular solve with many columns takes twenty times as long as multiplying by the inverse.
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
        """Insert the candidates and store them as trials. Each task occurs at most once."""
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
        """Insert the predictions, several per task, and store those that are not the best as trials."""
        niches = evaluation.place(candidates.niches)
        archive, _ = archives.insert(state.archive, candidates.solutions, niches, evaluation.fitness)
        gains = evaluation.fitness - archive.fitness[candidates.niches]
        deltas = (candidates.solutions - archive.solutions[candidates.niches]) / (self.upper - self.lower)
        order = jnp.argsort(niches, stable=True)
        rank = jnp.arange(len(niches)) - jnp.searchsorted(niches[order], niches[order])
        places = jnp.zeros(len(niches), jnp.int32).at[order].set(rank.astype(jnp.int32))
        return self.remember(replace(state, archive=archive), niches, deltas, gains, places)

    def remember(self, state: State, niches: Array, deltas: Array, gains: Array, places: Array) -> State:
        """Store trials, except failed ones and those of unsolved tasks.

        Args:
            state: the state to update.
            niches: tasks of the trials, shape `(rows,)`.
            deltas: steps from the elite, in box widths, shape `(rows, dim)`.
            gains: changes of the fitness, shape `(rows,)`.
            places: index of each trial among the trials of its task, shape `(rows,)`.
        """
        known = jnp.isfinite(gains)
        where = jnp.where(known, niches, NOWHERE)
        places = places % _MEMORY
        return replace(
            state,
            trials=state.trials.at[where].add(1, mode="drop"),
            deltas=state.deltas.at[where, places].set(deltas.astype(state.deltas.dtype), mode="drop"),
            gains=state.gains.at[where, places].set(gains.astype(state.gains.dtype), mode="drop"),
        )
