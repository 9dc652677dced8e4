"""Multi-task MAP-Elites: children of elites, each tried on a task near its first parent's.

Mouret and Maguire, "Quality Diversity for Multi-task Optimization" (GECCO 2020), algorithm 1. A child of two random
elites is evaluated on one task: the nearest, to the first parent's task, of `s` random ones. UCB1 chooses `s` for each
batch by the successes it had.

Where this departs from the paper:

1. Random solutions of the initialisation keep the better of two on one task, count as evaluations, and come in whole
   batches.
2. Parents are drawn among solved tasks only; the pseudo-code draws among all, which has no meaning for an unsolved one.
   While nothing is solved (every evaluation failed), random solutions go on.
3. Each size is tried once, in list order, before UCB1 decides; the pseudo-code divides by zero.
4. The tournament draws with replacement, as the paper's code does; its text leaves it open.
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
    as_random_start,
    box_arrays,
    descriptors_of,
    random_solutions,
    random_tasks,
    replace,
    start_steps,
    task_rows,
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
    """The settings of Multi-task MAP-Elites.

    Args:
        tournament: sizes among which the bandit chooses, or one fixed size.
        variation: "iso_line", "sbx", "gaussian", "polynomial", or an operator such as
            `te.variation.IsoLine(sigma1=0.02)`.
        random_start: how many random solutions come first (K of the paper), rounded up to whole batches; a fraction
            such as 0.1 is that share of the number of tasks.
        replacement: whether the tournament draws a task more than once. Without, a size of all tasks is always the
            parent's own task.
        reward: of a size: "count", the successes in a batch (as in the paper, which makes the bandit nearly greedy), or
            "rate", their share of the batch.

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
            raise InvalidValueError(f"tournament must not name a size twice, but it is {list(sizes)}")
        object.__setattr__(self, "tournament", sizes)
        object.__setattr__(self, "variation", as_variation(self.variation))
        object.__setattr__(self, "random_start", as_random_start(self.random_start))
        if not isinstance(self.replacement, bool):
            raise InvalidTypeError(f"replacement must be True or False, not {self.replacement!r}")
        one_of("reward", self.reward, ["count", "rate"])

    @property
    def uses_distance(self) -> bool:
        """Whether the distance between tasks makes a difference."""
        return self.tournament != (1,)

    def bind(self, problem: Problem, batch_size: int = 64) -> "MultiTaskMapElitesCore":
        """The algorithm on this problem, in the precision that JAX has now."""
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
    """What the next step needs.

    Attributes:
        key: of the run; each step derives its own from it.
        step: how many steps were asked.
        archive: the elites.
        tried: `(sizes,)`, how many candidates were made with each size.
        successes: `(sizes,)`, how many of them became elites.
    """

    key: Array
    step: Array
    archive: Archive
    tried: Array
    successes: Array


@record
class MultiTaskMapElitesCore(Core):
    """Multi-task MAP-Elites bound to a problem."""

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
        """The batch size."""
        return self.batch_size

    def init(self, key: Array) -> State:
        """An empty archive."""
        counts = jnp.zeros(len(self.sizes), jnp.int32)
        return State(
            key=key,
            step=jnp.int32(0),
            archive=archives.empty(self.tournament.tasks, len(self.lower)),
            tried=counts,
            successes=counts,
        )

    def ask(self, state: State) -> tuple[Candidates, State]:
        """Children of random elites, each with a task near its first parent's; random ones at first."""
        key = random.fold_in(state.key, state.step)
        starting = self.starting(state)
        # Both are made, and one is taken: random words are cheap, and a branch would keep the compiler from fusing.
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
        """Whether random solutions are still to come (1)."""
        return (state.step < self.start_steps) | (state.archive.solved_count == 0)

    def arm(self, state: Any) -> Array:
        """Which of the sizes the next tournaments have (2.5)."""
        return ucb1(state.successes * self.reward_scale, state.tried / self.batch_size)

    def offspring(self, key: Array, state: Any) -> tuple[Array, Array, Array]:
        """What comes after the random start: solutions, the tasks they are for, the sizes they were made with."""
        arm = self.arm(state)
        children, near, _ = self.children(random.fold_in(key, 1), state.archive, arm)
        return children, near, jnp.full(self.rows, arm)

    def random(self, key: Array) -> tuple[Array, Array]:
        """Random solutions on random tasks (1)."""
        key_solution, key_task = random.split(key)
        solutions = random_solutions(key_solution, self.rows, self.lower, self.upper)
        return solutions, random_tasks(key_task, self.rows, self.tournament.tasks)

    def children(self, key: Array, archive: Archive, arm: Array) -> tuple[Array, Array, Array]:
        """Children of two random elites (2.1), each on a task near its first parent's (2.2), and those parents."""
        key_parents, key_variation, key_tournament = random.split(key, 3)
        first, second = uniform_parents(key_parents, archive, (2, self.rows))
        elites = archive.solutions
        children = self.variation(key_variation, elites[first], elites[second], self.lower, self.upper)
        return children, self.tournament(key_tournament, first, arm), first

    def tell(self, state: State, candidates: Candidates, evaluation: Evaluation) -> tuple[State, Info]:
        """Insert the candidates, and count the successes of the sizes they were made with."""
        niches = evaluation.place(candidates.niches)
        archive, success = archives.insert(
            state.archive, candidates.solutions, niches, evaluation.fitness, ties=self.ties
        )  # 2.3
        return self.learnt(replace(state, archive=archive), candidates, niches, success)

    def learnt(self, state: Any, candidates: Candidates, niches: Array, success: Array) -> tuple[Any, Info]:
        """Count the successes of the sizes that candidates were made with (2.4); those sent nowhere were not told."""
        made_with = candidates.origin[:, None] == jnp.arange(len(self.sizes))
        made_with &= (niches != NOWHERE)[:, None]
        after = replace(
            state,
            tried=state.tried + jnp.sum(made_with, axis=0, dtype=jnp.int32),
            successes=state.successes + jnp.sum(made_with & success[:, None], axis=0, dtype=jnp.int32),
        )
        return after, Info(success=success)

    def adopt(self, state: State, candidates: Candidates, evaluation: Evaluation) -> State:
        """Insert them; no tournament made them, so none is rewarded."""
        return self.tell(state, replace(candidates, origin=jnp.full(len(candidates), -1)), evaluation)[0]

    def diagnostics(self, state: State) -> dict[str, Any]:
        """How often each tournament size was tried, in candidates, and how often it succeeded."""
        return {"tried": (self.sizes, state.tried), "successes": (self.sizes, state.successes)}
