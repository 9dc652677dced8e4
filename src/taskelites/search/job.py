"""`Job`: a checked request for a search."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

from taskelites.algorithms import Candidates, as_algorithm
from taskelites.core import random
from taskelites.core.pytree import constant
from taskelites.core.selection import uniform_integers
from taskelites.errors import InvalidTypeError, InvalidValueError, finite_array, whole_number
from taskelites.evaluation import EvaluationOptions
from taskelites.problem.problem import Problem, as_rows_per_call, check_fitness, domain_in, per_task
from taskelites.problem.tasks import Box, Tasks
from taskelites.search.warm_start import warm_initial

# Evaluations are counted in 32 bits.
MOST_EVALUATIONS = 2**31 - 1


@dataclass(frozen=True)
class Target:
    """A fitness at which a search stops early.

    Args:
        fitness: one number for all tasks, or one per task.
        share: the share of the solved tasks that must reach it.

    Example:
        >>> import numpy as np, taskelites as te
        >>> tasks = np.linspace(0, 1, 300)[:, None]
        >>> result = te.solve(
        ...     lambda x, t: -abs(x[0] - t[0]),
        ...     tasks,
        ...     bounds=(0, 1),
        ...     dim=1,
        ...     evaluations=100_000,
        ...     target=te.Target(-0.05, share=0.9),
        ... )
        >>> result.evaluations < 100_000
        True
    """

    fitness: Any
    share: float = 1.0

    def __post_init__(self) -> None:
        if not (isinstance(self.share, int | float) and 0 < self.share <= 1):
            raise InvalidValueError(f"share must be above 0 and at most 1, not {self.share!r}")


@dataclass(frozen=True, kw_only=True)
class Initial:
    """The user's initial solutions `(m, dim)`, and their `niches` `(m,)`; None for random tasks."""

    solutions: np.ndarray
    niches: np.ndarray | None

    def candidates(self, key: Array, problem: Problem) -> Candidates:
        """Return the candidates to evaluate first."""
        tasks = problem.finite_tasks("initial=")
        niches = self.niches
        if niches is None:
            niches = np.asarray(_random_niches(key, len(self.solutions), np.uint32(len(tasks))))
        descriptors = None if tasks.descriptors is None else constant(tasks.descriptors[niches])
        return Candidates(solutions=constant(self.solutions), niches=constant(niches, np.int32), tasks=descriptors)


@partial(jax.jit, static_argnames="rows")
def _random_niches(key: Array, rows: int, tasks: Array) -> Array:
    return uniform_integers(random.words(random.fold_in(key, 2**31 - 1), (rows,)), tasks)


@dataclass(frozen=True, kw_only=True)
class Job:
    """The arguments of `solve`, checked."""

    problem: Problem
    fitness: Callable[..., Any]
    call: str
    settings: Any
    batch_size: int
    ahead: int
    evaluations: int
    initial: Initial | None
    target: np.ndarray | None
    share: float
    evaluation_options: EvaluationOptions
    label: str
    options: dict[str, Any]
    optimum: np.ndarray | None
    worst: np.ndarray | None
    rows_per_call: int | None

    @property
    def initial_rows(self) -> int:
        """The number of initial solutions."""
        return 0 if self.initial is None else len(self.initial.solutions)


def make_job(
    fitness: Any,
    tasks: Any = None,
    *,
    evaluations: Any,
    bounds: Any = None,
    dim: Any = None,
    behaviour: Any = None,
    call: Any = None,
    algorithm: Any = "auto",
    batch_size: Any = 64,
    ahead: Any = 1,
    initial: Any = None,
    warm_start: Any = None,
    target: Any = None,
    evaluation_options: EvaluationOptions | None = None,
) -> Job:
    """Check the arguments of `solve`; `fitness` is a function, or a domain with its own tasks and bounds."""
    if initial is not None and warm_start is not None:
        raise InvalidValueError("initial and warm_start both give the first solutions; leave one of them out")
    evaluation_options = evaluation_options or EvaluationOptions()
    optimum = worst = rows_per_call = None
    options: dict[str, Any] = {}
    name = str(getattr(fitness, "__name__", ""))
    label = name if name.isidentifier() else "fitness"  # a lambda is called "<lambda>"
    if (domain := domain_in(fitness)) is not None:
        given = {"tasks": tasks, "bounds": bounds, "dim": dim, "behaviour": behaviour, "call": call}
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise InvalidValueError(
                f"a domain has its own {' and '.join(extra)}; leave {'it' if len(extra) == 1 else 'them'} out"
            )
        fitness, tasks, bounds, call = domain.fitness, domain.tasks, domain.bounds, domain.call
        dim, behaviour, optimum, worst = domain.dim, domain.behaviour, domain.optimum, domain.worst
        rows_per_call = as_rows_per_call(domain.rows_per_call, call)
        label, options = str(domain.name), dict(domain.options)
        evaluation_options = evaluation_options.with_setup(domain.setup)
    elif tasks is None or bounds is None:
        missing = " and ".join(name for name, value in (("tasks", tasks), ("bounds", bounds)) if value is None)
        raise InvalidTypeError(f"{missing} must be given with a fitness function (only a domain has its own)")
    call = "each" if call is None else call
    check_fitness(fitness, call)
    ahead = as_ahead(ahead, evaluation_options.mode)
    if call == "jax":
        check_compiled(evaluation_options, ahead)
    problem = Problem(tasks, bounds, dim, behaviour)
    settings = as_algorithm(algorithm)
    if call == "jax" and isinstance(problem.tasks, Tasks) and problem.tasks.descriptors is None:
        raise InvalidValueError("call='jax' gives descriptors to the fitness, so te.Tasks needs descriptors=...")
    aim = target if target is None or isinstance(target, Target) else Target(target)
    if warm_start is not None:
        initial = warm_initial(warm_start, problem)
    return Job(
        problem=problem,
        fitness=fitness,
        call=call,
        settings=settings,
        batch_size=whole_number("batch_size", batch_size, least=1, most=2**24),
        ahead=ahead,
        evaluations=whole_number("evaluations", evaluations, least=1, most=MOST_EVALUATIONS),
        initial=None if initial is None else as_initial(initial, problem),
        target=None if aim is None else per_task("target", aim.fitness, problem.tasks),
        share=1.0 if aim is None else float(aim.share),
        evaluation_options=evaluation_options,
        label=label,
        options=options,
        optimum=per_task("optimum", optimum, problem.tasks),
        worst=per_task("worst", worst, problem.tasks),
        rows_per_call=rows_per_call,
    )


def check_compiled(evaluation_options: EvaluationOptions, ahead: int = 1) -> None:
    """Refuse options that a JAX fitness can't have, since it runs inside one compiled program."""
    usual = EvaluationOptions()
    if evaluation_options.samples > 1:
        raise InvalidValueError(
            f"samples={evaluation_options.samples} is for Python functions with noise; a JAX function returns the same "
            "number for the same arguments. Average over keys inside the function, or draw the noise in a function "
            "with call='batch'"
        )
    # Workers come last, since a timeout sets them.
    names = ("timeout", "executor", "setup", "retries", "on_error", "mode", "workers")
    unusual = [name for name in names if getattr(evaluation_options, name) != getattr(usual, name)]
    unusual += ["ahead"] * (ahead > 1)
    if unusual:
        raise InvalidValueError(
            f"{unusual[0]} is for Python functions; leave it out. With call='jax' the whole run is one compiled "
            "program, which uses all cores or the accelerator by itself"
        )


def as_initial(initial: Any, problem: Problem) -> Initial:
    """Check `initial=`: solutions, or a pair of solutions and the numbers of their tasks."""
    if isinstance(problem.tasks, Box):
        raise InvalidValueError("initial needs a list of tasks, but tasks is a te.Box; leave initial out")
    # A tuple of two rows of numbers is two solutions; any other pair is solutions and task numbers.
    pair = isinstance(initial, tuple) and len(initial) == 2 and not np.isscalar(initial[0]) and _depth(initial[0]) == 2
    values, numbers = initial if pair else (initial, None)
    solutions = finite_array("initial", values, shape=f"(m, {problem.dim})", ndim=2)
    if solutions.shape[1] != problem.dim or len(solutions) == 0:
        raise InvalidValueError(f"initial must have shape (m, {problem.dim}), m at least 1, not {solutions.shape}")
    inside = np.clip(solutions, problem.lower, problem.upper)
    # A number at the bounds, rounded to 32 bits, counts as inside.
    tolerance = 1e-6 * problem.upper - 1e-6 * problem.lower  # the width itself may overflow
    outside = np.flatnonzero((np.abs(solutions / 2 - inside / 2) > tolerance / 2).any(axis=1))
    if len(outside):
        raise InvalidValueError(f"initial must be within bounds, but initial[{outside[0]}] is not; clip or drop it")
    solutions = inside
    if numbers is None:
        return Initial(solutions=solutions, niches=None)
    niches = np.asarray(numbers)
    tasks = problem.finite_tasks("initial=")
    if niches.dtype.kind not in "iu" or niches.shape != (len(solutions),):
        raise InvalidValueError(f"initial must have one task number per solution, so {len(solutions)}, not {numbers!r}")
    if niches.min() < 0 or niches.max() >= len(tasks):
        raise InvalidValueError(
            f"initial must have task numbers from 0 to {len(tasks) - 1}, not {niches.min()} to {niches.max()}"
        )
    return Initial(solutions=solutions, niches=niches)


def _depth(values: Any) -> int:
    """Return the number of dimensions of nested sequences, judged by their first entries."""
    return 0 if np.isscalar(values) or len(values) == 0 else 1 + _depth(values[0])


def as_ahead(ahead: Any, mode: str = "sync") -> int:
    """Check `ahead=`, the number of batches to ask from one state."""
    number = whole_number("ahead", ahead, least=1, most=2**16)
    if number > 1 and mode == "async":
        raise InvalidValueError(
            f"ahead={number} asks for whole batches, but mode='async' asks for candidates whenever a worker is free; "
            "leave one of them out"
        )
    return number


def as_seed(seed: Any) -> int:
    """Check `seed=`."""
    return whole_number("seed", seed, least=0, most=2**32 - 1)


def task_warnings(problem: Problem, settings: Any) -> list[str]:
    """Return warnings about tasks that make the search worse than necessary, one sentence each."""
    if isinstance(problem.tasks, Box):
        return []
    tasks: Tasks = problem.tasks
    uses_distance = getattr(settings, "uses_distance", True)
    sentences = list(tasks.warnings(uses_distance=uses_distance))
    if uses_distance and not tasks.has_distance:
        sentences.append(
            f"{settings.name} has no distance between tasks, so it chooses tasks uniformly at random; give one with "
            "te.Tasks(objects, descriptors=...) or distance=..."
        )
    return sentences
