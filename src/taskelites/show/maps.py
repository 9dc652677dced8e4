"""The map: tasks in the plane, coloured by fitness."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial import Voronoi

if TYPE_CHECKING:
    from taskelites.result import Result


def map(  # noqa: A001 - meant to be called as show.map
    result: "Result",
    *,
    ax: Any = None,
    values: Any = None,
    label: str = "fitness",
    cmap: str = "viridis",
    **limits: Any,
) -> Any:
    """Draw tasks with two descriptors as Voronoi cells, coloured by fitness; unsolved tasks stay grey.

    Args:
        result: of a run on tasks with two descriptors.
        ax: matplotlib axes; new ones by default.
        values: `(n,)`, to colour by something else, such as `result.optimum - result.fitness`.
        label: of the colour bar.
        cmap: a matplotlib colour map.
        limits: `vmin` and `vmax` of the colours, for maps that are to be compared.

    Returns:
        The axes.

    Raises:
        ValueError: for tasks that do not have two descriptors.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> import taskelites as te
        >>> result = te.solve(te.domain("arm", tasks=300), evaluations=10_000)
        >>> result.plot().get_xlabel()
        'alpha_max'
    """
    import matplotlib.pyplot as plt
    from matplotlib.collections import PolyCollection

    points = result.tasks.descriptors
    if points is None or points.shape[1] != 2:
        width = "none" if points is None else points.shape[1]
        raise ValueError(f"the map is drawn for tasks with two descriptors, and these have {width}")
    colours = np.asarray(result.fitness if values is None else values, dtype=float)
    if colours.shape != (len(points),):
        raise ValueError(f"values must hold one number for each of the {len(points)} tasks, not shape {colours.shape}")
    if ax is None:
        ax = plt.figure(figsize=(5.6, 4.6), layout="constrained").add_subplot()
    cells = PolyCollection(
        _cells(points),
        array=np.ma.masked_invalid(colours),
        cmap=plt.get_cmap(cmap).with_extremes(bad="0.85"),
        edgecolors="face",
        linewidths=0.2,
        # Thousands of cells make a vector figure slow to open, and no one selects them.
        rasterized=True,
    )
    if limits:
        cells.set_clim(**limits)
    ax.add_collection(cells)
    low, high = _frame(points)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel=result.tasks.names[0], ylabel=result.tasks.names[1])
    ax.figure.colorbar(cells, ax=ax, label=label)
    return ax


def _frame(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rectangle that the cells fill: the points' own, widened by about half a cell."""
    low, high = points.min(axis=0), points.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    margin = 0.5 * width / max(np.sqrt(len(points)), 2.0)
    return low - margin, high + margin


def _cells(points: np.ndarray) -> list[np.ndarray]:
    """A polygon for each point, cut at the frame; a point that stands twice has its cell drawn twice."""
    low, high = _frame(points)
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
