"""MONET: tasks in a network, each learning by itself and from its neighbours.

Hatzky, Bartz-Beielstein, Eiben and Yaman (PPSN 2026, arXiv 2604.21991). A task is linked to its N nearest ones. Each
candidate is for a focal task, chosen uniformly at random: with probability p_ind its elite plus Gaussian noise
(individual learning), else a crossover of its elite with that of a neighbour (social learning).

Where this departs from the paper, or reads it:

1. Equal fitness does not replace: one rule for all algorithms that are compared. `ties=True` is the paper's rule.
2. The random solutions of the initialisation come in whole batches, and keep the better of two on one task.
3. All candidates of a batch see the archive as it was before it.
4. The N nearest do not include the focal task itself. The neighbour is drawn among those of them that are solved, or is
   the fittest (the nearest of the fittest). If none is solved, the focal task learns by itself.
5. An empty focal task takes its neighbour's solution as it is, whatever p_ind; a random one if no neighbour is solved.
   If the task was tried before and every result failed, noise is added to what it takes: the same again would fail
   again.
6. Tasks without a distance have no nearest ones: the N are then random other tasks, anew for each candidate.
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
    as_random_start,
    box_arrays,
    descriptors_of,
    random_solutions,
    random_tasks,
    replace,
    share_or_number,
    start_steps,
    task_rows,
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

# What the paper settled on for each of its domains.
TUNED: dict[str, dict[str, Any]] = {
    "archery": {"neighbours": 0.39, "individual": 0.22, "neighbour": "best"},
    "arm": {"neighbours": 0.001, "individual": 0.54, "neighbour": "best"},
    "cartpole": {"neighbours": 0.01, "individual": 0.5, "neighbour": "best"},
    "hexapod": {"neighbours": 0.01, "individual": 0.0, "neighbour": "random"},
}


@dataclass(frozen=True, kw_only=True, init=False)
class Monet:
    """The settings of MONET.

    Args:
        tuned: the name of a domain ("archery", "arm", "cartpole", "hexapod") on which the paper tuned the first three;
            what is given beside it goes before.
        neighbours: how many of the nearest tasks each is linked to (N): a number, or a share of the tasks, of which at
            least one; 0.05 by default. All others, if it is more than there are.
        individual: the probability of learning by itself (p_ind); 0.3 by default.
        neighbour: "best", the fittest of the neighbours (the default), or "random", any of them.
        sigma: of the Gaussian noise, in widths of the box.
        eta: of the crossover, which is SBX; the greater, the nearer to the parents.
        random_start: how many random solutions come first, rounded up to whole batches; or a share of the tasks.
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

    # Written out, since only it can tell a setting that was given from one that the preset may fill.
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
        # The class holds the defaults, as for every dataclass.
        first = {key: preset.get(key, getattr(Monet, key)) if value is None else value for key, value in given.items()}
        if not isinstance(ties, bool):
            raise InvalidTypeError(f"ties must be True or False, not {ties!r}")
        values = {
            "neighbours": share_or_number("neighbours", first["neighbours"], of="tasks"),
            "individual": _number("individual", first["individual"], most=1.0),
            "neighbour": one_of("neighbour", first["neighbour"], ["best", "random"]),
            "sigma": _number("sigma", sigma),
            "eta": _number("eta", eta),
            "random_start": as_random_start(random_start),
            "ties": ties,
        }
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def bind(self, problem: Problem, batch_size: int = 64) -> "MonetCore":
        """The algorithm on this problem, in the precision that JAX has now."""
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
        """N; 1 for a single task, whose neighbour is then none."""
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
    """The links of each task, `(n, number)`; None where there is no distance to make them of."""
    if not tasks.has_distance:
        return None
    if len(tasks) == 1:
        return jnp.ones((1, 1), jnp.int32)  # a task that there is not, so it is never solved
    return constant(nearest_others(tasks, number))


@record
class MonetCore(Core):
    """MONET bound to a problem."""

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
        """The batch size."""
        return self.batch_size

    def init(self, key: Array) -> State:
        """An empty archive."""
        return State(key=key, step=jnp.int32(0), archive=archives.empty(self.tasks, len(self.lower)))

    def ask(self, state: State) -> tuple[Candidates, State]:
        """For random focal tasks: their elites changed, or crossed with a neighbour's; random ones at first."""
        keys = random.split(random.fold_in(state.key, state.step), 6)
        archive = state.archive
        focal = random_tasks(keys[0], self.rows, self.tasks)
        neighbour, alone = self.neighbour(keys[1], archive, focal)
        by_itself = random.uniform(keys[2], (self.rows,), self.lower.dtype) < self.individual
        empty = archive.fitness[focal] == -jnp.inf
        own, other = archive.solutions[focal], archive.solutions[neighbour]
        # All are made, and one is taken: random words are cheap, and a branch would keep the compiler from fusing.
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
        """A solved neighbour of each focal task, `(rows,)`, and for which of them there is none (4)."""
        key_links, key_rank = random.split(key)
        near = self._links(key_links, focal)
        fitness = archive.fitness.at[near].get(mode="fill", fill_value=-jnp.inf)
        solved = fitness > -jnp.inf
        if self.best:
            # The first column of the greatest value; `argmax` says the same, but its reduction is slower on a CPU.
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
        """The tasks that each focal task is linked to, `(rows, links)`."""
        if self.network is not None:
            return self.network[focal].astype(jnp.int32)
        others = uniform_integers(random.words(key, (self.rows, self.links)), jnp.uint32(self.tasks - 1))
        return others + (others >= focal[:, None])  # 6

    def tell(self, state: State, candidates: Candidates, evaluation: Evaluation) -> tuple[State, Info]:
        """Keep the best of each task; of equals the first, or the last by the paper's rule (1)."""
        niches = evaluation.place(candidates.niches)
        archive, success = archives.insert(
            state.archive, candidates.solutions, niches, evaluation.fitness, ties=self.ties
        )
        return replace(state, archive=archive), Info(success=success)
