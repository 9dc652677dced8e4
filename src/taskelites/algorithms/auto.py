"""The default: several variation operators, chosen by what each has gained; no settings.

Variation operators are called *ways* here. Seven ways create solutions. Two of them also choose the task:

- `paper`: a child of two random elites, on a task near the first parent's task, as in Multi-task MAP-Elites;
- `shared`: a sample of one normal distribution for all tasks, on a random task (a separable CMA-ES).

The others have a focal task, on which the child is evaluated, and a mate: a solved task near it with high fitness.

- `cross`: each gene from the focal elite or from the mate's elite, plus noise in proportion to their difference;
- `copy`: the mate's elite plus a small perturbation, mostly along the line to the focal elite;
- `differ`: the mate's elite, with some genes moved by the difference of two other elites (differential evolution);
- `linear`: the prediction, at the focal task, of a linear regression over the elites of the nearest tasks;
- `step`: the focal elite plus Gaussian noise, whose standard deviation adapts per task (1/5th success rule).

Two *rules* choose the focal task and its mate from 16 random pairs:

- `anywhere`: one random focal task with the fittest of 16 mates;
- `promise`: the pair with the largest difference in fitness between mate and focal task. The difference is divided by
  one plus the number of evaluations of the focal task since its last success. An unsolved task is assigned the fitness
  of the worst elite, so its promise is high.

Each batch draws a way and a rule, independently. The probability of each grows with the square of its mean gain in
fitness, discounted by 1 % per batch, and has a lower bound. Only ratios of gains matter, so the result does not depend
on the unit of the fitness. Most of a gain is credited to the ways that created the parent, unless the parent is old
(Davis, "Adapting operator probabilities in genetic algorithms", ICGA 1989). Without this, `copy`, which gains much
immediately, would displace the ways that find solutions worth copying. docs/auto.md describes the study behind these
choices.
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

# Constants from the study in docs/auto.md; `Auto(numbers=...)` overrides them in experiments.
NUMBERS = {
    "tournament": 50.0,  # paper: tournament size
    "mates": 100.0,  # number of nearest tasks from which mates are drawn, nearer ones with higher probability
    "heritage": 0.8,  # share of a gain that is credited to the ways of the parent
    "discount": 0.99,  # discount of the credit of ways and rules per batch
    "power": 2.0,  # exponent of the mean gain in the probability of a way or a rule
    "floor": 0.04,  # minimum probability of a way
    "rule_floor": 0.1,  # minimum probability of a rule
    "spread": 1.0,  # linear: standard deviation of the noise, relative to the difference of two near elites
    "noise": 0.01,  # copy: standard deviation of the isotropic noise, in box widths
    "line": 0.2,  # copy: standard deviation along the line to the focal elite, relative to its length
    "blur": 0.06,  # cross: standard deviation of the noise, relative to the difference of the parents
    "difference": 1.0,  # differ: maximum factor of the difference of two elites
    "first_spread": 0.2,  # shared: initial standard deviation, in box widths
    "trial": 2.0,  # shared: generations per dimension before it is judged by its gain
    "first_step": 0.1,  # step: initial standard deviation, in box widths
    "longer": 0.8,  # step: increase of the log standard deviation after a success
    "shorter": 0.2,  # step: decrease of the log standard deviation after a failure
}
PAIRS = 16
# Number of nearest elites in the linear regression, and number from which the two for the noise of `linear` are drawn.
PLANE, NEAR = 16, 20
_LEAST_STEP, _MOST_STEP = 1e-5, 0.3
_LEAST_SPREAD, _MOST_SPREAD = 1e-3, 0.3


@dataclass(frozen=True, kw_only=True)
class Auto:
    """Settings of `auto`. None of them needs to be set; they exist for experiments.

    Args:
        ways: the enabled ways.
        rules: the enabled rules.
        numbers: overrides of `taskelites.algorithms.auto.NUMBERS`, as a dict.

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
                raise InvalidValueError(f"{field} must contain at least one of {', '.join(known)}, but it is empty")
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
        """Return the core of the algorithm for a problem, in JAX's default precision."""
        tasks = problem.finite_tasks(self.name)
        numbers = NUMBERS | dict(self.numbers)
        paper = MultiTaskMapElites(tournament=round(numbers.pop("tournament"))).bind(problem, batch_size)
        mates = round(numbers.pop("mates"))
        near, plane = _neighbourhood(tasks, mates)
        ways = np.array([way in self.ways for way in WAYS])
        # Without descriptors there is no regression. If `linear` is the only enabled way, `copy` replaces it.
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
    """Increase the learning rate, since separable CMA-ES only learns variances (Ros and Hansen, 2008)."""
    return jax.tree.map(constant, replace(rates, c_mu=min(0.9, rates.c_mu * (dim + 2) / 3)))


def _neighbourhood(tasks: Tasks, mates: int) -> tuple[Array | None, Array | None]:
    """Return the nearest other tasks of each task, `(n, mates)`, and their weights in the regression, `(n, PLANE)`.

    Each is None if it is not available.
    """
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
    """Discounted gains of several choices (ways or rules).

    Attributes:
        gain: sum of gains per choice, shape `(choices,)`.
        tried: number of candidates per choice, shape `(choices,)`.
    """

    gain: Array
    tried: Array

    def chances(self, allowed: Array, new: Array | bool, floor: Array, power: Array) -> Array:
        """Return the probability of each choice, shape `(choices,)`.

        Args:
            allowed: mask of the enabled choices, shape `(choices,)`.
            new: mask of choices that are treated as untried. Untried choices get twice the best mean gain.
            floor: minimum probability of an enabled choice.
            power: exponent of the mean gain.
        """
        mean = jnp.where(allowed, self.gain / jnp.maximum(self.tried, 1.0), 0.0)
        best = jnp.max(mean)
        mean = jnp.where(allowed & (new | (self.tried < 0.5)), 2 * best, mean)
        best = jnp.max(mean)
        share = jnp.where(allowed, (mean / jnp.where(best > 0, best, 1.0)) ** power, 0.0)
        share = jnp.where(best > 0, share, allowed.astype(mean.dtype))
        least = floor * allowed
        return least + (1.0 - jnp.sum(least)) * share / jnp.sum(share)

    def learnt(self, chosen: Array, merit: Array, gain: Array, discount: Array) -> "Credit":
        """Return the credit after a batch.

        Args:
            chosen: mask of the choice that created each candidate, shape `(rows, choices)`; all False for candidates
                to ignore.
            merit: share of each choice in a candidate's gain, shape `(rows, choices)`.
            gain: gain of each candidate, shape `(rows,)`.
            discount: discount of the previous credit.
        """
        return Credit(
            gain=discount * self.gain + jnp.sum(merit * gain[:, None], axis=0),
            tried=discount * self.tried + jnp.sum(chosen, axis=0),
        )


@record
class Shared:
    """Separable CMA-ES shared by all tasks, with the candidates of its incomplete generation.

    Attributes:
        mean, spread: mean and standard deviation of the distribution, in the unit box, shape `(dim,)`.
        path: evolution path of the step size, in units of `spread`, shape `(dim,)`.
        solutions: candidates of the incomplete generation, in the unit box, shape `(rows, dim)`.
        worth: fitness of each of them minus the fitness of its task's elite (of the worst elite if the task is
            unsolved), shape `(rows,)`.
        waiting: number of candidates in the incomplete generation, a scalar.
    """

    mean: Array
    spread: Array
    path: Array
    solutions: Array
    worth: Array
    waiting: Array

    def told(self, solutions: Array, worth: Array, own: Array, rates: Rates) -> "Shared":
        """Add candidates to the generation, and update the distribution once the generation is complete.

        Args:
            solutions: candidates in the unit box, shape `(rows, dim)`.
            worth: see `Shared`, shape `(rows,)`.
            own: mask of the candidates drawn from this distribution, shape `(rows,)`.
            rates: strategy parameters.
        """
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
        """Update mean and spread with the better half of the generation, without failed candidates."""
        best_first = jnp.argsort(-self.worth)
        steps = ((self.solutions - self.mean) / self.spread)[best_first]
        weights = jnp.where(self.worth[best_first] > -jnp.inf, jnp.maximum(rates.weights, 0.0), 0.0)
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
    """State of `auto`.

    Attributes:
        key: random key of the run, from which each step derives its own.
        step: number of calls of `ask`.
        archive: the elites.
        worst: fitness of the worst elite, a scalar; infinity without elites. Cached, since computing it is O(n).
        sizes: standard deviation of `step` per task, in box widths, shape `(n,)`.
        vain: number of evaluations per task since its last success, shape `(n,)`.
        shared: distribution of `shared`.
        lineage: share of each way in creating each elite and its ancestors, shape `(n, ways)`.
        ways, rules: credit of the ways and of the rules.
        tried: number of candidates per way, shape `(ways,)`.
        successes: number of those candidates that became elites, shape `(ways,)`.
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
    """Core of `auto`."""

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
        """Number of candidates per `ask`: the batch size."""
        return self.paper.rows

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return self.paper.tournament.tasks

    @property
    def lower(self) -> Array:
        """Lower bounds of the solutions, shape `(dim,)`."""
        return self.paper.lower

    @property
    def upper(self) -> Array:
        """Upper bounds of the solutions, shape `(dim,)`."""
        return self.paper.upper

    @property
    def width(self) -> Array:
        """Width of the box, shape `(dim,)`."""
        return self.upper - self.lower

    def init(self, key: Array) -> State:
        """Return a state with an empty archive."""
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
        """Draw a way and a rule and return the candidates they create; at the start, random solutions."""
        numbers, archive = self.numbers, state.archive
        # Several keys at once: a generator for each would take longer to compile.
        start_key, child_key, draw_key = random.fold_in(random.fold_in(state.key, state.step), jnp.arange(3))
        starting = self.paper.starting(state)
        draw = random.units(random.words(draw_key, (2,)), archive.solutions.dtype)
        # The gains of the shared distribution are small until it has adapted.
        new = (jnp.arange(len(WAYS)) == SHARED) & (state.tried < self.trial)
        way = _drawn(draw[0], state.ways.chances(self.ways, new, numbers["floor"], numbers["power"]))
        rule = _drawn(draw[1], state.rules.chances(self.rules, False, numbers["rule_floor"], numbers["power"]))
        makers = (
            lambda: self.paper.children(child_key, archive, jnp.int32(0)),
            lambda: self.moved(child_key, state, way, rule),
            lambda: (*self.paper.random(start_key), jnp.full(self.rows, NOWHERE)),
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
        """Return solutions created by any way except `paper`, their tasks, and their parents' tasks."""
        # A single call of the generator takes less time, to compile and to run, than one call per use.
        words = random.words(key, (PAIRS + 5 + 2 * len(self.lower), self.rows))
        # Without the barrier, the compiler may recompute the words for each use.
        words = lax.optimization_barrier(words)  # type: ignore[no-untyped-call]
        of_pairs, of_two, of_row, of_genes = jnp.split(words, (PAIRS + 1, PAIRS + 3, PAIRS + 5))
        focal, mate = self.pairs(of_pairs, state, rule)
        near, other = self.two_near(of_two, state.archive, focal, mate)
        # Predictions need few random numbers. The branch saves converting the others.
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
        """Return `start + along * (elites[one] - elites[two]) + sigma * noise`, with terms that depend on the way."""
        numbers, shared, elites = self.numbers, state.shared, state.archive.solutions
        dim, dtype = elites.shape[1], elites.dtype
        of_two, of_row, of_genes = words
        solved = state.archive.fitness[focal] > -jnp.inf
        own = jnp.where(solved, focal, mate)  # the mate's elite replaces the elite of an unsolved task
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
        differs = chance < jnp.exp(-genes * np.log(dim))  # the rate is log-uniform between 1 / dim and 1
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
        """Return predictions by linear regression, plus noise along the difference of two near elites.

        If one of the elites around the focal task is missing, the mate's elite replaces the prediction.
        """
        if self.plane is None or self.near is None:
            return archive.solutions[mate]
        around = self.near[focal, :PLANE].astype(jnp.int32)
        whole = jnp.all(archive.fitness[around] > -jnp.inf, axis=1)[:, None]
        elites = archive.solutions
        # By default, GPUs round the factors to ten bits.
        expected = jnp.einsum("rk,rkd->rd", self.plane[focal], elites[around], precision=lax.Precision.HIGHEST)
        length = random.normals(words[0, :, None], elites.dtype)
        along = self.numbers["spread"] * length
        return jnp.where(whole, expected, elites[mate]) + along * (elites[near] - elites[other])

    def pairs(self, words: Array, state: State, rule: Array) -> tuple[Array, Array]:
        """Return a focal task and a solved mate for each candidate: the best of `PAIRS` random pairs by the rule."""
        words, otherwise = words[:-1], words[-1]
        fitness = state.archive.fitness
        focal = uniform_integers(jnp.where(rule == ANYWHERE, words[:1], words), jnp.uint32(self.tasks))
        mate = self.neighbours(words, focal)
        above = fitness[mate] - jnp.maximum(fitness[focal], state.worst)
        above = above / jnp.where((rule == PROMISE) & (above > 0), 1.0 + state.vain[focal], 1.0)
        # The last of several maxima. The reduction of `argmax` would be slower on a CPU.
        place = jnp.where(above == jnp.max(above, axis=0), jnp.arange(PAIRS)[:, None], 0)
        chosen = jnp.max(place, axis=0)[None]
        focal, mate = (jnp.take_along_axis(each, chosen, axis=0)[0] for each in (focal, mate))
        return focal, jnp.where(fitness[mate] > -jnp.inf, mate, solved_by(otherwise, state.archive))

    def neighbours(self, words: Array, focal: Array) -> Array:
        """Return a task near each focal task, where the neighbour of rank r has a probability proportional to 1 / r.

        The rank is derived from the lower half of a random word, since the upper half selected the focal task.
        """
        if self.near is None:
            return uniform_integers(words * jnp.uint32(2654435761), jnp.uint32(self.tasks))
        draw = (words & 0xFFFF).astype(jnp.int32).astype(jnp.float32) * np.float32(2.0**-16)
        rank = jnp.exp(draw * self.log_mates).astype(jnp.int32) - 1
        return self.near[focal, rank].astype(jnp.int32)

    def two_near(self, words: Array, archive: Archive, focal: Array, mate: Array) -> tuple[Array, Array]:
        """Return two of the `NEAR` nearest tasks of each focal task, replaced by its mate if they are unsolved."""
        if self.near is None:
            return mate, mate
        rank = uniform_integers(words, jnp.uint32(min(NEAR, self.near.shape[1])))
        near = self.near[focal, rank].astype(jnp.int32)
        one, two = jnp.where(archive.fitness[near] > -jnp.inf, near, mate)
        return one, two

    def tell(self, state: State, candidates: Candidates, evaluation: Evaluation) -> tuple[State, Info]:
        """Insert the candidates, and update the credit of ways and rules, the step sizes and the distribution."""
        numbers, before = self.numbers, state.archive
        niches = evaluation.place(candidates.niches)
        origin = jnp.where(niches == NOWHERE, -1, candidates.origin[:, 0])
        way, rule = jnp.where(origin < 0, -1, origin // len(RULES)), origin % len(RULES)
        made = way[:, None] == jnp.arange(len(WAYS))
        ruled = (rule[:, None] == jnp.arange(len(RULES))) & (way > SHARED)[:, None]
        lineage = self.descended(state, candidates.origin[:, 1], made)
        # Reading the old archive before writing the new one saves the compiler a copy of it.
        lineage, solutions = lax.optimization_barrier((lineage, candidates.solutions))  # type: ignore[no-untyped-call]
        archive, success = archives.insert(before, solutions, niches, evaluation.fitness)
        old = before.fitness.at[niches].get(mode="fill", fill_value=0.0)
        above = evaluation.fitness - jnp.maximum(old, state.worst)
        gain = jnp.where(success, above, 0.0)
        gain = jnp.where(jnp.isfinite(gain), jnp.maximum(gain, 0.0), 0.0)  # without elites, `worst` is infinite
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
        """Return the share of each way in the candidates, shape `(rows, ways)`.

        Candidates inherit a part of their parent's shares, which decreases with the age of the parent.

        Args:
            state: the state before the insertion.
            parents: parents' tasks, shape `(rows,)`; `NOWHERE` for candidates without a parent.
            made: mask of the way that created each candidate, shape `(rows, ways)`.
        """
        archive = state.archive
        age = (archive.told - archive.last_improved.at[parents].get(mode="fill", fill_value=0)) / self.rows
        share = self.numbers["heritage"] * self.numbers["discount"] ** age
        inherited = share[:, None] * state.lineage.at[parents].get(mode="fill", fill_value=0.0)
        return jnp.where(made, 1.0 - jnp.sum(inherited, axis=1, keepdims=True), 0.0) + inherited

    def resized(self, own: Array, sizes: Array, niches: Array, success: Array) -> Array:
        """Return the standard deviations of `step` after a batch, in which `own` marks the candidates of `step`."""
        factor = jnp.exp(jnp.where(success, self.numbers["longer"], -self.numbers["shorter"]))
        place = jnp.where(own, niches, NOWHERE)
        sizes = sizes.at[place].multiply(factor, mode="drop")
        within = jnp.clip(sizes.at[place].get(mode="fill", fill_value=1.0), _LEAST_STEP, _MOST_STEP)
        return sizes.at[place].set(within, mode="drop")

    def told(self, shared: Shared, own: Array, solutions: Array, worth: Array) -> Shared:
        """Return the shared distribution after a batch, in which `own` marks its candidates; most batches have none."""
        inside = (solutions - self.lower) / self.width
        return lax.cond(jnp.any(own), lambda: shared.told(inside, worth, own, self.rates), lambda: shared)

    def adopt(self, state: State, candidates: Candidates, evaluation: Evaluation) -> State:
        """Insert initial solutions. No way created them, so none is credited."""
        nothing = jnp.stack([jnp.full(len(candidates), -1), jnp.full(len(candidates), NOWHERE)], axis=1)
        return self.tell(state, replace(candidates, origin=nothing), evaluation)[0]

    def diagnostics(self, state: State) -> dict[str, Any]:
        """Return the number of candidates and of successes per way."""
        counts = {"tried": state.tried, "successes": state.successes}
        return {name: Columns(values=values, names=WAYS) for name, values in counts.items()}


def _drawn(draw: Array, chances: Array) -> Array:
    """Convert a uniform number to a choice with these probabilities; choices with probability 0 are never drawn."""
    until = jnp.cumsum(chances)
    return jnp.sum(until[:-1] <= draw * until[-1], dtype=jnp.int32)


def _worst_after(worst: Array, fitness: Array, replaced: Array) -> Array:
    """Return the fitness of the worst elite, infinity without elites.

    It is recomputed only if the worst elite was replaced or a new task was solved.
    """
    return lax.cond(jnp.any(replaced), lambda: jnp.min(jnp.where(fitness > -jnp.inf, fitness, jnp.inf)), lambda: worst)
