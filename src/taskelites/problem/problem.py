"""A problem with its fitness (`Domain`), and what an algorithm needs to know of it (`Problem`)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError, finite_array, one_of, whole_number
from taskelites.problem.tasks import Box, Tasks, as_tasks
from taskelites.storage import plain

Call = Literal["each", "batch", "jax"]
CALLS = get_args(Call)


@dataclass(frozen=True, eq=False)
class Problem:
    """The tasks and the bounds of solutions, which an algorithm is bound to.

    Args:
        tasks: the tasks to solve.
        bounds: a pair `(lower, upper)` for all dimensions, with `dim`, or one pair per dimension.
        dim: the length of a solution.
        behaviour: one pair `(lower, upper)` per number of the behaviour, if the fitness function returns a behaviour
            too; otherwise None.

    Example:
        >>> import numpy as np, taskelites as te
        >>> problem = te.algorithms.Problem(np.random.rand(300, 2), bounds=[(0, 1), (-5, 5)])
        >>> problem.dim, problem.lower.tolist(), problem.upper.tolist()
        (2, [0.0, -5.0], [1.0, 5.0])
    """

    tasks: Any
    bounds: Any
    dim: int | None = None
    behaviour: Any = None

    def __post_init__(self) -> None:
        lower, upper = _parse_bounds(self.bounds, self.dim)
        object.__setattr__(self, "tasks", as_tasks(self.tasks))
        object.__setattr__(self, "bounds", np.stack([lower, upper], axis=1))
        object.__setattr__(self, "dim", len(lower))
        object.__setattr__(self, "behaviour", behaviour_bounds(self.behaviour))

    @property
    def lower(self) -> np.ndarray:
        """The lower bound of each dimension, `(dim,)`."""
        return np.asarray(self.bounds[:, 0])

    @property
    def upper(self) -> np.ndarray:
        """The upper bound of each dimension, `(dim,)`."""
        return np.asarray(self.bounds[:, 1])

    def about(self) -> dict[str, Any]:
        """Return the problem as plain values: dimensions, bounds, behaviour, and the number and hash of the tasks."""
        alike = (self.bounds == self.bounds[0]).all()
        about = {"dim": self.dim, "bounds": (self.bounds[0] if alike else self.bounds).tolist()}
        if self.behaviour is not None:
            about["behaviour"] = self.behaviour.tolist()
        if isinstance(self.tasks, Box):
            return about | {"tasks": {"box": plain(self.tasks)}}
        return about | {"tasks": {"number": len(self.tasks), "digest": self.tasks.digest}}

    def returned_behaviour(self, used: int) -> int:
        """Return the number of values of the behaviour that the fitness function returns.

        Args:
            used: the number that the algorithm uses; 0 if it uses no behaviour.

        Raises:
            ValueError: if the algorithm uses another number than the problem has.
        """
        given = 0 if self.behaviour is None else len(self.behaviour)
        if used and given and used != given:
            raise InvalidValueError(
                f"behaviour must have {used} pairs for this algorithm, one per number that it uses, not {given}"
            )
        return given or used

    def finite_tasks(self, algorithm: str) -> Tasks:
        """Return the tasks, or raise an error for an algorithm that does not support a `te.Box`."""
        if isinstance(self.tasks, Box):
            raise InvalidValueError(
                f"algorithm {algorithm!r} needs a list of tasks, but tasks is a te.Box; "
                "te.tasks.cvt(1000, box.lower, box.upper) makes a list of 1000 tasks in it"
            )
        tasks: Tasks = self.tasks
        return tasks


class _Optimum:
    """The field `optimum` of a domain: calls a given function when the values are first read."""

    def __get__(self, domain: Any, owner: type | None = None) -> Any:
        if domain is None:  # the default of the field
            return None
        held = vars(domain)
        if not callable(held["optimum"]):
            return held["optimum"]
        if "_optimum" not in held:
            held["_optimum"] = held["optimum"]()
        return held["_optimum"]

    def __set__(self, domain: Any, given: Any) -> None:
        vars(domain)["optimum"] = given


@dataclass(frozen=True, kw_only=True, eq=False)
class Domain:
    """A problem with its fitness, for `te.solve` and `taskelites run`.

    Args:
        name: one word.
        fitness, call, tasks, bounds, dim, behaviour: as for `te.solve`.
        draw: `draw(solution, task, ax=None)` draws a solution on matplotlib axes.
        film: `film(solution, task, *, width, height, fps)` returns the frames of a film of a solution for
            `taskelites watch`: arrays `(height, width, 3)` of uint8, `fps` per simulated second. The iterable may
            have a length, for a progress bar, and an attribute `fitness`, measured while filming.
        optimum: the best possible fitness of each task, `(n,)`, if it is known, or a function that returns it. A
            function is called once, when the values are first read.
        worst: the lowest possible fitness: a number, or one per task. Unsolved tasks count as this.
        options: the arguments that made the domain, as plain values; they are saved with the results.
        setup: as for `te.solve`: makes the last argument of the fitness, once in each worker.
        rows_per_call: for `call="batch"`, the number of rows per call at which the fitness is fastest. Calls then get
            up to this many rows, and replicates are evaluated together. Each row must have the same result in any
            call. Workers and executors ignore it.

    Example:
        >>> import numpy as np, taskelites as te
        >>> shift = te.Domain(
        ...     name="shift",
        ...     fitness=lambda solution, task: -abs(float(solution[0]) - task[0]),
        ...     tasks=te.tasks.grid((300,), [0], [1]),
        ...     bounds=(0, 1),
        ...     dim=1,
        ...     optimum=np.zeros(300),
        ... )
        >>> bool(te.solve(shift, evaluations=20_000).gap < 0.01)
        True
    """

    name: str
    fitness: Callable[..., Any]
    tasks: Any
    bounds: Any
    dim: int | None = None
    call: str = "each"
    draw: Callable[..., Any] | None = None
    film: Callable[..., Iterable[np.ndarray]] | None = None
    optimum: Any = _Optimum()
    worst: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    setup: Callable[[], Any] | None = None
    behaviour: Any = None
    rows_per_call: int | None = None

    def __post_init__(self) -> None:
        check_fitness(self.fitness, self.call)
        object.__setattr__(self, "rows_per_call", as_rows_per_call(self.rows_per_call, self.call))
        problem = Problem(self.tasks, self.bounds, self.dim, self.behaviour)
        object.__setattr__(self, "tasks", problem.tasks)
        object.__setattr__(self, "dim", problem.dim)
        object.__setattr__(self, "behaviour", problem.behaviour)


def is_domain(thing: Any) -> bool:
    """Return whether an object has the attributes that make a domain; its class does not matter."""
    return all(hasattr(thing, name) for name in ("fitness", "tasks", "bounds", "call"))


# Attributes that a domain of another class than `Domain` may lack.
_DEFAULTS: dict[str, Any] = {
    **{"name": "domain", "dim": None, "optimum": None, "worst": None, "options": {}, "setup": None},
    **{"behaviour": None, "rows_per_call": None, "draw": None, "film": None},
}


class DomainView:
    """A domain of any class, with defaults for attributes that it lacks."""

    def __init__(self, domain: Any) -> None:
        self.fitness, self.tasks, self.bounds, self.call = domain.fitness, domain.tasks, domain.bounds, domain.call
        self._domain = domain

    def __getattr__(self, name: str) -> Any:
        if name not in _DEFAULTS:
            raise AttributeError(f"a domain has no attribute {name!r}")
        return getattr(self._domain, name, _DEFAULTS[name])

    @property
    def problem(self) -> Problem:
        """The problem that it states."""
        return Problem(self.tasks, self.bounds, self.dim, self.behaviour)


def domain_in(fitness: Any) -> DomainView | None:
    """Return the domain that is given instead of a fitness function; None for a function.

    Raises:
        TypeError: for the name of a domain.
    """
    if isinstance(fitness, str):
        raise InvalidTypeError(
            f"fitness must be a function or a domain, not {fitness!r}; did you mean te.domain({fitness!r})?"
        )
    return DomainView(fitness) if is_domain(fitness) else None


def check_fitness(fitness: Any, call: Any) -> None:
    """Raise an error if `fitness` is not callable or `call` is not one of `CALLS`."""
    one_of("call", call, CALLS)
    if not callable(fitness):
        raise InvalidTypeError(f"fitness must be a function of a solution and a task, not {type(fitness).__name__}")


def as_rows_per_call(rows: Any, call: str) -> int | None:
    """Return the number of rows per call, or None for any number; raise an error unless `call` is "batch"."""
    if rows is None:
        return None
    if call != "batch":
        raise InvalidValueError(f"rows_per_call is for call='batch', and this fitness has call={call!r}; leave it out")
    return whole_number("rows_per_call", rows, least=1)


def per_task(name: str, value: Any, tasks: Tasks | Box) -> np.ndarray | None:
    """Return one number, or one per task, as an array `(n,)`."""
    if value is None:
        return None
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{name} must be one number, or one for each task, not {value!r}") from None
    number = len(tasks) if isinstance(tasks, Tasks) else 1
    if array.ndim == 0:
        array = np.full(number, float(array))
    if array.shape != (number,):
        raise InvalidValueError(
            f"{name} must be one number, or one for each of the {number} tasks, not of shape {array.shape}"
        )
    if np.isnan(array).any():
        raise InvalidValueError(f"{name} must not be NaN, but {name}[{np.flatnonzero(np.isnan(array))[0]}] is")
    return array


def behaviour_bounds(behaviour: Any) -> np.ndarray | None:
    """Return the lower and upper bound of each number of a behaviour, `(b, 2)`; None if there is no behaviour.

    Example:
        >>> behaviour_bounds([(0, 1), (-5, 5)]).tolist()
        [[0.0, 1.0], [-5.0, 5.0]]
    """
    if behaviour is None:
        return None
    pairs = "a list of pairs (lower, upper), one per number of the behaviour"
    try:
        array = np.array(behaviour, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"behaviour must be {pairs}, not {behaviour!r}") from None
    if array.ndim != 2 or array.shape[1] != 2 or len(array) == 0:
        raise InvalidValueError(f"behaviour must be {pairs}, not an array of shape {array.shape}")
    return _ordered("behaviour", array)


def _parse_bounds(bounds: Any, dim: Any) -> tuple[np.ndarray, np.ndarray]:
    pairs = "a pair (lower, upper), or one pair for each dimension"
    try:
        array = np.array(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"bounds must be {pairs}, not {bounds!r}") from None
    if array.ndim == 1 and len(array) == 2:
        if dim is None:
            raise InvalidValueError(
                "dim is missing: bounds is one pair for all dimensions, so dim must say how many there are"
            )
        array = np.tile(array, (whole_number("dim", dim, least=1), 1))
    if array.ndim != 2 or array.shape[1] != 2 or len(array) == 0:
        raise InvalidValueError(f"bounds must be {pairs}, not an array of shape {array.shape}")
    if dim is not None and whole_number("dim", dim, least=1) != len(array):
        raise InvalidValueError(f"bounds has {len(array)} pairs, but dim is {dim}; leave dim out, or make them agree")
    array = _ordered("bounds", array)
    return array[:, 0], array[:, 1]


def _ordered(name: str, pairs: np.ndarray) -> np.ndarray:
    """Return pairs of a lower and an upper bound as an array, or raise an error."""
    array = finite_array(name, pairs, shape="(dim, 2)", ndim=2)
    wrong = np.flatnonzero(array[:, 0] >= array[:, 1])
    if len(wrong):
        i = wrong[0]
        raise InvalidValueError(
            f"{name} must have lower below upper, but dimension {i} has ({array[i, 0]}, {array[i, 1]})"
        )
    return array
