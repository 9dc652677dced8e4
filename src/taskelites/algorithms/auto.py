"""The default: several ways of making a child for a task, the choice between them learned while it runs.

Each candidate has a focal task and a mate, a task near it with a fit elite. Five ways make a solution of them:

- `paper`: a child of two random elites, tried on a task near the first one's, as in Multi-task MAP-Elites;
- `cross`: the focal elite crossed with the mate's (SBX);
- `copy`: the mate's elite, moved a little, most of it along the line to the focal one;
- `linear`: what a plane, fitted to the elites of the nearest tasks, has at the focal task;
- `step`: the focal elite plus Gaussian noise, whose size adapts for each task (the rule of one success in five).

And two rules choose the focal task and its mate, of 32 pairs: `anywhere`, one random task with the fittest of 32 mates;
`promise`, the pair whose mate is the most above its focal task, where a task that was tried in vain since its last
success promises the less. An unsolved task counts as the worst elite there is, so that it promises much.

Way and rule are drawn for each candidate, independently, by what they brought lately: the probability of each grows
with the square of its mean gain in fitness, discounted by 1 % a batch, and never falls below a floor. Only ratios of
gains count, so the unit of the fitness does not matter. docs/auto.md has the study behind the numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from taskelites import archive as archives
from taskelites import draws
from taskelites.algorithms.interface import (
    NOWHERE,
    Candidates,
    Core,
    Evaluation,
    Info,
    random_tasks,
    replace,
    task_rows,
)
from taskelites.algorithms.mt_map_elites import MultiTaskMapElites, MultiTaskMapElitesCore
from taskelites.archive import Archive
from taskelites.errors import one_of
from taskelites.prediction import plane_weights
from taskelites.problem import Problem
from taskelites.pytree import record, static
from taskelites.selection import nearest_others, uniform_integers, uniform_parents
from taskelites.tasks import Tasks
from taskelites.variation import SBX, IsoLine

WAYS = ("paper", "cross", "copy", "linear", "step")
PAPER, CROSS, COPY, LINEAR, STEP = range(len(WAYS))
RULES = ("anywhere", "promise")
ANYWHERE, PROMISE = range(len(RULES))

# The numbers of the study; `Auto(numbers=...)` changes them for studies alone.
NUMBERS = {
    "tournament": 50.0,  # of the paper's way
    "mates": 100.0,  # the nearest tasks, among which mates are drawn, the nearer the likelier
    "discount": 0.99,  # of what a way or a rule brought, a batch
    "power": 2.0,  # of the mean gain, to which the probability of a way or a rule is proportional
    "floor": 0.04,  # the least probability of a way
    "rule_floor": 0.1,  # and of a rule
    "spread": 1.0,  # of a prediction, in differences of two near elites
    "noise": 0.01,  # of a copy, in widths of the box
    "line": 0.2,  # of a copy, along the line to the focal elite
    "first_step": 0.1,  # in widths of the box
    "longer": 0.8,  # what a success adds to the logarithm of the step
    "shorter": 0.2,  # what a failure takes from it
}
PAIRS = 32
# Elites to which the plane is fitted, and among which two give the spread of a prediction.
PLANE, NEAR = 16, 20
_LEAST_STEP, _MOST_STEP = 1e-5, 0.3


@dataclass(frozen=True, kw_only=True)
class Auto:
    """The settings of the default algorithm: none that need to be set.

    Args:
        ways: those among which is chosen, for studies.
        rules: likewise.
        numbers: what replaces numbers of `taskelites.algorithms.auto.NUMBERS`, for studies.

    Example:
        >>> import taskelites as te
        >>> te.solve(te.domain("arm", tasks=300), evaluations=10_000, algorithm=te.Auto()).coverage
        1.0
    """

    name: ClassVar[str] = "auto"
    uses_distance: ClassVar[bool] = True

    ways: Sequence[str] = WAYS
    rules: Sequence[str] = RULES
    numbers: Any = ()

    def __post_init__(self) -> None:
        for field, known in (("ways", WAYS), ("rules", RULES)):
            given = getattr(self, field)
            given = (given,) if isinstance(given, str) else tuple(given)
            if not given:
                raise ValueError(f"{field} must name at least one of {', '.join(known)}")
            chosen = {one_of(field, each, known) for each in given}
            object.__setattr__(self, field, tuple(each for each in known if each in chosen))
        numbers = dict(self.numbers)
        for name, value in numbers.items():
            one_of("numbers", name, NUMBERS)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < np.inf:
                raise ValueError(f"numbers must be finite and at least 0, but {name} is {value!r}")
        object.__setattr__(self, "numbers", tuple(sorted(numbers.items())))

    def bind(self, problem: Problem, batch_size: int = 64) -> "AutoCore":
        """The algorithm on this problem, in the precision that JAX has now."""
        tasks = problem.finite_tasks(self.name)
        numbers = NUMBERS | dict(self.numbers)
        paper = MultiTaskMapElites(tournament=round(numbers.pop("tournament"))).bind(problem, batch_size)
        mates = round(numbers.pop("mates"))
        near, plane = _neighbourhood(tasks, mates)
        ways = np.array([way in self.ways for way in WAYS])
        # Without positions there is no plane: what would be predicted is copied.
        ways = ways if plane is not None else ways & (np.arange(len(WAYS)) != LINEAR)
        ways[COPY] |= not ways.any()
        return AutoCore(
            paper=paper,
            near=near,
            plane=plane,
            ways=jnp.asarray(ways),
            rules=jnp.asarray([rule in self.rules for rule in RULES]),
            numbers={name: jnp.asarray(value) for name, value in numbers.items()},
            mates=mates,
        )


def _neighbourhood(tasks: Tasks, mates: int) -> tuple[Array | None, Array | None]:
    """The nearest other tasks of each, `(n, mates)`, and how much the first of them count in a plane, `(n, PLANE)`."""
    if not tasks.has_distance or len(tasks) == 1:
        return None, None
    near = nearest_others(tasks, max(mates, NEAR, PLANE))
    if tasks.distance is not None or near.shape[1] < PLANE or tasks.positions.shape[1] + 2 > PLANE:
        return jnp.asarray(near), None
    positions = tasks.positions
    away = positions[near[:, :PLANE].astype(np.int64)] - positions[:, None]
    return jnp.asarray(near), jnp.asarray(plane_weights(away, np.sqrt(np.square(away).sum(axis=2))))


@record
class Credit:
    """What each of some choices brought lately, and how often it was made: `gain` and `tried`, `(choices,)`."""

    gain: Array
    tried: Array

    def chances(self, allowed: Array, floor: Array, power: Array) -> Array:
        """The probability of each; one that is new counts as the best."""
        mean = jnp.where(allowed, self.gain / jnp.maximum(self.tried, 1.0), 0.0)
        best = jnp.max(mean)
        mean = jnp.where(allowed & (self.tried < 0.5), best, mean)
        share = jnp.where(allowed, (mean / jnp.where(best > 0, best, 1.0)) ** power, 0.0)
        share = jnp.where(best > 0, share, allowed.astype(mean.dtype))
        least = floor * allowed
        return least + (1.0 - jnp.sum(least)) * share / jnp.sum(share)

    def learnt(self, chosen: Array, gain: Array, discount: Array) -> "Credit":
        """With the gain of each candidate added to that of its choice, `(rows,)`; a negative choice is none."""
        made = chosen[:, None] == jnp.arange(len(self.gain))
        return Credit(
            gain=discount * self.gain + jnp.sum(jnp.where(made, gain[:, None], 0.0), axis=0),
            tried=discount * self.tried + jnp.sum(made, axis=0),
        )


@record
class State:
    """What the next step needs.

    Attributes:
        key: of the run; each step derives its own from it.
        step: how many steps were asked.
        archive: the elites.
        sizes: `(n,)`, of the step of each task, in widths of the box.
        vain: `(n,)`, how often each task was tried since its last success.
        ways, rules: what each brought.
        tried: `(ways,)`, how many candidates were made in each way.
        successes: `(ways,)`, how many of them became elites.
    """

    key: Array
    step: Array
    archive: Archive
    sizes: Array
    vain: Array
    ways: Credit
    rules: Credit
    tried: Array
    successes: Array


@record
class AutoCore(Core):
    """The default algorithm bound to a problem."""

    any_order: ClassVar[bool] = True

    paper: MultiTaskMapElitesCore
    near: Array | None
    plane: Array | None
    ways: Array
    rules: Array
    numbers: dict[str, Array]
    mates: int = static()

    @property
    def rows(self) -> int:
        """The batch size."""
        return self.paper.rows

    @property
    def tasks(self) -> int:
        """How many there are."""
        return self.paper.tournament.tasks

    def init(self, key: Array) -> State:
        """An empty archive."""
        zeros = jnp.zeros(self.tasks)
        counts = jnp.zeros(len(WAYS), jnp.int32)
        return State(
            key=key,
            step=jnp.int32(0),
            archive=archives.empty(self.tasks, len(self.paper.lower)),
            sizes=zeros + self.numbers["first_step"],
            vain=zeros,
            ways=Credit(gain=jnp.zeros(len(WAYS)), tried=jnp.zeros(len(WAYS))),
            rules=Credit(gain=jnp.zeros(len(RULES)), tried=jnp.zeros(len(RULES))),
            tried=counts,
            successes=counts,
        )

    def ask(self, state: State) -> tuple[Candidates, State]:
        """Solutions made in the ways that are drawn, for the tasks that are chosen; random ones at first."""
        numbers, archive = self.numbers, state.archive
        key = draws.fold_in(state.key, state.step)
        starting = self.paper.starting(state)
        anything, anywhere = self.paper.random(draws.fold_in(key, 0))
        children, children_for = self.paper.children(draws.fold_in(key, 1), archive, jnp.int32(0))
        key_way, key_rule, key_pair, key_child = draws.split(draws.fold_in(key, 2), 4)
        way = _drawn(key_way, state.ways.chances(self.ways, numbers["floor"], numbers["power"]), self.rows)
        rule = _drawn(key_rule, state.rules.chances(self.rules, numbers["rule_floor"], numbers["power"]), self.rows)
        focal, mate = self.pairs(key_pair, state, rule)
        solutions, way = self.solutions(key_child, state, way, focal, mate, children)
        niches = jnp.where(starting, anywhere, jnp.where(way == PAPER, children_for, focal))
        candidates = Candidates(
            solutions=jnp.where(starting, anything, solutions),
            niches=niches,
            tasks=task_rows(self.paper.descriptors, niches),
            origin=jnp.where(starting, -1, way * len(RULES) + rule),
        )
        return candidates, replace(state, step=state.step + 1)

    def pairs(self, key: Array, state: State, rule: Array) -> tuple[Array, Array]:
        """A focal task and its mate, which is solved, for each candidate, by its rule, `(rows,)`."""
        key_focal, key_mate, key_else = draws.split(key, 3)
        fitness = state.archive.fitness
        focal = random_tasks(key_focal, self.rows * PAIRS, self.tasks).reshape(self.rows, PAIRS)
        focal = jnp.where((rule == ANYWHERE)[:, None], focal[:, :1], focal)
        mate = self.neighbours(key_mate, focal)
        worst = jnp.min(jnp.where(fitness > -jnp.inf, fitness, jnp.inf))
        above = fitness[mate] - jnp.maximum(fitness[focal], worst)
        patience = jnp.where((rule == PROMISE)[:, None] & (above > 0), 1.0 + state.vain[focal], 1.0)
        above = above / patience
        # The last of the greatest; `argmax` would do, but its reduction is slower on a CPU.
        place = jnp.where(above == jnp.max(above, axis=1, keepdims=True), jnp.arange(PAIRS), 0)
        chosen = jnp.max(place, axis=1, keepdims=True)
        focal, mate = (jnp.take_along_axis(each, chosen, axis=1)[:, 0] for each in (focal, mate))
        other = uniform_parents(key_else, state.archive, (self.rows,))
        return focal, jnp.where(fitness[mate] > -jnp.inf, mate, other)

    def neighbours(self, key: Array, focal: Array) -> Array:
        """A task near each focal one: of rank r, counted from 1, with a probability that falls as 1 / r."""
        if self.near is None:
            return random_tasks(key, focal.size, self.tasks).reshape(focal.shape)
        mates = min(self.mates, self.near.shape[1])
        rank = jnp.exp(draws.uniform(key, focal.shape, jnp.float32) * np.float32(np.log(mates + 1)))
        return self.near[focal, jnp.clip(rank.astype(jnp.int32) - 1, 0, mates - 1)].astype(jnp.int32)

    def solutions(
        self, key: Array, state: State, way: Array, focal: Array, mate: Array, children: Array
    ) -> tuple[Array, Array]:
        """What each way makes, and the ways: where a task or a neighbour of it is unsolved, some give way to a copy."""
        key_cross, key_copy, key_near, key_spread, key_step = draws.split(key, 5)
        numbers, lower, upper = self.numbers, self.paper.lower, self.paper.upper
        elites, fitness = state.archive.solutions, state.archive.fitness
        own, other = elites[focal], elites[mate]
        near, far = self.two_near(key_near, fitness, focal, mate)
        unsolved = fitness[focal] == -jnp.inf
        copy = IsoLine(sigma1=numbers["noise"], sigma2=numbers["line"])
        copied = copy(key_copy, other, jnp.where(unsolved[:, None], elites[near], own), lower, upper)
        noise = draws.normal(key_step, own.shape, own.dtype) * (upper - lower)
        made = [children, SBX()(key_cross, own, other, lower, upper), copied]
        if self.plane is not None and self.near is not None:
            beside = self.near[focal, :PLANE].astype(jnp.int32)
            predicted = jnp.einsum("rk,rkd->rd", self.plane[focal], elites[beside])
            spread = draws.normal(key_spread, (self.rows, 1), own.dtype) * (elites[near] - elites[far])
            made.append(predicted + numbers["spread"] * spread)
            lonely = jnp.any(fitness[beside] == -jnp.inf, axis=1)
        else:
            made.append(copied)
            lonely = jnp.ones(self.rows, bool)
        made.append(own + state.sizes[focal][:, None] * noise)
        way = jnp.where((unsolved & (way != PAPER)) | (lonely & (way == LINEAR)), COPY, way)
        chosen = jnp.select([(way == each)[:, None] for each in range(len(WAYS))], made)
        return jnp.clip(chosen, lower, upper), way

    def two_near(self, key: Array, fitness: Array, focal: Array, mate: Array) -> tuple[Array, Array]:
        """Two of the `NEAR` nearest tasks of each focal one; its mate for one that is unsolved."""
        if self.near is None:
            return mate, mate
        rank = uniform_integers(draws.words(key, (2, self.rows)), jnp.uint32(min(NEAR, self.near.shape[1])))
        near, far = self.near[focal, rank].astype(jnp.int32)
        return jnp.where(fitness[near] > -jnp.inf, near, mate), jnp.where(fitness[far] > -jnp.inf, far, mate)

    def tell(self, state: State, candidates: Candidates, evaluation: Evaluation) -> tuple[State, Info]:
        """Insert the candidates, and learn which ways, rules, tasks and sizes brought something."""
        numbers, before = self.numbers, state.archive
        niches = evaluation.place(candidates.niches)
        archive, success = archives.insert(before, candidates.solutions, niches, evaluation.fitness)
        old = before.fitness.at[niches].get(mode="fill", fill_value=0.0)
        worst = jnp.min(jnp.where(before.fitness > -jnp.inf, before.fitness, jnp.inf))
        gain = jnp.where(success, evaluation.fitness - jnp.maximum(old, worst), 0.0)
        gain = jnp.where(jnp.isfinite(gain), jnp.maximum(gain, 0.0), 0.0)  # nothing was solved, nothing to gain on
        origin = jnp.where(niches == NOWHERE, -1, candidates.origin)
        way, rule = jnp.where(origin < 0, -1, origin // len(RULES)), origin % len(RULES)
        made = way[:, None] == jnp.arange(len(WAYS))
        longer = jnp.where(success, numbers["longer"], -numbers["shorter"])
        sizes = state.sizes.at[jnp.where(way == STEP, niches, NOWHERE)].multiply(jnp.exp(longer), mode="drop")
        vain = state.vain.at[niches].add(1.0, mode="drop")
        after = replace(
            state,
            archive=archive,
            sizes=jnp.clip(sizes, _LEAST_STEP, _MOST_STEP),
            vain=vain.at[jnp.where(success, niches, NOWHERE)].set(0.0, mode="drop"),
            ways=state.ways.learnt(way, gain, numbers["discount"]),
            rules=state.rules.learnt(jnp.where(way > PAPER, rule, -1), gain, numbers["discount"]),
            tried=state.tried + jnp.sum(made, axis=0, dtype=jnp.int32),
            successes=state.successes + jnp.sum(made & success[:, None], axis=0, dtype=jnp.int32),
        )
        return after, Info(success=success)

    def adopt(self, state: State, candidates: Candidates, evaluation: Evaluation) -> State:
        """Insert them; no way made them, so none is rewarded."""
        return self.tell(state, replace(candidates, origin=jnp.full(len(candidates), -1)), evaluation)[0]

    def diagnostics(self, state: State) -> dict[str, Any]:
        """How often each way was tried, in candidates, and how often it succeeded."""
        counts = {"tried": state.tried, "successes": state.successes}
        return {f"{name}_{way}": count[i] for name, count in counts.items() for i, way in enumerate(WAYS)}


def _drawn(key: Array, chances: Array, rows: int) -> Array:
    """Numbers of choices with these probabilities, `(rows,)`; one that has none is never drawn."""
    until = jnp.cumsum(chances)
    draw = draws.uniform(key, (rows, 1), chances.dtype) * until[-1]
    return jnp.sum(until[:-1] <= draw, axis=1, dtype=jnp.int32)
