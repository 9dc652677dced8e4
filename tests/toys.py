"""Three toy algorithms that test the parts of the interface that Multi-task MAP-Elites does not use.

One has many rows per step (each candidate on every task), one uses a behaviour, and one chooses its tasks in a box.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from taskelites.algorithms import Candidates, Core, Elites, Info
from taskelites.algorithms.interface import random_solutions, replace, task_rows
from taskelites.core import archive as archives
from taskelites.core.pytree import record, static


@record
class State:
    key: Any
    step: Any
    archive: Any
    tasks: Any = None


@dataclass(frozen=True, kw_only=True)
class EveryTask:
    """Random candidates, each evaluated on every task; rows are ordered by candidate."""

    name: ClassVar[str] = "toy-every-task"
    uses_distance: bool = False

    def bind(self, problem, batch_size=64):
        tasks = problem.finite_tasks(self.name)
        return EveryTaskCore(
            lower=jnp.asarray(problem.lower),
            upper=jnp.asarray(problem.upper),
            descriptors=None if tasks.descriptors is None else jnp.asarray(tasks.descriptors),
            batch_size=batch_size,
            tasks=len(tasks),
        )


@record
class EveryTaskCore(Core):
    lower: Any
    upper: Any
    descriptors: Any
    batch_size: int = static()
    tasks: int = static()

    @property
    def rows(self):
        return self.batch_size * self.tasks

    def init(self, key):
        return State(key=key, step=jnp.int32(0), archive=archives.empty(self.tasks, len(self.lower)))

    def ask(self, state):
        key = jax.random.fold_in(state.key, state.step)
        solutions = random_solutions(key, self.batch_size, self.lower, self.upper)
        niches = jnp.tile(jnp.arange(self.tasks, dtype=jnp.int32), self.batch_size)
        candidates = Candidates(
            solutions=jnp.repeat(solutions, self.tasks, axis=0),
            niches=niches,
            tasks=task_rows(self.descriptors, niches),
        )
        return candidates, replace(state, step=state.step + 1)

    def tell(self, state, candidates, evaluation):
        archive, success = archives.insert(
            state.archive, candidates.solutions, evaluation.place(candidates.niches), evaluation.fitness
        )
        return replace(state, archive=archive), Info(success=success)


CELLS = 4


@dataclass(frozen=True, kw_only=True)
class FourBehaviours:
    """Random candidates on random tasks, with one elite per task and quarter of the behaviours."""

    name: ClassVar[str] = "toy-four-behaviours"
    uses_distance: bool = False

    def bind(self, problem, batch_size=64):
        every = EveryTask().bind(problem, batch_size)
        return FourBehavioursCore(
            lower=every.lower,
            upper=every.upper,
            descriptors=every.descriptors,
            batch_size=batch_size,
            tasks=every.tasks,
        )


@record
class FourBehavioursCore(EveryTaskCore):
    behaviour_dim: ClassVar[int] = 1

    @property
    def rows(self):
        return self.batch_size

    def init(self, key):
        return State(key=key, step=jnp.int32(0), archive=archives.empty(self.tasks * CELLS, len(self.lower)))

    def ask(self, state):
        key_solution, key_task = jax.random.split(jax.random.fold_in(state.key, state.step))
        niches = jax.random.randint(key_task, (self.rows,), 0, self.tasks)
        candidates = Candidates(
            solutions=random_solutions(key_solution, self.rows, self.lower, self.upper),
            niches=niches,
            tasks=task_rows(self.descriptors, niches),
        )
        return candidates, replace(state, step=state.step + 1)

    def tell(self, state, candidates, evaluation):
        cell = jnp.clip(jnp.floor(evaluation.behaviour[:, 0] * CELLS), 0, CELLS - 1).astype(jnp.int32)
        niches = evaluation.place(candidates.niches * CELLS + cell)
        archive, success = archives.insert(state.archive, candidates.solutions, niches, evaluation.fitness)
        return replace(state, archive=archive), Info(success=success)

    def elites(self, state):
        """Return the best elite of each task."""
        whole = state.archive
        best = jnp.argmax(whole.fitness.reshape(self.tasks, CELLS), axis=1) + CELLS * jnp.arange(self.tasks)
        return Elites(
            replace(
                whole,
                solutions=whole.solutions[best],
                fitness=whole.fitness[best],
                evaluations=whole.evaluations.reshape(self.tasks, CELLS).sum(axis=1),
                last_improved=whole.last_improved[best],
                solved=whole.solved[: self.tasks],
            )
        )

    def diagnostics(self, state):
        return {"behaviours": state.archive.solved_count}


@dataclass(frozen=True, kw_only=True)
class CellsOfABox:
    """Random solutions on random tasks of a box with one descriptor; each of ten cells keeps an elite with its task."""

    name: ClassVar[str] = "toy-box"
    uses_distance: bool = False

    def bind(self, problem, batch_size=64):
        box = problem.tasks
        return CellsOfABoxCore(
            lower=jnp.asarray(problem.lower),
            upper=jnp.asarray(problem.upper),
            task_lower=jnp.asarray(box.lower),
            task_upper=jnp.asarray(box.upper),
            batch_size=batch_size,
        )


@record
class CellsOfABoxCore(Core):
    lower: Any
    upper: Any
    task_lower: Any
    task_upper: Any
    batch_size: int = static()

    @property
    def rows(self):
        return self.batch_size

    def init(self, key):
        return State(key=key, step=jnp.int32(0), archive=archives.empty(10, len(self.lower)), tasks=jnp.zeros((10, 1)))

    def ask(self, state):
        key_solution, key_task = jax.random.split(jax.random.fold_in(state.key, state.step))
        tasks = random_solutions(key_task, self.rows, self.task_lower, self.task_upper)
        unit = (tasks[:, 0] - self.task_lower[0]) / (self.task_upper[0] - self.task_lower[0])
        candidates = Candidates(
            solutions=random_solutions(key_solution, self.rows, self.lower, self.upper),
            niches=jnp.clip(jnp.floor(unit * 10), 0, 9).astype(jnp.int32),
            tasks=tasks,
        )
        return candidates, replace(state, step=state.step + 1)

    def tell(self, state, candidates, evaluation):
        niches = evaluation.place(candidates.niches)
        archive, success = archives.insert(state.archive, candidates.solutions, niches, evaluation.fitness)
        # The number of its evaluation gives the row of each elite.
        row = archive.last_improved - state.archive.told - 1
        tasks = jnp.where((row >= 0)[:, None], candidates.tasks[row], state.tasks)
        return replace(state, archive=archive, tasks=tasks), Info(success=success)

    def elites(self, state):
        return Elites(state.archive, state.tasks)
