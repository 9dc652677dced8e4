"""Plots of all elites: parallel coordinates of the solutions, and the distribution of fitness."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError, counted, whole_number
from taskelites.results.result import Result
from taskelites.show.canvas import add_cbar, axes_or_new, check_cbar
from taskelites.show.comparison_plots import COLOURS

# Number of dimensions up to which there is room for the bounds at each axis.
_MAX_LABELLED_BOUNDS = 16
# Length of a name, in characters, above which names are rotated.
_MAX_UPRIGHT_NAME = 4


def parallel_coordinates(
    result: Result,
    ax: Any = None,
    *,
    order: Sequence[int] | Sequence[tuple[int, str]] | None = None,
    values: Any = None,
    label: str = "fitness",
    cmap: Any = "viridis",
    linewidth: float | None = None,
    alpha: float | None = None,
    vmin: float | None = None,
    vmax: float | None = None,
    cbar: Any = "auto",
    cbar_kwargs: dict[str, Any] | None = None,
    rasterized: bool = True,
) -> Any:
    """Draw the solutions as parallel coordinates: one line per solved task, coloured by fitness, the best drawn last.

    The vertical axis spans the bounds of the run. If the dimensions have different bounds, each is scaled to its own.
    If the result has no bounds, the axis spans the range of all values.

    Args:
        result: result of a run.
        ax: matplotlib axes; default: new axes, whose width depends on the number of dimensions.
        order: dimensions to show, by number, such as `[2, 0, 1]`, or with names, such as
            `[(0, "shoulder"), (1, "elbow")]`. Default: all.
        values: array `(n,)` to colour and sort by instead of the fitness; tasks without a finite value are left out.
        label: label of the colour bar.
        cmap: a matplotlib colour map.
        linewidth: line width in points; default: narrower the more lines there are.
        alpha: opacity; default: lower the more lines there are.
        vmin: lower limit of the colours; default: the lowest value, or the 2 % quantile if outliers below it would take
            more than half of the range.
        vmax: upper limit of the colours; default: the highest value.
        cbar: "auto" for a colour bar beside the plot, None for no colour bar, or matplotlib axes to draw it on.
        cbar_kwargs: options for matplotlib's `Figure.colorbar`.
        rasterized: whether to draw the lines as pixels in vector formats such as PDF.

    Returns:
        The axes.

    Raises:
        ValueError, TypeError: if an argument does not fit the result.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> import taskelites as te
        >>> result = te.solve(te.domain("arm", tasks=300), evaluations=10_000)
        >>> ax = te.show.parallel_coordinates(result)
        >>> len(ax.collections[0].get_segments()), ax.get_xlabel()
        (300, 'dimension of the solution')
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection

    if not isinstance(result, Result):
        raise InvalidTypeError(f"result must be a Result, not {type(result).__name__}")
    check_cbar(cbar)
    columns, names = _select_dimensions(result, order)
    lines, colours = _sorted_lines(result, values)
    lower, upper = _bounds(result, lines)
    lower, upper = lower[columns], upper[columns]
    shared = len(np.unique(lower)) == len(np.unique(upper)) == 1
    drawn_as = lines[:, columns] if shared else (lines[:, columns] - lower) / np.where(upper > lower, upper - lower, 1)
    ax = axes_or_new(ax, (float(np.clip(2.2 + 0.25 * len(columns), 6.4, 13)), 4.0))
    vmin, vmax = _colour_limits(colours, vmin, vmax)
    default_width, default_alpha = _line_style(len(lines))
    drawn = LineCollection(
        list(_segments(drawn_as)),
        array=colours,
        cmap=cmap,
        linewidths=default_width if linewidth is None else linewidth,
        alpha=default_alpha if alpha is None else alpha,
        rasterized=rasterized,
    )
    drawn.set_clim(vmin, vmax)
    ax.add_collection(drawn, autolim=False)
    _label_axes(ax, names, lower, upper, shared=shared)
    # A colour bar made from the lines would inherit their opacity.
    bar = ScalarMappable(norm=drawn.norm, cmap=drawn.get_cmap())
    below = len(colours) > 0 and vmin is not None and vmin > colours[0]
    add_cbar(bar, ax, cbar, cbar_kwargs, label=label, extend="min" if below else "neither")
    return ax


def distribution(
    result: Result,
    ax: Any = None,
    *,
    bins: Any = None,
    color: Any = COLOURS[0],
    vmin: float | None = None,
    vmax: float | None = None,
) -> Any:
    """Draw a histogram of the fitness of the solved tasks, with its mean and median.

    Args:
        result: result of a run.
        ax: matplotlib axes; default: new axes.
        bins: as for matplotlib's `hist`; default: the square root of the number of solved tasks, from 5 to 60.
        color: colour of the bars.
        vmin: lower limit of the bins; default: the lowest fitness.
        vmax: upper limit of the bins; default: the highest fitness.

    Returns:
        The axes.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> import taskelites as te
        >>> result = te.solve(te.domain("arm", tasks=300), evaluations=10_000)
        >>> te.show.distribution(result).get_ylabel()
        'tasks'
    """
    if not isinstance(result, Result):
        raise InvalidTypeError(f"result must be a Result, not {type(result).__name__}")
    fitness = result.fitness[result.solved].astype(float)
    ax = axes_or_new(ax)
    title = "" if len(fitness) == len(result) else f"{len(fitness):,} of {counted(len(result), 'task')} solved"
    ax.set(xlabel="fitness", ylabel="tasks")
    ax.set_title(title, fontsize="small")
    if len(fitness) == 0:
        return ax
    low, high = fitness.min() if vmin is None else vmin, fitness.max() if vmax is None else vmax
    number = int(np.clip(np.sqrt(len(fitness)), 5, 60)) if bins is None else bins
    ax.hist(fitness, bins=number, range=(low, high), color=color, alpha=0.75)
    for name, value, line in (("mean", fitness.mean(), "-"), ("median", np.median(fitness), "--")):
        ax.axvline(value, color="black", linestyle=line, linewidth=1.2, label=f"{name} {value:.4g}")
    ax.legend(fontsize="small")
    return ax


def _select_dimensions(result: Result, order: Any) -> tuple[np.ndarray, list[str]]:
    """Return the columns of the solutions to draw, and their names."""
    dim = result.solutions.shape[1]
    if order is None:
        return np.arange(dim), [str(i) for i in range(dim)]
    if isinstance(order, str) or not isinstance(order, Sequence | np.ndarray) or len(order) == 0:
        raise InvalidTypeError(f"order must be a list of dimensions or of (dimension, name) pairs, not {order!r}")
    pairs = [entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, None) for entry in order]
    columns = [whole_number(f"order[{i}]", number, least=0, most=dim - 1) for i, (number, _) in enumerate(pairs)]
    return np.array(columns), [str(number) if name is None else str(name) for number, name in pairs]


def _sorted_lines(result: Result, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the solutions `(lines, dim)` to draw and the values `(lines,)` to colour them by, in ascending order."""
    colours = np.asarray(result.fitness if values is None else values, dtype=float)
    if colours.shape != (len(result),):
        raise InvalidValueError(f"values must have shape ({len(result)},), one number per task, not {colours.shape}")
    known = np.flatnonzero(result.solved & np.isfinite(colours))
    rows = known[np.argsort(colours[known], kind="stable")]
    return result.solutions[rows].astype(float), colours[rows]


def _bounds(result: Result, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper bounds `(dim,)` of the run or, if unknown, the range of all solutions."""
    lower, upper = result.bounds.T
    if "bounds" in result.settings or len(lines) == 0:
        return lower, upper
    return np.full_like(lower, lines.min()), np.full_like(upper, lines.max())


def _colour_limits(colours: np.ndarray, vmin: float | None, vmax: float | None) -> tuple[float | None, float | None]:
    """Return the limits of the colours.

    The lower limit is clipped where it is an outlier, since all other lines would have nearly the same colour.
    """
    if len(colours) == 0:
        return vmin, vmax
    low, few, high = colours[0], float(np.quantile(colours, 0.02)), colours[-1]
    if vmin is None:
        vmin = few if few - low > high - few else low
    return vmin, high if vmax is None else vmax


def _segments(lines: np.ndarray) -> np.ndarray:
    """Return polylines `(lines, points, 2)` over the dimensions.

    With a single dimension, each becomes a short horizontal line.
    """
    places = np.arange(lines.shape[1], dtype=float)
    if len(places) == 1:
        places, lines = np.array([-0.1, 0.1]), np.repeat(lines, 2, axis=1)
    return np.stack([np.broadcast_to(places, lines.shape), lines], axis=2)


def _line_style(number: int) -> tuple[float, float]:
    """Return a line width in points and an opacity at which `number` lines are neither a solid block nor invisible."""
    return float(np.clip(12 / np.sqrt(max(number, 1)), 0.35, 1.5)), float(np.clip(100 / max(number, 1), 0.25, 0.9))


def _label_axes(ax: Any, names: list[str], lower: np.ndarray, upper: np.ndarray, *, shared: bool) -> None:
    """Set the limits and labels of the axes, and draw one vertical axis per dimension."""
    number = len(names)
    places = np.arange(number)
    ax.vlines(places, 0, 1, transform=ax.get_xaxis_transform(), color="0.6", linewidth=0.6, zorder=0)
    ax.set_xlim(-0.2, number - 0.8)
    rotated = max(map(len, names)) > _MAX_UPRIGHT_NAME and number > 6
    ax.set_xticks(places, names, fontsize="small" if number > 20 else "medium", rotation=90 if rotated else 0)
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel("dimension of the solution")
    for side in ("top", "right", "bottom"):
        ax.spines[side].set_visible(False)
    if shared:
        low, high = lower[0], upper[0]
        margin = 0 if high > low else 0.5
        ax.set_ylim(low - margin, high + margin)
        ax.set_ylabel("value")
        return
    ax.set_ylim(0, 1)
    ax.set_ylabel("value between its bounds")
    ax.set_yticks([0, 1], ["lower", "upper"])
    if number <= _MAX_LABELLED_BOUNDS:
        ax.tick_params(axis="x", pad=18)  # room for the lower bounds above the tick labels
        for i in places:
            style: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "ha": "center", "fontsize": "small"}
            ax.text(i, 1.01, f"{upper[i]:.3g}", va="bottom", **style)
            ax.text(i, -0.01, f"{lower[i]:.3g}", va="top", **style)
