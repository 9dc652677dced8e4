"""Random sampling: random solutions on random tasks.

The baseline "random sampling" of Mouret and Maguire (GECCO 2020, section 4.1).
"""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from taskelites.algorithms.interface import (
    Candidates,
    Core,
    State,
    box_arrays,
    descriptors_of,
    random_solutions,
    random_tasks,
    replace,
    task_rows,
)
from taskelites.core import archive as archives
from taskelites.core import random
from taskelites.core.pytree import record, static
from taskelites.errors import whole_number
from taskelites.problem.problem import Problem


@dataclass(frozen=True, kw_only=True)
class RandomSampling:
    """Settings of random sampling, which has no parameters.

    Example:
        >>> import taskelites as te
        >>> te.solve(te.domain("arm", tasks=300), evaluations=10_000, algorithm=te.algorithms.RandomSampling()).coverage
        1.0
    """

    name: ClassVar[str] = "random"
    uses_distance: ClassVar[bool] = False

    def bind(self, problem: Problem, batch_size: int = 64) -> "RandomSamplingCore":
        """Return the core of the algorithm for a problem, in JAX's default precision."""
        tasks = problem.finite_tasks(self.name)
        lower, upper = box_arrays(problem)
        return RandomSamplingCore(
            lower=lower,
            upper=upper,
            descriptors=descriptors_of(tasks),
            tasks=len(tasks),
            batch_size=whole_number("batch_size", batch_size, least=1, most=2**24),
        )


@record
class RandomSamplingCore(Core):
    """Random sampling bound to a problem."""

    any_order: ClassVar[bool] = True

    lower: Array
    upper: Array
    descriptors: Array | None
    tasks: int = static()
    batch_size: int = static()

    @property
    def rows(self) -> int:
        """Number of candidates per `ask`: the batch size."""
        return self.batch_size

    def init(self, key: Array) -> State:
        """Return a state with an empty archive."""
        return State(key=key, step=jnp.int32(0), archive=archives.empty(self.tasks, len(self.lower)))

    def ask(self, state: State) -> tuple[Candidates, State]:
        """Return random solutions on random tasks."""
        key_solution, key_task = random.split(random.fold_in(state.key, state.step))
        niches = random_tasks(key_task, self.rows, self.tasks)
        candidates = Candidates(
            solutions=random_solutions(key_solution, self.rows, self.lower, self.upper),
            niches=niches,
            tasks=task_rows(self.descriptors, niches),
        )
        return candidates, replace(state, step=state.step + 1)
