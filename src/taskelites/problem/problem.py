"""A problem as its owner states it (`Domain`), and as the algorithms receive it (`Problem`)."""

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
    """Tasks and the box of solutions: all that an algorithm is bound to.

    Args:
        tasks: what is to be solved.
        bounds: a pair for all dimensions (then `dim` says how many), or one pair a dimension.
        dim: length of a solution.
        behaviour: one pair `(lower, upper)` for each number of the behaviour that the fitness returns beside the
            fitness; None if it returns the fitness alone.

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
        """The least value of each dimension."""
        return np.asarray(self.bounds[:, 0])

    @property
    def upper(self) -> np.ndarray:
        """The greatest value of each dimension."""
        return np.asarray(self.bounds[:, 1])

    def about(self) -> dict[str, Any]:
        """Return the problem as plain values: dimensions, bounds, behaviour, and what identifies the tasks."""
        alike = (self.bounds == self.bounds[0]).all()
        about = {"dim": self.dim, "bounds": (self.bounds[0] if alike else self.bounds).tolist()}
        if self.behaviour is not None:
            about["behaviour"] = self.behaviour.tolist()
        if isinstance(self.tasks, Box):
            return about | {"tasks": {"box": plain(self.tasks)}}
        return about | {"tasks": {"number": len(self.tasks), "digest": self.tasks.digest}}

    def returned_behaviour(self, used: int) -> int:
        """How many numbers of behaviour the fitness returns, to an algorithm that uses so many of them (0: none).

        Raises:
            ValueError: if the algorithm wants another number than there are.
        """
        given = 0 if self.behaviour is None else len(self.behaviour)
        if used and given and used != given:
            raise InvalidValueError(
                f"behaviour must hold {used} pairs for this algorithm, one for each number that it uses, not {given}"
            )
        return given or used

    def finite_tasks(self, algorithm: str) -> Tasks:
        """The tasks, for an algorithm that needs a list of them."""
        if isinstance(self.tasks, Box):
            raise InvalidValueError(
                f"algorithm {algorithm!r} needs a list of tasks, but tasks is a te.Box; "
                "te.tasks.cvt(1000, box.lower, box.upper) spreads a list over it"
            )
        tasks: Tasks = self.tasks
        return tasks


@dataclass(frozen=True, kw_only=True, eq=False)
class Domain:
    """A problem with its fitness: what `te.solve` and `taskelites run` need to know, in one object.

    Args:
        name: one word.
        fitness, call, tasks, bounds, dim, behaviour: as for `te.solve`.
        draw: `draw(solution, task, ax=None)` shows a person what a solution looks like, on matplotlib axes.
        film: `film(solution, task, *, width, height, fps)` gives the frames of a film of it, `(height, width, 3)` of
            uint8, for `taskelites watch`; `fps` of them for each second of what is shown. What it gives may have a
            length, so that progress can be told, and a `fitness`, what was measured while filming.
        optimum: the best fitness of each task, `(n,)`, where it is known; a function is called when it is needed.
        worst: the least fitness that a task can give: a number, or one a task. Unsolved tasks count as this.
        options: how it was made, plain values to be kept with the results.
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
    # A function is called when the attribute is first asked for: then only, the attribute exists (`__getattr__`).
    optimum: Any = field(default_factory=lambda: None)
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
        if callable(self.optimum):
            object.__setattr__(self, "_optimum", self.optimum)
            object.__delattr__(self, "optimum")

    def __getattr__(self, name: str) -> Any:
        if name != "optimum" or "_optimum" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        object.__setattr__(self, "optimum", self._optimum())
        return self.optimum


def is_domain(thing: Any) -> bool:
    """Whether something states a whole problem: the attributes count, not the class."""
    return all(hasattr(thing, name) for name in ("fitness", "tasks", "bounds", "call"))


def check_fitness(fitness: Any, call: Any) -> None:
    """Raise if `fitness` can't be called, or `call` is no kind of calling it."""
    one_of("call", call, CALLS)
    if not callable(fitness):
        raise InvalidTypeError(f"fitness must be a function of a solution and a task, not {type(fitness).__name__}")


def as_rows_per_call(rows: Any, call: str) -> int | None:
    """A number of rows for a fitness that takes several per call, None for any number, or an error."""
    if rows is None:
        return None
    if call != "batch":
        raise InvalidValueError(f"rows_per_call is for call='batch', and this fitness has call={call!r}; leave it out")
    return whole_number("rows_per_call", rows, least=1)


def per_task(name: str, value: Any, tasks: Tasks | Box) -> np.ndarray | None:
    """A number, or one a task, as an array `(n,)`."""
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
    """The least and the greatest of each number of a behaviour, `(b, 2)`; None if there is no behaviour.

    Example:
        >>> behaviour_bounds([(0, 1), (-5, 5)]).tolist()
        [[0.0, 1.0], [-5.0, 5.0]]
    """
    if behaviour is None:
        return None
    pairs = "a list of pairs (lower, upper), one for each number of the behaviour"
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
    """Pairs of a lower and an upper end, or an error."""
    array = finite_array(name, pairs, shape="(dim, 2)", ndim=2)
    wrong = np.flatnonzero(array[:, 0] >= array[:, 1])
    if len(wrong):
        i = wrong[0]
        raise InvalidValueError(
            f"{name} must have lower below upper, but dimension {i} has ({array[i, 0]}, {array[i, 1]})"
        )
    return array
