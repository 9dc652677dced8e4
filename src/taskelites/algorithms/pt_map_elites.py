"""Parametric-task MAP-Elites: a continuous family of tasks, partitioned into cells.

Anne and Mouret, "Parametric-Task MAP-Elites" (GECCO 2024; arXiv 2402.01275). The box of tasks is partitioned into
cells. Each cell stores the best (task, solution) pair evaluated in it. Candidates are created in two ways, with equal
probability:

- A child of two random elites is evaluated on the nearest, to the first parent's task, of `s` random tasks of the box.
  UCB1 chooses `s`.
- A linear least-squares fit to the elites around a random task predicts a solution for it. Normal noise with the
  standard deviation of these elites is added.

`Result.predict` distils the evaluations into a function from tasks to solutions.

On a list of tasks, each task is a cell. Without predictions (`p_regression=0`), the algorithm is then identical, bit
for bit, to Multi-task MAP-Elites with the same variation operator and tournament sizes, on which it is built.

Deviations from the paper:

1. A solution replaces an elite only if it is better; with `ties=True`, also if it is equal, as in the paper.
2. Instead of all evaluations, only the best one per cell of a second, finer grid is stored. This bounds the memory.
3. Candidates come in batches. The bandit is the same as in Multi-task MAP-Elites, rewarded by the successes in a batch.
4. The fit ignores unsolved cells. If all cells around a task are unsolved, the candidate is a child instead. A ridge
   near the rounding error makes the slope zero in directions in which the elites' tasks do not differ.
5. Distances, cells and fits use tasks scaled to the unit box. On a list of tasks they use `Tasks.positions`.
6. The random start is the same as in Multi-task MAP-Elites.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from taskelites.algorithms.interface import (
    Candidates,
    Elites,
    Evaluation,
    Info,
    Kept,
    random_solutions,
    random_tasks,
    replace,
)
from taskelites.algorithms.mt_map_elites import MultiTaskMapElites, MultiTaskMapElitesCore, State
from taskelites.core import archive as archives
from taskelites.core import random
from taskelites.core.archive import Archive
from taskelites.core.cells import MOST_CELLS, MOST_CENTRES, Cells, adjacent, cut, grid_within
from taskelites.core.pytree import constant, record
from taskelites.core.selection import Tournament, nearest_fresh, uniform_parents
from taskelites.core.variation import SBX
from taskelites.errors import InvalidTypeError, InvalidValueError, whole_number
from taskelites.problem.problem import Problem
from taskelites.problem.tasks import Box, Tasks

# Makes the compiler compute a value once, instead of again for each element that depends on it.
_barrier: Callable[[Any], Any] = lax.optimization_barrier


@dataclass(frozen=True, kw_only=True)
class ParametricTaskMapElites:
    """Settings of Parametric-task MAP-Elites.

    On a `te.Box`, `result.tasks` are the tasks of the elites (the centres of empty cells), `result.repertoire` is the
    finer data set, and `result.predict` also uses the good solutions of that data set.

    Args:
        cells: number of cells of a box of tasks; a list of tasks has one cell per task.
        p_regression: probability that a candidate is a prediction. Tasks must have descriptors unless it is 0.
        tournament: tournament sizes for the bandit, or one fixed size.
        variation: see `MultiTaskMapElites`; the paper uses "sbx".
        random_start: number of initial random solutions, rounded up to full batches, or a share of the number of cells.
        reward: see `MultiTaskMapElites`.
        ties: whether a solution with equal fitness replaces the elite of its cell, as in the paper.
        dataset: maximum size of the data set on a box, which holds the best evaluation per cell of a regular grid.

    Example:
        >>> import numpy as np, taskelites as te
        >>> def fitness(solutions, tasks):
        ...     return -np.abs(solutions - tasks).sum(axis=1)
        >>> result = te.solve(
        ...     fitness,
        ...     te.Box([0, 0], [1, 1]),
        ...     bounds=(0, 1),
        ...     dim=2,
        ...     call="batch",
        ...     evaluations=10_000,
        ...     algorithm="pt-map-elites",
        ... )
        >>> len(result), bool(np.abs(result.predict([[0.3, 0.7]]) - [0.3, 0.7]).max() < 0.05)
        (200, True)
    """

    name: ClassVar[str] = "pt-map-elites"

    cells: int = 200
    p_regression: float = 0.5
    tournament: int | Sequence[int] = (1, 5, 10, 50, 100, 500)
    variation: Any = field(default_factory=SBX)
    random_start: int | float = 100
    reward: str = "count"
    ties: bool = False
    dataset: int = 10_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", whole_number("cells", self.cells, least=1, most=MOST_CENTRES))
        object.__setattr__(self, "dataset", whole_number("dataset", self.dataset, least=1, most=MOST_CELLS))
        p = self.p_regression
        if isinstance(p, bool) or not isinstance(p, int | float) or not 0 <= p <= 1:
            raise InvalidValueError(f"p_regression must be a probability between 0 and 1, not {p!r}")
        if not isinstance(self.ties, bool):
            raise InvalidTypeError(f"ties must be True or False, not {self.ties!r}")
        for name in ("tournament", "variation", "random_start"):
            object.__setattr__(self, name, getattr(self._plain(), name))

    def _plain(self) -> MultiTaskMapElites:
        """Return Multi-task MAP-Elites with the same settings, which also validates them."""
        return MultiTaskMapElites(
            tournament=self.tournament,
            variation=self.variation,
            random_start=self.random_start,
            reward=self.reward,
        )

    @property
    def uses_distance(self) -> bool:
        """Whether the algorithm uses the distance between tasks."""
        return self.p_regression > 0 or self.tournament != (1,)

    def bind(self, problem: Problem, batch_size: int = 64) -> "ParametricListCore | ParametricBoxCore":
        """Return the core of the algorithm for a problem, in JAX's default precision."""
        box = problem.tasks if isinstance(problem.tasks, Box) else None
        if box is None:
            tasks: Tasks = problem.tasks
            plain = self._plain().bind(problem, batch_size)
            places = self._places(tasks)
        else:
            cells = cut(self.cells, box.lower, box.upper)
            places = np.asarray(cells.centres)
            plain = self._plain().bind(Problem(places, problem.bounds), batch_size)
        parts = {name: value for name, value in vars(plain).items() if not name.startswith("_")}
        parts |= {
            "ties": self.ties,
            "p_regression": constant(float(self.p_regression)),
            "around": None if places is None else constant(adjacent(places)),
        }
        if box is None:
            return ParametricListCore(**parts, places=None if places is None else constant(places))
        parts |= {"tournament": _simulated_tournament(plain.sizes, len(cells)), "descriptors": None}
        grid = cut(grid_within(self.dataset, box.dim), box.lower, box.upper, "dataset")
        return ParametricBoxCore(**parts, cells=cells, grid=grid)

    def _places(self, tasks: Tasks) -> np.ndarray | None:
        """Return the positions of a list of tasks for the fit, centred and scaled; None without descriptors."""
        if tasks.descriptors is not None:
            spread = np.ptp(tasks.positions, axis=0).max()
            return (tasks.positions - tasks.positions.mean(axis=0)) / (spread if spread > 0 else 1.0)
        if self.p_regression > 0:
            raise InvalidValueError(
                f"algorithm {self.name!r} needs tasks with descriptors for its predictions, but these have none; give "
                "te.Tasks(objects, descriptors=...), or set p_regression=0"
            )
        return None


def _simulated_tournament(sizes: Array, cells: int) -> Tournament:
    """Return a `Tournament` that only stores sizes and number of cells; `nearest_fresh` simulates it in a box."""
    return Tournament(sizes=sizes, limits=None, neighbours=None, positions=None, tasks=cells)


@record
class ParametricListCore(MultiTaskMapElitesCore):
    """Core of Parametric-task MAP-Elites on a list of tasks."""

    p_regression: Array
    around: Array | None
    places: Array | None

    def offspring(self, key: Array, state: Any) -> tuple[Array, Array, Array]:
        """Return children on tasks near their first parents', or predictions for random tasks."""
        children, near, arms = super().offspring(key, state)
        if self.places is None or self.around is None:
            return children, near, arms
        key_choice, key_task, key_noise = random.split(random.fold_in(key, 2), 3)
        tasks = random_tasks(key_task, self.rows, self.tournament.tasks)
        found, known = regress(
            key_noise, state.archive, self.places, self.around[tasks], self.places[tasks], self.lower, self.upper
        )
        chosen = known & (random.uniform(key_choice, (self.rows,), found.dtype) < self.p_regression)
        return (
            jnp.where(chosen[:, None], found, children),
            jnp.where(chosen, tasks, near),
            jnp.where(chosen, -1, arms),
        )


@record
class BoxState(State):
    """State of Multi-task MAP-Elites whose niches are cells, with the tasks of the elites and the data set.

    Attributes:
        tasks: task of each elite, shape `(cells, k)`; the centre of an empty cell.
        data: archive with the best evaluation per cell of the finer grid.
        data_tasks: task of each of these evaluations, shape `(grid, k)`.
        data_cells: index of the (coarse) cell that contains this task, shape `(grid,)`.
    """

    tasks: Array
    data: Archive
    data_tasks: Array
    data_cells: Array


@record
class ParametricBoxCore(MultiTaskMapElitesCore):
    """Core of Parametric-task MAP-Elites on a box of tasks."""

    p_regression: Array
    around: Array
    cells: Cells
    grid: Cells

    def init(self, key: Array) -> BoxState:
        """Return a state with an empty archive."""
        plain = super().init(key)
        assert self.cells.centres is not None  # `bind` creates a CVT
        dim, fine = len(self.cells.lower), len(self.grid)
        return BoxState(
            key=plain.key,
            step=plain.step,
            archive=plain.archive,
            tried=plain.tried,
            successes=plain.successes,
            tasks=self._raw(self.cells.centres),
            data=archives.empty(fine, len(self.lower)),
            data_tasks=jnp.zeros((fine, dim)),
            data_cells=jnp.zeros(fine, jnp.int32),
        )

    def _raw(self, inside: Array) -> Array:
        """Map points of the unit box to tasks."""
        lower, upper = self.cells.lower, self.cells.upper
        return jnp.clip(lower + inside * (upper - lower), lower, upper)

    def ask(self, state: Any) -> tuple[Candidates, Any]:
        """Return children on random tasks near their first parents', or predictions; at the start, random solutions."""
        key = random.fold_in(state.key, state.step)
        starting = self.starting(state)
        key_solution, key_task = random.split(random.fold_in(key, 0))
        anything = random_solutions(key_solution, self.rows, self.lower, self.upper)
        fresh = random.uniform(key_task, (self.rows, len(self.cells.lower)), anything.dtype)
        arm = self.arm(state)
        children, near = self._children(random.fold_in(key, 1), state, arm)
        key_choice, key_noise = random.split(random.fold_in(key, 2))
        found, known = regress(
            key_noise,
            state.archive,
            self.cells.unit(state.tasks),
            self.around[self.cells(self._raw(fresh))],
            fresh,
            self.lower,
            self.upper,
        )
        chosen = known & (random.uniform(key_choice, (self.rows,), found.dtype) < self.p_regression)
        anywhere = (starting | chosen)[:, None]
        tasks = self._raw(jnp.where(anywhere, fresh, near))
        candidates = Candidates(
            solutions=jnp.where(starting, anything, jnp.where(chosen[:, None], found, children)),
            niches=self.cells(tasks),
            tasks=tasks,
            origin=jnp.where(starting | chosen, -1, arm),
        )
        return candidates, replace(state, step=state.step + 1)

    def _children(self, key: Array, state: Any, arm: Array) -> tuple[Array, Array]:
        """Return children of two random elites, and their tasks in the unit box, selected by tournaments."""
        key_parents, key_variation, key_tournament = random.split(key, 3)
        first, second = uniform_parents(key_parents, state.archive, (2, self.rows))
        elites = state.archive.solutions
        children = self.variation(key_variation, elites[first], elites[second], self.lower, self.upper)
        return children, nearest_fresh(key_tournament, self.cells.unit(state.tasks[first]), self.sizes[arm])

    def tell(self, state: Any, candidates: Candidates, evaluation: Evaluation) -> tuple[Any, Info]:
        """Insert the candidates into the archive and into the data set."""
        tasks = candidates.tasks.astype(state.tasks.dtype)
        niches = evaluation.place(candidates.niches)
        fine = evaluation.place(self.grid(tasks))
        solutions, fitness = candidates.solutions, evaluation.fitness
        archive, success = archives.insert(state.archive, solutions, niches, fitness, ties=self.ties)
        data, _ = archives.insert(state.data, solutions, fine, fitness, ties=self.ties)
        coarse_rows = archives.inserted(state.archive, archive, niches)
        fine_rows = archives.inserted(state.data, data, fine)
        after = replace(
            state,
            archive=archive,
            tasks=state.tasks.at[coarse_rows].set(tasks, mode="drop"),
            data=data,
            data_tasks=state.data_tasks.at[fine_rows].set(tasks, mode="drop"),
            data_cells=state.data_cells.at[fine_rows].set(candidates.niches, mode="drop"),
        )
        return self.learnt(after, candidates, niches, success)

    def elites(self, state: Any) -> Elites:
        """Return the elites with their tasks."""
        return Elites(state.archive, state.tasks)

    def kept(self, state: Any) -> Kept:
        """Return the data set: the best evaluation per cell of the finer grid."""
        return Kept(state.data_cells, state.data.solutions, state.data.fitness, None, state.data_tasks)


def regress(
    key: Array, archive: Archive, places: Array, around: Array, wanted: Array, lower: Array, upper: Array
) -> tuple[Array, Array]:
    """Predict solutions by linear regression over elites, and add noise with the standard deviation of these elites.

    Args:
        key: random key of the noise.
        archive: archive with one niche per cell.
        places: position of each elite's task, shape `(cells, k)`.
        around: indices of the cells to fit for each prediction, padded with -1, shape `(rows, width)`.
        wanted: positions of the tasks to predict for, shape `(rows, k)`.
        lower: lower bounds of the solutions, shape `(dim,)`.
        upper: upper bounds of the solutions, shape `(dim,)`.

    Returns:
        Predictions, shape `(rows, dim)`, and a mask of the rows with at least one elite to fit, shape `(rows,)`.
    """
    index = jnp.maximum(around, 0)
    usable = (around >= 0) & (archive.fitness[index] > -jnp.inf)
    share = usable.astype(places.dtype)
    number = jnp.sum(share, axis=1)
    share = share / jnp.maximum(number, 1.0)[:, None]

    away = jnp.where(usable[..., None], places[index] - wanted[:, None], 0.0)
    reach = jnp.sqrt(jnp.max(jnp.sum(jnp.square(away), axis=2), axis=1))
    away = away / jnp.where(reach > 0, reach, 1.0)[:, None, None]
    centre = jnp.sum(share[..., None] * away, axis=1)
    off = jnp.where(usable[..., None], away - centre[:, None], 0.0)
    spread = jnp.sum(share[..., None, None] * off[..., :, None] * off[..., None, :], axis=1)
    slope = _solve(*_barrier((spread, -centre)))
    share, tilt = _barrier((share, share * jnp.sum(off * slope[:, None], axis=2)))

    elites = archive.solutions[index]
    mean = _barrier(jnp.sum(share[..., None] * elites, axis=1))
    apart = elites - mean[:, None]  # centring makes a gene that all elites share exact
    deviation = jnp.sqrt(jnp.sum(share[..., None] * jnp.square(apart), axis=1))
    noise = random.normal(key, mean.shape, mean.dtype)
    found = mean + jnp.sum(tilt[..., None] * apart, axis=1) + deviation * noise
    return jnp.clip(found, lower, upper), number > 0


def _solve(matrix: Array, right: Array) -> Array:
    """Solve `matrix @ x = right` for each row, by Gauss-Jordan elimination with a ridge.

    Library calls for batches of small matrices would take longer than the rest of a step.

    Args:
        matrix: symmetric matrices, shape `(rows, k, k)`.
        right: right-hand sides, shape `(rows, k)`.

    Returns:
        Solutions, shape `(rows, k)`.
    """
    size = right.shape[1]
    trace = jnp.sum(jnp.diagonal(matrix, axis1=1, axis2=2), axis=1)
    precision = np.finfo(matrix.dtype)
    ridge = float(1000 * precision.eps) * trace + float(np.sqrt(precision.tiny))  # (4)
    matrix = matrix + ridge[:, None, None] * jnp.eye(size, dtype=matrix.dtype)
    whole = jnp.concatenate([matrix, right[..., None]], axis=2)
    for i in range(size):
        pivot = whole[:, i] / jnp.maximum(whole[:, i, i], ridge)[:, None]
        rest = whole - whole[:, :, i, None] * pivot[:, None]
        whole = jnp.where((jnp.arange(size) == i)[:, None], pivot[:, None], rest)
    return whole[:, :, size]
