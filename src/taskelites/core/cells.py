"""Partition of a box into cells: a regular grid or a centroidal Voronoi tessellation (CVT)."""

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

# No search can fill a larger grid.
MOST_CELLS = 2**24
# Assigning a point to a CVT cell compares it with all centres. Computing 20,000 centres takes about ten seconds.
MOST_CENTRES = 20_000
# A CVT computed from fewer samples has uneven cells.
_LEAST_SAMPLES = 10_000
# Maximum number of points per dimension for which a Delaunay triangulation takes seconds, not minutes.
_TRIANGULATED = {2: 1_000_000, 3: 100_000, 4: 5_000, 5: 500, 6: 200}


@record
class Cells:
    """Cells of a box. Calling the object with points returns the index of each point's cell.

    Points outside the box belong to a cell at its edge.

    Attributes:
        lower, upper: bounds of the box, shape `(k,)`.
        centres: CVT centres in the unit box, shape `(n, k)`; a point belongs to the nearest one. None for a grid.
        shape: number of cells per dimension of a grid, the last index changing fastest; None for a CVT.
    """

    lower: Array
    upper: Array
    centres: Array | None
    shape: tuple[int, ...] | None = static()

    def __len__(self) -> int:
        return len(self.centres) if self.centres is not None else prod(self.shape or ())

    def unit(self, points: Array) -> Array:
        """Return the points mapped from the box to the unit box, shape `(rows, k)`."""
        return jnp.clip((points - self.lower) / (self.upper - self.lower), 0.0, 1.0)

    def __call__(self, points: Array) -> Array:
        """Return the index of each point's cell, shape `(rows,)`, for points of shape `(rows, k)`."""
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
    """Validate a number of CVT cells or the shape of a grid.

    Example:
        >>> as_cells(100), as_cells([10, 10])
        (100, (10, 10))
    """
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value):
        shape = tuple(whole_number(f"{name}[{i}]", size, least=1, most=MOST_CELLS) for i, size in enumerate(value))
        if prod(shape) > MOST_CELLS:
            raise InvalidValueError(
                f"{name} must describe a grid of at most {MOST_CELLS:,} cells, not {prod(shape):,}; use a coarser grid"
            )
        return shape
    if isinstance(value, Sequence):
        raise InvalidTypeError(
            f"{name} must be a whole number, or a sequence with one per dimension such as (10, 10), not {value!r}"
        )
    return whole_number(name, value, least=1, most=MOST_CENTRES)


def cut(value: int | tuple[int, ...], lower: np.ndarray, upper: np.ndarray, name: str = "cells") -> Cells:
    """Partition a box into a grid (if `value` is a shape) or into a CVT (if `value` is the number of cells).

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
                f"{name} must be a whole number, or a sequence of {len(lower)}, one per dimension, not {value!r}"
            )
        return Cells(**ends, centres=None, shape=value)
    dim = len(lower)
    spread = cvt(value, np.zeros(dim), np.ones(dim), samples=max(10 * value, _LEAST_SAMPLES))
    return Cells(**ends, centres=constant(spread.descriptors), shape=None)


def grid_within(most: int, dim: int) -> tuple[int, ...]:
    """Return the shape of the finest `dim`-dimensional grid that has at most `most` cells and nearly equal sides.

    Example:
        >>> grid_within(10_000, 2), grid_within(100, 3), grid_within(5, 4)
        ((100, 100), (5, 5, 4), (2, 2, 1, 1))
    """
    side = int(most ** (1 / dim))
    while (side + 1) ** dim <= most:  # the float root may have been rounded down
        side += 1
    shape = [side] * dim
    for i in range(dim):
        if prod(shape) // side * (side + 1) <= most:
            shape[i] += 1
    return tuple(shape)


def adjacent(points: np.ndarray) -> np.ndarray:
    """Return the neighbours of each point, shape `(n, width)`: the point itself, its neighbours, then -1 as padding.

    Neighbours are the at most `8 (k + 1)` nearest of those joined to the point by the Delaunay triangulation. In one
    dimension, they are the next point on either side. Without a triangulation (too many dimensions or points, collinear
    or coinciding points), they are the `2 (k + 1)` nearest points.

    Args:
        points: shape `(n, k)`.

    Example:
        >>> import numpy as np
        >>> adjacent(np.array([[0.0], [0.9], [0.5]])).tolist()
        [[0, 2, -1], [1, 2, -1], [2, 0, 1]]
    """
    number, dim = points.shape
    if dim == 1:
        return _adjacent_on_line(points[:, 0])
    nearest = np.asarray(KDTree(points).query(points, k=range(1, min(number, 2 * (dim + 1) + 1) + 1))[1])
    own = np.arange(number)
    others: list[np.ndarray] = [row[row != i] for i, row in enumerate(nearest)]
    if number <= _TRIANGULATED.get(dim, 0):
        try:
            starts, joined = Delaunay(points).vertex_neighbor_vertices
        except QhullError:  # the points are degenerate (collinear, coplanar) or too few
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


def _adjacent_on_line(places: np.ndarray) -> np.ndarray:
    """Return the neighbours of points on a line, shape `(n, 3)`, as `adjacent` does."""
    order = np.argsort(places, kind="stable")
    table = np.full((len(places), 3), -1, np.int32)
    table[:, 0] = np.arange(len(places))
    table[order[1:], 1] = order[:-1]
    free = np.where(table[order[:-1], 1] < 0, 1, 2)
    table[order[:-1], free] = order[1:]
    return table
