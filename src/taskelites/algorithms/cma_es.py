"""CMA-ES on each task: one independent search per task, with synchronised generations.

The baseline "CMA-ES" of Mouret and Maguire (GECCO 2020, section 4.1), who ran Hansen's `cma` package on each task.
This is the same algorithm, vectorised over tasks: weighted recombination with active covariance update and cumulative
step-size adaptation, with the parameters of `cma` 4.5 (Hansen, "The CMA Evolution Strategy: A Tutorial",
arXiv:1604.00772; numbers at the ends of lines refer to its equations), and the boundary penalty of its `BoundPenalty`
(Hansen et al., "A Method for Handling Uncertainty in Evolutionary Optimization", IEEE TEC 2009, addendum). The tests
compare the two implementations update by update.

A solution outside the box is evaluated at the nearest point inside. It is ranked with a penalty for the distance, whose
weights adapt. There are no stopping criteria and no restarts.

Deviations from `cma`:

1. The penalty is computed from the solutions before repair, as in `cma` before 4.0. In later versions, without further
   transformations, it is computed from repaired solutions and is always zero (`penalty=False` does that).
2. The standard deviation starts at `sigma0`, as in `cma` before 3.3. In later versions it is limited to a third of the
   box's width (`max_std=1/3` does that).
3. Eigenvalues have a lower bound relative to the floating-point precision, and step sizes stay in the range where
   squares neither overflow nor underflow; `cma` rescales coordinates instead. The eigendecomposition is computed in
   every generation, not lazily.
4. Failed and infeasible evaluations rank last. If a task's whole generation consists of them, its distribution does not
   change.
5. Populations below 6 are drawn like all others, not in mirrored pairs.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from taskelites.algorithms.interface import (
    Candidates,
    Core,
    Evaluation,
    Info,
    box_arrays,
    descriptors_of,
    replace,
    task_rows,
)
from taskelites.core import archive as archives
from taskelites.core import random
from taskelites.core.archive import Archive
from taskelites.core.pytree import constant, record, static
from taskelites.errors import InvalidTypeError, InvalidValueError, whole_number
from taskelites.problem.problem import Problem


@dataclass(frozen=True, kw_only=True)
class CmaEs:
    """Settings of CMA-ES on each task.

    A step is one generation of all tasks, so the batch size does not affect the search.

    Args:
        population: number of solutions per generation and task; None for the default, 4 + floor(3 log dim).
        x0: initial mean in the unit box, the same in all dimensions: 0.5 is the centre.
        sigma0: initial standard deviation, as a fraction of the box's width.
        penalty: whether solutions outside the box are penalised, or only repaired.
        max_std: upper limit of the standard deviation of each coordinate, as a fraction of the box's width; None for no
            limit.

    Example:
        >>> import taskelites as te
        >>> arm = te.domain("arm", tasks=200)
        >>> result = te.solve(arm, evaluations=40_000, algorithm=te.algorithms.CmaEs())
        >>> result.task_evaluations.tolist() == [200] * 200
        True
    """

    name: ClassVar[str] = "cma-es"
    uses_distance: ClassVar[bool] = False

    population: int | None = None
    x0: float = 0.5
    sigma0: float = 0.5
    penalty: bool = True
    max_std: float | None = None

    def __post_init__(self) -> None:
        if self.population is not None:
            object.__setattr__(self, "population", whole_number("population", self.population, least=2, most=2**16))
        if not (isinstance(self.x0, int | float) and 0 <= self.x0 <= 1):
            raise InvalidValueError(f"x0 must be a number between 0 and 1 (in box widths), not {self.x0!r}")
        for name in ("sigma0", "max_std"):
            value = getattr(self, name)
            if not ((name == "max_std" and value is None) or (isinstance(value, int | float) and 0 < value < math.inf)):
                raise InvalidValueError(f"{name} must be a finite number greater than 0 (in box widths), not {value!r}")
        if not isinstance(self.penalty, bool):
            raise InvalidTypeError(f"penalty must be True or False, not {self.penalty!r}")

    def bind(self, problem: Problem, batch_size: int = 64) -> "CmaEsCore":
        """Return the core of the algorithm for a problem, in JAX's default precision."""
        tasks = problem.finite_tasks(self.name)
        dim = len(problem.lower)
        population = self.population or 4 + math.floor(3 * math.log(dim))
        lower, upper = box_arrays(problem)
        return CmaEsCore(
            lower=lower,
            upper=upper,
            descriptors=descriptors_of(tasks),
            rates=jax.tree.map(_array, rates(dim, population)),
            x0=_array(self.x0),
            sigma0=_array(self.sigma0),
            max_std=None if self.max_std is None else _array(self.max_std),
            penalty=self.penalty,
            population=population,
            tasks=len(tasks),
        )


# By default, GPUs multiply matrices with ten bits of precision.
_exact_products = partial(jax.default_matmul_precision, "highest")


def _array(value: Any) -> Array:
    """Convert a number to an array with a strong dtype; a weak dtype could change during the search."""
    return constant(value, np.float64)


@record
class Rates:
    """Strategy parameters (table 1 of the tutorial).

    Attributes:
        weights: recombination weights by rank, best first, shape `(population,)`; negative for the worse half.
        mu_eff: variance effective selection mass of the positive weights.
        c_sigma, d_sigma: decay rate of the evolution path and damping of the step size.
        c_c, c_1, c_mu: decay rate of the evolution path and learning rates of the covariance matrix.
        per_chi: reciprocal of the expected norm of a standard normal vector. It is stored as a reciprocal because
            compiled divisions round differently for different numbers of tasks.
    """

    weights: np.ndarray
    mu_eff: float
    c_sigma: float
    d_sigma: float
    c_c: float
    c_1: float
    c_mu: float
    per_chi: float


def rates(dim: int, population: int) -> Rates:
    """Return the default strategy parameters for a dimension and a population size.

    Example:
        >>> from taskelites.algorithms.cma_es import rates
        >>> round(rates(10, 10).mu_eff, 4), round(rates(10, 10).c_sigma, 4)
        (3.1673, 0.3196)
    """
    raw = math.log((population + 1) / 2) - np.log(np.arange(1, population + 1))  # (49)
    positive, negative = raw[raw > 0], raw[raw <= 0]
    mu_eff = float(positive.sum() ** 2 / np.square(positive).sum())
    c_1 = min(1.0, population / 6) * 2 / ((dim + 1.3) ** 2 + mu_eff)  # (57)
    c_mu = min(1 - c_1, 2 * (0.25 + mu_eff - 2 + 1 / mu_eff) / ((dim + 2) ** 2 + mu_eff))  # (58)
    total = abs(negative.sum())
    mu_eff_minus = total**2 / np.square(negative).sum() if total > 0 else 0.0
    most = min(1 + c_1 / c_mu, (1 - c_1 - c_mu) / (dim * c_mu), 1 + 2 * mu_eff_minus / (mu_eff + 2))  # (50) to (52)
    weights = np.concatenate([positive / positive.sum(), negative * (most / total if total > 0 else 0.0)])  # (53)
    c_sigma = min(0.5, (mu_eff + 2) / (dim + mu_eff + 3))  # (55)
    spread = max(1.0, 3 * (1 - 0.5 ** (dim / 9))) * math.sqrt((mu_eff - 1) / (dim + 1))
    return Rates(
        weights=weights,
        mu_eff=mu_eff,
        c_sigma=c_sigma,
        d_sigma=1 + 2 * max(0.0, spread - 1) + c_sigma,  # (55), with the attenuation of `cma` 4.5
        c_c=(4 + mu_eff / dim) / (dim + 4 + 2 * mu_eff / dim),  # (56)
        c_1=c_1,
        c_mu=c_mu,
        per_chi=math.exp(math.lgamma(dim / 2) - math.lgamma((dim + 1) / 2)) / math.sqrt(2),
    )


@record
class Distribution:
    """Search distribution of one task, in the unit box. Arrays have shape `(dim,)` unless another shape is given.

    Attributes:
        mean: mean of the normal distribution.
        sigma: step size, a scalar.
        scaling: scaling of the coordinates, which enforces `max_std`; otherwise all ones.
        covariance: covariance matrix, shape `(dim, dim)`.
        axes: eigenvectors of the covariance matrix in columns, shape `(dim, dim)`.
        lengths: square roots of its eigenvalues.
        path_sigma: evolution path of the step size.
        path: evolution path of the covariance matrix.
        penalty: weights of the boundary penalty.
        spreads: interquartile ranges of the cost in recent generations, divided by the variance of the distribution,
            latest first, shape `(memory,)`; 0 in unused entries.
        weighted: whether the penalty weights were initialised, a scalar. This happens when the mean first leaves the
            box.
    """

    mean: Array
    sigma: Array
    scaling: Array
    covariance: Array
    axes: Array
    lengths: Array
    path_sigma: Array
    path: Array
    penalty: Array
    spreads: Array
    weighted: Array


def start(dim: int, population: int, x0: Array, sigma0: Array, max_std: Array | None) -> Distribution:
    """Return the initial distribution of one task."""
    ones = jnp.ones(dim)
    return Distribution(
        mean=jnp.full(dim, x0),
        sigma=jnp.asarray(sigma0),
        scaling=ones if max_std is None else jnp.full(dim, jnp.minimum(1.0, max_std / sigma0)),
        covariance=jnp.eye(dim),
        axes=jnp.eye(dim),
        lengths=ones,
        path_sigma=jnp.zeros(dim),
        path=jnp.zeros(dim),
        penalty=ones,
        spreads=jnp.zeros(int(20 + 3 * dim / population)),
        weighted=jnp.asarray(False),
    )


def draw(now: Distribution, normal: Array) -> Array:
    """Convert standard normal numbers to steps from the mean in units of sigma, both of shape `(population, dim)`."""
    return (normal * now.lengths) @ now.axes.T  # (38), (39)


def reach(now: Distribution, steps: Array) -> Array:
    """Return the solutions at these steps from the mean, shape `(population, dim)`; they can be outside the box."""
    return now.mean + now.sigma * now.scaling * steps  # (40)


def update(
    now: Distribution,
    steps: Array,
    cost: Array,
    generation: Array,
    rates: Rates,
    max_std: Array | None,
    *,
    penalise: bool,
) -> Distribution:
    """Update the distribution of one task with one generation.

    Args:
        now: the distribution from which the generation was drawn.
        steps: steps returned by `draw`, shape `(population, dim)`. They cannot be recomputed from the solutions, which
            are equal in all digits once the search has converged.
        cost: cost to minimise, shape `(population,)`; infinite for failed and infeasible evaluations.
        generation: index of the generation, from 1.
        rates: strategy parameters.
        max_std: see `CmaEs`.
        penalise: whether to add the boundary penalty.
    """
    dim = steps.shape[1]
    after = _update_penalty(now, cost, generation, rates)
    drawn = reach(now, steps)
    outside = jnp.clip(drawn, 0.0, 1.0) - drawn
    penalised = cost + (jnp.sum(after.penalty * jnp.square(outside), axis=1) / dim if penalise else 0.0)
    steps = steps[jnp.argsort(penalised)]
    best = jnp.maximum(rates.weights, 0.0)
    shift = best @ steps  # (41)
    mean = now.mean + now.sigma * now.scaling * shift  # (42)

    def whitened(vectors: Array) -> Array:
        return ((vectors @ now.axes) / now.lengths) @ now.axes.T

    c_sigma, c_c = rates.c_sigma, rates.c_c
    pull = jnp.sqrt(c_sigma * (2 - c_sigma) * rates.mu_eff)
    path_sigma = (1 - c_sigma) * now.path_sigma + pull * whitened(shift)  # (43)
    squared = jnp.sum(jnp.square(path_sigma))
    steady = squared / (1 - (1 - c_sigma) ** (2 * generation)) / dim < 2 + 4 / (dim + 1)
    path = (1 - c_c) * now.path + steady * jnp.sqrt(c_c * (2 - c_c) * rates.mu_eff) * shift  # (45)

    norm = jnp.sqrt(jnp.sum(jnp.square(whitened(steps)), axis=1))
    weights = jnp.where(rates.weights >= 0, rates.weights, rates.weights * dim / jnp.square(norm + 1e-9))  # (46)
    forgotten = rates.c_1 * (1 - (1 - steady) * c_c * (2 - c_c)) + rates.c_mu * jnp.sum(rates.weights)
    covariance = (
        (1 - forgotten) * now.covariance + rates.c_1 * jnp.outer(path, path) + rates.c_mu * (steps.T * weights) @ steps
    )  # (47)
    growth = (c_sigma / rates.d_sigma) * (jnp.sqrt(squared) * rates.per_chi - 1)
    least = _smallest_squarable(mean.dtype)  # (3)
    sigma = jnp.clip(now.sigma * jnp.exp(jnp.clip(growth, -1.0, 1.0)), least, 1 / least)  # (44)
    covariance = (covariance + covariance.T) / 2
    after = replace(after, mean=mean, sigma=sigma, covariance=covariance, path_sigma=path_sigma, path=path)
    if max_std is not None:
        std = sigma * now.scaling * jnp.sqrt(jnp.diagonal(covariance))
        after = replace(after, scaling=now.scaling * jnp.minimum(1.0, max_std / std))
    waits = ~jnp.any(jnp.isfinite(cost))  # (4)
    return jax.tree.map(partial(jnp.where, waits), now, after)


def _update_penalty(now: Distribution, cost: Array, generation: Array, rates: Rates) -> Distribution:
    """Update the weights of the boundary penalty, which increase for coordinates whose mean is far outside the box."""
    population, dim = len(cost), len(now.mean)
    variance = jnp.square(now.sigma) * jnp.diagonal(now.covariance)
    away = (now.mean - jnp.clip(now.mean, 0.0, 1.0)) / jnp.sqrt(variance)
    ordered = jnp.sort(cost)
    spread = (ordered[3 * (population + 1) // 4] - ordered[(population + 1) // 4]) / jnp.mean(variance)
    several = jnp.sum(now.spreads > 0) > 1
    spread = jnp.where(jnp.isposinf(spread) & several, jnp.max(now.spreads), spread)
    counts = jnp.isfinite(spread) & (spread > 0)
    spreads = jnp.where(counts, jnp.concatenate([spread[None], now.spreads[:-1]]), now.spreads)
    usual = jnp.nanmedian(jnp.where(spreads > 0, spreads, jnp.nan))
    begins = jnp.any(away != 0) & (~now.weighted | (generation == 2)) & jnp.isfinite(usual)
    weights = jnp.where(begins, 2 * usual, now.penalty)
    damping = jnp.minimum(1.0, rates.mu_eff / (10 * dim))
    excess = jnp.abs(away) - 3 * jnp.maximum(1.0, math.sqrt(dim) / rates.mu_eff)
    raised = weights * jnp.exp(damping * jnp.where(excess > 0, jnp.tanh(excess / 3) / 2, 0.0))
    raised = jnp.where(raised > 5 * usual, raised * jnp.exp(-damping / 3), raised)
    weighted = now.weighted | begins
    return replace(now, penalty=jnp.where(weighted, raised, weights), spreads=spreads, weighted=weighted)


def decompose(now: Distribution) -> Distribution:
    """Recompute the eigendecomposition of the covariance matrix, for one task or a batch of tasks."""
    values, axes = jnp.linalg.eigh(now.covariance)
    greatest = values[..., -1]
    least = _smallest_squarable(values.dtype)
    # Move the scale of the covariance matrix to sigma before it overflows or underflows.
    size = jnp.where((greatest < least) | (greatest > 1 / least), greatest, 1.0)
    values = jnp.maximum(values, np.finfo(values.dtype).eps * greatest[..., None]) / size[..., None]  # (3)
    return replace(
        now,
        sigma=now.sigma * jnp.sqrt(size),
        covariance=now.covariance / size[..., None, None],
        axes=axes,
        lengths=jnp.sqrt(values),
        path=now.path / jnp.sqrt(size)[..., None],
    )


def _smallest_squarable(real: Any) -> float:
    """Return the smallest number whose square does not underflow, with a margin."""
    return float(np.finfo(real).tiny ** 0.4)


@record
class State:
    """State of CMA-ES on each task.

    Attributes:
        key: random key of the run, from which each generation derives its own.
        step: number of calls of `ask`.
        archive: the elites.
        search: the distributions of all tasks, stacked along the first axis.
    """

    key: Array
    step: Array
    archive: Archive
    search: Distribution


@record
class CmaEsCore(Core):
    """Core of CMA-ES on each task."""

    lower: Array
    upper: Array
    descriptors: Array | None
    rates: Rates
    x0: Array
    sigma0: Array
    max_std: Array | None
    penalty: bool = static()
    population: int = static()
    tasks: int = static()

    @property
    def rows(self) -> int:
        """Number of candidates per `ask`: one generation of each task."""
        return self.population * self.tasks

    def init(self, key: Array) -> State:
        """Return a state with an empty archive and the initial distributions."""
        dim = len(self.lower)
        one = start(dim, self.population, self.x0, self.sigma0, self.max_std)
        return State(
            key=key,
            step=jnp.int32(0),
            archive=archives.empty(self.tasks, dim),
            search=jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (self.tasks, *leaf.shape)), one),
        )

    def ask(self, state: State) -> tuple[Candidates, State]:
        """Return one generation of each task: the first solution of every task, then the second, and so on."""
        shape = (self.tasks, self.population, len(self.lower))
        normal = random.normal(random.fold_in(state.key, state.step), shape, self.lower.dtype)
        with _exact_products():
            steps = jax.vmap(draw)(state.search, normal)
        drawn = _rows(jax.vmap(reach)(state.search, steps))
        inside = self.lower + jnp.clip(drawn, 0.0, 1.0) * (self.upper - self.lower)
        niches = jnp.tile(jnp.arange(self.tasks, dtype=jnp.int32), self.population)
        candidates = Candidates(
            solutions=jnp.clip(inside, self.lower, self.upper),  # rounding can exceed the bounds
            niches=niches,
            tasks=task_rows(self.descriptors, niches),
            origin=_rows(steps),
        )
        return candidates, replace(state, step=state.step + 1)

    def tell(self, state: State, candidates: Candidates, evaluation: Evaluation) -> tuple[State, Info]:
        """Insert the candidates, and update the distributions if the whole generation was evaluated."""
        state, info = super().tell(state, candidates, evaluation)
        fitness = evaluation.fitness
        cost = jnp.where(jnp.isfinite(fitness), -fitness, jnp.inf).reshape(self.population, self.tasks).T
        steps = candidates.origin.reshape(self.population, self.tasks, -1).swapaxes(0, 1)
        learn = partial(update, generation=state.step, rates=self.rates, max_std=self.max_std, penalise=self.penalty)
        with _exact_products():
            after = decompose(jax.vmap(learn)(state.search, steps, cost))
        if evaluation.told is not None:
            whole = evaluation.told[-1]
            after = jax.tree.map(partial(jnp.where, whole), after, state.search)
        return replace(state, search=after), info

    def adopt(self, state: State, candidates: Candidates, evaluation: Evaluation) -> State:
        """Insert initial solutions, and start the search of each solved task from its elite."""
        state, _ = super().tell(state, candidates, evaluation)
        place = (state.archive.solutions - self.lower) / (self.upper - self.lower)
        mean = jnp.where(jnp.isfinite(state.archive.fitness)[:, None], place, state.search.mean)
        return replace(state, search=replace(state.search, mean=mean))

    def diagnostics(self, state: State) -> dict[str, Array]:
        """Return the median of the step sizes over tasks, in box widths."""
        return {"sigma_median": jnp.median(state.search.sigma)}


def _rows(each: Array) -> Array:
    """Reshape from `(tasks, population, dim)` to `(population * tasks, dim)`."""
    return each.swapaxes(0, 1).reshape(-1, each.shape[-1])
