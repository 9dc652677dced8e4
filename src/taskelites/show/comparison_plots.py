"""Plots of a comparison: curves over evaluations, and final values."""

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError
from taskelites.results.result import counted
from taskelites.show.canvas import axes_or_new, given_pair

if TYPE_CHECKING:
    from taskelites.experiments import Comparison

# Okabe and Ito's colours, which the colour-blind can tell apart, the yellow left out since it is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
_LINES = ("-", "--", ":")
# Letters, after which a label is broken.
_LABEL_WIDTH = 30


def colour_of(index: int) -> tuple[str, str]:
    """The colour and the kind of line of the i-th algorithm shown; no two alike up to 24.

    Example:
        >>> colour_of(0), colour_of(8)
        (('#0072B2', '-'), ('#0072B2', '--'))
    """
    return COLOURS[index % len(COLOURS)], _LINES[index // len(COLOURS) % len(_LINES)]


def draw_medians(
    comparison: "Comparison",
    ax: Any = None,
    *,
    labels: list[str] | None = None,
    measure: str | None = None,
    colours: Sequence[Any] | None = None,
    xscale: str = "log",
) -> Any:
    """Draw the median of the replicates over evaluations, and the interquartile range as a band (see `show.curves`)."""
    chosen = _chosen(comparison, labels)
    transform, name = _measure(comparison, measure)
    ax = axes_or_new(ax)
    lines: list[Any] = []
    for i, label in enumerate(chosen):
        evaluations, values = comparison.curves(label)
        low, middle, high = np.quantile(transform(values), [0.25, 0.5, 0.75], axis=0)
        colour, line = colour_of(i) if colours is None else (colours[i], "-")
        # A curve of one point would not be seen.
        lines += ax.plot(evaluations, middle, color=colour, linestyle=line, marker="o" if len(middle) == 1 else "")
        ax.fill_between(evaluations, low, high, color=colour, alpha=0.25, linewidth=0)
    ax.set(xlabel="evaluations", ylabel=name)
    if any(np.isfinite(line.get_ydata()).any() for line in lines):  # nothing has no place on a logarithmic axis
        ax.set_xscale(xscale)
        if _is_gap(comparison, measure):
            ax.set_yscale("log")
            tidy_log(ax.yaxis, ax.get_ylim())
    ax.grid(alpha=0.3)
    ax.legend(lines, [shown(label) for label in chosen], fontsize="small")
    ax.set_title(f"median and quartiles of {_runs(comparison)}", fontsize="small")
    return ax


def finals(
    comparison: "Comparison",
    ax: Any = None,
    *,
    labels: list[str] | None = None,
    measure: str | None = None,
    colours: Sequence[Any] | None = None,
) -> Any:
    """Draw the final values of the replicates as boxes, each run a point.

    Args:
        comparison: what `te.compare` gave.
        ax: matplotlib axes; new ones by default.
        labels: of the algorithms to show, as for `curves`.
        measure: as for `curves`.
        colours: one for each of the labels.

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
    chosen = _chosen(comparison, labels)
    transform, name = _measure(comparison, measure)
    ax = axes_or_new(ax)
    runs = comparison.replicates()
    values = [transform(runs.loc[runs["algorithm"] == label, "mean_all"].to_numpy()) for label in chosen]
    names = [shown(label) for label in chosen]
    boxes = ax.boxplot(
        values, orientation="horizontal", widths=0.6, patch_artist=True, showfliers=False, tick_labels=names
    )
    for i, own in enumerate(values):
        colour = colour_of(i)[0] if colours is None else colours[i]
        boxes["boxes"][i].set(facecolor=colour, alpha=0.35)
        boxes["medians"][i].set(color="black")
        # Spread evenly, so that equal values can be counted.
        height = i + 1 + (np.linspace(-0.2, 0.2, len(own)) if len(own) > 1 else np.zeros(1))
        ax.plot(own, height, "o", color=colour, markersize=2.5, alpha=0.8)
    ax.invert_yaxis()
    ax.set(xlabel=f"{name}\nafter {comparison.budget:,} evaluations")
    if _is_gap(comparison, measure) and any(np.isfinite(own).any() for own in values):
        ax.set_xscale("log")
        tidy_log(ax.xaxis, ax.get_xlim())
    ax.grid(axis="x", alpha=0.3)
    return ax


def comparison(comparison: "Comparison", ax: Any = None, *, measure: str | None = None) -> np.ndarray:
    """Draw curves and final values side by side.

    Args:
        comparison: what `te.compare` gave.
        ax: a pair of matplotlib axes, such as `plt.subplots(1, 2)[1]`; new ones by default.
        measure: as for `curves`.

    Returns:
        The pair of axes: that of the curves, that of the final values.

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
    _chosen(comparison, None)
    _is_gap(comparison, measure)
    pair = _new_pair(len(comparison.labels)) if ax is None else given_pair(ax)
    draw_medians(comparison, pair[0], measure=measure)
    finals(comparison, pair[1], measure=measure)
    return pair


def _new_pair(number: int) -> np.ndarray:
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, max(4.2, 1.6 + 0.4 * number)), layout="constrained")
    pair: np.ndarray = figure.subplots(1, 2, width_ratios=[1.3, 1])
    return pair


def shown(label: str) -> str:
    """A label as a picture shows it: broken where it is long, and no formula."""
    return fill(label, _LABEL_WIDTH).replace("$", r"\$")


def tidy_log(axis: Any, limits: tuple[float, float]) -> None:
    """On a logarithmic axis of less than a decade, a few plain numbers: powers of ten would overlap, or be missing."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    low, high = sorted(limits)
    if high < 10 * low:
        axis.set_major_locator(MaxNLocator(4))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}"))
        axis.set_minor_formatter(NullFormatter())


def _runs(comparison: "Comparison") -> str:
    numbers = sorted({len(results) for results in comparison.results.values()})
    least, most = numbers[0], counted(numbers[-1], "run")
    return most if len(numbers) == 1 else f"{least} to {most}"


def _chosen(comparison: "Comparison", labels: list[str] | None) -> list[str]:
    if not hasattr(comparison, "labels"):
        kind = type(comparison).__name__
        raise InvalidTypeError(f"comparison must be what te.compare gives, not {kind}; one run alone has result.plot()")
    if labels is None:
        return comparison.labels
    unknown = [label for label in labels if label not in comparison.labels]
    if unknown:
        raise InvalidValueError(f"labels must be some of {', '.join(comparison.labels)}, not {unknown[0]!r}")
    return labels


def _is_gap(comparison: "Comparison", measure: str | None) -> bool:
    """Whether the gap is drawn."""
    known = comparison.optimum is not None
    if measure == "gap" and not known:
        raise InvalidValueError(
            "measure 'gap' needs the optimum of each task, which this domain does not know; use 'mean_all'"
        )
    if measure not in (None, "gap", "mean_all"):
        raise InvalidValueError(f"measure must be 'gap' or 'mean_all', not {measure!r}")
    return known if measure is None else measure == "gap"


def _measure(comparison: "Comparison", measure: str | None) -> tuple[Any, str]:
    """What is drawn of the mean over all tasks, and its name."""
    if comparison.optimum is None or not _is_gap(comparison, measure):
        return lambda values: values, "mean fitness over all tasks"
    best = float(comparison.optimum.mean())
    # A gap of nothing, or less by rounding, has no place on a logarithmic axis.
    return lambda values: np.maximum(best - values, 1e-9), "mean gap to the optimum"
