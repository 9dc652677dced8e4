"""Maps: tasks in the plane, coloured by fitness."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError
from taskelites.results.result import Result
from taskelites.show.canvas import add_cbar, axes_or_new, check_cbar
from taskelites.show.projection import Plane, cells, frame, half_a_cell, place

_GREY_CELL = "0.85"
# Darker than for cells, since points are smaller.
_GREY_POINT = "0.7"
_MAX_COLUMNS = 4
# Characters per line of an axis label. This fits below a panel, and breaks the label of a principal component well.
_LABEL_WIDTH = 24
# Tick labels that fit below a panel without overlap, with a sign and two decimals each.
_MAX_TICKS = 6


def map(  # noqa: A001 - meant to be called as show.map
    result: Result,
    ax: Any = None,
    *,
    axes: Sequence[str | int] | None = None,
    values: Any = None,
    label: str = "fitness",
    cmap: Any = "viridis",
    vmin: float | None = None,
    vmax: float | None = None,
    cbar: Any = "auto",
    cbar_kwargs: dict[str, Any] | None = None,
    rasterized: bool = True,
    colorbar: bool = True,
) -> Any:
    """Draw a map of the tasks, coloured by fitness. Unsolved tasks are grey.

    The plot depends on the number of descriptors:

    - One: fitness over the descriptor, with unsolved tasks at the lower edge.
    - Two: one Voronoi cell per task.
    - More: one point per task in the plane of the first two principal components, or of the two descriptors in `axes`.
      The components are computed from scaled descriptors, as distances are (see `scale` of `te.Tasks`).

    Args:
        result: result of a run on tasks with descriptors.
        ax: matplotlib axes; default: new axes.
        axes: two descriptors, by name or column number, such as `("alpha_max", "length")` or `(0, 3)`.
        values: array `(n,)` to colour by instead of the fitness, such as `result.optimum - result.fitness`.
        label: label of the colour bar.
        cmap: a matplotlib colour map.
        vmin: lower limit of the colours; default: the lowest value. Set it to compare maps.
        vmax: upper limit of the colours; default: the highest value.
        cbar: "auto" for a colour bar beside the map, None for no colour bar, or matplotlib axes to draw it on.
        cbar_kwargs: options for matplotlib's `Figure.colorbar`.
        rasterized: whether to draw tasks as pixels in vector formats such as PDF, where thousands of shapes are slow.
        colorbar: `False` is the same as `cbar=None`.

    Returns:
        The axes.

    Raises:
        ValueError, TypeError: if the tasks have no descriptors, or an argument does not fit the result.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> import taskelites as te
        >>> result = te.solve(te.domain("arm", tasks=300), evaluations=10_000)
        >>> te.show.map(result).get_xlabel()
        'alpha_max'
    """
    if not isinstance(result, Result):
        hint = "; use show.maps for several results" if isinstance(result, list | tuple | dict) else ""
        raise InvalidTypeError(f"result must be a Result, not {type(result).__name__}{hint}")
    check_cbar(cbar)
    colours = _colour_values("values", result, values)
    plane = place(result.tasks, colours, label, axes)
    new, ax = ax is None, axes_or_new(ax, (5.6, 4.6))
    if new and not plane.tiled:
        ax.locator_params(axis="x", nbins=_MAX_TICKS)
    drawn = _draw_tasks(ax, plane, colours, cmap=cmap, vmin=vmin, vmax=vmax, rasterized=rasterized)
    bar = add_cbar(drawn, ax, cbar if colorbar else None, cbar_kwargs, label=label)
    if bar is not None and not plane.tiled:
        _label_grey(bar, [colours])
    return ax


def maps(
    results: Sequence[Result] | Mapping[str, Result],
    *,
    titles: Sequence[str] | None = None,
    axs: Any = None,
    axes: Sequence[str | int] | None = None,
    values: Sequence[Any] | None = None,
    label: str = "fitness",
    cmap: Any = "viridis",
    vmin: float | None = None,
    vmax: float | None = None,
    cbar: Any = "auto",
    cbar_kwargs: dict[str, Any] | None = None,
    rasterized: bool = True,
    colorbar: bool = True,
) -> list[Any]:
    """Draw several maps side by side, with a common colour scale and one colour bar.

    Args:
        results: a list of results, or a dict of title and result.
        titles: one title per result; default: the keys of a dict, or no titles for a list.
        axs: matplotlib axes of one figure (best with `layout="constrained"`), one per result; default: new axes, at
            most four per row.
        axes: two descriptors, as for `map`.
        values: one array per result to colour by instead of the fitness.
        label: label of the colour bar.
        cmap: a matplotlib colour map.
        vmin: lower limit of the colours; default: the lowest value of all results.
        vmax: upper limit of the colours; default: the highest value of all results.
        cbar: as for `map`.
        cbar_kwargs: as for `map`.
        rasterized: as for `map`.
        colorbar: as for `map`.

    Returns:
        A list of axes, one per result.

    Raises:
        ValueError, TypeError: as for `map`, or if an argument does not have one entry per result.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> import taskelites as te
        >>> arm = te.domain("arm", tasks=300)
        >>> results = {f"{n:,} evaluations": te.solve(arm, evaluations=n) for n in (1_000, 10_000)}
        >>> [axes.get_title() for axes in te.show.maps(results)]
        ['1,000 evaluations', '10,000 evaluations']
    """
    check_cbar(cbar)
    cbar = cbar if colorbar else None
    results, titles = _results_and_titles(results, titles)
    number = len(results)
    chosen = [None] * number if values is None else _one_per_result("values", "array", values, number)
    colours = [_colour_values(f"values[{i}]", results[i], chosen[i]) for i in range(number)]
    planes = [place(results[i].tasks, colours[i], label, axes) for i in range(number)]
    vmin, vmax = _shared_limits(colours, vmin, vmax)
    rows = -(-number // _MAX_COLUMNS)
    columns = -(-number // rows)
    panels = _new_panels(number, rows, columns) if axs is None else _check_panels(axs, number, cbar)
    drawn = [
        _draw_tasks(panel, plane, own, cmap=cmap, vmin=vmin, vmax=vmax, rasterized=rasterized)
        for panel, plane, own in zip(panels, planes, colours, strict=True)
    ]
    if titles is not None:
        for panel, title in zip(panels, titles, strict=True):
            panel.set_title(title)
    if all(result.tasks.dim == 1 for result in results):
        # The vertical axis is the fitness, which must be comparable between maps like the colours.
        low, high = zip(*(panel.get_ylim() for panel in panels), strict=True)
        for panel in panels:
            panel.set_ylim(min(low), max(high))
    if axs is None:
        _tidy_labels(panels, columns)
    # matplotlib takes both relative to all panels, but the colour bar should look as it does beside a single one.
    size = {"pad": 0.05 / columns, "aspect": 20 * rows}
    bar = add_cbar(drawn[0], panels, cbar, cbar_kwargs, label=label, **size)
    if bar is not None:
        _label_grey(bar, colours)
    return panels


def _colour_values(name: str, result: Result, values: Any) -> np.ndarray:
    """Return the values `(n,)` to colour tasks by; NaN for grey."""
    colours = np.asarray(result.fitness if values is None else values, dtype=float)
    if colours.shape != (len(result),):
        raise InvalidValueError(f"{name} must have shape ({len(result)},), one number per task, not {colours.shape}")
    return np.where(np.isfinite(colours), colours, np.nan)


def _draw_tasks(ax: Any, plane: Plane, colours: np.ndarray, **scale: Any) -> Any:
    """Draw the tasks, label the axes and return the mappable for the colour bar."""
    draw = _draw_cells if plane.tiled else _draw_points
    drawn, (low, high) = draw(ax, plane.points, colours, **scale)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel=plane.labels[0], ylabel=plane.labels[1])
    return drawn


def _draw_cells(
    ax: Any, points: np.ndarray, colours: np.ndarray, *, cmap: Any, vmin: Any, vmax: Any, rasterized: bool
) -> Any:
    import matplotlib.pyplot as plt
    from matplotlib.collections import PolyCollection

    drawn = PolyCollection(
        cells(points),
        array=np.ma.masked_invalid(colours),
        cmap=plt.get_cmap(cmap).with_extremes(bad=_GREY_CELL),
        edgecolors="face",
        linewidths=0.2,
        rasterized=rasterized,
    )
    drawn.set_clim(vmin, vmax)
    ax.add_collection(drawn)
    return drawn, frame(points, half_a_cell(points))


def _draw_points(ax: Any, points: np.ndarray, colours: np.ndarray, **scale: Any) -> Any:
    known = np.isfinite(colours)
    style = {"s": _marker_size(ax, len(points)), "linewidths": 0, "rasterized": scale.pop("rasterized")}
    drawn = ax.scatter(*points[known].T, c=colours[known], zorder=2, **style, **scale)
    placed = np.isfinite(points[:, 1])
    if not placed.all():
        # The vertical axis is the fitness, which unsolved tasks do not have; they are drawn at the lower edge.
        lower_edge = np.full((~known).sum(), 0.02)
        ax.scatter(
            points[~known, 0], lower_edge, color=_GREY_POINT, zorder=1, transform=ax.get_xaxis_transform(), **style
        )
        low, high = frame(points[:, :1], 0.05)
        bottom, top = frame(points[placed, 1:], 0.1) if placed.any() else (np.zeros(1), np.ones(1))
        return drawn, (np.append(low, bottom), np.append(high, top))
    if not known.all():
        ax.scatter(*points[~known].T, color=_GREY_POINT, zorder=1, **style)
    return drawn, frame(points, 0.05)


def _marker_size(ax: Any, number: int) -> float:
    """Return the area of a marker, in points squared, such that all markers cover about 15 % of the axes."""
    box = ax.get_window_extent()
    area = box.width * box.height * (72 / ax.figure.dpi) ** 2
    return float(np.clip(0.15 * area / number, 6, 50))


def _label_grey(bar: Any, colours: list[np.ndarray]) -> None:
    if not all(np.isfinite(own).all() for own in colours):
        # Left-aligned, so that long text extends away from the map.
        bar.ax.set_xlabel("grey:\nunsolved", fontsize="small", loc="left", multialignment="left")


def _results_and_titles(results: Any, titles: Any) -> tuple[list[Result], list[str] | None]:
    if isinstance(results, Mapping):
        if titles is not None:
            raise InvalidValueError("titles must be left out if results is a dict, whose keys are the titles")
        titles, results = list(results), list(results.values())
    if not isinstance(results, list | tuple):
        hint = "; use show.map for a single one" if isinstance(results, Result) else ""
        raise InvalidTypeError(
            f"results must be a list of Result or a dict of title and Result, not {type(results).__name__}{hint}"
        )
    if not results:
        raise InvalidValueError("results must hold at least one Result, but it is empty")
    for i, result in enumerate(results):
        if not isinstance(result, Result):
            raise InvalidTypeError(f"results[{i}] must be a Result, not {type(result).__name__}")
    if titles is None:
        return list(results), None
    return list(results), [str(title) for title in _one_per_result("titles", "title", titles, len(results))]


def _one_per_result(name: str, entry: str, given: Any, number: int) -> list[Any]:
    expected = f"{name} must be a list with one {entry} per result ({number})"
    if not isinstance(given, list | tuple | np.ndarray):
        raise InvalidTypeError(f"{expected}, not {type(given).__name__}")
    if len(given) != number:
        raise InvalidValueError(f"{expected}, but it has {len(given)}")
    return list(given)


def _shared_limits(colours: list[np.ndarray], vmin: Any, vmax: Any) -> tuple[Any, Any]:
    together = np.concatenate(colours)
    together = together[np.isfinite(together)]
    if len(together) == 0:
        return vmin, vmax
    return together.min() if vmin is None else vmin, together.max() if vmax is None else vmax


def _new_panels(number: int, rows: int, columns: int) -> list[Any]:
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(3.6 * columns + 1.2, 3.6 * rows), layout="constrained")
    return [figure.add_subplot(rows, columns, i + 1) for i in range(number)]


def _check_panels(axs: Any, number: int, cbar: Any) -> list[Any]:
    from matplotlib.axes import Axes

    panels = list(np.ravel(np.asarray(axs, dtype=object)))
    if len(panels) != number or not all(isinstance(panel, Axes) for panel in panels):
        kinds = ", ".join(sorted({type(panel).__name__ for panel in panels})) or "nothing"
        raise InvalidValueError(
            f"axs must hold one matplotlib axes per result ({number}), not {len(panels)} of {kinds}"
        )
    if isinstance(cbar, str) and len({panel.figure for panel in panels}) > 1:
        raise InvalidValueError(
            "axs must belong to one figure, to which the colour bar is added; use cbar=None for several figures"
        )
    return panels


def _tidy_labels(panels: list[Any], columns: int) -> None:
    """Wrap long labels, and label the vertical axis only in the first column if it is the same in all panels."""
    same = len({(panel.get_ylabel(), panel.get_ylim()) for panel in panels}) == 1
    for i, panel in enumerate(panels):
        x, y = (fill(text, _LABEL_WIDTH, break_long_words=False) for text in (panel.get_xlabel(), panel.get_ylabel()))
        panel.set(xlabel=x, ylabel=y)
        panel.locator_params(axis="x", nbins=_MAX_TICKS)
        if same and i % columns:
            panel.set_ylabel("")
            panel.tick_params(labelleft=False)
