"""The interface of an algorithm: frozen settings, and a core with three pure functions.

Settings are bound to a problem, which gives the core: `core.init(key) -> state`, `core.ask(state) -> (candidates,
state)`, and `core.tell(state, candidates, evaluation) -> (state, info)`. The core is a pytree of the problem's arrays.
It is therefore an argument of compiled programs, not a constant in them. CONTRIBUTING.md shows how to write a core.
"""

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array, dtypes

from taskelites.core import archive as archives
from taskelites.core import random
from taskelites.core.archive import Archive
from taskelites.core.pytree import constant, record, static
from taskelites.core.selection import uniform_integers
from taskelites.errors import InvalidValueError, whole_number
from taskelites.problem.problem import Problem
from taskelites.problem.tasks import Tasks

__all__ = [
    "NOWHERE",
    "Candidates",
    "Core",
    "Elites",
    "Evaluation",
    "Info",
    "Kept",
    "Settings",
    "State",
    "box_arrays",
    "described",
    "descriptors_of",
    "random_solutions",
    "random_tasks",
    "replace",
    "share_or_number",
    "start_steps",
    "task_rows",
    "valid_random_start",
]

# An out-of-range niche. Candidates with this niche are neither stored nor counted.
NOWHERE = np.int32(2**31 - 1)


@record
class Candidates:
    """Candidates to evaluate, one per row.

    Attributes:
        solutions: shape `(rows, dim)`.
        niches: niches in which the candidates compete, shape `(rows,)`; the task's index in algorithms with one elite
            per task.
        tasks: descriptors that the fitness receives, shape `(rows, k)`; None if tasks have no descriptors, and the
            fitness receives the object of the niche's task.
        numbers: indices of the tasks, shape `(rows,)`; None if they are the niches.
        origin: data that the algorithm gets back with the results, one entry per row.
    """

    solutions: Any
    niches: Any
    tasks: Any = None
    numbers: Any = None
    origin: Any = None

    def __len__(self) -> int:
        return len(self.niches)


@record
class Evaluation:
    """Results of an evaluation.

    Attributes:
        fitness: shape `(rows,)`.
        told: mask of the rows that were evaluated, shape `(rows,)`; None if all were. Rows that were not evaluated come
            last.
        behaviour: shape `(rows, behaviour_dim)`, for algorithms that use it.
    """

    fitness: Array
    told: Array | None = None
    behaviour: Array | None = None

    def place(self, niches: Array) -> Array:
        """Return the niches, with `NOWHERE` for rows that were not evaluated."""
        return niches if self.told is None else jnp.where(self.told, niches, NOWHERE)


@record
class Info:
    """Diagnostics of one `tell`.

    Attributes:
        success: mask of the rows that became elites, shape `(rows,)`.
    """

    success: Array


@record
class Columns:
    """Related columns of the history, such as `tried_copy` for the diagnostic "tried" and the name "copy".

    Attributes:
        values: shape `(columns,)`; a single array, since each transfer from the device takes time.
        names: names of the columns.
    """

    values: Array
    names: tuple[str, ...] = static()


class Elites(NamedTuple):
    """The best solution per task, as reported by a result.

    Attributes:
        archive: archive with one niche per task.
        tasks: descriptors of the tasks, shape `(n, k)`, if the algorithm chose them (on a `te.Box`); otherwise None.
    """

    archive: Archive
    tasks: Array | None = None


class Kept(NamedTuple):
    """Solutions for `Result.repertoire`, from an algorithm that stores more than the best one per task.

    Attributes:
        numbers: index of each row's task, shape `(m,)`.
        solutions: shape `(m, dim)`.
        fitness: shape `(m,)`; -inf in empty rows.
        behaviour: shape `(m, b)`, if the algorithm uses it.
        tasks: descriptors with which each solution was evaluated, shape `(m, k)`; None if they are the descriptors of
            its task.
    """

    numbers: Array
    solutions: Array
    fitness: Array
    behaviour: Array | None = None
    tasks: Array | None = None


@record
class State:
    """State of an algorithm that stores nothing but elites.

    Attributes:
        key: random key of the run.
        step: number of calls of `ask`.
        archive: the elites.
    """

    key: Array
    step: Array
    archive: Archive


class Core:
    """Base class of cores. The state can be any pytree with an `archive`.

    Attributes:
        any_order: whether candidates can be told in any order and grouping, also after further calls of `ask`.
    """

    any_order: ClassVar[bool] = False

    @property
    def behaviour_dim(self) -> int:
        """Number of behaviour values that the core needs from the fitness; 0 if it does not use the behaviour."""
        return 0

    @property
    def rows(self) -> int:
        """Number of candidates per `ask`."""
        raise NotImplementedError

    def init(self, key: Array) -> Any:
        """Return the initial state."""
        raise NotImplementedError

    def ask(self, state: Any) -> tuple[Candidates, Any]:
        """Return the next candidates and the new state."""
        raise NotImplementedError

    def tell(self, state: Any, candidates: Candidates, evaluation: Evaluation) -> tuple[Any, Info]:
        """Update the state with evaluated candidates. The default inserts them into the archive."""
        niches = evaluation.place(candidates.niches)
        archive, success = archives.insert(state.archive, candidates.solutions, niches, evaluation.fitness)
        return replace(state, archive=archive), Info(success=success)

    def opening(self, state: Any) -> Candidates | None:
        """Return candidates to evaluate before the first step and to pass to `adopt`; None if there are none."""
        return None

    def adopt(self, state: Any, candidates: Candidates, evaluation: Evaluation) -> Any:
        """Update the state with candidates evaluated before the first step.

        These are the candidates of `opening`, or initial solutions from the user, which have no `origin`.
        """
        return self.tell(state, candidates, evaluation)[0]

    def elites(self, state: Any) -> Elites:
        """Return the best solution per task."""
        return Elites(state.archive)

    def kept(self, state: Any) -> Kept | None:
        """Return the solutions for `Result.repertoire`; None if only the best one per task is stored."""
        return None

    def diagnostics(self, state: Any) -> dict[str, Any]:
        """Return additional columns of the history.

        Each value is a scalar array, a `Columns` object, or a pair of arrays: column suffixes and values.
        """
        return {}


class Settings(Protocol):
    """Interface of the settings of an algorithm."""

    name: ClassVar[str]

    @property
    def uses_distance(self) -> bool:
        """Whether the algorithm uses the distance between tasks."""

    def bind(self, problem: Problem, batch_size: int = 64) -> Core:
        """Return the core of the algorithm for a problem, in JAX's default precision."""


def box_arrays(problem: Problem) -> tuple[Array, Array]:
    """Return the bounds of solutions in JAX's default precision, rounded towards the inside of the box."""
    real = dtypes.canonicalize_dtype(np.float64)
    lower, upper = problem.lower.astype(real), problem.upper.astype(real)
    return (
        constant(np.where(lower < problem.lower, np.nextafter(lower, real.type(np.inf)), lower)),
        constant(np.where(upper > problem.upper, np.nextafter(upper, -real.type(np.inf)), upper)),
    )


def random_solutions(key: Array, rows: int, lower: Array, upper: Array) -> Array:
    """Return uniform random solutions in the box, shape `(rows, dim)`."""
    inside = lower + random.uniform(key, (rows, len(lower)), lower.dtype) * (upper - lower)
    return jnp.minimum(inside, upper)  # rounding can exceed the upper bound


def random_tasks(key: Array, rows: int, tasks: int) -> Array:
    """Return uniform random task indices, shape `(rows,)`."""
    return uniform_integers(random.words(key, (rows,)), jnp.uint32(tasks))


def valid_random_start(value: int | float) -> int | float:
    """Validate `random_start`: a number of random solutions, or a share of the number of tasks."""
    return share_or_number("random_start", value, of="solutions")


def share_or_number(name: str, value: int | float, *, of: str) -> int | float:
    """Validate an argument that is a whole number or a share of the number of tasks.

    Args:
        name: name of the argument in error messages.
        value: the value to check.
        of: what the whole number counts, in error messages.
    """
    if isinstance(value, float) and not (value > 1 and value.is_integer()):
        if not 0 < value < 1:
            expected = f"a whole number of {of} or a share of the tasks between 0 and 1"
            raise InvalidValueError(f"{name} must be {expected}, not {value!r}")
        return value
    return whole_number(name, value, least=1, most=2**31 - 1)


def start_steps(random_start: int | float, tasks: int, batch_size: int) -> int:
    """Return the number of batches of random solutions, rounded up.

    Args:
        random_start: number of random solutions, or a share of the number of tasks.
        tasks: number of tasks.
        batch_size: number of solutions per batch.
    """
    start = random_start * tasks if isinstance(random_start, float) else random_start
    return int(-(-start // batch_size))


def descriptors_of(tasks: Tasks) -> Array | None:
    """Return the descriptors of all tasks in JAX's default precision; None if they have no descriptors."""
    return None if tasks.descriptors is None else constant(tasks.descriptors)


def described(fitness: Array, behaviour: Array) -> Array:
    """Return the fitness, with NaN (failed) where the fitness is finite but the behaviour contains NaN."""
    unknown = jnp.isfinite(fitness) & jnp.any(jnp.isnan(behaviour), axis=1)
    return jnp.where(unknown, jnp.nan, fitness)


def task_rows(descriptors: Array | None, niches: Array) -> Array | None:
    """Return the descriptors of each niche's task, shape `(rows, k)`; None if tasks have no descriptors."""
    return None if descriptors is None else descriptors[niches]
