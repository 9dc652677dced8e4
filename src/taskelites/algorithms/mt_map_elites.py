"""Multi-task MAP-Elites: children of elites, each evaluated on a task near its first parent's.

Mouret and Maguire, "Quality Diversity for Multi-task Optimization" (GECCO 2020), algorithm 1. A child of two random
elites is evaluated on one task. A tournament selects this task: of `s` random tasks, the nearest to the first parent's
task. The bandit UCB1 chooses `s` for each batch, with the number of new elites as the reward.

Deviations from the paper:

1. If two random solutions of the initialisation have the same task, the better one is kept. They count as evaluations
   and come in full batches.
2. Parents are drawn among solved tasks. The pseudo-code draws among all tasks, which is undefined for an unsolved one.
   While no task is solved, because every evaluation failed, random solutions continue.
3. Each size is used once, in the given order, before UCB1 decides. The pseudo-code divides by zero.
4. The tournament draws with replacement, like the paper's code. The text does not specify this.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from taskelites.algorithms.interface import (
    NOWHERE,
    Candidates,
    Core,
    Evaluation,
    Info,
    box_arrays,
    descriptors_of,
    random_solutions,
    random_tasks,
    replace,
    start_steps,
    task_rows,
    valid_random_start,
)
from taskelites.core import archive as archives
from taskelites.core import random
from taskelites.core.archive import Archive
from taskelites.core.bandit import ucb1
from taskelites.core.pytree import constant, record, static
from taskelites.core.selection import Tournament, tournament, uniform_parents
from taskelites.core.variation import IsoLine, as_variation
from taskelites.errors import InvalidTypeError, InvalidValueError, one_of, whole_number
from taskelites.problem.problem import Problem


@dataclass(frozen=True, kw_only=True)
class MultiTaskMapElites:
    """Settings of Multi-task MAP-Elites.

    Args:
        tournament: tournament sizes for the bandit, or one fixed size.
        variation: "iso_line", "sbx", "gaussian", "polynomial", or an operator such as
            `te.variation.IsoLine(sigma1=0.02)`.
        random_start: number of initial random solutions (K in the paper), rounded up to full batches. A fraction
            such as 0.1 is a share of the number of tasks.
        replacement: whether the tournament draws tasks with replacement. If False, a tournament of all tasks always
            selects the parent's task.
        reward: reward of a tournament size: "count", the number of successes in a batch (as in the paper, which makes
            the bandit nearly greedy), or "rate", the fraction of the batch that succeeded.

    Example:
        >>> import jax, numpy as np, taskelites as te
        >>> problem = te.algorithms.Problem(np.random.rand(300, 2), bounds=(0, 1), dim=10)
        >>> core = te.MultiTaskMapElites(tournament=50).bind(problem)
        >>> candidates, state = core.ask(core.init(jax.random.key(0)))
        >>> candidates.solutions.shape, candidates.niches.shape, candidates.tasks.shape
        ((64, 10), (64,), (64, 2))
    """

    name: ClassVar[str] = "mt-map-elites"

    tournament: int | Sequence[int] = (1, 10, 50, 100, 500)
    variation: Any = field(default_factory=IsoLine)
    random_start: int | float = 100
    replacement: bool = True
    reward: str = "count"

    def __post_init__(self) -> None:
        given = self.tournament if isinstance(self.tournament, Sequence) else (self.tournament,)
        if isinstance(given, str) or not given:
            raise InvalidValueError(f"tournament must be a size or a list of sizes, not {self.tournament!r}")
        sizes = tuple(whole_number("tournament", size, least=1, most=2**31 - 1) for size in given)
        if len(set(sizes)) != len(sizes):
            raise InvalidValueError(f"tournament must not contain a size twice, but it is {list(sizes)}")
        object.__setattr__(self, "tournament", sizes)
        object.__setattr__(self, "variation", as_variation(self.variation))
        object.__setattr__(self, "random_start", valid_random_start(self.random_start))
        if not isinstance(self.replacement, bool):
            raise InvalidTypeError(f"replacement must be True or False, not {self.replacement!r}")
        one_of("reward", self.reward, ["count", "rate"])

    @property
    def uses_distance(self) -> bool:
        """Whether the algorithm uses the distance between tasks."""
        return self.tournament != (1,)

    def bind(self, problem: Problem, batch_size: int = 64) -> "MultiTaskMapElitesCore":
        """Return the core of the algorithm for a problem, in JAX's default precision."""
        tasks = problem.finite_tasks(self.name)
        batch_size = whole_number("batch_size", batch_size, least=1, most=2**24)
        sizes: tuple[int, ...] = self.tournament if tasks.has_distance else (1,)  # type: ignore[assignment]
        lower, upper = box_arrays(problem)
        return MultiTaskMapElitesCore(
            lower=lower,
            upper=upper,
            descriptors=descriptors_of(tasks),
            tournament=tournament(tasks, sizes, replacement=self.replacement),
            variation=self.variation,
            reward_scale=constant(1.0 if self.reward == "count" else 1.0 / batch_size),
            start_steps=constant(start_steps(self.random_start, len(tasks), batch_size), np.int32),
            sizes=constant(sizes, np.int32),
            batch_size=batch_size,
        )


@record
class State:
    """State of Multi-task MAP-Elites.

    Attributes:
        key: random key of the run, from which each step derives its own.
        step: number of calls of `ask`.
        archive: the elites.
        tried: number of candidates per tournament size, shape `(sizes,)`.
        successes: number of those candidates that became elites, shape `(sizes,)`.
    """

    key: Array
    step: Array
    archive: Archive
    tried: Array
    successes: Array


@record
class MultiTaskMapElitesCore(Core):
    """Core of Multi-task MAP-Elites."""

    any_order: ClassVar[bool] = True

    lower: Array
    upper: Array
    descriptors: Array | None
    tournament: Tournament
    variation: Any
    reward_scale: Array
    start_steps: Array
    sizes: Array
    batch_size: int = static()
    ties: bool = static(default=False)

    @property
    def rows(self) -> int:
        """Number of candidates per `ask`: the batch size."""
        return self.batch_size

    def init(self, key: Array) -> State:
        """Return a state with an empty archive."""
        counts = jnp.zeros(len(self.sizes), jnp.int32)
        return State(
            key=key,
            step=jnp.int32(0),
            archive=archives.empty(self.tournament.tasks, len(self.lower)),
            tried=counts,
            successes=counts,
        )

    def ask(self, state: State) -> tuple[Candidates, State]:
        """Return children of random elites on tasks near their first parents'; at the start, random solutions."""
        key = random.fold_in(state.key, state.step)
        starting = self.starting(state)
        # Computing both and selecting one is faster than a branch, which would prevent fusion.
        anything, anywhere = self.random(random.fold_in(key, 0))
        children, near, arms = self.offspring(key, state)
        niches = jnp.where(starting, anywhere, near)
        candidates = Candidates(
            solutions=jnp.where(starting, anything, children),
            niches=niches,
            tasks=task_rows(self.descriptors, niches),
            origin=jnp.where(starting, -1, arms),
        )
        return candidates, replace(state, step=state.step + 1)

    def starting(self, state: Any) -> Array:
        """Return whether the next candidates are random solutions (1, 2)."""
        return (state.step < self.start_steps) | (state.archive.solved_count == 0)

    def arm(self, state: Any) -> Array:
        """Return the index of the size of the next tournaments (line 2.5)."""
        return ucb1(state.successes * self.reward_scale, state.tried / self.batch_size)

    def offspring(self, key: Array, state: Any) -> tuple[Array, Array, Array]:
        """Return children after the random start: solutions, their tasks, and the indices of their tournament sizes."""
        arm = self.arm(state)
        children, near, _ = self.children(random.fold_in(key, 1), state.archive, arm)
        return children, near, jnp.full(self.rows, arm)

    def random(self, key: Array) -> tuple[Array, Array]:
        """Return random solutions on random tasks (1)."""
        key_solution, key_task = random.split(key)
        solutions = random_solutions(key_solution, self.rows, self.lower, self.upper)
        return solutions, random_tasks(key_task, self.rows, self.tournament.tasks)

    def children(self, key: Array, archive: Archive, arm: Array) -> tuple[Array, Array, Array]:
        """Return children of two random elites (line 2.1), their tasks (line 2.2), and their first parents' tasks."""
        key_parents, key_variation, key_tournament = random.split(key, 3)
        first, second = uniform_parents(key_parents, archive, (2, self.rows))
        elites = archive.solutions
        children = self.variation(key_variation, elites[first], elites[second], self.lower, self.upper)
        return children, self.tournament(key_tournament, first, arm), first

    def tell(self, state: State, candidates: Candidates, evaluation: Evaluation) -> tuple[State, Info]:
        """Insert the candidates and reward their tournament sizes."""
        niches = evaluation.place(candidates.niches)
        archive, success = archives.insert(
            state.archive, candidates.solutions, niches, evaluation.fitness, ties=self.ties
        )  # 2.3
        return self.learnt(replace(state, archive=archive), candidates, niches, success)

    def learnt(self, state: Any, candidates: Candidates, niches: Array, success: Array) -> tuple[Any, Info]:
        """Count candidates and successes per tournament size (line 2.4), ignoring unevaluated candidates."""
        made_with = candidates.origin[:, None] == jnp.arange(len(self.sizes))
        made_with &= (niches != NOWHERE)[:, None]
        after = replace(
            state,
            tried=state.tried + jnp.sum(made_with, axis=0, dtype=jnp.int32),
            successes=state.successes + jnp.sum(made_with & success[:, None], axis=0, dtype=jnp.int32),
        )
        return after, Info(success=success)

    def adopt(self, state: State, candidates: Candidates, evaluation: Evaluation) -> State:
        """Insert initial solutions. No tournament created them, so no size is rewarded."""
        return self.tell(state, replace(candidates, origin=jnp.full(len(candidates), -1)), evaluation)[0]

    def diagnostics(self, state: State) -> dict[str, Any]:
        """Return the number of candidates and of successes per tournament size."""
        return {"tried": (self.sizes, state.tried), "successes": (self.sizes, state.successes)}
