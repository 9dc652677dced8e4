"""What is to be solved: tasks, their distance, and the order of neighbours that the tournament draws from.

A task is one row of descriptors, or any Python object. The algorithms never see the distance itself, only the order in
which it puts the other tasks: `Tasks.neighbours`. Where that square table would be too large, they draw on
`Tasks.positions` instead.
"""

import csv
import hashlib
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from taskelites.errors import InvalidTypeError, InvalidValueError, MissingFileError, finite_array, one_of, whole_number

# A square table of 16-bit numbers: 200 MB at this many tasks. Beyond it the tournament is played instead of looked up.
TABLE_LIMIT = 10_000
# A Python distance function is called once for each ordered pair: 25 million calls at this many tasks.
DISTANCE_FUNCTION_LIMIT = 5_000

# What a table of results has besides the descriptors.
_OTHER_COLUMNS = (
    *("task_id", "task", "fitness", "optimum", "evaluations", "last_improved", "corrected", "deviation"),
    *("algorithm", "replicate"),  # of several runs in one table
)
_SOLUTION = re.compile(r"solution_\d+")
_FEW_TASKS = 200
_RANGE_RATIO = 10.0


class Names(tuple[str, ...]):
    """Names of descriptors that some tasks have: accepted once, maybe by a version that refused fewer of them."""

    __slots__ = ()


def column_names(names: Iterable[str]) -> tuple[str, ...]:
    """What the columns of descriptors are called in a table of results.

    That is their names. One that such a table needs for another column (those that a new `te.Tasks` refuses, but a
    result of an earlier version may have) gets `descriptor_` before it, and once more where that is the name of
    another descriptor.

    Example:
        >>> column_names(["load", "optimum", "solution_3"])
        ('load', 'descriptor_optimum', 'descriptor_solution_3')
    """
    own = list(names)
    columns = []
    for name in own:
        column = name
        while _is_taken(column) or (column != name and column in own):
            column = f"descriptor_{column}"
        columns.append(column)
    return tuple(columns)


def _is_taken(name: str) -> bool:
    return name in _OTHER_COLUMNS or _SOLUTION.fullmatch(name) is not None


class Tasks:
    """A finite family of tasks, and what is known of their distance.

    Args:
        objects: one Python object a task, handed to the fitness as it is. Without it, the fitness receives the
            descriptors.
        descriptors: `(n, k)`, one row of numbers a task. Their Euclidean distance is used unless `distance` is given.
        distance: a matrix `(n, n)`, row `a` holding the distances from task `a`, or a function `d(a, b)` of two tasks.
        scale: "range" divides each descriptor by its range before distances are taken (the fitness still receives the
            raw ones); None takes them as they are.
        names: of the descriptors, for tables and plots. Those of other columns of a table are refused, unless they
            are the `names` of tasks that were loaded: an earlier version may have taken them.

    Raises:
        ValueError, TypeError: for arguments that do not fit together.

    Example:
        >>> import taskelites as te
        >>> levels = te.Tasks(["cave", "castle", "moon"], distance=lambda a, b: abs(len(a) - len(b)))
        >>> len(levels), levels.neighbours[0].tolist()
        (3, [0, 2, 1])
    """

    def __init__(
        self,
        objects: Iterable[Any] | None = None,
        *,
        descriptors: Any = None,
        distance: Any = None,
        scale: str | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        if hasattr(objects, "__array__") and descriptors is None and np.asarray(objects).dtype.kind in "fiu":
            objects, descriptors = None, np.asarray(objects)
        if isinstance(objects, set | frozenset):
            raise InvalidTypeError("tasks must be in an order that does not change, but a set has none; give a list")
        if isinstance(objects, str) or not (objects is None or isinstance(objects, Iterable)):
            raise InvalidTypeError(
                f"tasks must be an array of descriptors or a list of objects, not {type(objects).__name__}"
            )
        self.objects = None if objects is None else tuple(objects)
        self.descriptors = None
        if descriptors is not None:
            self.descriptors = _descriptors(descriptors)
            self.descriptors.flags.writeable = False
        if self.objects is None and self.descriptors is None:
            raise InvalidValueError("tasks must have objects or descriptors; both are missing")
        self._check_lengths()
        self.scale = None if scale is None else one_of("scale", scale, ["range"])
        if self.scale and self.descriptors is None:
            raise InvalidValueError("scale='range' needs descriptors")
        self.names = self._checked_names(names)
        self.distance = self._checked_distance(distance)

    def __len__(self) -> int:
        return len(self.objects) if self.objects is not None else len(self.descriptors)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        if self.distance is not None:
            distance = "distance matrix" if isinstance(self.distance, np.ndarray) else "distance function"
        else:
            distance = "Euclidean distance" if self.has_distance else "no distance"
        kind = "objects" if self.objects is not None else f"rows of {self.descriptors.shape[1]} descriptors"  # type: ignore[union-attr]
        return f"<Tasks: {len(self)} {kind}, {distance}>"

    def _check_lengths(self) -> None:
        if len(self) == 0:
            raise InvalidValueError("tasks must hold at least one task, but the list is empty")
        if self.objects is not None and self.descriptors is not None and len(self.objects) != len(self.descriptors):
            raise InvalidValueError(
                f"descriptors must have one row for each of the {len(self.objects)} objects, "
                f"not {len(self.descriptors)}"
            )

    def _checked_names(self, names: Sequence[str] | None) -> Names:
        if self.descriptors is None:
            if names is not None:
                raise InvalidValueError("names are those of the descriptors, but there are no descriptors")
            return Names()
        width = self.descriptors.shape[1]
        if names is None:
            return Names(f"descriptor_{i}" for i in range(width))
        if isinstance(names, str) or len(names) != width:
            raise InvalidValueError(f"names must hold {width} names, one for each descriptor, not {names!r}")
        own = [str(name) for name in names]
        known = isinstance(names, Names)
        taken = [name for name in own if own.count(name) > 1 or (_is_taken(name) and not known)]
        if taken:
            others = ", ".join([*_OTHER_COLUMNS, "solution_0, ..."])
            raise InvalidValueError(f"names must differ from each other and from {others}, but {taken[0]!r} does not")
        return Names(own)

    def _checked_distance(self, distance: Any) -> Any:
        if distance is None:
            return None
        if callable(distance):
            if len(self) > DISTANCE_FUNCTION_LIMIT:
                raise InvalidValueError(
                    f"distance is a function, which would be called {len(self) ** 2:,} times for {len(self):,} tasks "
                    f"(the limit is {DISTANCE_FUNCTION_LIMIT:,} tasks); give descriptors instead"
                )
            return distance
        matrix = finite_array("distance", distance, shape="(n, n)", ndim=2)
        if matrix.shape != (len(self), len(self)):
            raise InvalidValueError(f"distance must have shape {(len(self), len(self))}, not {matrix.shape}")
        if len(self) > TABLE_LIMIT:
            raise InvalidValueError(
                f"distance is a matrix, which is supported up to {TABLE_LIMIT:,} tasks, not {len(self):,}; "
                "give descriptors instead"
            )
        negative = np.argwhere(matrix < 0)
        if len(negative):
            a, b = negative[0]
            raise InvalidValueError(f"distance must not be negative, but distance[{a}, {b}] is {matrix[a, b]}")
        return matrix

    @property
    def dim(self) -> int:
        """How many descriptors a task has."""
        return 0 if self.descriptors is None else self.descriptors.shape[1]

    @property
    def has_distance(self) -> bool:
        """Whether any notion of nearness is known."""
        return self.distance is not None or self.descriptors is not None

    @property
    def fits_table(self) -> bool:
        """Whether the square table of neighbours is small enough to be made."""
        return len(self) <= TABLE_LIMIT

    @cached_property
    def positions(self) -> np.ndarray:
        """The descriptors as the distance sees them, `(n, k)`: scaled if so asked."""
        return self.locate(self.descriptors)

    def locate(self, descriptors: Any, *, name: str = "descriptors") -> np.ndarray:
        """Where other descriptors `(m, k)` lie among these tasks, as the distance sees it.

        Example:
            >>> import taskelites as te
            >>> tasks = te.Tasks(descriptors=[[0, 100], [2, 500]], scale="range")
            >>> tasks.locate([[1, 300]]).tolist()
            [[0.5, 0.75]]
        """
        if self.descriptors is None:
            raise InvalidValueError("these tasks have no descriptors, so nothing has a position among them")
        width = self.descriptors.shape[1]
        array = finite_array(name, descriptors, shape=f"(m, {width})", ndim=2)
        if array.shape[1] != width:
            raise InvalidValueError(f"{name} must have shape (m, {width}), not {array.shape}")
        if self.scale is None:
            return array
        spread = np.ptp(self.descriptors, axis=0)
        return array / np.where(spread > 0, spread, 1.0)

    @cached_property
    def neighbours(self) -> np.ndarray:
        """Row `a` lists all tasks by their distance from task `a`, `(n, n)`.

        Among equal distances task `a` itself comes first, then the lower number, so that duplicates are legal and
        every run sees the same order.
        """
        if not self.has_distance:
            raise InvalidValueError("tasks without a distance have no neighbours")
        if not self.fits_table:
            raise InvalidValueError(
                f"the table of neighbours is made for at most {TABLE_LIMIT:,} tasks, not {len(self):,}"
            )
        n = len(self)
        order = _aligned((n, n), np.dtype(np.uint16))

        def fill(rows: range) -> None:
            distances = self._distances_from(rows)
            distances[np.arange(len(rows)), rows] = -1.0
            order[rows.start : rows.stop] = _stable_order(distances)

        # NumPy sorts without holding the interpreter's lock, so threads help; a Python distance function stays serial.
        blocks = [range(start, min(start + 64, n)) for start in range(0, n, 64)]
        if callable(self.distance):
            for block in blocks:
                fill(block)
        else:
            with ThreadPoolExecutor() as pool:
                list(pool.map(fill, blocks))
        order.flags.writeable = False
        return order

    def _distances_from(self, rows: range) -> np.ndarray:
        """Distances (squared ones for descriptors: only their order counts) from the tasks `rows` to all."""
        if isinstance(self.distance, np.ndarray):
            return self.distance[rows.start : rows.stop].copy()
        if self.distance is None:
            total = np.zeros((len(rows), len(self)))
            for column in self.positions.T:
                total += np.square(column[rows.start : rows.stop, None] - column[None, :])
            return total
        tasks = self.objects if self.objects is not None else self.descriptors
        assert tasks is not None  # the constructor made sure that there is one of the two
        return np.array([[self._one_distance(tasks, a, b) for b in range(len(self))] for a in rows])

    def _one_distance(self, tasks: Any, a: int, b: int) -> float:
        if a == b:
            return 0.0
        value = self.distance(tasks[a], tasks[b])
        try:
            distance = float(value)
        except (TypeError, ValueError):
            raise InvalidTypeError(
                f"distance must return a number, but it returned {value!r} for tasks {a} and {b}"
            ) from None
        if not 0 <= distance < np.inf:
            raise InvalidValueError(
                f"distance must return a finite number of at least 0, but it returned {distance} for tasks {a} and {b}"
            )
        return distance

    @cached_property
    def digest(self) -> str:
        """Twelve letters that tell this set of descriptors from any other (empty for tasks without descriptors)."""
        if self.descriptors is None:
            return ""
        shape = repr(self.descriptors.shape).encode()
        return hashlib.sha256(shape + np.ascontiguousarray(self.descriptors).tobytes()).hexdigest()[:12]

    def pick(self, numbers: np.ndarray) -> Any:
        """What the fitness receives for these task numbers: a list of objects, or rows of descriptors."""
        if self.objects is not None:
            return [self.objects[number] for number in numbers]
        return self.descriptors[numbers]  # type: ignore[index]

    def warnings(self, *, uses_distance: bool) -> list[str]:
        """What a user should know before a search on these tasks, one sentence each."""
        found = []
        if len(self) < _FEW_TASKS:
            found.append(
                f"{len(self)} tasks are few for many-task search, which lives on good solutions travelling between "
                f"at least {_FEW_TASKS} tasks; add tasks in between (te.tasks.cvt, grid, uniform), or expect little "
                "more than separate searches"
            )
        if uses_distance and self.distance is None and self.descriptors is not None and len(self) > 1:
            spread = np.ptp(self.positions, axis=0)
            spread = spread[spread > 0]
            if len(spread) and spread.max() > _RANGE_RATIO * spread.min():
                found.append(
                    f"the ranges of the descriptors differ by a factor of {spread.max() / spread.min():.3g}, so the "
                    "widest one decides which tasks are near; te.Tasks(descriptors=..., scale='range') makes them equal"
                )
        return found


@dataclass(frozen=True, eq=False)
class Box:
    """A continuous family of tasks: every descriptor between `lower` and `upper`, for algorithms that can use one.

    Example:
        >>> import taskelites as te
        >>> te.Box([0, 0], [1, 2]).dim
        2
    """

    lower: Any
    upper: Any

    def __post_init__(self) -> None:
        lower, upper = _box(self.lower, self.upper)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def dim(self) -> int:
        """How many descriptors a task has."""
        return len(self.lower)


def as_tasks(tasks: Any) -> Tasks | Box:
    """Tasks from whatever a user gives for them: `Tasks`, `Box`, or an array of descriptors."""
    if isinstance(tasks, Tasks | Box):
        return tasks
    if isinstance(tasks, np.ndarray) or hasattr(tasks, "__array__"):
        return Tasks(descriptors=tasks)
    if isinstance(tasks, Sequence) and not isinstance(tasks, str):
        if len(tasks) and (isinstance(tasks[0], str) or not isinstance(tasks[0], Sequence | np.ndarray)):
            raise InvalidTypeError(
                f"tasks must be an array of descriptors of shape (n, k), not a list of {type(tasks[0]).__name__}; "
                "te.Tasks(objects) takes a list of any objects"
            )
        return Tasks(descriptors=tasks)
    raise InvalidTypeError(f"tasks must be an array of descriptors, te.Tasks or te.Box, not {type(tasks).__name__}")


def cvt(
    number: int,
    lower: Any,
    upper: Any,
    *,
    seed: int = 0,
    samples: int | None = None,
    names: Sequence[str] | None = None,
) -> Tasks:
    """Tasks spread evenly over a box: the centres of a centroidal Voronoi tessellation.

    Lloyd's k-means on uniform samples, ten a task unless `samples` says otherwise.

    Example:
        >>> import taskelites as te
        >>> te.tasks.cvt(500, [0, 0], [1, 1], seed=0)
        <Tasks: 500 rows of 2 descriptors, Euclidean distance>
    """
    number = whole_number("number", number, least=1)
    samples = whole_number("samples", 10 * number if samples is None else samples, least=number)
    lower, upper = _box(lower, upper)
    # In the unit box, so that the spread is even in each descriptor whatever its unit.
    points = np.random.default_rng(whole_number("seed", seed, least=0)).random((samples, len(lower)))
    centres = points[:number].copy()
    for _ in range(30):
        nearest = KDTree(centres).query(points)[1]
        count = np.bincount(nearest, minlength=number)
        sums = np.stack([np.bincount(nearest, weights=column, minlength=number) for column in points.T], axis=1)
        # A centre that lost all its points (possible among duplicates) stays where it is.
        moved = np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], centres)
        if np.abs(moved - centres).max() < 1e-4:
            break
        centres = moved
    return Tasks(descriptors=lower + moved * (upper - lower), names=names)


def grid(shape: Sequence[int], lower: Any, upper: Any, *, names: Sequence[str] | None = None) -> Tasks:
    """Tasks at the centres of the cells of a regular grid, the last descriptor changing fastest.

    Example:
        >>> import taskelites as te
        >>> te.tasks.grid((2, 2), [0, 0], [1, 1]).descriptors.tolist()
        [[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]]
    """
    lower, upper = _box(lower, upper)
    if not isinstance(shape, Sequence) or len(shape) != len(lower):
        raise InvalidValueError(
            f"shape must hold {len(lower)} numbers of cells, one for each descriptor, not {shape!r}"
        )
    cells = [whole_number(f"shape[{i}]", size, least=1) for i, size in enumerate(shape)]
    axes = [
        low + (np.arange(size) + 0.5) / size * (high - low) for size, low, high in zip(cells, lower, upper, strict=True)
    ]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    return Tasks(descriptors=points, names=names)


def uniform(number: int, lower: Any, upper: Any, *, seed: int = 0, names: Sequence[str] | None = None) -> Tasks:
    """Tasks drawn uniformly at random from a box.

    Example:
        >>> import taskelites as te
        >>> te.tasks.uniform(2000, [0.05] * 12, [0.15] * 12, seed=1)
        <Tasks: 2000 rows of 12 descriptors, Euclidean distance>
    """
    lower, upper = _box(lower, upper)
    rng = np.random.default_rng(whole_number("seed", seed, least=0))
    points = rng.uniform(lower, upper, (whole_number("number", number, least=1), len(lower)))
    return Tasks(descriptors=points, names=names)


def read(path: str | PathLike[str], *, scale: str | None = None) -> Tasks:
    """Tasks from a file: `.npy`, or `.csv` with one task a line and, if you like, the names in its first line.

    Example:
        >>> import numpy, tempfile, taskelites as te
        >>> path = tempfile.mkdtemp() + "/tasks.npy"
        >>> numpy.save(path, [[0.0, 1.0], [0.5, 0.5]])
        >>> te.tasks.read(path)
        <Tasks: 2 rows of 2 descriptors, Euclidean distance>
    """
    path = Path(path)
    kind = one_of("the ending of the task file", path.suffix.lower(), [".csv", ".npy"])
    if not path.is_file():
        raise MissingFileError(f"there is no task file {str(path)!r}")
    names = None
    if kind == ".npy":
        try:
            values: Any = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise InvalidValueError(f"{str(path)!r} is not a readable .npy file: {error}") from None
    else:
        names, values = _read_csv(path)
    return Tasks(descriptors=values, scale=scale, names=names)


def _read_csv(path: Path) -> tuple[list[str] | None, list[list[float]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [(number, row) for number, row in enumerate(csv.reader(file), start=1) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidValueError(f"{str(path)!r} is not a readable .csv file: {error}") from None
    names = None
    if lines and not any(_all_numbers([cell]) for cell in lines[0][1]):
        names = [cell.strip() for cell in lines.pop(0)[1]]
    if not lines:
        raise InvalidValueError(f"{str(path)!r} holds no tasks")
    width = len(names) if names is not None else len(lines[0][1])
    for number, row in lines:
        if len(row) != width or not _all_numbers(row):
            raise InvalidValueError(f"{str(path)!r}, line {number}: expected {width} numbers, not {','.join(row)!r}")
    return names, [[float(cell) for cell in row] for _, row in lines]


def _all_numbers(row: list[str]) -> bool:
    try:
        [float(cell) for cell in row]
    except ValueError:
        return False
    return True


def _descriptors(descriptors: Any) -> np.ndarray:
    array = finite_array("descriptors", descriptors, shape="(n, k), one row a task", ndim=2)
    if len(array) == 0:
        raise InvalidValueError("tasks must hold at least one task, but the list is empty")
    if array.shape[1] == 0:
        raise InvalidValueError("descriptors must have at least one column")
    return array


def _box(lower: Any, upper: Any) -> tuple[np.ndarray, np.ndarray]:
    lower = finite_array("lower", lower, shape="(k,)", ndim=1)
    upper = finite_array("upper", upper, shape="(k,)", ndim=1)
    if lower.shape != upper.shape or len(lower) == 0:
        raise InvalidValueError(f"lower and upper must be of one length, at least 1, not {len(lower)} and {len(upper)}")
    wrong = np.flatnonzero(lower >= upper)
    if len(wrong):
        i = wrong[0]
        raise InvalidValueError(f"lower must be below upper, but lower[{i}] is {lower[i]} and upper[{i}] is {upper[i]}")
    return lower, upper


def _aligned(shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    """An empty array that starts where JAX can use it as it is, instead of copying a hundred megabytes."""
    size = shape[0] * shape[1] * dtype.itemsize
    room = np.empty(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size].view(dtype).reshape(shape)


def _stable_order(distances: np.ndarray) -> np.ndarray:
    """`argsort(kind="stable")` along rows; several times faster where a row has no equal distances."""
    order: np.ndarray = np.argsort(distances, axis=1)
    ordered = np.take_along_axis(distances, order, axis=1)
    tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    order[tied] = np.argsort(distances[tied], axis=1, kind="stable")
    return order
