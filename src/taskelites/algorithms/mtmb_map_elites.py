"""Multi-task multi-behaviour MAP-Elites: for each task, a MAP-Elites archive over behaviours.

Anne and Mouret, "Multi-Task Multi-Behavior MAP-Elites" (GECCO 2023, poster; arXiv 2305.01264). The fitness also returns
a behaviour, a few numbers that describe what a solution does. The behaviour space is divided into cells, and the
archive holds one elite per task and cell. A child of two random elites, of any task and behaviour, is evaluated on a
random task.

It is implemented on top of MAP-Elites with random tasks (`map_elites_random.py`). With one cell, the two are identical
bit for bit.

Deviations from the paper:

1. A solution replaces an elite only if it is better; with `ties=True`, also if it is equal.
2. The random start is the same as for Multi-task MAP-Elites: a number of solutions, in full batches, which count as
   evaluations.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from taskelites.algorithms.interface import (
    Candidates,
    Elites,
    Evaluation,
    Info,
    Kept,
    described,
    replace,
    valid_random_start,
)
from taskelites.algorithms.map_elites_random import MapElitesRandom
from taskelites.algorithms.mt_map_elites import MultiTaskMapElitesCore, State
from taskelites.core import archive as archives
from taskelites.core.cells import Cells, as_cells, cut
from taskelites.core.pytree import record
from taskelites.core.variation import IsoLine, as_variation
from taskelites.errors import InvalidTypeError, InvalidValueError
from taskelites.problem.problem import Problem

# Niches are 32-bit indices, one of which is `NOWHERE`.
_MOST_NICHES = 2**31 - 2


@dataclass(frozen=True, kw_only=True)
class MultiTaskMultiBehaviour:
    """Settings of Multi-task multi-behaviour MAP-Elites.

    The fitness must return `(fitness, behaviour)`. The argument `behaviour=[(lower, upper), ...]` of `te.solve` or
    `te.Domain` gives the bounds of the behaviour. Behaviours out of bounds belong to a cell at the edge. A behaviour
    that contains NaN is a failed evaluation. `Result.repertoire` holds all elites, and `Result.solutions_of` returns
    the elites of a task.

    Args:
        cells: cells of the behaviour space: the shape of a grid such as (10, 10), or the number of cells of a
            centroidal Voronoi tessellation.
        variation: see `MultiTaskMapElites`.
        random_start: number of initial random solutions, rounded up to full batches, or a share of the number of tasks.
        ties: whether a solution with equal fitness replaces the elite of its cell.

    Example:
        >>> import numpy as np, taskelites as te
        >>> def fitness(solution, task):
        ...     return -abs(solution[0] - task[0]), solution[1:]
        >>> result = te.solve(
        ...     fitness,
        ...     np.linspace(0, 1, 200)[:, None],
        ...     bounds=(0, 1),
        ...     dim=2,
        ...     behaviour=[(0, 1)],
        ...     evaluations=20_000,
        ...     algorithm=te.algorithms.MultiTaskMultiBehaviour(cells=(4,)),
        ... )
        >>> np.floor(4 * np.sort(result.solutions_of(100).behaviour[:, 0])).tolist()
        [0.0, 1.0, 2.0, 3.0]
    """

    name: ClassVar[str] = "mtmb-map-elites"
    uses_distance: ClassVar[bool] = False

    cells: Any = 100
    variation: Any = field(default_factory=IsoLine)
    random_start: int | float = 100
    ties: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", as_cells(self.cells))
        object.__setattr__(self, "variation", as_variation(self.variation))
        object.__setattr__(self, "random_start", valid_random_start(self.random_start))
        if not isinstance(self.ties, bool):
            raise InvalidTypeError(f"ties must be True or False, not {self.ties!r}")

    def bind(self, problem: Problem, batch_size: int = 64) -> "MultiBehaviourCore":
        """Return the core of the algorithm for a problem, in JAX's default precision."""
        tasks = problem.finite_tasks(self.name)
        if problem.behaviour is None:
            raise InvalidValueError(
                f"algorithm {self.name!r} needs a behaviour, but the problem has none; let the fitness return a pair "
                "(fitness, behaviour) and give behaviour=[(lower, upper), ...], one pair per behaviour value"
            )
        cells = cut(self.cells, *problem.behaviour.T)
        most = _MOST_NICHES // len(tasks)
        if len(cells) > most:
            raise InvalidValueError(
                f"cells must be at most {most:,} for {len(tasks):,} tasks, not {len(cells):,}; use fewer cells"
            )
        same = MapElitesRandom(variation=self.variation, random_start=self.random_start).bind(problem, batch_size)
        parts = {name: getattr(same, name) for name in vars(same) if not name.startswith("_")}
        return MultiBehaviourCore(**parts | {"ties": self.ties}, cells=cells)


@record
class DescribedState(State):
    """State of Multi-task MAP-Elites, with one niche per task and cell and the behaviours of the elites.

    Attributes:
        behaviour: behaviour of each elite, shape `(tasks * cells, b)`.
    """

    behaviour: Array


@record
class MultiBehaviourCore(MultiTaskMapElitesCore):
    """Core of Multi-task multi-behaviour MAP-Elites."""

    cells: Cells

    @property
    def behaviour_dim(self) -> int:
        """Number of values of a behaviour."""
        return len(self.cells.lower)

    def init(self, key: Array) -> DescribedState:
        """Return a state with an empty archive."""
        plain = super().init(key)
        niches = self.tournament.tasks * len(self.cells)
        return DescribedState(
            key=plain.key,
            step=plain.step,
            archive=archives.empty(niches, len(self.lower)),
            tried=plain.tried,
            successes=plain.successes,
            behaviour=jnp.zeros((niches, self.behaviour_dim)),
        )

    def tell(self, state: Any, candidates: Candidates, evaluation: Evaluation) -> tuple[Any, Info]:
        """Insert each candidate into the niche of its task and of its behaviour's cell."""
        behaviour = evaluation.behaviour
        assert behaviour is not None  # guaranteed by `behaviour_dim`
        fitness = described(evaluation.fitness, behaviour)
        niches = evaluation.place(candidates.niches * len(self.cells) + self.cells(behaviour))
        archive, success = archives.insert(state.archive, candidates.solutions, niches, fitness, ties=self.ties)
        where = archives.inserted(state.archive, archive, niches)
        kept = state.behaviour.at[where].set(behaviour.astype(state.behaviour.dtype), mode="drop")
        return self.learnt(replace(state, archive=archive, behaviour=kept), candidates, niches, success)

    def elites(self, state: Any) -> Elites:
        """Return the best elite per task, over all cells."""
        whole, tasks, cells = state.archive, self.tournament.tasks, len(self.cells)
        best = jnp.argmax(whole.fitness.reshape(tasks, cells), axis=1) + cells * jnp.arange(tasks)
        return Elites(
            replace(
                whole,
                solutions=whole.solutions[best],
                fitness=whole.fitness[best],
                evaluations=jnp.sum(whole.evaluations.reshape(tasks, cells), axis=1, dtype=jnp.int32),
                last_improved=whole.last_improved[best],
                solved=whole.solved[:tasks],
            )
        )

    def kept(self, state: Any) -> Kept:
        """Return all elites with their behaviours."""
        numbers = jnp.repeat(jnp.arange(self.tournament.tasks, dtype=jnp.int32), len(self.cells))
        return Kept(numbers, state.archive.solutions, state.archive.fitness, state.behaviour)

    def diagnostics(self, state: Any) -> dict[str, Any]:
        """Return the number of elites, their mean number per solved task, and the counts per tournament size."""
        fitness = state.archive.fitness.reshape(self.tournament.tasks, len(self.cells))
        solved = jnp.sum(jnp.any(fitness > -jnp.inf, axis=1))
        counts = {
            "solutions": state.archive.solved_count,
            "solutions_per_task": jnp.where(solved > 0, state.archive.solved_count / solved, jnp.nan),
        }
        return counts | super().diagnostics(state)
