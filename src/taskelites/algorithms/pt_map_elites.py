"""Parametric-task MAP-Elites: a continuous family of tasks, solved cell by cell.

Anne and Mouret, "Parametric-Task MAP-Elites" (GECCO 2024; arXiv 2402.01275). The box of tasks is cut into cells, each
keeping the best (task, solution) evaluated inside of it. A candidate is, with equal probability, either a child of two
random cells' solutions, tried on the task that is nearest to the first parent's among `s` fresh random ones (UCB1
chooses `s`); or what a linear least-squares fit over the elites around a fresh random task predicts for it, plus normal
noise of their standard deviation. What was evaluated is distilled into a function of the task (`Result.predict`).

On a list of tasks each task is a cell of its own. Without predictions (`p_regression=0`) it is then Multi-task
MAP-Elites with the same variation and sizes, bit for bit, and is made of it.

Where this departs from the paper:

1. A solution replaces an elite if it is better; `ties=True` lets an equal one do so, as the paper has it.
2. Of all evaluations, the best in each cell of a second, finer grid is kept, so that memory has a bound.
3. Candidates come in batches, and the bandit is that of Multi-task MAP-Elites: rewarded by the successes in a batch.
4. The fit leaves out unsolved cells; where all around a task are unsolved, the candidate is a child instead. A ridge
   below what the numbers can tell keeps directions in which elites do not differ flat.
5. Distances, cells and fits are in widths of the box of tasks (of a list: as its distance sees the descriptors).
6. The random start is that of Multi-task MAP-Elites.
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

# What the compiler makes once, instead of anew for each number that is made of it.
_settled: Callable[[Any], Any] = lax.optimization_barrier


@dataclass(frozen=True, kw_only=True)
class ParametricTaskMapElites:
    """The settings of Parametric-task MAP-Elites.

    On a `te.Box`, `result.tasks` are the tasks that the cells' elites were evaluated on (the centres of cells without
    one), `result.repertoire` is the finer data set, and `result.predict` uses what is good of it as well.

    Args:
        cells: of a box of tasks; a list has one for each task.
        p_regression: how likely a candidate is a prediction; it needs tasks with descriptors, unless it is 0.
        tournament: sizes among which the bandit chooses, or one fixed size.
        variation: as for `MultiTaskMapElites`; the paper's is "sbx".
        random_start: how many random solutions come first, rounded up to whole batches; or a share of the cells.
        reward: as for `MultiTaskMapElites`.
        ties: whether a solution as good as the elite of its cell replaces it, as in the paper.
        dataset: on a box, evaluations that are kept, at most: the best of each cell of a regular grid.

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
            raise InvalidValueError(f"p_regression must be a probability, from 0 to 1, not {p!r}")
        if not isinstance(self.ties, bool):
            raise InvalidTypeError(f"ties must be True or False, not {self.ties!r}")
        for name in ("tournament", "variation", "random_start"):
            object.__setattr__(self, name, getattr(self._plain(), name))

    def _plain(self) -> MultiTaskMapElites:
        """Multi-task MAP-Elites with the same settings, which checks them."""
        return MultiTaskMapElites(
            tournament=self.tournament,
            variation=self.variation,
            random_start=self.random_start,
            reward=self.reward,
        )

    @property
    def uses_distance(self) -> bool:
        """Whether the distance between tasks makes a difference."""
        return self.p_regression > 0 or self.tournament != (1,)

    def bind(self, problem: Problem, batch_size: int = 64) -> "ParametricListCore | ParametricBoxCore":
        """The algorithm on this problem, in the precision that JAX has now."""
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
        parts |= {"tournament": _of_size(plain.sizes, len(cells)), "descriptors": None}
        grid = cut(grid_within(self.dataset, box.dim), box.lower, box.upper, "dataset")
        return ParametricBoxCore(**parts, cells=cells, grid=grid)

    def _places(self, tasks: Tasks) -> np.ndarray | None:
        """Where the tasks of a list lie, for the fit."""
        if tasks.descriptors is not None:
            spread = np.ptp(tasks.positions, axis=0).max()
            return (tasks.positions - tasks.positions.mean(axis=0)) / (spread if spread > 0 else 1.0)
        if self.p_regression > 0:
            raise InvalidValueError(
                f"algorithm {self.name!r} fits solutions to the descriptors of tasks, and these have none: give them "
                "to te.Tasks(objects, descriptors=...), or set p_regression=0"
            )
        return None


def _of_size(sizes: Array, cells: int) -> Tournament:
    """What says how many cells and sizes there are, where tournaments are played in a box."""
    return Tournament(sizes=sizes, limits=None, neighbours=None, positions=None, tasks=cells)


@record
class ParametricListCore(MultiTaskMapElitesCore):
    """Parametric-task MAP-Elites bound to a list of tasks."""

    p_regression: Array
    around: Array | None
    places: Array | None

    def offspring(self, key: Array, state: Any) -> tuple[Array, Array, Array]:
        """Children of two elites, each on a task near its first parent's; or predictions for random tasks."""
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
    """What the next step needs: that of Multi-task MAP-Elites, with an archive of cells.

    Attributes:
        tasks: `(cells, k)`, what each elite was evaluated on; the centre of a cell without one.
        data: the best evaluation of each cell of the finer grid.
        data_tasks: `(grid, k)`, what each was evaluated on.
        data_cells: `(grid,)`, the cell that it lies in.
    """

    tasks: Array
    data: Archive
    data_tasks: Array
    data_cells: Array


@record
class ParametricBoxCore(MultiTaskMapElitesCore):
    """Parametric-task MAP-Elites bound to a box of tasks."""

    p_regression: Array
    around: Array
    cells: Cells
    grid: Cells

    def init(self, key: Array) -> BoxState:
        """An empty archive."""
        plain = super().init(key)
        assert self.cells.centres is not None  # made so
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
        """Points of the unit box as tasks."""
        lower, upper = self.cells.lower, self.cells.upper
        return jnp.clip(lower + inside * (upper - lower), lower, upper)

    def ask(self, state: Any) -> tuple[Candidates, Any]:
        """Children of elites, each on a fresh task near its first parent's, or predictions; random ones at first."""
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
        """Children of two random elites, each on the nearest of some fresh tasks, in widths of the box."""
        key_parents, key_variation, key_tournament = random.split(key, 3)
        first, second = uniform_parents(key_parents, state.archive, (2, self.rows))
        elites = state.archive.solutions
        children = self.variation(key_variation, elites[first], elites[second], self.lower, self.upper)
        return children, nearest_fresh(key_tournament, self.cells.unit(state.tasks[first]), self.sizes[arm])

    def tell(self, state: Any, candidates: Candidates, evaluation: Evaluation) -> tuple[Any, Info]:
        """Insert the candidates into their cells, and into those of the finer grid."""
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
        """The elites, with the tasks that they were evaluated on."""
        return Elites(state.archive, state.tasks)

    def kept(self, state: Any) -> Kept:
        """The best evaluation of each cell of the finer grid."""
        return Kept(state.data_cells, state.data.solutions, state.data.fitness, None, state.data_tasks)


def regress(
    key: Array, archive: Archive, places: Array, around: Array, wanted: Array, lower: Array, upper: Array
) -> tuple[Array, Array]:
    """What a plane through the elites of some cells predicts, with noise of their standard deviation.

    Args:
        key: of the noise.
        archive: one niche a cell.
        places: `(cells, k)`, where the task of each elite lies.
        around: `(rows, width)`, which cells are fitted; -1 for none.
        wanted: `(rows, k)`, where a prediction is wanted.
        lower: of the box of solutions, `(dim,)`.
        upper: the same.

    Returns:
        Solutions `(rows, dim)`, and whether there was an elite to predict from, `(rows,)`.
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
    slope = _solved(*_settled((spread, -centre)))
    share, tilt = _settled((share, share * jnp.sum(off * slope[:, None], axis=2)))

    elites = archive.solutions[index]
    mean = _settled(jnp.sum(share[..., None] * elites, axis=1))
    apart = elites - mean[:, None]  # so that what all elites agree on is predicted exactly
    deviation = jnp.sqrt(jnp.sum(share[..., None] * jnp.square(apart), axis=1))
    noise = random.normal(key, mean.shape, mean.dtype)
    found = mean + jnp.sum(tilt[..., None] * apart, axis=1) + deviation * noise
    return jnp.clip(found, lower, upper), number > 0


def _solved(matrix: Array, right: Array) -> Array:
    """`matrix x = right` for each row, by elimination; matrices are symmetric, `(rows, k, k)`, right sides `(rows, k)`.

    Written out, since a library call for each small matrix takes longer than all else in a step.
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
