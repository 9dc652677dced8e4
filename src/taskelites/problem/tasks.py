"""Tasks, the distance between them, and functions that create them.

A task is a row of descriptors or any Python object. Algorithms do not use the distance itself, only the order in which
it ranks the other tasks (`Tasks.neighbours`). If that square table is too large, they use `Tasks.positions` instead.
"""

import csv
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from taskelites.disk_cache import cached_array
from taskelites.errors import (
    InvalidTypeError,
    InvalidValueError,
    MissingFileError,
    counted,
    finite_array,
    one_of,
    whole_number,
)
from taskelites.storage import MALFORMED, read_array, reason_of

# The table of neighbours has n^2 16-bit entries: 200 MB at this limit. Above it, the tournament is simulated.
TABLE_LIMIT = 10_000
# A Python distance function is called once per ordered pair: 25 million calls at this limit.
DISTANCE_FUNCTION_LIMIT = 5_000

# Columns of a table of results other than descriptors and solutions.
_OTHER_COLUMNS = (
    *("task_id", "task", "fitness", "optimum", "evaluations", "last_improved", "corrected", "deviation"),
    *("algorithm", "replicate"),  # in a table of several runs
)
_SOLUTION = re.compile(r"solution_\d+")
_FEW_TASKS = 200
_RANGE_RATIO = 10.0


def _is_taken(name: str) -> bool:
    return name in _OTHER_COLUMNS or _SOLUTION.fullmatch(name) is not None


class Tasks:
    """A finite family of tasks and the distance between them.

    Args:
        objects: one Python object per task; the fitness receives a copy. If None, the fitness receives the descriptors.
        descriptors: descriptors of the tasks, shape `(n, k)`. The distance between tasks is their Euclidean distance
            unless `distance` is given.
        distance: a matrix of shape `(n, n)` whose row `a` holds the distances from task `a`, or a function `d(a, b)`
            of two tasks.
        scale: "range" divides each descriptor by its range before distances are computed; None uses the descriptors
            unscaled. The fitness always receives them unscaled.
        names: names of the descriptors, for tables and plots. Names of other columns of result tables are rejected.

    Raises:
        ValueError, TypeError: if an argument is invalid or the arguments are inconsistent.

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
            raise InvalidTypeError("tasks must be ordered, but a set has no order; give a list")
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
            raise InvalidValueError("tasks must have objects or descriptors, but both are missing; give one of them")
        self._check_lengths()
        self.scale = None if scale is None else one_of("scale", scale, ["range"])
        if self.scale and self.descriptors is None:
            raise InvalidValueError("scale must be None for tasks without descriptors, not 'range'; give descriptors")
        self.names = self._checked_names(names)
        self.distance = self._checked_distance(distance)

    def __len__(self) -> int:
        return len(self.objects) if self.objects is not None else len(self.descriptors)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        if self.distance is not None:
            distance = "distance matrix" if isinstance(self.distance, np.ndarray) else "distance function"
        else:
            distance = "Euclidean distance" if self.has_distance else "no distance"
        if self.objects is not None:
            what = counted(len(self), "object")
        else:
            what = f"{counted(len(self), 'row')} of {counted(self.descriptors.shape[1], 'descriptor')}"  # type: ignore[union-attr]
        return f"<Tasks: {what}, {distance}>"

    def _check_lengths(self) -> None:
        if len(self) == 0:
            raise InvalidValueError("tasks must contain at least one task, but the list is empty")
        if self.objects is not None and self.descriptors is not None and len(self.objects) != len(self.descriptors):
            raise InvalidValueError(
                f"descriptors must have one row per object, so {len(self.objects)} rows, not {len(self.descriptors)}"
            )

    def _checked_names(self, names: Sequence[str] | None) -> tuple[str, ...]:
        if self.descriptors is None:
            if names is not None:
                raise InvalidValueError("names must be None for tasks without descriptors; give descriptors")
            return ()
        width = self.descriptors.shape[1]
        if names is None:
            return tuple(f"descriptor_{i}" for i in range(width))
        if isinstance(names, str) or len(names) != width:
            raise InvalidValueError(f"names must contain {width} names, one per descriptor, not {names!r}")
        own = [str(name) for name in names]
        taken = [name for name in own if own.count(name) > 1 or _is_taken(name)]
        if taken:
            others = ", ".join([*_OTHER_COLUMNS, "solution_0, ..."])
            raise InvalidValueError(
                f"names must be unique and different from {others}, but {taken[0]!r} is not; choose another name"
            )
        return tuple(own)

    def _checked_distance(self, distance: Any) -> Any:
        if distance is None:
            return None
        if callable(distance):
            if len(self) > DISTANCE_FUNCTION_LIMIT:
                raise InvalidValueError(
                    f"distance must not be a function for more than {DISTANCE_FUNCTION_LIMIT:,} tasks, since it would "
                    f"be called {len(self) ** 2:,} times for {len(self):,} tasks; give descriptors instead"
                )
            return distance
        matrix = finite_array("distance", distance, shape="(n, n)", ndim=2)
        if matrix.shape != (len(self), len(self)):
            raise InvalidValueError(f"distance must have shape {(len(self), len(self))}, not {matrix.shape}")
        if len(self) > TABLE_LIMIT:
            raise InvalidValueError(
                f"distance must not be a matrix for more than {TABLE_LIMIT:,} tasks, but there are {len(self):,}; "
                "give descriptors instead"
            )
        negative = np.argwhere(matrix < 0)
        if len(negative):
            a, b = negative[0]
            raise InvalidValueError(f"distance must not be negative, but distance[{a}, {b}] is {matrix[a, b]}")
        return matrix

    @property
    def dim(self) -> int:
        """Number of descriptors per task."""
        return 0 if self.descriptors is None else self.descriptors.shape[1]

    @property
    def has_distance(self) -> bool:
        """Whether the tasks have a distance or descriptors."""
        return self.distance is not None or self.descriptors is not None

    @property
    def fits_table(self) -> bool:
        """Whether there are few enough tasks for the table of neighbours."""
        return len(self) <= TABLE_LIMIT

    @cached_property
    def positions(self) -> np.ndarray:
        """Descriptors after scaling, shape `(n, k)`, which the Euclidean distance is computed from."""
        return self.locate(self.descriptors)

    def locate(self, descriptors: Any, *, name: str = "descriptors") -> np.ndarray:
        """Scale other descriptors like those of these tasks, so that they can be compared with `positions`.

        Args:
            descriptors: unscaled descriptors, shape `(m, k)`.
            name: name of the argument in error messages.

        Returns:
            Positions, shape `(m, k)`.

        Example:
            >>> import taskelites as te
            >>> tasks = te.Tasks(descriptors=[[0, 100], [2, 500]], scale="range")
            >>> tasks.locate([[1, 300]]).tolist()
            [[0.5, 0.75]]
        """
        if self.descriptors is None:
            raise InvalidValueError("tasks must have descriptors to locate others among them, but these have none")
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
        """Tasks sorted by distance, shape `(n, n)`: row `a` lists all tasks, nearest to task `a` first.

        Ties are broken deterministically: task `a` comes first, then the lowest index. Duplicate tasks are therefore
        allowed.
        """
        if not self.has_distance:
            raise InvalidValueError("tasks must have a distance or descriptors to have neighbours, but have neither")
        if not self.fits_table:
            raise InvalidValueError(
                f"tasks must be at most {TABLE_LIMIT:,} for a table of neighbours, not {len(self):,}; use positions"
            )
        if self.distance is None:
            order = cached_array(_euclidean_order, self.positions)
        elif isinstance(self.distance, np.ndarray):
            order = _order(len(self), lambda rows: self.distance[rows.start : rows.stop].copy())
        else:
            order = _order(len(self), self._distances_from, in_threads=False)
        order = _aligned(order)
        order.flags.writeable = False
        return order

    def _distances_from(self, rows: range) -> np.ndarray:
        """Return what the distance function says from the tasks `rows` to all tasks, shape `(rows, n)`."""
        tasks = self.objects if self.objects is not None else self.descriptors
        assert tasks is not None  # the constructor checks that objects or descriptors are given
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
        """Hash of the descriptors: twelve hexadecimal digits, or an empty string without descriptors."""
        if self.descriptors is None:
            return ""
        shape = repr(self.descriptors.shape).encode()
        return hashlib.sha256(shape + np.ascontiguousarray(self.descriptors).tobytes()).hexdigest()[:12]

    def pick(self, numbers: np.ndarray) -> Any:
        """Return the tasks with these indices as the fitness receives them: a list of objects or a descriptor array."""
        if self.objects is not None:
            return [self.objects[number] for number in numbers]
        return self.descriptors[numbers]  # type: ignore[index]

    def warnings(self, *, uses_distance: bool) -> list[str]:
        """Return warnings about the tasks, one sentence each.

        Args:
            uses_distance: whether the algorithm uses the distance between tasks.
        """
        found = []
        if len(self) < _FEW_TASKS:
            few = "1 task is" if len(self) == 1 else f"{len(self)} tasks are"
            found.append(
                f"{few} few for many-task search, which transfers good solutions between tasks and works best with at "
                f"least {_FEW_TASKS}; add tasks in between (te.tasks.cvt, grid, uniform), or expect results close to "
                "separate searches"
            )
        if uses_distance and self.distance is None and self.descriptors is not None and len(self) > 1:
            spread = np.ptp(self.positions, axis=0)
            spread = spread[spread > 0]
            if len(spread) and spread.max() > _RANGE_RATIO * spread.min():
                found.append(
                    f"the ranges of the descriptors differ by a factor of {spread.max() / spread.min():.3g}, so the "
                    "widest one dominates the distance; te.Tasks(descriptors=..., scale='range') makes them equal"
                )
        return found


@dataclass(frozen=True, eq=False)
class Box:
    """A continuous family of tasks: all descriptors between `lower` and `upper`. Only some algorithms support it.

    Args:
        lower: lower bounds of the descriptors, shape `(k,)`.
        upper: upper bounds of the descriptors, shape `(k,)`.

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
        """Number of descriptors per task."""
        return len(self.lower)


def as_tasks(tasks: Any) -> Tasks | Box:
    """Convert an array of descriptors to `Tasks`; return `Tasks` and `Box` unchanged."""
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
    """Return tasks spread evenly over a box: the centres of a centroidal Voronoi tessellation (CVT).

    The CVT is computed with Lloyd's k-means algorithm on uniform samples.

    Args:
        number: number of tasks.
        lower: lower bounds of the descriptors, shape `(k,)`.
        upper: upper bounds of the descriptors, shape `(k,)`.
        seed: seed of the samples.
        samples: number of samples; 10 per task by default.
        names: names of the descriptors.

    Example:
        >>> import taskelites as te
        >>> te.tasks.cvt(500, [0, 0], [1, 1], seed=0)
        <Tasks: 500 rows of 2 descriptors, Euclidean distance>
    """
    number = whole_number("number", number, least=1)
    samples = whole_number("samples", 10 * number if samples is None else samples, least=number)
    lower, upper = _box(lower, upper)
    centres = cached_array(_cvt_centres, number, len(lower), samples, whole_number("seed", seed, least=0))
    return Tasks(descriptors=lower + centres * (upper - lower), names=names)


def _cvt_centres(number: int, dim: int, samples: int, seed: int) -> np.ndarray:
    """Return the centres in the unit box, where distances do not depend on the units of the descriptors."""
    points = np.random.default_rng(seed).random((samples, dim))
    centres = points[:number].copy()
    for _ in range(30):
        nearest = KDTree(centres).query(points, workers=-1)[1]
        count = np.bincount(nearest, minlength=number)
        sums = np.stack([np.bincount(nearest, weights=column, minlength=number) for column in points.T], axis=1)
        # A centre can lose all its samples to a duplicate. It then keeps its position.
        moved = np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], centres)
        if np.abs(moved - centres).max() < 1e-4:
            break
        centres = moved
    return moved


def grid(shape: Sequence[int], lower: Any, upper: Any, *, names: Sequence[str] | None = None) -> Tasks:
    """Return tasks at the centres of the cells of a regular grid, the last descriptor changing fastest.

    Args:
        shape: number of cells per descriptor.
        lower: lower bounds of the descriptors, shape `(k,)`.
        upper: upper bounds of the descriptors, shape `(k,)`.
        names: names of the descriptors.

    Example:
        >>> import taskelites as te
        >>> te.tasks.grid((2, 2), [0, 0], [1, 1]).descriptors.tolist()
        [[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]]
    """
    lower, upper = _box(lower, upper)
    if not isinstance(shape, Sequence) or len(shape) != len(lower):
        raise InvalidValueError(f"shape must contain {len(lower)} numbers of cells, one per descriptor, not {shape!r}")
    cells = [whole_number(f"shape[{i}]", size, least=1) for i, size in enumerate(shape)]
    axes = [
        low + (np.arange(size) + 0.5) / size * (high - low) for size, low, high in zip(cells, lower, upper, strict=True)
    ]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    return Tasks(descriptors=points, names=names)


def uniform(number: int, lower: Any, upper: Any, *, seed: int = 0, names: Sequence[str] | None = None) -> Tasks:
    """Return tasks drawn uniformly at random from a box.

    Args:
        number: number of tasks.
        lower: lower bounds of the descriptors, shape `(k,)`.
        upper: upper bounds of the descriptors, shape `(k,)`.
        seed: seed of the draw.
        names: names of the descriptors.

    Example:
        >>> import taskelites as te
        >>> te.tasks.uniform(2000, [0.05] * 12, [0.15] * 12, seed=1)
        <Tasks: 2,000 rows of 12 descriptors, Euclidean distance>
    """
    lower, upper = _box(lower, upper)
    rng = np.random.default_rng(whole_number("seed", seed, least=0))
    points = rng.uniform(lower, upper, (whole_number("number", number, least=1), len(lower)))
    return Tasks(descriptors=points, names=names)


def read(path: str | PathLike[str], *, scale: str | None = None) -> Tasks:
    """Read tasks from a file.

    Args:
        path: a `.npy` file with an array of shape `(n, k)`, or a `.csv` file with one task per line and, optionally,
            the names of the descriptors in the first line.
        scale: see `Tasks`.

    Example:
        >>> import numpy, tempfile, taskelites as te
        >>> path = tempfile.mkdtemp() + "/tasks.npy"
        >>> numpy.save(path, [[0.0, 1.0], [0.5, 0.5]])
        >>> te.tasks.read(path)
        <Tasks: 2 rows of 2 descriptors, Euclidean distance>
    """
    path = Path(path)
    kind = one_of("the extension of the task file", path.suffix.lower(), [".csv", ".npy"])
    if not path.is_file():
        raise MissingFileError(f"there is no task file {str(path)!r}")
    names = None
    if kind == ".npy":
        try:
            with path.open("rb") as file:
                values: Any = read_array(file)
        except MALFORMED as error:
            raise InvalidValueError(f"{str(path)!r} is not a readable .npy file: {reason_of(error)}") from None
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
        raise InvalidValueError(f"{str(path)!r} contains no tasks; give a file with one task per line")
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
    array = finite_array("descriptors", descriptors, shape="(n, k), one row per task", ndim=2)
    if len(array) == 0:
        raise InvalidValueError("tasks must contain at least one task, but the list is empty")
    if array.shape[1] == 0:
        raise InvalidValueError(f"descriptors must have at least one column, but their shape is {array.shape}")
    return array


def _box(lower: Any, upper: Any) -> tuple[np.ndarray, np.ndarray]:
    lower = finite_array("lower", lower, shape="(k,)", ndim=1)
    upper = finite_array("upper", upper, shape="(k,)", ndim=1)
    if lower.shape != upper.shape or len(lower) == 0:
        raise InvalidValueError(
            f"lower and upper must have the same length of at least 1, not {len(lower)} and {len(upper)}"
        )
    wrong = np.flatnonzero(lower >= upper)
    if len(wrong):
        i = wrong[0]
        raise InvalidValueError(f"lower must be below upper, but lower[{i}] is {lower[i]} and upper[{i}] is {upper[i]}")
    return lower, upper


def _euclidean_order(positions: np.ndarray) -> np.ndarray:
    """Return the table of neighbours for the Euclidean distance."""

    def squared(rows: range) -> np.ndarray:
        total = np.zeros((len(rows), len(positions)))
        for column in positions.T:
            total += np.square(column[rows.start : rows.stop, None] - column[None, :])
        return total

    return _order(len(positions), squared)


def _order(n: int, distances_from: Callable[[range], np.ndarray], *, in_threads: bool = True) -> np.ndarray:
    """Return the table of neighbours, given a function that returns the distances from a range of tasks to all.

    NumPy releases the GIL while it sorts, so threads help. A Python distance function would not gain from them.
    """
    order = np.empty((n, n), np.uint16)

    def fill(rows: range) -> None:
        distances = distances_from(rows)
        distances[np.arange(len(rows)), rows] = -1.0
        order[rows.start : rows.stop] = _stable_order(distances)

    blocks = [range(start, min(start + 64, n)) for start in range(0, n, 64)]
    if in_threads:
        with ThreadPoolExecutor() as pool:
            list(pool.map(fill, blocks))
    else:
        for block in blocks:
            fill(block)
    return order


def _aligned(array: np.ndarray) -> np.ndarray:
    """Return a copy aligned to 64 bytes, which JAX can use without copying it again."""
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy: np.ndarray = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _stable_order(distances: np.ndarray) -> np.ndarray:
    """Return `argsort(kind="stable")` along rows, computed several times faster for rows without ties."""
    order: np.ndarray = np.argsort(distances, axis=1)
    ordered = np.take_along_axis(distances, order, axis=1)
    tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    order[tied] = np.argsort(distances[tied], axis=1, kind="stable")
    return order
