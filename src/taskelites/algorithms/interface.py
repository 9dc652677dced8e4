"""What an algorithm is: frozen settings that bind to a problem, giving a core of three pure functions.

`core.init(key) -> state`, `core.ask(state) -> (candidates, state)`, `core.tell(state, candidates, evaluation) ->
(state, info)`. The core is a pytree that holds the problem's arrays, so it is an argument of compiled programs, not a
constant inside of them. CONTRIBUTING.md shows how to write one.
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
    "as_random_start",
    "box_arrays",
    "described",
    "descriptors_of",
    "random_solutions",
    "random_tasks",
    "replace",
    "share_or_number",
    "start_steps",
    "task_rows",
]

# A niche that no archive has: what is sent there is not written and not counted.
NOWHERE = np.int32(2**31 - 1)


@record
class Candidates:
    """What is to be evaluated, one candidate a row.

    Attributes:
        solutions: `(rows, dim)`.
        niches: `(rows,)`, where each competes; a task's number in algorithms with one elite a task.
        tasks: `(rows, k)`, the descriptors that the fitness receives; None where tasks have no descriptors (the niche
            then says which object it receives).
        numbers: `(rows,)`, the numbers of the tasks, where they are not the niches.
        origin: whatever the algorithm wants back with the results, one entry a row.
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
    """What came of it.

    Attributes:
        fitness: `(rows,)`.
        told: `(rows,)`, False for rows that were not evaluated (yet), which stand at the end; None if all were.
        behaviour: `(rows, behaviour_dim)`, for algorithms that ask for it.
    """

    fitness: Array
    told: Array | None = None
    behaviour: Array | None = None

    def place(self, niches: Array) -> Array:
        """The niches, with rows that were not evaluated sent nowhere."""
        return niches if self.told is None else jnp.where(self.told, niches, NOWHERE)


@record
class Info:
    """Diagnostics of one `tell`: which rows became elites at their turn, `(rows,)`."""

    success: Array


@record
class Columns:
    """Numbers of the history that belong together, a column each: `tried_copy` for "tried" and the name "copy".

    Attributes:
        values: `(columns,)`; one array, since each that is fetched from the device takes time.
        names: of the columns.
    """

    values: Array
    names: tuple[str, ...] = static()


class Elites(NamedTuple):
    """The best solution of each task, as a result reports it.

    Attributes:
        archive: one niche a task.
        tasks: `(n, k)`, the tasks' descriptors, where the algorithm itself chose them (on a `te.Box`); else None.
    """

    archive: Archive
    tasks: Array | None = None


class Kept(NamedTuple):
    """Solutions that an algorithm keeps besides the best of each task: what `Result.repertoire` is made of.

    Attributes:
        numbers: `(m,)`, the task of each row.
        solutions: `(m, dim)`.
        fitness: `(m,)`; -inf in a row that holds nothing.
        behaviour: `(m, b)`, what each does, where that is known.
        tasks: `(m, k)`, the descriptors that each was evaluated on, where they are not those of its task.
    """

    numbers: Array
    solutions: Array
    fitness: Array
    behaviour: Array | None = None
    tasks: Array | None = None


@record
class State:
    """All that a simple algorithm keeps: the key of the run, how many steps were asked, the elites."""

    key: Array
    step: Array
    archive: Archive


class Core:
    """What a core provides; a state has an `archive`.

    Attributes:
        any_order: whether candidates may be told in any order and grouping, and more asked before they are.
    """

    any_order: ClassVar[bool] = False

    @property
    def behaviour_dim(self) -> int:
        """How many numbers of the behaviour that the fitness returns it uses; 0 for none."""
        return 0

    @property
    def rows(self) -> int:
        """How many candidates each `ask` gives."""
        raise NotImplementedError

    def init(self, key: Array) -> Any:
        """The state before the first step."""
        raise NotImplementedError

    def ask(self, state: Any) -> tuple[Candidates, Any]:
        """The next candidates."""
        raise NotImplementedError

    def tell(self, state: Any, candidates: Candidates, evaluation: Evaluation) -> tuple[Any, Info]:
        """Learn from their evaluation: here, keep the best of each niche."""
        niches = evaluation.place(candidates.niches)
        archive, success = archives.insert(state.archive, candidates.solutions, niches, evaluation.fitness)
        return replace(state, archive=archive), Info(success=success)

    def opening(self, state: Any) -> Candidates | None:
        """Candidates that come before the first step and are told by `adopt`, where an algorithm begins otherwise."""
        return None

    def adopt(self, state: Any, candidates: Candidates, evaluation: Evaluation) -> Any:
        """Take in what came before the first step: the opening, and solutions that the user knew (with no `origin`)."""
        return self.tell(state, candidates, evaluation)[0]

    def elites(self, state: Any) -> Elites:
        """The best solution of each task."""
        return Elites(state.archive)

    def kept(self, state: Any) -> Kept | None:
        """What it keeps besides the best of each task, where it does."""
        return None

    def diagnostics(self, state: Any) -> dict[str, Any]:
        """Numbers worth a column in the history: each an array `()`, `Columns`, or a pair of numbers and values."""
        return {}


class Settings(Protocol):
    """What a settings object provides: a name, and `bind`."""

    name: ClassVar[str]

    @property
    def uses_distance(self) -> bool:
        """Whether the distance between tasks makes a difference."""

    def bind(self, problem: Problem, batch_size: int = 64) -> Core:
        """The algorithm on this problem, in the precision that JAX has now."""


def box_arrays(problem: Problem) -> tuple[Array, Array]:
    """The bounds of a solution in the precision that JAX has now, rounded inwards where they must be rounded."""
    real = dtypes.canonicalize_dtype(np.float64)
    lower, upper = problem.lower.astype(real), problem.upper.astype(real)
    return (
        constant(np.where(lower < problem.lower, np.nextafter(lower, real.type(np.inf)), lower)),
        constant(np.where(upper > problem.upper, np.nextafter(upper, -real.type(np.inf)), upper)),
    )


def random_solutions(key: Array, rows: int, lower: Array, upper: Array) -> Array:
    """Solutions uniformly at random in the box, `(rows, dim)`."""
    inside = lower + random.uniform(key, (rows, len(lower)), lower.dtype) * (upper - lower)
    return jnp.minimum(inside, upper)  # which rounding may have passed


def random_tasks(key: Array, rows: int, tasks: int) -> Array:
    """Numbers of tasks, uniformly at random, `(rows,)`."""
    return uniform_integers(random.words(key, (rows,)), jnp.uint32(tasks))


def as_random_start(value: int | float) -> int | float:
    """A number of random solutions, or a share of the tasks, or an error."""
    return share_or_number("random_start", value, of="solutions")


def share_or_number(name: str, value: int | float, *, of: str) -> int | float:
    """A whole number of something, or a share of the tasks, or an error that names the argument."""
    if isinstance(value, float) and not (value > 1 and value.is_integer()):
        if not 0 < value < 1:
            expected = f"a whole number of {of} or a share of the tasks between 0 and 1"
            raise InvalidValueError(f"{name} must be {expected}, not {value!r}")
        return value
    return whole_number(name, value, least=1, most=2**31 - 1)


def start_steps(random_start: int | float, tasks: int, batch_size: int) -> int:
    """How many whole batches hold so many random solutions (or that share of the tasks)."""
    start = random_start * tasks if isinstance(random_start, float) else random_start
    return int(-(-start // batch_size))


def descriptors_of(tasks: Tasks) -> Array | None:
    """The descriptors of all tasks, where they have some, in the precision that JAX has now."""
    return None if tasks.descriptors is None else constant(tasks.descriptors)


def described(fitness: Array, behaviour: Array) -> Array:
    """The fitness, NaN (failed) where it is a number but the behaviour has NaN in it."""
    unknown = jnp.isfinite(fitness) & jnp.any(jnp.isnan(behaviour), axis=1)
    return jnp.where(unknown, jnp.nan, fitness)


def task_rows(descriptors: Array | None, niches: Array) -> Array | None:
    """What the fitness receives for these tasks, where tasks have descriptors."""
    return None if descriptors is None else descriptors[niches]
