"""Where the tasks stand in a picture, and the cells that they fill there."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.spatial import Voronoi

from taskelites.errors import InvalidValueError, one_of, whole_number
from taskelites.problem.tasks import Tasks

# Below this share of the variance, a component holds rounding only.
_NO_VARIANCE = 1e-12


class Plane(NamedTuple):
    """A place for each task.

    Attributes:
        points: `(n, 2)`.
        labels: of the two axes.
        tiled: whether the two axes are all descriptors that there are, so that a cell of the plane belongs to a task.
    """

    points: np.ndarray
    labels: tuple[str, str]
    tiled: bool


def place(tasks: Tasks, values: np.ndarray, label: str, axes: Sequence[str | int] | None) -> Plane:
    """Two numbers for each task: its two descriptors, `axes`, or principal components; of one, it and the value.

    Raises:
        ValueError, TypeError: for tasks without descriptors, and for `axes` that are not two of them.

    Example:
        >>> import numpy as np, taskelites as te
        >>> tasks = te.Tasks(descriptors=np.eye(3), names=["a", "b", "c"])
        >>> place(tasks, np.zeros(3), "fitness", ["c", 0]).points.tolist()
        [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    """
    points, names = tasks.descriptors, tasks.names
    if points is None:
        raise InvalidValueError(
            "the map needs descriptors to place the tasks, and these tasks have none; "
            "give them some: te.Tasks(objects, descriptors=...)"
        )
    if axes is not None:
        first, second = _columns(tasks, axes)
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


def _columns(tasks: Tasks, axes: Sequence[str | int]) -> tuple[int, int]:
    """The numbers of the two descriptors that `axes` asks for."""
    if isinstance(axes, str) or not isinstance(axes, Sequence) or len(axes) != 2:
        raise InvalidValueError(f"axes must be two descriptors, by name or column number, not {axes!r}")
    if tasks.dim < 2:
        raise InvalidValueError("axes chooses two descriptors, and these tasks have 1; leave it out")
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
    """The first two of them for each row `(n, 2)`, and their shares of the variance `(2,)`.

    The sign of a component is free, so the largest loading is made positive.

    Example:
        >>> import numpy as np
        >>> components, shares = principal_components(np.array([[0, 0, 5.0], [0, 3, 5], [0, 6, 5]]))
        >>> components.tolist(), shares.tolist()
        ([[-3.0, 0.0], [0.0, 0.0], [3.0, 0.0]], [1.0, 0.0])
    """
    # From the first task, so that descriptors that are the same for all tasks become exactly 0.
    centred = positions - positions[0]
    centred = centred - centred.mean(axis=0)
    # Of the square matrix, since a single task has more descriptors than singular values.
    directions, variance, _ = np.linalg.svd(centred.T @ centred)
    directions, total = directions[:, :2], variance.sum()
    shares = variance[:2] / total if total > 0 else np.zeros(2)
    # Rounded, so that loadings that are equal but for the last digit give one sign everywhere.
    largest = np.abs(directions).round(6).argmax(axis=0)
    directions = directions * np.where(directions[largest, [0, 1]] < 0, -1.0, 1.0)
    shares = np.where(shares > _NO_VARIANCE, shares, 0.0)
    return np.where(shares > 0, centred @ directions, 0.0), shares


def frame(points: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest corner of a rectangle around the points, `margin` times its width wider on each side.

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
    """About half the width of a cell, as a share of the width of all: the margin of the frame that cells fill.

    Example:
        >>> import numpy as np
        >>> half_a_cell(np.zeros((25, 2)))
        0.1
    """
    return 0.5 / max(float(np.sqrt(len(points))), 2.0)


def cells(points: np.ndarray) -> list[np.ndarray]:
    """A polygon for each point, cut at the frame; a point that stands twice has its cell drawn twice.

    Example:
        >>> import numpy as np
        >>> left, right = cells(np.array([[0.0, 0.0], [1.0, 0.0]]))
        >>> left[:, 0].max().round(6), right[:, 0].min().round(6)
        (np.float64(0.5), np.float64(0.5))
    """
    low, high = frame(points, half_a_cell(points))
    # In the unit square, since the geometry is done in floating point.
    unique, cell_of = np.unique((points - low) / (high - low), axis=0, return_inverse=True)
    # Mirrored in the four sides of the frame, the points bound each other's cells by the frame itself.
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
