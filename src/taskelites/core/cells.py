"""A box cut into cells, each of which may hold an elite: a regular grid, or the cells around spread centres."""

from collections.abc import Sequence
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.spatial import Delaunay, KDTree, QhullError

from taskelites.core.pytree import constant, record, static
from taskelites.errors import InvalidTypeError, InvalidValueError, whole_number
from taskelites.problem.tasks import cvt

# Beyond it, the table of cells of one task would be larger than what any search can fill.
MOST_CELLS = 2**24
# Of a tessellation, in which each point is compared with all centres; spreading so many takes some ten seconds.
MOST_CENTRES = 20_000
# Of a tessellation: fewer points than this make its cells uneven.
_LEAST_SAMPLES = 10_000
# Up to so many points of so many dimensions a triangulation takes seconds, not minutes.
_TRIANGULATED = {2: 1_000_000, 3: 100_000, 4: 5_000, 5: 500, 6: 200}


@record
class Cells:
    """The cells of a box; called with points `(rows, k)`, it gives the number of the cell of each, `(rows,)`.

    A point outside of the box belongs to a cell at its edge.

    Attributes:
        lower, upper: `(k,)`, the box.
        centres: `(n, k)`, in widths of the box: a point belongs to the nearest; None for a grid.
        shape: of the grid, the last number changing fastest; None for centres.
    """

    lower: Array
    upper: Array
    centres: Array | None
    shape: tuple[int, ...] | None = static()

    def __len__(self) -> int:
        return len(self.centres) if self.centres is not None else prod(self.shape or ())

    def unit(self, points: Array) -> Array:
        """Where points lie in the box, in widths of it."""
        return jnp.clip((points - self.lower) / (self.upper - self.lower), 0.0, 1.0)

    def __call__(self, points: Array) -> Array:
        """The number of the cell of each point."""
        inside = self.unit(points)
        if self.centres is not None:
            apart = sum(jnp.square(inside[:, i, None] - self.centres[None, :, i]) for i in range(self.centres.shape[1]))
            return jnp.argmin(jnp.asarray(apart), axis=1).astype(jnp.int32)
        number = jnp.zeros(len(points), jnp.int32)
        for i, size in enumerate(self.shape or ()):
            place = jnp.nan_to_num(inside[:, i] * size).astype(jnp.int32)
            number = number * size + jnp.minimum(place, size - 1)
        return number


def as_cells(value: Any, name: str = "cells") -> int | tuple[int, ...]:
    """A number of cells, or the shape of a grid of them, from what a user gives; or an error.

    Example:
        >>> as_cells(100), as_cells([10, 10])
        (100, (10, 10))
    """
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value):
        shape = tuple(whole_number(f"{name}[{i}]", size, least=1, most=MOST_CELLS) for i, size in enumerate(value))
        if prod(shape) > MOST_CELLS:
            raise InvalidValueError(f"{name} must be at most {MOST_CELLS:,} in all, not {prod(shape):,}")
        return shape
    if isinstance(value, Sequence):
        raise InvalidTypeError(f"{name} must be a whole number, or one a dimension such as (10, 10), not {value!r}")
    return whole_number(name, value, least=1, most=MOST_CENTRES)


def cut(value: int | tuple[int, ...], lower: np.ndarray, upper: np.ndarray, name: str = "cells") -> Cells:
    """A box cut into a grid of a shape, or into so many cells of a centroidal Voronoi tessellation.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> grid = cut((2, 3), np.zeros(2), np.ones(2))
        >>> len(grid), grid(jnp.array([[0.1, 0.1], [0.9, 0.5], [7.0, -7.0]])).tolist()
        (6, [0, 4, 3])
    """
    ends = {"lower": constant(lower), "upper": constant(upper)}
    if isinstance(value, tuple):
        if len(value) != len(lower):
            raise InvalidValueError(
                f"{name} must be a whole number, or {len(lower)} of them, one for each dimension, not {value!r}"
            )
        return Cells(**ends, centres=None, shape=value)
    dim = len(lower)
    spread = cvt(value, np.zeros(dim), np.ones(dim), samples=max(10 * value, _LEAST_SAMPLES))
    return Cells(**ends, centres=constant(spread.descriptors), shape=None)


def grid_within(most: int, dim: int) -> tuple[int, ...]:
    """The shape of the finest grid of about equal sides that has at most so many cells.

    Example:
        >>> grid_within(10_000, 2), grid_within(100, 3), grid_within(5, 4)
        ((100, 100), (5, 5, 4), (2, 2, 1, 1))
    """
    side = int(most ** (1 / dim))
    while (side + 1) ** dim <= most:  # which rounding may have missed
        side += 1
    shape = [side] * dim
    for i in range(dim):
        if prod(shape) // side * (side + 1) <= most:
            shape[i] += 1
    return tuple(shape)


def adjacent(points: np.ndarray) -> np.ndarray:
    """The cells around each centre, `(n, width)`: its own number first, then its neighbours', the rest of a row -1.

    Neighbours are those of the Delaunay triangulation, at most `8 (k + 1)`, the nearest; with one descriptor, the next
    on both sides. Where there is no triangulation (many descriptors or too many points of several, points on a line,
    points in one place), they are the `2 (k + 1)` nearest.

    Example:
        >>> import numpy as np
        >>> adjacent(np.array([[0.0], [0.9], [0.5]])).tolist()
        [[0, 2, -1], [1, 2, -1], [2, 0, 1]]
    """
    number, dim = points.shape
    if dim == 1:
        return _beside(points[:, 0])
    nearest = np.asarray(KDTree(points).query(points, k=range(1, min(number, 2 * (dim + 1) + 1) + 1))[1])
    own = np.arange(number)
    others: list[np.ndarray] = [row[row != i] for i, row in enumerate(nearest)]
    if number <= _TRIANGULATED.get(dim, 0):
        try:
            starts, joined = Delaunay(points).vertex_neighbor_vertices
        except QhullError:  # they lie on a line or in a plane, or are too few
            starts, joined = np.zeros(number + 1, np.int64), np.empty(0, np.int64)
        most = 8 * (dim + 1)
        for i in own[np.diff(starts) > 0]:
            near = np.sort(joined[starts[i] : starts[i + 1]])
            others[i] = near[np.argsort(np.square(points[near] - points[i]).sum(axis=1), kind="stable")][:most]
    table = np.full((number, 1 + max(map(len, others))), -1, np.int32)
    table[:, 0] = own
    for i, near in enumerate(others):
        table[i, 1 : 1 + len(near)] = near
    return table


def _beside(places: np.ndarray) -> np.ndarray:
    """The same on a line."""
    order = np.argsort(places, kind="stable")
    table = np.full((len(places), 3), -1, np.int32)
    table[:, 0] = np.arange(len(places))
    table[order[1:], 1] = order[:-1]
    free = np.where(table[order[:-1], 1] < 0, 1, 2)
    table[order[:-1], free] = order[1:]
    return table
