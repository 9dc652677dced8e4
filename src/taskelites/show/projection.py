"""Positions of tasks in the plane, and the Voronoi cells around them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.spatial import Voronoi

from taskelites.errors import InvalidValueError, one_of, whole_number
from taskelites.problem.tasks import Tasks

# Components with a smaller share of the variance contain only rounding errors.
_MIN_VARIANCE_SHARE = 1e-12


class Plane(NamedTuple):
    """Positions of tasks in the plane.

    Attributes:
        points: `(n, 2)`, one row per task.
        labels: labels of the two axes.
        tiled: whether the axes are the only descriptors, so that each task owns a Voronoi cell of the plane.
    """

    points: np.ndarray
    labels: tuple[str, str]
    tiled: bool


def place(tasks: Tasks, values: np.ndarray, label: str, axes: Sequence[str | int] | None) -> Plane:
    """Return the positions of tasks in the plane.

    The two axes are the descriptors in `axes` if given. Otherwise they are the descriptor and the value (one
    descriptor), both descriptors (two), or the first two principal components (more).

    Args:
        tasks: tasks with descriptors.
        values: `(n,)`, one value per task; used with a single descriptor.
        label: axis label of the values.
        axes: two descriptors, by name or column number, or None.

    Raises:
        ValueError, TypeError: if the tasks have no descriptors, or `axes` are not two of the descriptors.

    Example:
        >>> import numpy as np, taskelites as te
        >>> tasks = te.Tasks(descriptors=np.eye(3), names=["a", "b", "c"])
        >>> place(tasks, np.zeros(3), "fitness", ["c", 0]).points.tolist()
        [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    """
    points, names = tasks.descriptors, tasks.names
    if points is None:
        raise InvalidValueError(
            "tasks must have descriptors to be drawn as a map, but they have none; "
            "add them with te.Tasks(objects, descriptors=...)"
        )
    if axes is not None:
        first, second = _descriptor_columns(tasks, axes)
        return Plane(points[:, [first, second]], (names[first], names[second]), tasks.dim == 2)
    if tasks.dim == 1:
        return Plane(np.column_stack([points[:, 0], values]), (names[0], label), False)
    if tasks.dim == 2:
        return Plane(points, (names[0], names[1]), True)
    components, shares = principal_components(tasks.positions)
    first_label, second_label = (
        f"principal component {i} ({100 * share:.0f} % of the variance)" for i, share in enumerate(shares, start=1)
    )
    return Plane(components, (first_label, second_label), False)


def _descriptor_columns(tasks: Tasks, axes: Sequence[str | int]) -> tuple[int, int]:
    """Return the column numbers of the two descriptors in `axes`."""
    if isinstance(axes, str) or not isinstance(axes, Sequence) or len(axes) != 2:
        raise InvalidValueError(f"axes must be two descriptors, by name or column number, not {axes!r}")
    if tasks.dim < 2:
        raise InvalidValueError("axes must be left out for these tasks, which have only 1 descriptor")
    columns = [
        tasks.names.index(one_of(f"axes[{i}]", axis, tasks.names))
        if isinstance(axis, str)
        else whole_number(f"axes[{i}]", axis, least=0, most=tasks.dim - 1)
        for i, axis in enumerate(axes)
    ]
    if columns[0] == columns[1]:
        raise InvalidValueError(f"axes must be two different descriptors, not {tasks.names[columns[0]]!r} twice")
    return columns[0], columns[1]


def principal_components(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first two principal components `(n, 2)` and their shares of the variance `(2,)`.

    The sign of a component is arbitrary. It is chosen such that the largest loading is positive.

    Args:
        positions: `(n, d)`, one row per task.

    Example:
        >>> import numpy as np
        >>> components, shares = principal_components(np.array([[0, 0, 5.0], [0, 3, 5], [0, 6, 5]]))
        >>> components.tolist(), shares.tolist()
        ([[-3.0, 0.0], [0.0, 0.0], [3.0, 0.0]], [1.0, 0.0])
    """
    # Subtracting the first task makes descriptors that are the same for all tasks exactly 0.
    centred = positions - positions[0]
    centred = centred - centred.mean(axis=0)
    # The SVD of the square matrix has d singular values even if there are fewer tasks than descriptors.
    directions, variance, _ = np.linalg.svd(centred.T @ centred)
    directions, total = directions[:, :2], variance.sum()
    shares = variance[:2] / total if total > 0 else np.zeros(2)
    # Rounding makes the sign the same on all machines if loadings are equal up to rounding errors.
    largest = np.abs(directions).round(6).argmax(axis=0)
    directions = directions * np.where(directions[largest, [0, 1]] < 0, -1.0, 1.0)
    shares = np.where(shares > _MIN_VARIANCE_SHARE, shares, 0.0)
    return np.where(shares > 0, centred @ directions, 0.0), shares


def frame(points: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper corner `(2,)` of a rectangle around points.

    Args:
        points: `(n, 2)`.
        margin: margin on each side, relative to the width and height of the points.

    Example:
        >>> import numpy as np
        >>> low, high = frame(np.array([[0.0, 7.0], [2.0, 7.0]]), 0.25)
        >>> low.tolist(), high.tolist()
        ([-0.5, 6.75], [2.5, 7.25])
    """
    low, high = points.min(axis=0), points.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    return low - margin * width, high + margin * width


def half_a_cell(points: np.ndarray) -> float:
    """Return half the typical width of a Voronoi cell, relative to the width of all: the margin around cells.

    Example:
        >>> import numpy as np
        >>> half_a_cell(np.zeros((25, 2)))
        0.1
    """
    return 0.5 / max(float(np.sqrt(len(points))), 2.0)


def cells(points: np.ndarray) -> list[np.ndarray]:
    """Return the Voronoi cells of points `(n, 2)` as a list of polygons `(vertices, 2)`, clipped at the frame.

    Duplicate points share the same cell.

    Example:
        >>> import numpy as np
        >>> left, right = cells(np.array([[0.0, 0.0], [1.0, 0.0]]))
        >>> left[:, 0].max().round(6), right[:, 0].min().round(6)
        (np.float64(0.5), np.float64(0.5))
    """
    low, high = frame(points, half_a_cell(points))
    # Scaling to the unit square avoids loss of precision if descriptors have very different ranges.
    unique, cell_of = np.unique((points - low) / (high - low), axis=0, return_inverse=True)
    # Mirroring the points at the four sides of the frame clips all cells at the frame.
    mirrored = [unique]
    for axis in range(2):
        for side in (0.0, 1.0):
            image = unique.copy()
            image[:, axis] = 2 * side - image[:, axis]
            mirrored.append(image)
    diagram = Voronoi(np.concatenate(mirrored))
    regions = [diagram.regions[diagram.point_region[i]] for i in range(len(unique))]
    polygons = [low + diagram.vertices[region] * (high - low) for region in regions]
    return [polygons[i] for i in cell_of.ravel()]
