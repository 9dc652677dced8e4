"""Plots of a comparison: curves over evaluations, and final values."""

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError, counted
from taskelites.show.canvas import axes_or_new, check_pair

if TYPE_CHECKING:
    from taskelites.experiments import Comparison

# The palette of Okabe and Ito, which is safe for colour-blind readers, without its yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
_LINE_STYLES = ("-", "--", ":")
# Characters per line of a label.
_LABEL_WIDTH = 30


def colour_of(index: int) -> tuple[str, str]:
    """Return the colour and line style of the algorithm at `index`; the first 24 are distinct.

    Example:
        >>> colour_of(0), colour_of(8)
        (('#0072B2', '-'), ('#0072B2', '--'))
    """
    return COLOURS[index % len(COLOURS)], _LINE_STYLES[index // len(COLOURS) % len(_LINE_STYLES)]


def draw_medians(
    comparison: "Comparison",
    ax: Any = None,
    *,
    labels: list[str] | None = None,
    measure: str | None = None,
    colours: Sequence[Any] | None = None,
    xscale: str = "log",
) -> Any:
    """Draw the median and interquartile range over replicates against evaluations; arguments as for `show.curves`."""
    chosen = _check_labels(comparison, labels)
    transform, name = _transform_and_name(comparison, measure)
    ax = axes_or_new(ax)
    lines: list[Any] = []
    for i, label in enumerate(chosen):
        evaluations, values = comparison.curves(label)
        low, middle, high = np.quantile(transform(values), [0.25, 0.5, 0.75], axis=0)
        colour, line = colour_of(i) if colours is None else (colours[i], "-")
        # A line through a single point is invisible.
        lines += ax.plot(evaluations, middle, color=colour, linestyle=line, marker="o" if len(middle) == 1 else "")
        ax.fill_between(evaluations, low, high, color=colour, alpha=0.25, linewidth=0)
    ax.set(xlabel="evaluations", ylabel=name)
    if any(np.isfinite(line.get_ydata()).any() for line in lines):  # a logarithmic axis needs data
        ax.set_xscale(xscale)
        if _uses_gap(comparison, measure):
            ax.set_yscale("log")
            format_log_axis(ax.yaxis, ax.get_ylim())
    ax.grid(alpha=0.3)
    ax.legend(lines, [display_label(label) for label in chosen], fontsize="small")
    ax.set_title(f"median and quartiles of {_run_count(comparison)}", fontsize="small")
    return ax


def finals(
    comparison: "Comparison",
    ax: Any = None,
    *,
    labels: list[str] | None = None,
    measure: str | None = None,
    colours: Sequence[Any] | None = None,
) -> Any:
    """Draw the final values of the replicates as box plots, with one point per run.

    Args:
        comparison: result of `te.compare`.
        ax: matplotlib axes; default: new axes.
        labels: labels of the algorithms to show; default: all.
        measure: as for `curves`.
        colours: one colour per label.

    Returns:
        The axes.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> import taskelites as te
        >>> arm = te.domain("arm", tasks=200)
        >>> found = te.compare(arm, algorithms=["mt-map-elites", "random"], replicates=3, evaluations=5000)
        >>> [tick.get_text() for tick in te.show.finals(found).get_yticklabels()]
        ['mt-map-elites', 'random']
    """
    chosen = _check_labels(comparison, labels)
    transform, name = _transform_and_name(comparison, measure)
    ax = axes_or_new(ax)
    runs = comparison.replicates()
    values = [transform(runs.loc[runs["algorithm"] == label, "mean_all"].to_numpy()) for label in chosen]
    names = [display_label(label) for label in chosen]
    boxes = ax.boxplot(
        values, orientation="horizontal", widths=0.6, patch_artist=True, showfliers=False, tick_labels=names
    )
    for i, own in enumerate(values):
        colour = colour_of(i)[0] if colours is None else colours[i]
        boxes["boxes"][i].set(facecolor=colour, alpha=0.35)
        boxes["medians"][i].set(color="black")
        # Points are spread evenly across the box so that equal values can be counted.
        height = i + 1 + (np.linspace(-0.2, 0.2, len(own)) if len(own) > 1 else np.zeros(1))
        ax.plot(own, height, "o", color=colour, markersize=2.5, alpha=0.8)
    ax.invert_yaxis()
    ax.set(xlabel=f"{name}\nafter {comparison.budget:,} evaluations")
    if _uses_gap(comparison, measure) and any(np.isfinite(own).any() for own in values):
        ax.set_xscale("log")
        format_log_axis(ax.xaxis, ax.get_xlim())
    ax.grid(axis="x", alpha=0.3)
    return ax


def comparison(comparison: "Comparison", ax: Any = None, *, measure: str | None = None) -> np.ndarray:
    """Draw curves and final values side by side.

    Args:
        comparison: result of `te.compare`.
        ax: a pair of matplotlib axes, such as `plt.subplots(1, 2)[1]`; default: new axes.
        measure: as for `curves`.

    Returns:
        An array `(2,)` of axes: curves, final values.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> import taskelites as te
        >>> arm = te.domain("arm", tasks=200)
        >>> found = te.compare(arm, algorithms=["mt-map-elites", "random"], replicates=3, evaluations=5000)
        >>> left, right = te.show.comparison(found)
        >>> left.get_xlabel()
        'evaluations'
    """
    _check_labels(comparison, None)
    _uses_gap(comparison, measure)
    pair = _side_by_side_axes(len(comparison.labels)) if ax is None else check_pair(ax)
    draw_medians(comparison, pair[0], measure=measure)
    finals(comparison, pair[1], measure=measure)
    return pair


def _side_by_side_axes(number: int) -> np.ndarray:
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, max(4.2, 1.6 + 0.4 * number)), layout="constrained")
    pair: np.ndarray = figure.subplots(1, 2, width_ratios=[1.3, 1])
    return pair


def display_label(label: str) -> str:
    """Return a label for a plot, with long lines broken and dollar signs escaped."""
    return fill(label, _LABEL_WIDTH).replace("$", r"\$")


def format_log_axis(axis: Any, limits: tuple[float, float]) -> None:
    """Use a few plain tick labels on a logarithmic axis that spans less than a decade.

    Powers of ten would overlap or be absent there.

    Args:
        axis: a matplotlib axis, such as `ax.xaxis`.
        limits: its limits, in either order.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    low, high = sorted(limits)
    if high < 10 * low:
        axis.set_major_locator(MaxNLocator(4))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}"))
        axis.set_minor_formatter(NullFormatter())


def _run_count(comparison: "Comparison") -> str:
    numbers = sorted({len(results) for results in comparison.results.values()})
    least, most = numbers[0], counted(numbers[-1], "run")
    return most if len(numbers) == 1 else f"{least} to {most}"


def _check_labels(comparison: "Comparison", labels: list[str] | None) -> list[str]:
    if not hasattr(comparison, "labels"):
        kind = type(comparison).__name__
        raise InvalidTypeError(f"comparison must be the result of te.compare, not {kind}; use result.plot() for a run")
    if labels is None:
        return comparison.labels
    unknown = [label for label in labels if label not in comparison.labels]
    if unknown:
        raise InvalidValueError(f"labels must be among {', '.join(comparison.labels)}, not {unknown[0]!r}")
    return labels


def _uses_gap(comparison: "Comparison", measure: str | None) -> bool:
    """Return whether to draw the gap to the optimum rather than the mean fitness."""
    known = comparison.optimum is not None
    if measure == "gap" and not known:
        raise InvalidValueError(
            "measure 'gap' needs the optimum of each task, which this domain does not give; use 'mean_all'"
        )
    if measure not in (None, "gap", "mean_all"):
        raise InvalidValueError(f"measure must be 'gap' or 'mean_all', not {measure!r}")
    return known if measure is None else measure == "gap"


def _transform_and_name(comparison: "Comparison", measure: str | None) -> tuple[Any, str]:
    """Return the function to apply to the mean over all tasks, and the axis label."""
    if comparison.optimum is None or not _uses_gap(comparison, measure):
        return lambda values: values, "mean fitness over all tasks"
    best = float(comparison.optimum.mean())
    # Rounding can make the gap zero or negative, which a logarithmic axis cannot show.
    return lambda values: np.maximum(best - values, 1e-9), "mean gap to the optimum"
