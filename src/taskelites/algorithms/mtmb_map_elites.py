"""Multi-task multi-behaviour MAP-Elites: for each task, the best solution of each kind of behaviour.

Anne and Mouret, "Multi-Task Multi-Behavior MAP-Elites" (GECCO 2023, poster; arXiv 2305.01264). The fitness returns a
behaviour besides, a few numbers that say what a solution does. For each task, the archive holds an elite in each cell
of the space of behaviours. A child of two random elites, of any task and behaviour, is evaluated on a random task.

It is MAP-Elites with random tasks (`map_elites_random.py`), and is made of it: with one cell, they are the same bit for
bit.

Where this departs from the paper:

1. A solution replaces an elite if it is better; `ties=True` lets an equal one do so.
2. The random start is that of Multi-task MAP-Elites: a number of solutions, in whole batches, counted.
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
    as_random_start,
    described,
    replace,
)
from taskelites.algorithms.map_elites_random import MapElitesRandom
from taskelites.algorithms.mt_map_elites import MultiTaskMapElitesCore, State
from taskelites.core import archive as archives
from taskelites.core.cells import Cells, as_cells, cut
from taskelites.core.pytree import record
from taskelites.core.variation import IsoLine, as_variation
from taskelites.errors import InvalidTypeError, InvalidValueError
from taskelites.problem.problem import Problem

# An archive counts its niches in 32 bits, and one number more says "nowhere".
_MOST_NICHES = 2**31 - 2


@dataclass(frozen=True, kw_only=True)
class MultiTaskMultiBehaviour:
    """The settings of Multi-task multi-behaviour MAP-Elites.

    The fitness returns `(fitness, behaviour)`, and `behaviour=[(lower, upper), ...]` of `te.solve` or `te.Domain` says
    between which bounds. A behaviour outside of them belongs to a cell at the edge; one with NaN in it is a failed
    evaluation. `Result.repertoire` holds all elites, `Result.solutions_of` those of a task.

    Args:
        cells: of the space of behaviours, for each task: the shape of a grid such as (10, 10), or a whole number for
            the cells of a centroidal Voronoi tessellation.
        variation: as for `MultiTaskMapElites`.
        random_start: how many random solutions come first, rounded up to whole batches; or a share of the tasks.
        ties: whether a solution as good as the elite of its cell replaces it.

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
        object.__setattr__(self, "random_start", as_random_start(self.random_start))
        if not isinstance(self.ties, bool):
            raise InvalidTypeError(f"ties must be True or False, not {self.ties!r}")

    def bind(self, problem: Problem, batch_size: int = 64) -> "MultiBehaviourCore":
        """The algorithm on this problem, in the precision that JAX has now."""
        tasks = problem.finite_tasks(self.name)
        if problem.behaviour is None:
            raise InvalidValueError(
                f"algorithm {self.name!r} needs a behaviour: let the fitness return a pair (fitness, behaviour), and "
                "give behaviour=[(lower, upper), ...], one pair for each of its numbers"
            )
        cells = cut(self.cells, *problem.behaviour.T)
        most = _MOST_NICHES // len(tasks)
        if len(cells) > most:
            raise InvalidValueError(f"cells must be at most {most:,} for {len(tasks):,} tasks, not {len(cells):,}")
        same = MapElitesRandom(variation=self.variation, random_start=self.random_start).bind(problem, batch_size)
        parts = {name: getattr(same, name) for name in vars(same) if not name.startswith("_")}
        return MultiBehaviourCore(**parts | {"ties": self.ties}, cells=cells)


@record
class DescribedState(State):
    """What the next step needs: that of Multi-task MAP-Elites, with an archive of tasks x cells niches.

    Attributes:
        behaviour: `(tasks x cells, b)`, of each elite.
    """

    behaviour: Array


@record
class MultiBehaviourCore(MultiTaskMapElitesCore):
    """Multi-task multi-behaviour MAP-Elites bound to a problem."""

    cells: Cells

    @property
    def behaviour_dim(self) -> int:
        """How many numbers describe a behaviour."""
        return len(self.cells.lower)

    def init(self, key: Array) -> DescribedState:
        """An empty archive."""
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
        """Insert the candidates, each in the cell of its task that its behaviour belongs to."""
        behaviour = evaluation.behaviour
        assert behaviour is not None  # whoever evaluates has read `behaviour_dim`
        fitness = described(evaluation.fitness, behaviour)
        niches = evaluation.place(candidates.niches * len(self.cells) + self.cells(behaviour))
        archive, success = archives.insert(state.archive, candidates.solutions, niches, fitness, ties=self.ties)
        where = archives.inserted(state.archive, archive, niches)
        kept = state.behaviour.at[where].set(behaviour.astype(state.behaviour.dtype), mode="drop")
        return self.learnt(replace(state, archive=archive, behaviour=kept), candidates, niches, success)

    def elites(self, state: Any) -> Elites:
        """The best of the cells of each task."""
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
        """All elites, with their behaviours."""
        numbers = jnp.repeat(jnp.arange(self.tournament.tasks, dtype=jnp.int32), len(self.cells))
        return Kept(numbers, state.archive.solutions, state.archive.fitness, state.behaviour)

    def diagnostics(self, state: Any) -> dict[str, Any]:
        """Elites in all and for each solved task, and what Multi-task MAP-Elites counts."""
        fitness = state.archive.fitness.reshape(self.tournament.tasks, len(self.cells))
        solved = jnp.sum(jnp.any(fitness > -jnp.inf, axis=1))
        counts = {
            "solutions": state.archive.solved_count,
            "solutions_per_task": jnp.where(solved > 0, state.archive.solved_count / solved, jnp.nan),
        }
        return counts | super().diagnostics(state)
