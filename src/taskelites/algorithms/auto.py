"""Several ways of making a child, the choice between them learned while it runs; nothing to set.

Seven ways make a solution. Two choose its task themselves:

- `paper`: a child of two random elites, tried on a task near the first one's, as in Multi-task MAP-Elites;
- `shared`: drawn from one normal distribution, which learns what is good on all tasks, and tried on a random one (a
  separable CMA-ES).

The others have a focal task and a mate, a task near it with a fit elite:

- `cross`: each gene from the focal elite or from the mate's, and a little of their difference;
- `copy`: the mate's elite, moved a little, most of it along the line to the focal one;
- `differ`: the mate's elite, some of its genes moved by the difference of two other elites (differential evolution);
- `linear`: what a plane, fitted to the elites of the nearest tasks, has at the focal task;
- `step`: the focal elite plus Gaussian noise, whose size adapts for each task (the rule of one success in five).

And two rules choose the focal task and its mate, of 16 pairs: `anywhere`, one random task with the fittest of 16 mates;
`promise`, the pair whose mate is the most above its focal task, where a task that was tried in vain since its last
success promises the less. An unsolved task counts as the worst elite there is, so that it promises much.

Way and rule are drawn for each batch, independently, by what they brought lately: the probability of each grows
with the square of its mean gain in fitness, discounted by 1 % a batch, and never falls below a floor. Only ratios of
gains count, so the unit of the fitness does not matter. Most of a gain goes to the ways that made the parent, unless it
is old (Davis, "Adapting operator probabilities in genetic algorithms", ICGA 1989): copies win much at once, and would
starve the ways that find what is worth copying. docs/auto.md has the study behind the numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from taskelites.algorithms.cma_es import Rates, rates
from taskelites.algorithms.interface import (
    NOWHERE,
    Candidates,
    Columns,
    Core,
    Evaluation,
    Info,
    replace,
    task_rows,
)
from taskelites.algorithms.mt_map_elites import MultiTaskMapElites, MultiTaskMapElitesCore
from taskelites.core import archive as archives
from taskelites.core import random
from taskelites.core.archive import Archive
from taskelites.core.fits import plane_weights
from taskelites.core.pytree import constant, record
from taskelites.core.selection import TABLE_ENTRIES, nearest_others, solved_by, uniform_integers
from taskelites.errors import InvalidValueError, one_of
from taskelites.problem.problem import Problem
from taskelites.problem.tasks import Tasks

WAYS = ("paper", "shared", "cross", "copy", "differ", "linear", "step")
PAPER, SHARED, CROSS, COPY, DIFFER, LINEAR, STEP = range(len(WAYS))
RULES = ("anywhere", "promise")
ANYWHERE, PROMISE = range(len(RULES))

# The numbers of the study; `Auto(numbers=...)` changes them for studies alone.
NUMBERS = {
    "tournament": 50.0,  # of the paper's way
    "mates": 100.0,  # the nearest tasks, among which mates are drawn, the nearer the likelier
    "heritage": 0.8,  # of a gain, the share that goes to the ways of the parent
    "discount": 0.99,  # of what a way or a rule brought, a batch
    "power": 2.0,  # of the mean gain, to which the probability of a way or a rule is proportional
    "floor": 0.04,  # the least probability of a way
    "rule_floor": 0.1,  # and of a rule
    "spread": 1.0,  # of a prediction, in differences of two near elites
    "noise": 0.01,  # of a copy, in widths of the box
    "line": 0.2,  # of a copy, along the line to the focal elite
    "blur": 0.06,  # of a crossed gene, in differences of the two
    "difference": 1.0,  # of two elites, the greatest share of it that `differ` adds
    "first_spread": 0.2,  # of the shared distribution, in widths of the box
    "trial": 2.0,  # generations of it for each dimension, before which it is not judged
    "first_step": 0.1,  # in widths of the box
    "longer": 0.8,  # what a success adds to the logarithm of the step
    "shorter": 0.2,  # what a failure takes from it
}
PAIRS = 16
# Elites to which the plane is fitted, and among which two give the spread of a prediction.
PLANE, NEAR = 16, 20
_LEAST_STEP, _MOST_STEP = 1e-5, 0.3
_LEAST_SPREAD, _MOST_SPREAD = 1e-3, 0.3


@dataclass(frozen=True, kw_only=True)
class Auto:
    """The settings of `auto`: none that need to be set.

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
                raise InvalidValueError(f"{field} must name at least one of {', '.join(known)}")
            chosen = {one_of(field, each, known) for each in given}
            object.__setattr__(self, field, tuple(each for each in known if each in chosen))
        numbers = dict(self.numbers)
        for name, value in numbers.items():
            one_of("numbers", name, NUMBERS)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < np.inf:
                raise InvalidValueError(f"numbers must be finite and at least 0, but {name} is {value!r}")
            if name in ("discount", "heritage") and value > 1:
                raise InvalidValueError(f"numbers must have a {name} of at most 1, not {value!r}")
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
        dim = len(problem.lower)
        generation = max(batch_size, 4 + math.floor(3 * math.log(dim)))
        return AutoCore(
            paper=paper,
            near=near,
            plane=plane,
            ways=constant(ways),
            rules=constant([rule in self.rules for rule in RULES]),
            rates=_separable(rates(dim, generation), dim),
            trial=constant(numbers.pop("trial") * dim * generation, np.float32),
            numbers={name: constant(value) for name, value in numbers.items()},
            log_mates=constant(np.log(1 + (mates if near is None else min(mates, near.shape[1]))), np.float32),
        )


def _separable(rates: Rates, dim: int) -> Rates:
    """Faster for variances alone than for a whole covariance matrix (Ros and Hansen, 2008)."""
    return jax.tree.map(constant, replace(rates, c_mu=min(0.9, rates.c_mu * (dim + 2) / 3)))


def _neighbourhood(tasks: Tasks, mates: int) -> tuple[Array | None, Array | None]:
    """The nearest other tasks of each, `(n, mates)`, and how much the first of them count in a plane, `(n, PLANE)`."""
    if not tasks.has_distance or len(tasks) == 1:
        return None, None
    near = nearest_others(tasks, min(max(mates, NEAR, PLANE), max(1, TABLE_ENTRIES // len(tasks))))
    if tasks.distance is not None or near.shape[1] < PLANE or tasks.positions.shape[1] + 2 > PLANE:
        return constant(near), None
    positions = tasks.positions
    away = positions[near[:, :PLANE].astype(np.int64)] - positions[:, None]
    return constant(near), constant(plane_weights(away, np.sqrt(np.square(away).sum(axis=2))))


@record
class Credit:
    """What each of some choices brought lately, and how often it was made: `gain` and `tried`, `(choices,)`."""

    gain: Array
    tried: Array

    def chances(self, allowed: Array, new: Array | bool, floor: Array, power: Array) -> Array:
        """The probability of each; one that is new counts as twice as good as the best."""
        mean = jnp.where(allowed, self.gain / jnp.maximum(self.tried, 1.0), 0.0)
        best = jnp.max(mean)
        mean = jnp.where(allowed & (new | (self.tried < 0.5)), 2 * best, mean)
        best = jnp.max(mean)
        share = jnp.where(allowed, (mean / jnp.where(best > 0, best, 1.0)) ** power, 0.0)
        share = jnp.where(best > 0, share, allowed.astype(mean.dtype))
        least = floor * allowed
        return least + (1.0 - jnp.sum(least)) * share / jnp.sum(share)

    def learnt(self, chosen: Array, merit: Array, gain: Array, discount: Array) -> "Credit":
        """With the gain of each candidate, `(rows,)`, shared among choices by their merit in it, `(rows, choices)`.

        Which of them it was is `chosen`, likewise; none for rows that count for nothing.
        """
        return Credit(
            gain=discount * self.gain + jnp.sum(merit * gain[:, None], axis=0),
            tried=discount * self.tried + jnp.sum(chosen, axis=0),
        )


@record
class Shared:
    """One normal distribution for all tasks, and the candidates that it has not learnt from yet.

    Attributes:
        mean, spread: `(dim,)`, in widths of the box.
        path: `(dim,)`, where it went lately, in spreads.
        solutions: `(rows, dim)`, of the generation that is not complete, in widths of the box.
        worth: `(rows,)`, how far each is above the elite of its task.
        waiting: `()`, how many of them there are.
    """

    mean: Array
    spread: Array
    path: Array
    solutions: Array
    worth: Array
    waiting: Array

    def told(self, solutions: Array, worth: Array, own: Array, rates: Rates) -> "Shared":
        """With the rows that are its own; once there are as many as a generation has, it learns from them."""
        place = jnp.where(own, self.waiting + jnp.cumsum(own) - 1, NOWHERE)
        now = replace(
            self,
            solutions=self.solutions.at[place].set(solutions, mode="drop"),
            worth=self.worth.at[place].set(worth, mode="drop"),
            waiting=self.waiting + jnp.sum(own, dtype=jnp.int32),
        )
        complete = now.waiting >= len(self.worth)
        return jax.tree.map(partial(jnp.where, complete), now.learnt(rates), now)

    def learnt(self, rates: Rates) -> "Shared":
        """Towards the better half of a generation, those that failed left out; nearer or further as the path goes."""
        steps = ((self.solutions - self.mean) / self.spread)[jnp.argsort(-self.worth)]
        weights = jnp.where(jnp.sort(-self.worth) < jnp.inf, jnp.maximum(rates.weights, 0.0), 0.0)
        weights = weights / jnp.maximum(jnp.sum(weights), 1e-30)
        shift = jnp.sum(weights[:, None] * steps, axis=0)
        squares = jnp.sum(weights[:, None] * jnp.square(steps), axis=0)
        pull = jnp.sqrt(rates.c_sigma * (2 - rates.c_sigma) * rates.mu_eff)
        path = (1 - rates.c_sigma) * self.path + pull * shift
        longer = (rates.c_sigma / rates.d_sigma) * (jnp.sqrt(jnp.sum(jnp.square(path))) * rates.per_chi - 1)
        spread = self.spread * jnp.sqrt(1 - rates.c_mu + rates.c_mu * squares) * jnp.exp(jnp.minimum(longer, 1.0))
        after = replace(
            self,
            mean=self.mean + self.spread * shift,
            spread=jnp.clip(spread, _LEAST_SPREAD, _MOST_SPREAD),
            path=path,
        )
        any_worth = jnp.any(weights > 0)
        return replace(jax.tree.map(partial(jnp.where, any_worth), after, self), waiting=jnp.int32(0))


@record
class State:
    """What the next step needs.

    Attributes:
        key: of the run; each step derives its own from it.
        step: how many steps were asked.
        archive: the elites.
        worst: `()`, the fitness of the worst of them, kept since finding it looks at all tasks; infinity without any.
        sizes: `(n,)`, of the step of each task, in widths of the box.
        vain: `(n,)`, how often each task was tried since its last success.
        shared: the distribution for all tasks.
        lineage: `(n, ways)`, how much each way has to do with each elite: it, or its ancestors, were made in it.
        ways, rules: what each brought.
        tried: `(ways,)`, how many candidates were made in each way.
        successes: `(ways,)`, how many of them became elites.
    """

    key: Array
    step: Array
    archive: Archive
    worst: Array
    sizes: Array
    vain: Array
    shared: Shared
    lineage: Array
    ways: Credit
    rules: Credit
    tried: Array
    successes: Array


@record
class AutoCore(Core):
    """`auto` bound to a problem."""

    any_order: ClassVar[bool] = True

    paper: MultiTaskMapElitesCore
    near: Array | None
    plane: Array | None
    log_mates: Array
    ways: Array
    rules: Array
    rates: Rates
    trial: Array
    numbers: dict[str, Array]

    @property
    def rows(self) -> int:
        """The batch size."""
        return self.paper.rows

    @property
    def tasks(self) -> int:
        """How many there are."""
        return self.paper.tournament.tasks

    @property
    def lower(self) -> Array:
        """The lower bounds."""
        return self.paper.lower

    @property
    def upper(self) -> Array:
        """The upper bounds."""
        return self.paper.upper

    @property
    def width(self) -> Array:
        """How wide the box is."""
        return self.upper - self.lower

    def init(self, key: Array) -> State:
        """An empty archive."""
        zeros, middle = jnp.zeros(self.tasks), jnp.full(len(self.lower), 0.5)
        generation = len(self.rates.weights)
        counts = jnp.zeros(len(WAYS), jnp.int32)
        return State(
            key=key,
            step=jnp.int32(0),
            archive=archives.empty(self.tasks, len(self.lower)),
            worst=jnp.full((), jnp.inf, zeros.dtype),
            sizes=zeros + self.numbers["first_step"],
            vain=zeros,
            shared=Shared(
                mean=middle,
                spread=jnp.full_like(middle, self.numbers["first_spread"]),
                path=jnp.zeros_like(middle),
                solutions=jnp.zeros((generation, len(middle))),
                worth=jnp.zeros(generation),
                waiting=jnp.int32(0),
            ),
            lineage=jnp.zeros((self.tasks, len(WAYS))),
            ways=Credit(gain=jnp.zeros(len(WAYS)), tried=jnp.zeros(len(WAYS))),
            rules=Credit(gain=jnp.zeros(len(RULES)), tried=jnp.zeros(len(RULES))),
            tried=counts,
            successes=counts,
        )

    def ask(self, state: State) -> tuple[Candidates, State]:
        """Solutions made in the way that is drawn, for the tasks that are chosen; random ones at first."""
        numbers, archive = self.numbers, state.archive
        key = random.fold_in(state.key, state.step)
        starting = self.paper.starting(state)
        draw = random.units(random.words(random.fold_in(key, 2), (2,)), archive.solutions.dtype)
        # A distribution that has just begun to learn brings little yet.
        new = (jnp.arange(len(WAYS)) == SHARED) & (state.tried < self.trial)
        way = _drawn(draw[0], state.ways.chances(self.ways, new, numbers["floor"], numbers["power"]))
        rule = _drawn(draw[1], state.rules.chances(self.rules, False, numbers["rule_floor"], numbers["power"]))
        makers = (
            lambda: self.paper.children(random.fold_in(key, 1), archive, jnp.int32(0)),
            lambda: self.moved(random.fold_in(key, 1), state, way, rule),
            lambda: (*self.paper.random(random.fold_in(key, 0)), jnp.full(self.rows, NOWHERE)),
        )
        solutions, niches, parents = lax.switch(jnp.where(starting, 2, jnp.minimum(way, 1)), makers)
        made = jnp.full(self.rows, jnp.where(starting, -1, way * len(RULES) + rule))
        candidates = Candidates(
            solutions=solutions,
            niches=niches,
            tasks=task_rows(self.paper.descriptors, niches),
            origin=jnp.stack([made, parents], axis=1),
        )
        return candidates, replace(state, step=state.step + 1)

    def moved(self, key: Array, state: State, way: Array, rule: Array) -> tuple[Array, Array, Array]:
        """Solutions made in any way but the paper's, the tasks they are for, and their parents."""
        # All that is random, at once: a generator for each part would take longer, to compile and to run.
        words = random.words(key, (PAIRS + 5 + 2 * len(self.lower), self.rows))
        # Made before it is used: otherwise the compiler may make it again for each use.
        words = lax.optimization_barrier(words)  # type: ignore[no-untyped-call]
        of_pairs, of_two, of_row, of_genes = jnp.split(words, (PAIRS + 1, PAIRS + 3, PAIRS + 5))
        focal, mate = self.pairs(of_pairs, state, rule)
        near, other = self.two_near(of_two, state.archive, focal, mate)
        # The rest of what is random is not needed for a prediction: a branch leaves it out.
        made = lax.cond(
            way == LINEAR,
            lambda: self.predicted(of_row, state.archive, focal, mate, near, other),
            lambda: self.varied((of_two, of_row, of_genes), state, way, focal, mate, near),
        )
        niches = jnp.where(way == SHARED, uniform_integers(of_pairs[0], jnp.uint32(self.tasks)), focal)
        parents = jnp.where((way == SHARED) | (way == LINEAR), NOWHERE, jnp.where(way == STEP, focal, mate))
        return jnp.clip(made, self.lower, self.upper), niches, parents

    def varied(
        self, words: tuple[Array, Array, Array], state: State, way: Array, focal: Array, mate: Array, near: Array
    ) -> Array:
        """Each is a start, plus a share of the difference of two elites, plus noise: a way says which."""
        numbers, shared, elites = self.numbers, state.shared, state.archive.solutions
        dim, dtype = elites.shape[1], elites.dtype
        of_two, of_row, of_genes = words
        solved = state.archive.fitness[focal] > -jnp.inf
        own = jnp.where(solved, focal, mate)  # an unsolved task takes its mate's elite for its own
        anyone, another = solved_by(of_two, state.archive)
        share, genes = random.units(of_row[:, :, None], dtype)
        length = random.normals(of_row[0, :, None], dtype)
        noise, chance = of_genes.reshape(2, self.rows, dim)
        noise, chance = random.normals(noise, dtype), random.units(chance, dtype)

        def pick(*, shared: Any, cross: Any, copy: Any, differ: Any, step: Any) -> Array:
            of_way = jnp.broadcast_arrays(shared, cross, copy, differ, step)
            return lax.select_n(jnp.where(way == STEP, 4, jnp.clip(way - SHARED, 0, 3)), *of_way)

        start = elites[pick(shared=own, cross=own, copy=mate, differ=mate, step=own)]
        start = jnp.where(way == SHARED, self.lower + shared.mean * self.width, start)
        one = pick(shared=own, cross=mate, copy=jnp.where(solved, focal, near), differ=anyone, step=own)
        two = pick(shared=own, cross=own, copy=mate, differ=another, step=own)
        differs = chance < jnp.exp(-genes * np.log(dim))  # in about one gene to all, log-uniformly
        along = pick(
            shared=0.0,
            cross=(chance < 0.5) + numbers["blur"] * noise,
            copy=numbers["line"] * length,
            differ=jnp.where(differs, numbers["difference"] * share, 0.0),
            step=0.0,
        )
        sizes = state.sizes[focal][:, None]
        sigma = pick(shared=shared.spread, cross=0.0, copy=numbers["noise"], differ=0.0, step=sizes)
        return start + along * (elites[one] - elites[two]) + sigma * noise * self.width

    def predicted(self, words: Array, archive: Archive, focal: Array, mate: Array, near: Array, other: Array) -> Array:
        """What the elites around the focal task lead to expect, spread by the difference of two near ones.

        Where one of them is missing, the mate's elite is what is expected.
        """
        if self.plane is None or self.near is None:
            return archive.solutions[mate]
        around = self.near[focal, :PLANE].astype(jnp.int32)
        whole = jnp.all(archive.fitness[around] > -jnp.inf, axis=1)[:, None]
        elites = archive.solutions
        # GPUs round factors to ten bits unless they are told not to.
        expected = jnp.einsum("rk,rkd->rd", self.plane[focal], elites[around], precision=lax.Precision.HIGHEST)
        length = random.normals(words[0, :, None], elites.dtype)
        along = self.numbers["spread"] * length
        return jnp.where(whole, expected, elites[mate]) + along * (elites[near] - elites[other])

    def pairs(self, words: Array, state: State, rule: Array) -> tuple[Array, Array]:
        """A focal task and its mate, which is solved, for each candidate: the best of `PAIRS` by the rule."""
        words, otherwise = words[:-1], words[-1]
        fitness = state.archive.fitness
        focal = uniform_integers(jnp.where(rule == ANYWHERE, words[:1], words), jnp.uint32(self.tasks))
        mate = self.neighbours(words, focal)
        above = fitness[mate] - jnp.maximum(fitness[focal], state.worst)
        above = above / jnp.where((rule == PROMISE) & (above > 0), 1.0 + state.vain[focal], 1.0)
        # The last of the greatest; `argmax` would do, but its reduction is slower on a CPU.
        place = jnp.where(above == jnp.max(above, axis=0), jnp.arange(PAIRS)[:, None], 0)
        chosen = jnp.max(place, axis=0)[None]
        focal, mate = (jnp.take_along_axis(each, chosen, axis=0)[0] for each in (focal, mate))
        return focal, jnp.where(fitness[mate] > -jnp.inf, mate, solved_by(otherwise, state.archive))

    def neighbours(self, words: Array, focal: Array) -> Array:
        """A task near each focal one: of rank r, counted from 1, with a probability that falls as 1 / r.

        The lower half of a random word decides, whose upper half chose the task.
        """
        if self.near is None:
            return uniform_integers(words * jnp.uint32(2654435761), jnp.uint32(self.tasks))
        draw = (words & 0xFFFF).astype(jnp.int32).astype(jnp.float32) * np.float32(2.0**-16)
        rank = jnp.exp(draw * self.log_mates).astype(jnp.int32) - 1
        return self.near[focal, rank].astype(jnp.int32)

    def two_near(self, words: Array, archive: Archive, focal: Array, mate: Array) -> tuple[Array, Array]:
        """Two of the `NEAR` nearest tasks of each focal one; its mate for one that is unsolved."""
        if self.near is None:
            return mate, mate
        rank = uniform_integers(words, jnp.uint32(min(NEAR, self.near.shape[1])))
        near = self.near[focal, rank].astype(jnp.int32)
        one, two = jnp.where(archive.fitness[near] > -jnp.inf, near, mate)
        return one, two

    def tell(self, state: State, candidates: Candidates, evaluation: Evaluation) -> tuple[State, Info]:
        """Insert the candidates, and learn which ways, rules, tasks and sizes brought something."""
        numbers, before = self.numbers, state.archive
        niches = evaluation.place(candidates.niches)
        origin = jnp.where(niches == NOWHERE, -1, candidates.origin[:, 0])
        way, rule = jnp.where(origin < 0, -1, origin // len(RULES)), origin % len(RULES)
        made = way[:, None] == jnp.arange(len(WAYS))
        ruled = (rule[:, None] == jnp.arange(len(RULES))) & (way > SHARED)[:, None]
        lineage = self.descended(state, candidates.origin[:, 1], made)
        # What the archive was is read before it is written: otherwise the compiler keeps a copy.
        lineage, solutions = lax.optimization_barrier((lineage, candidates.solutions))  # type: ignore[no-untyped-call]
        archive, success = archives.insert(before, solutions, niches, evaluation.fitness)
        old = before.fitness.at[niches].get(mode="fill", fill_value=0.0)
        above = evaluation.fitness - jnp.maximum(old, state.worst)
        gain = jnp.where(success, above, 0.0)
        gain = jnp.where(jnp.isfinite(gain), jnp.maximum(gain, 0.0), 0.0)  # nothing was solved, nothing to gain on
        vain = state.vain.at[niches].add(1.0, mode="drop")
        worth = jnp.where(jnp.isnan(above), -jnp.inf, above)
        after = replace(
            state,
            archive=archive,
            worst=_worst_after(state.worst, archive.fitness, success & (old <= state.worst)),
            sizes=self.resized(way == STEP, state.sizes, niches, success),
            vain=vain.at[jnp.where(success, niches, NOWHERE)].set(0.0, mode="drop"),
            shared=self.told(state.shared, way == SHARED, candidates.solutions, worth),
            lineage=state.lineage.at[archives.inserted(before, archive, niches)].set(lineage, mode="drop"),
            ways=state.ways.learnt(made, lineage, gain, numbers["discount"]),
            rules=state.rules.learnt(ruled, ruled, gain, numbers["discount"]),
            tried=state.tried + jnp.sum(made, axis=0, dtype=jnp.int32),
            successes=state.successes + jnp.sum(made & success[:, None], axis=0, dtype=jnp.int32),
        )
        return after, Info(success=success)

    def descended(self, state: State, parents: Array, made: Array) -> Array:
        """What each way has to do with candidates: that of their parents in part, the less the older these are."""
        archive = state.archive
        age = (archive.told - archive.last_improved.at[parents].get(mode="fill", fill_value=0)) / self.rows
        share = self.numbers["heritage"] * self.numbers["discount"] ** age
        inherited = share[:, None] * state.lineage.at[parents].get(mode="fill", fill_value=0.0)
        return jnp.where(made, 1.0 - jnp.sum(inherited, axis=1, keepdims=True), 0.0) + inherited

    def resized(self, own: Array, sizes: Array, niches: Array, success: Array) -> Array:
        """The sizes of steps, after these rows of which some were steps."""
        factor = jnp.exp(jnp.where(success, self.numbers["longer"], -self.numbers["shorter"]))
        place = jnp.where(own, niches, NOWHERE)
        sizes = sizes.at[place].multiply(factor, mode="drop")
        within = jnp.clip(sizes.at[place].get(mode="fill", fill_value=1.0), _LEAST_STEP, _MOST_STEP)
        return sizes.at[place].set(within, mode="drop")

    def told(self, shared: Shared, own: Array, solutions: Array, worth: Array) -> Shared:
        """The shared distribution, after these rows of which some are its own; most batches have none."""
        inside = (solutions - self.lower) / self.width
        return lax.cond(jnp.any(own), lambda: shared.told(inside, worth, own, self.rates), lambda: shared)

    def adopt(self, state: State, candidates: Candidates, evaluation: Evaluation) -> State:
        """Insert them; no way made them, so none is rewarded."""
        nothing = jnp.stack([jnp.full(len(candidates), -1), jnp.full(len(candidates), NOWHERE)], axis=1)
        return self.tell(state, replace(candidates, origin=nothing), evaluation)[0]

    def diagnostics(self, state: State) -> dict[str, Any]:
        """How often each way was tried, in candidates, and how often it succeeded."""
        counts = {"tried": state.tried, "successes": state.successes}
        return {name: Columns(values=values, names=WAYS) for name, values in counts.items()}


def _drawn(draw: Array, chances: Array) -> Array:
    """The choice that a uniform number falls on; one without a chance is never drawn."""
    until = jnp.cumsum(chances)
    return jnp.sum(until[:-1] <= draw * until[-1], dtype=jnp.int32)


def _worst_after(worst: Array, fitness: Array, replaced: Array) -> Array:
    """The worst elite there is, infinity without any: looked for only if rows replaced it, or came where none was."""
    return lax.cond(jnp.any(replaced), lambda: jnp.min(jnp.where(fitness > -jnp.inf, fitness, jnp.inf)), lambda: worst)
