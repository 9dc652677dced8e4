"""MAP-Elites on all tasks: children of elites, each tried on every task and competing in all of them.

The baseline "vanilla MAP-Elites (all tasks)" of Mouret and Maguire (GECCO 2020, section 4.1). A step costs the batch
size times the number of tasks in evaluations, so there are few of them: 3 in 1,000,000 evaluations on 5000 tasks.

Where this departs from the paper, as for Multi-task MAP-Elites: the random solutions of the initialisation, each on one
random task, keep the better of two, count as evaluations and come in whole batches; parents are drawn among solved
tasks, and while nothing is solved, random solutions take the children's place.
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
    as_random_start,
    replace,
    start_steps,
    task_rows,
)
from taskelites.algorithms.mt_map_elites import MultiTaskMapElites, MultiTaskMapElitesCore
from taskelites.core import archive as archives
from taskelites.core import random
from taskelites.core.pytree import record, static
from taskelites.core.variation import IsoLine, as_variation
from taskelites.problem.problem import Problem


@dataclass(frozen=True, kw_only=True)
class MapElitesAll:
    """The settings of MAP-Elites on all tasks.

    Args:
        variation: as for `MultiTaskMapElites`.
        random_start: how many random solutions come first, each on one random task, rounded up to whole batches; or a
            share of the tasks.

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
        object.__setattr__(self, "random_start", as_random_start(self.random_start))

    def bind(self, problem: Problem, batch_size: int = 64) -> "MapElitesAllCore":
        """The algorithm on this problem, in the precision that JAX has now."""
        tasks = problem.finite_tasks(self.name)
        one_task_each = MultiTaskMapElites(tournament=1, variation=self.variation).bind(problem, batch_size)
        return MapElitesAllCore(
            one_task_each=one_task_each,
            start_steps=start_steps(self.random_start, len(tasks), one_task_each.batch_size),
            tasks=len(tasks),
        )


@record
class MapElitesAllCore(Core):
    """MAP-Elites on all tasks, bound to a problem: it makes its candidates as MAP-Elites on random tasks does."""

    any_order: ClassVar[bool] = True

    one_task_each: MultiTaskMapElitesCore
    start_steps: int = static()
    tasks: int = static()

    @property
    def batch_size(self) -> int:
        """How many candidates a step makes."""
        return self.one_task_each.batch_size

    @property
    def rows(self) -> int:
        """Each candidate on each task."""
        return self.batch_size * self.tasks

    def init(self, key: Array) -> State:
        """An empty archive; the steps of the opening are behind it."""
        archive = archives.empty(self.tasks, len(self.one_task_each.lower))
        return State(key=key, step=jnp.int32(self.start_steps), archive=archive)

    def opening(self, state: State) -> Candidates:
        """Random solutions, each on a random task."""
        keys = jax.vmap(lambda step: random.fold_in(random.fold_in(state.key, step), 0))(jnp.arange(self.start_steps))
        solutions, niches = jax.vmap(self.one_task_each.random)(keys)
        solutions, niches = solutions.reshape(-1, solutions.shape[-1]), niches.ravel()
        return Candidates(solutions=solutions, niches=niches, tasks=task_rows(self.one_task_each.descriptors, niches))

    def ask(self, state: State) -> tuple[Candidates, State]:
        """Children of random elites on all tasks, candidate by candidate."""
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
