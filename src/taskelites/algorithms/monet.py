"""MONET: a network of tasks, with individual and social learning.

Hatzky, Bartz-Beielstein, Eiben and Yaman (PPSN 2026, arXiv 2604.21991). Each task is linked to its N nearest tasks. The
focal task of a candidate is drawn uniformly. With probability p_ind, the candidate is the focal task's elite plus
Gaussian noise (individual learning). Otherwise it is a crossover of this elite and a neighbour's elite (social
learning).

Deviations from the paper, and interpretations of it:

1. Equal fitness does not replace an elite. All algorithms share this rule, so that comparisons are fair. `ties=True`
   selects the paper's rule.
2. Random solutions of the initialisation come in full batches. If two have the same task, the better one is kept.
3. All candidates of a batch are based on the archive before the batch.
4. The N nearest tasks do not include the focal task. The neighbour is a random solved one of them, or the fittest one
   (the nearest of several fittest). If none is solved, the focal task learns individually.
5. If the focal task is unsolved, the candidate is its neighbour's solution, whatever p_ind, or a random solution if no
   neighbour is solved. If the task was evaluated before and every evaluation failed, noise is added to the neighbour's
   solution, since the same solution could fail again.
6. Without a distance, the N neighbours are random other tasks, drawn again for each candidate.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from taskelites.algorithms.interface import (
    Candidates,
    Core,
    Evaluation,
    Info,
    State,
    box_arrays,
    descriptors_of,
    random_solutions,
    random_tasks,
    replace,
    share_or_number,
    start_steps,
    task_rows,
    valid_random_start,
)
from taskelites.core import archive as archives
from taskelites.core import random
from taskelites.core.archive import Archive
from taskelites.core.pytree import constant, record, static
from taskelites.core.selection import nearest_others, uniform_integers
from taskelites.core.variation import SBX, Gaussian
from taskelites.errors import InvalidTypeError, InvalidValueError, one_of, whole_number
from taskelites.problem.problem import Problem
from taskelites.problem.tasks import Tasks

# Settings that the paper tuned for each of its domains.
TUNED: dict[str, dict[str, Any]] = {
    "archery": {"neighbours": 0.39, "individual": 0.22, "neighbour": "best"},
    "arm": {"neighbours": 0.001, "individual": 0.54, "neighbour": "best"},
    "cartpole": {"neighbours": 0.01, "individual": 0.5, "neighbour": "best"},
    "hexapod": {"neighbours": 0.01, "individual": 0.0, "neighbour": "random"},
}


@dataclass(frozen=True, kw_only=True, init=False)
class Monet:
    """Settings of MONET.

    Args:
        tuned: name of a domain of the paper ("archery", "arm", "cartpole", "hexapod"), whose tuned settings become the
            defaults of `neighbours`, `individual` and `neighbour`.
        neighbours: number of nearest tasks that each task is linked to (N), or a share of the number of tasks; 0.05 by
            default. Clipped to between 1 and the number of other tasks.
        individual: probability of individual learning (p_ind); 0.3 by default.
        neighbour: which neighbour to learn from: "best", the fittest (the default), or "random".
        sigma: standard deviation of the Gaussian noise, as a fraction of the box's width.
        eta: distribution index of the SBX crossover; the greater it is, the nearer the children are to their parents.
        random_start: number of initial random solutions, rounded up to full batches, or a share of the number of tasks.
        ties: whether equal fitness replaces an elite, as in the paper.

    Example:
        >>> import taskelites as te
        >>> te.algorithms.Monet(tuned="arm", individual=0.5)
        Monet(neighbours=0.001, individual=0.5, neighbour='best', sigma=0.05, eta=10.0, random_start=0.1, ties=False)
        >>> te.solve(te.domain("arm", tasks=300), evaluations=10_000, algorithm=te.algorithms.Monet()).coverage
        1.0
    """

    name: ClassVar[str] = "monet"
    uses_distance: ClassVar[bool] = True

    neighbours: int | float = 0.05
    individual: float = 0.3
    neighbour: str = "best"
    sigma: float = 0.05
    eta: float = 10.0
    random_start: int | float = 0.1
    ties: bool = False

    # A generated constructor could not distinguish a given value from a default, which `tuned` may replace.
    def __init__(
        self,
        *,
        tuned: str | None = None,
        neighbours: int | float | None = None,
        individual: float | None = None,
        neighbour: str | None = None,
        sigma: float = 0.05,
        eta: float = 10.0,
        random_start: int | float = 0.1,
        ties: bool = False,
    ) -> None:
        preset = {} if tuned is None else TUNED[one_of("tuned", tuned, TUNED)]
        given: dict[str, Any] = {"neighbours": neighbours, "individual": individual, "neighbour": neighbour}
        first = {key: preset.get(key, getattr(Monet, key)) if value is None else value for key, value in given.items()}
        if not isinstance(ties, bool):
            raise InvalidTypeError(f"ties must be True or False, not {ties!r}")
        values = {
            "neighbours": share_or_number("neighbours", first["neighbours"], of="tasks"),
            "individual": _number("individual", first["individual"], most=1.0),
            "neighbour": one_of("neighbour", first["neighbour"], ["best", "random"]),
            "sigma": _number("sigma", sigma),
            "eta": _number("eta", eta),
            "random_start": valid_random_start(random_start),
            "ties": ties,
        }
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def bind(self, problem: Problem, batch_size: int = 64) -> "MonetCore":
        """Return the core of the algorithm for a problem, in JAX's default precision."""
        tasks = problem.finite_tasks(self.name)
        batch_size = whole_number("batch_size", batch_size, least=1, most=2**24)
        lower, upper = box_arrays(problem)
        number = self._number_of_neighbours(len(tasks))
        return MonetCore(
            lower=lower,
            upper=upper,
            descriptors=descriptors_of(tasks),
            network=_network(tasks, number),
            individual=constant(self.individual),
            mutation=Gaussian(sigma=self.sigma),
            crossover=SBX(eta=self.eta),
            start_steps=constant(start_steps(self.random_start, len(tasks), batch_size), np.int32),
            tasks=len(tasks),
            links=number,
            best=self.neighbour == "best",
            ties=self.ties,
            batch_size=batch_size,
        )

    def _number_of_neighbours(self, tasks: int) -> int:
        """Return N; 1 for a single task, whose only neighbour does not exist."""
        asked = round(self.neighbours * tasks) if isinstance(self.neighbours, float) else self.neighbours
        return max(1, min(asked, tasks - 1))


def _number(name: str, value: Any, *, most: float = np.inf) -> float:
    expected = "a finite number of at least 0" + (f" and at most {most:g}" if most < np.inf else "")
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidTypeError(f"{name} must be {expected}, not {value!r}")
    if not 0 <= value <= most or value == np.inf:
        raise InvalidValueError(f"{name} must be {expected}, not {value!r}")
    return float(value)


def _network(tasks: Tasks, number: int) -> Array | None:
    """Return the neighbours of each task, shape `(n, number)`; None if tasks have no distance."""
    if not tasks.has_distance:
        return None
    if len(tasks) == 1:
        return jnp.ones((1, 1), jnp.int32)  # an out-of-range task is never solved
    return constant(nearest_others(tasks, number))


@record
class MonetCore(Core):
    """Core of MONET."""

    any_order: ClassVar[bool] = True

    lower: Array
    upper: Array
    descriptors: Array | None
    network: Array | None
    individual: Array
    mutation: Gaussian
    crossover: SBX
    start_steps: Array
    tasks: int = static()
    links: int = static()
    best: bool = static()
    ties: bool = static()
    batch_size: int = static()

    @property
    def rows(self) -> int:
        """Number of candidates per `ask`: the batch size."""
        return self.batch_size

    def init(self, key: Array) -> State:
        """Return a state with an empty archive."""
        return State(key=key, step=jnp.int32(0), archive=archives.empty(self.tasks, len(self.lower)))

    def ask(self, state: State) -> tuple[Candidates, State]:
        """Return mutations or crossovers of the elites of random focal tasks; at the start, random solutions."""
        keys = random.split(random.fold_in(state.key, state.step), 6)
        archive = state.archive
        focal = random_tasks(keys[0], self.rows, self.tasks)
        neighbour, alone = self.neighbour(keys[1], archive, focal)
        by_itself = random.uniform(keys[2], (self.rows,), self.lower.dtype) < self.individual
        empty = archive.fitness[focal] == -jnp.inf
        own, other = archive.solutions[focal], archive.solutions[neighbour]
        # Computing all variants and selecting one is faster than a branch, which would prevent fusion.
        changed = self.mutation(keys[3], jnp.where(empty[:, None], other, own), own, self.lower, self.upper)
        crossed = self.crossover(keys[4], own, other, self.lower, self.upper)
        anything = random_solutions(keys[5], self.rows, self.lower, self.upper)
        untried = empty & (archive.evaluations[focal] == 0)
        solutions = jnp.where((by_itself | alone | empty)[:, None], changed, crossed)
        solutions = jnp.where(untried[:, None], other, solutions)  # 5
        at_random = (state.step < self.start_steps) | (empty & alone)
        candidates = Candidates(
            solutions=jnp.where(at_random[:, None], anything, solutions),
            niches=focal,
            tasks=task_rows(self.descriptors, focal),
        )
        return candidates, replace(state, step=state.step + 1)

    def neighbour(self, key: Array, archive: Archive, focal: Array) -> tuple[Array, Array]:
        """Return a solved neighbour of each focal task, and a mask of the focal tasks that have none (4)."""
        key_links, key_rank = random.split(key)
        near = self._links(key_links, focal)
        fitness = archive.fitness.at[near].get(mode="fill", fill_value=-jnp.inf)
        solved = fitness > -jnp.inf
        if self.best:
            # Equivalent to `argmax`, whose reduction is slower on a CPU.
            place = jnp.arange(self.links, dtype=jnp.int32)
            greatest = jnp.max(fitness, axis=1, keepdims=True)
            column = jnp.min(jnp.where(fitness == greatest, place, self.links - 1), axis=1)
        else:
            until = jnp.cumsum(solved, axis=1, dtype=jnp.int32)
            rank = uniform_integers(random.words(key_rank, focal.shape), until[:, -1])
            column = jnp.sum(until <= rank[:, None], axis=1, dtype=jnp.int32)
        chosen = jnp.take_along_axis(near, jnp.minimum(column, self.links - 1)[:, None], axis=1)[:, 0]
        return chosen, ~jnp.any(solved, axis=1)

    def _links(self, key: Array, focal: Array) -> Array:
        """Return the neighbours of each focal task, shape `(rows, links)`."""
        if self.network is not None:
            return self.network[focal].astype(jnp.int32)
        others = uniform_integers(random.words(key, (self.rows, self.links)), jnp.uint32(self.tasks - 1))
        return others + (others >= focal[:, None])  # 6

    def tell(self, state: State, candidates: Candidates, evaluation: Evaluation) -> tuple[State, Info]:
        """Insert the candidates, with the paper's rule for ties if `ties` is set (1)."""
        niches = evaluation.place(candidates.niches)
        archive, success = archives.insert(
            state.archive, candidates.solutions, niches, evaluation.fitness, ties=self.ties
        )
        return replace(state, archive=archive), Info(success=success)
