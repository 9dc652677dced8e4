"""The elites of all tasks in one picture: their solutions, and how their fitness is distributed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError, whole_number
from taskelites.results.result import Result, counted
from taskelites.show.canvas import add_cbar, axes_or_new, check_cbar
from taskelites.show.comparison_plots import COLOURS

# Dimensions, up to which the bounds are written at each axis where they differ.
_MOST_WRITTEN = 16
# Letters, beyond which names of dimensions are turned.
_SHORT_NAME = 4


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
    """Draw the solution of each task as a line over its dimensions, coloured by fitness, the best drawn last.

    The height is the value between the bounds of the run. Where dimensions have bounds of their own, each is drawn from
    its lower to its upper one; for a result that does not know its bounds, from the least to the greatest value.
    Unsolved tasks have no line.

    Args:
        result: of a run.
        ax: matplotlib axes; new ones by default, wider for more dimensions.
        order: the dimensions to show, by number, such as `[2, 0, 1]`; with names, `[(0, "shoulder"), (1, "elbow")]`.
            All of them by default.
        values: `(n,)`, to colour and sort by something else; a line without a finite value is left out.
        label: of the colour bar.
        cmap: a matplotlib colour map.
        linewidth: in points; by default thinner for more lines.
        alpha: opacity; by default less for more lines.
        vmin: the value of the first colour; by default the 2 % quantile of the values where a few far ones would take
            most of the colours, and else the lowest.
        vmax: that of the last; the highest by default.
        cbar: "auto" for a colour bar beside the plot, None for none, or matplotlib axes to draw it on.
        cbar_kwargs: for matplotlib's `Figure.colorbar`.
        rasterized: whether the lines are pixels in a vector format such as PDF.

    Returns:
        The axes.

    Raises:
        ValueError, TypeError: for arguments that do not fit the result.

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
    columns, names = _dimensions(result, order)
    lines, heights = _sorted_lines(result, values)
    lower, upper = _bounds(result, lines)
    lower, upper = lower[columns], upper[columns]
    shared = len(np.unique(lower)) == len(np.unique(upper)) == 1
    drawn_as = lines[:, columns] if shared else (lines[:, columns] - lower) / np.where(upper > lower, upper - lower, 1)
    ax = axes_or_new(ax, (float(np.clip(2.2 + 0.25 * len(columns), 6.4, 13)), 4.0))
    vmin, vmax = _limits(heights, vmin, vmax)
    thin, faint = _style(len(lines))
    drawn = LineCollection(
        list(_segments(drawn_as)),
        array=heights,
        cmap=cmap,
        linewidths=thin if linewidth is None else linewidth,
        alpha=faint if alpha is None else alpha,
        rasterized=rasterized,
    )
    drawn.set_clim(vmin, vmax)
    ax.add_collection(drawn, autolim=False)
    _dress(ax, names, lower, upper, shared=shared)
    # With the opacity of the lines its colours would be those of none of them.
    bar = ScalarMappable(norm=drawn.norm, cmap=drawn.get_cmap())
    below = len(heights) > 0 and vmin is not None and vmin > heights[0]
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
        result: of a run.
        ax: matplotlib axes; new ones by default.
        bins: as matplotlib's `hist` takes it; by default about as many as the root of the number of tasks, at most 60.
        color: of the bars.
        vmin: where the bars begin; the lowest fitness by default.
        vmax: where they end; the highest by default.

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


def _dimensions(result: Result, order: Any) -> tuple[np.ndarray, list[str]]:
    """Which columns of the solutions to draw, and what to call them."""
    dim = result.solutions.shape[1]
    if order is None:
        return np.arange(dim), [str(i) for i in range(dim)]
    if isinstance(order, str) or not isinstance(order, Sequence | np.ndarray) or len(order) == 0:
        raise InvalidTypeError(f"order must be a list of dimensions, or of pairs of dimension and name, not {order!r}")
    pairs = [entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, None) for entry in order]
    columns = [whole_number(f"order[{i}]", number, least=0, most=dim - 1) for i, (number, _) in enumerate(pairs)]
    return np.array(columns), [str(number) if name is None else str(name) for number, name in pairs]


def _sorted_lines(result: Result, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """The solutions to draw and what colours them, the highest last."""
    heights = np.asarray(result.fitness if values is None else values, dtype=float)
    if heights.shape != (len(result),):
        raise InvalidValueError(
            f"values must hold one number for each of the {len(result)} tasks, not shape {heights.shape}"
        )
    known = np.flatnonzero(result.solved & np.isfinite(heights))
    rows = known[np.argsort(heights[known], kind="stable")]
    return result.solutions[rows].astype(float), heights[rows]


def _bounds(result: Result, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each dimension: those of the run, or else those that all solutions together have."""
    lower, upper = result.bounds.T
    if "bounds" in result.settings or len(lines) == 0:
        return lower, upper
    return np.full_like(lower, lines.min()), np.full_like(upper, lines.max())


def _limits(heights: np.ndarray, vmin: float | None, vmax: float | None) -> tuple[float | None, float | None]:
    """Of the colours. A few far below the others would leave one colour to all of these."""
    if len(heights) == 0:
        return vmin, vmax
    low, few, high = heights[0], float(np.quantile(heights, 0.02)), heights[-1]
    if vmin is None:
        vmin = few if few - low > high - few else low
    return vmin, high if vmax is None else vmax


def _segments(lines: np.ndarray) -> np.ndarray:
    """Lines over the numbers of their dimensions, `(lines, points, 2)`; over a single one, a short level line each."""
    places = np.arange(lines.shape[1], dtype=float)
    if len(places) == 1:
        places, lines = np.array([-0.1, 0.1]), np.repeat(lines, 2, axis=1)
    return np.stack([np.broadcast_to(places, lines.shape), lines], axis=2)


def _style(number: int) -> tuple[float, float]:
    """Width and opacity of so many lines: as much ink for thousands as for a hundred, but none too faint to be seen."""
    return float(np.clip(12 / np.sqrt(max(number, 1)), 0.35, 1.5)), float(np.clip(100 / max(number, 1), 0.25, 0.9))


def _dress(ax: Any, names: list[str], lower: np.ndarray, upper: np.ndarray, *, shared: bool) -> None:
    """Limits, an axis for each dimension, and what they are called."""
    number = len(names)
    places = np.arange(number)
    ax.vlines(places, 0, 1, transform=ax.get_xaxis_transform(), color="0.6", linewidth=0.6, zorder=0)
    ax.set_xlim(-0.2, number - 0.8)
    long = max(map(len, names)) > _SHORT_NAME and number > 6
    ax.set_xticks(places, names, fontsize="small" if number > 20 else "medium", rotation=90 if long else 0)
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel("dimension of the solution")
    for side in ("top", "right", "bottom"):
        ax.spines[side].set_visible(False)
    if shared:
        low, high = lower[0], upper[0]
        room = 0 if high > low else 0.5
        ax.set_ylim(low - room, high + room)
        ax.set_ylabel("value")
        return
    ax.set_ylim(0, 1)
    ax.set_ylabel("value between its bounds")
    ax.set_yticks([0, 1], ["lower", "upper"])
    if number <= _MOST_WRITTEN:
        ax.tick_params(axis="x", pad=18)  # the lower bounds stand between
        for i in places:
            beside: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "ha": "center", "fontsize": "small"}
            ax.text(i, 1.01, f"{upper[i]:.3g}", va="bottom", **beside)
            ax.text(i, -0.01, f"{lower[i]:.3g}", va="top", **beside)
