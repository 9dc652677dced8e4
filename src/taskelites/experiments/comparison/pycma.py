"""Reference implementation of CMA-ES on each task with the `cma` package, which the paper used.

It runs task after task in Python and is meant for tests. `algorithm="cma-es"` is the same algorithm for all tasks at
once. Needs the extra `taskelites[cma]`.
"""

import warnings
from typing import Any

import numpy as np

from taskelites.algorithms import CmaEs
from taskelites.errors import FitnessError, InvalidValueError, MissingPackageError, whole_number
from taskelites.evaluation import Caller, alone
from taskelites.problem.problem import Domain
from taskelites.results.result import Result


def new_strategy(settings: CmaEs, dim: int, seed: int) -> Any:
    """Return a `cma.CMAEvolutionStrategy` on the unit box with these settings.

    Example:
        >>> import taskelites as te
        >>> new_strategy(te.algorithms.CmaEs(), dim=10, seed=0).popsize
        10
    """
    cma = import_cma()
    options = {
        "bounds": [0, 1],
        "BoundaryHandler": cma.BoundPenalty,
        "maxstd_boundrange": np.inf if settings.max_std is None else settings.max_std,
        "verbose": -9,
        "seed": seed + 1,  # `cma` takes 0 as "seed from the clock"
    }
    if settings.population is not None:
        options["popsize"] = settings.population
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on the choice of sigma0, which is the paper's
        strategy = cma.CMAEvolutionStrategy(dim * [settings.x0], settings.sigma0, options)
    # Since version 4.0, if `isidentity` is true, `cma` computes the penalty from repaired solutions, so it is 0.
    strategy.gp.isidentity = not settings.penalty
    return strategy


def import_cma() -> Any:
    """Import and return the `cma` package.

    Raises:
        ImportError: if it is not installed.
    """
    try:
        import cma
    except ImportError:
        raise MissingPackageError(
            "the reference needs the package cma; install it with `pip install 'taskelites[cma]'`"
        ) from None
    return cma


def solve_with_pycma(domain: Domain, *, evaluations: int, seed: int = 0, settings: CmaEs | None = None) -> Result:
    """Solve each task with the `cma` package, with the same number of evaluations per task.

    Args:
        domain: the domain, with any kind of fitness.
        evaluations: the total budget, a multiple of the number of tasks.
        seed: the same seed gives the same result.
        settings: settings of CMA-ES.

    Example:
        >>> import taskelites as te
        >>> from taskelites.experiments.comparison.pycma import solve_with_pycma
        >>> solve_with_pycma(te.domain("arm", tasks=3), evaluations=300).task_evaluations.tolist()
        [100, 100, 100]
    """
    settings = settings or CmaEs()
    number = len(domain.tasks)
    each = whole_number("evaluations", evaluations, least=number) // number
    if each * number != evaluations:
        raise InvalidValueError(f"evaluations must be a multiple of the number of tasks, {number}, not {evaluations}")
    evaluate = _batched(domain)
    bounds = np.broadcast_to(np.asarray(domain.bounds, dtype=np.float64), (domain.dim or 1, 2))
    lower, width = bounds[:, 0], bounds[:, 1] - bounds[:, 0]
    solutions, fitness = np.full((number, len(lower)), np.nan), np.full(number, -np.inf)
    when = np.zeros(number, np.int64)
    for task in range(number):
        strategy = new_strategy(settings, len(lower), seed * number + task)
        used = 0
        while used < each:
            asked = strategy.ask()
            inside = (lower + np.array(asked) * width)[: each - used]
            values = evaluate(inside, task)
            usable = np.where(np.isfinite(values), values, -np.inf)
            best = int(usable.argmax())
            if usable[best] > fitness[task]:
                solutions[task], fitness[task] = inside[best], usable[best]
                when[task] = task * each + used + best + 1
            used += len(inside)
            if len(inside) == len(asked):
                strategy.tell(asked, np.where(np.isfinite(usable), -usable, np.inf).tolist())
    return Result(
        solutions=solutions,
        fitness=np.where(np.isfinite(fitness), fitness, np.nan),
        tasks=domain.tasks,
        evaluations=evaluations,
        task_evaluations=np.full(number, each),
        last_improved=when,
        settings={"algorithm": {"name": "pycma"}, "seed": seed},
        optimum=domain.optimum,
        worst=domain.worst,
    )


def _batched(domain: Domain) -> Any:
    """Return a function that evaluates several solutions on one task: `(solutions, task index) -> (n,)`."""
    described = 0 if domain.behaviour is None else len(domain.behaviour)
    if domain.call == "jax":
        import jax

        traced = jax.jit(jax.vmap(alone(domain.fitness, described), in_axes=(0, None)))
        return lambda solutions, task: np.asarray(traced(solutions, domain.tasks.descriptors[task]), np.float64)
    caller = Caller(domain.fitness, domain.call, described, keeps=False)

    def evaluate(solutions: np.ndarray, task: int) -> np.ndarray:
        fitness, _, troubles, *_ = caller(solutions, domain.tasks.pick(np.full(len(solutions), task)))
        if troubles:
            raise FitnessError(troubles[0][2])
        return fitness

    return evaluate
