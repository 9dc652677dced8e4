"""MAP-Elites on all tasks: children of elites, each evaluated on every task.

The baseline "vanilla MAP-Elites (all tasks)" of Mouret and Maguire (GECCO 2020, section 4.1). The number of evaluations
per step is the batch size times the number of tasks, so there are few steps: 3 in 1,000,000 evaluations on 5000 tasks.

Deviations from the paper, the same as for Multi-task MAP-Elites:

1. Each random solution of the initialisation is evaluated on one random task. The better of two on one task is kept.
   They count as evaluations and come in full batches.
2. Parents are drawn among solved tasks. While no task is solved, random solutions replace the children.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from taskelites.algorithms.interface import (
    Candidates,
    Core,
    State,
    replace,
    start_steps,
    task_rows,
    valid_random_start,
)
from taskelites.algorithms.mt_map_elites import MultiTaskMapElites, MultiTaskMapElitesCore
from taskelites.core import archive as archives
from taskelites.core import random
from taskelites.core.pytree import record, static
from taskelites.core.variation import IsoLine, as_variation
from taskelites.problem.problem import Problem


@dataclass(frozen=True, kw_only=True)
class MapElitesAll:
    """Settings of MAP-Elites on all tasks.

    Args:
        variation: see `MultiTaskMapElites`.
        random_start: number of initial random solutions, each on one random task, rounded up to full batches, or a
            share of the number of tasks.

    Example:
        >>> import taskelites as te
        >>> arm = te.domain("arm", tasks=300)
        >>> result = te.solve(arm, evaluations=30_000, algorithm=te.algorithms.MapElitesAll(), batch_size=16)
        >>> int(result.task_evaluations.max() - result.task_evaluations.min()) < 10
        True
    """

    name: ClassVar[str] = "map-elites-all"
    uses_distance: ClassVar[bool] = False

    variation: Any = field(default_factory=IsoLine)
    random_start: int | float = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "variation", as_variation(self.variation))
        object.__setattr__(self, "random_start", valid_random_start(self.random_start))

    def bind(self, problem: Problem, batch_size: int = 64) -> "MapElitesAllCore":
        """Return the core of the algorithm for a problem, in JAX's default precision."""
        tasks = problem.finite_tasks(self.name)
        one_task_each = MultiTaskMapElites(tournament=1, variation=self.variation).bind(problem, batch_size)
        return MapElitesAllCore(
            one_task_each=one_task_each,
            start_steps=start_steps(self.random_start, len(tasks), one_task_each.batch_size),
            tasks=len(tasks),
        )


@record
class MapElitesAllCore(Core):
    """Core of MAP-Elites on all tasks. It creates solutions with the core of MAP-Elites with random tasks."""

    any_order: ClassVar[bool] = True

    one_task_each: MultiTaskMapElitesCore
    start_steps: int = static()
    tasks: int = static()

    @property
    def batch_size(self) -> int:
        """Number of solutions per step, each evaluated on all tasks."""
        return self.one_task_each.batch_size

    @property
    def rows(self) -> int:
        """Number of candidates per `ask`: the batch size times the number of tasks."""
        return self.batch_size * self.tasks

    def init(self, key: Array) -> State:
        """Return a state with an empty archive. The step counter starts after the steps of `opening`."""
        archive = archives.empty(self.tasks, len(self.one_task_each.lower))
        return State(key=key, step=jnp.int32(self.start_steps), archive=archive)

    def opening(self, state: State) -> Candidates:
        """Return random solutions, each on a random task."""
        keys = jax.vmap(lambda step: random.fold_in(random.fold_in(state.key, step), 0))(jnp.arange(self.start_steps))
        solutions, niches = jax.vmap(self.one_task_each.random)(keys)
        solutions, niches = solutions.reshape(-1, solutions.shape[-1]), niches.ravel()
        return Candidates(solutions=solutions, niches=niches, tasks=task_rows(self.one_task_each.descriptors, niches))

    def ask(self, state: State) -> tuple[Candidates, State]:
        """Return children of random elites on all tasks, ordered by child and then by task."""
        key = random.fold_in(state.key, state.step)
        anything, _ = self.one_task_each.random(random.fold_in(key, 0))
        children, *_ = self.one_task_each.children(random.fold_in(key, 1), state.archive, jnp.int32(0))
        solutions = jnp.where(state.archive.solved_count == 0, anything, children)
        niches = jnp.tile(jnp.arange(self.tasks, dtype=jnp.int32), self.batch_size)
        candidates = Candidates(
            solutions=jnp.repeat(solutions, self.tasks, axis=0),
            niches=niches,
            tasks=task_rows(self.one_task_each.descriptors, niches),
        )
        return candidates, replace(state, step=state.step + 1)
