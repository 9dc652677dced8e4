"""Plots over evaluations: fitness, coverage and the choices of the bandit."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from taskelites.core import metrics
from taskelites.errors import InvalidTypeError, InvalidValueError, one_of
from taskelites.results.result import Result
from taskelites.show.canvas import axes_or_new, check_pair
from taskelites.show.comparison_plots import COLOURS, colour_of, display_label, draw_medians, format_log_axis
from taskelites.show.history import bandit_arms, bandit_table, bandit_title

if TYPE_CHECKING:
    from taskelites.experiments import Comparison

_COVERAGE_COLOUR = "0.45"
# Width of the moving average in the plot of the bandit: a share of the run, and at least this number of logged points.
# Averages over few batches are noisy, since all candidates of a batch share one tournament size.
_WINDOW, _MIN_POINTS = 0.05, 12
# Ratio of success rates above which a linear axis would hide the small ones.
_MAX_LINEAR_RATIO = 20


def curves(
    result: "Result | Sequence[Result] | Mapping[str, Result] | Comparison",
    ax: Any = None,
    *,
    labels: Sequence[str] | None = None,
    measure: str | None = None,
    colours: Sequence[Any] | None = None,
    coverage: bool | None = None,
    xscale: str = "log",
) -> Any:
    """Draw fitness over evaluations.

    The plot depends on the type of `result`:

    - A result: mean and median over the solved tasks, and a band from the 5 % to the 95 % quantile.
    - A list of results: replicates. One thin line per run shows its mean; a thick line shows the median over runs.
    - A dict of label and result: the mean of each result, in its own colour.
    - A comparison: the median over the replicates of each algorithm, with the interquartile range as a band.

    The mean over solved tasks depends on the coverage, which is drawn as a dotted line with its axis on the right,
    unless all tasks are solved at all logged points. A comparison shows means over all tasks and needs no coverage.

    Args:
        result: a result of `te.solve` or `te.load`, a list or dict of results, or a result of `te.compare`.
        ax: matplotlib axes; default: new axes.
        labels: labels to show, in this order, for a comparison or a dict; default: all. For a list of results, one
            label per result, as if it were a dict.
        measure: for a comparison, "gap" (to the optimum, on a logarithmic axis) or "mean_all" (mean fitness over all
            tasks, where an unsolved task counts as the worst fitness). Default: "gap" if the optimum is known.
        colours: one colour per line.
        coverage: whether to draw the coverage of results; default: if some logged point has unsolved tasks.
        xscale: "log" or "linear".

    Returns:
        The axes. The axes of the coverage are the last ones of the figure.

    Raises:
        ValueError, TypeError: if a result has no history, or an argument is invalid.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> import taskelites as te
        >>> result = te.solve(te.domain("arm", tasks=300), evaluations=10_000)
        >>> [line.get_label() for line in te.show.curves(result).lines]
        ['mean', 'median']
    """
    one_of("xscale", xscale, ["log", "linear"])
    if hasattr(result, "labels"):
        if coverage is not None:
            raise InvalidValueError(
                "coverage must be left out for a comparison, which shows means over all tasks, unsolved ones included"
            )
        chosen, found = None if labels is None else list(labels), cast("Comparison", result)
        return draw_medians(found, ax, labels=chosen, measure=measure, colours=colours, xscale=xscale)
    if measure is not None:
        raise InvalidValueError(
            "measure is for a comparison only; leave it out for results, which show the mean over their solved tasks"
        )
    if isinstance(result, Result):
        _check_history("result", result)
        if labels is not None:
            raise InvalidValueError(
                "labels is for several results only; leave it out, or give a dict of label and result"
            )
        ax = axes_or_new(ax)
        _draw_result(ax, result, colours[0] if colours else COLOURS[0])
        runs, styles = [result], [_COVERAGE_COLOUR]
    else:
        named, runs = _labels_and_results(result, labels)
        ax = axes_or_new(ax)
        styles = _draw_results(ax, named, runs, colours)
    ax.set(xlabel="evaluations", ylabel="fitness of the solved tasks" if _has_unsolved(runs) else "fitness")
    ax.set_xscale(xscale)
    if xscale == "log":
        format_log_axis(ax.xaxis, ax.get_xlim())
    ax.grid(alpha=0.3)
    handles, names = ax.get_legend_handles_labels()
    if _has_unsolved(runs) if coverage is None else coverage:
        more, others = _draw_coverage(ax, runs, styles).get_legend_handles_labels()
        handles, names = handles + more, names + others
    ax.legend(handles, names, fontsize="small")
    return ax


def bandit(result: Result, ax: Any = None) -> np.ndarray:
    """Draw the choices of the bandit and their success: ways of `auto`, or tournament sizes of `mt-map-elites`.

    The upper panel shows the share of candidates per choice, stacked. The lower panel shows the success rate: the share
    of the candidates of a choice that became elites. Both are moving averages over 5 % of the run, in short runs over
    twelve logged points. `show.history.bandit_table` returns the numbers.

    Args:
        result: result of `auto`, or of `mt-map-elites` with several tournament sizes.
        ax: a pair of matplotlib axes, such as `plt.subplots(2, 1)[1]`; default: new axes.

    Returns:
        An array `(2,)` of axes: shares, success rates.

    Raises:
        ValueError: if the run has no bandit.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> import taskelites as te
        >>> result = te.solve(te.domain("arm", tasks=300), evaluations=10_000, algorithm="mt-map-elites")
        >>> upper, lower = te.show.bandit(result)
        >>> [text.get_text() for text in upper.get_legend().get_texts()]
        ['500', '100', '50', '10', '1']
    """
    _check_bandit(result)
    window = max(_WINDOW, min(_MIN_POINTS / len(result.history["evaluations"]), 1.0))
    evaluations, arms, shares, rates = bandit_table(result.history, window=window)
    # Rows are NaN only before the first choice, while solutions are random.
    used = np.isfinite(shares[:, 0])
    if not used.any():
        raise InvalidValueError(
            "result must have choices of its bandit, but the run ended before the first one; give it more evaluations"
        )
    upper, lower = pair = _stacked_axes() if ax is None else check_pair(ax)
    first = int(np.flatnonzero(used)[0])
    # Starting at the beginning of the first interval makes a single row visible.
    begin = evaluations[first - 1] if first else 0
    points = np.concatenate([[begin], evaluations[first:]])
    stacked = np.concatenate([shares[first : first + 1], shares[first:]])
    colours = [colour_of(i)[0] for i in range(len(arms))]
    upper.stackplot(points, stacked.T, colors=colours, labels=arms, linewidth=0)
    upper.set(xlim=(points[0], points[-1]), ylim=(0, 1), ylabel="share of candidates")
    _draw_rates(lower, evaluations, arms, rates)
    lower.set(xlim=(points[0], points[-1]), xlabel="evaluations", ylabel="success rate")
    # Reversed, to match the order of the stack.
    handles, names = upper.get_legend_handles_labels()
    title = bandit_title(arms).replace(" ", "\n")
    upper.legend(handles[::-1], names[::-1], title=title, loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    return pair


def _stacked_axes() -> np.ndarray:
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(6.4, 5.2), layout="constrained")
    pair: np.ndarray = figure.subplots(2, 1, sharex=True)
    return pair


def _draw_rates(ax: Any, evaluations: np.ndarray, arms: np.ndarray, rates: np.ndarray) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for i, arm in enumerate(arms):
        colour, line = colour_of(i)
        alone = np.isfinite(rates[:, i]).sum() == 1  # a line through a single point is invisible
        ax.plot(evaluations, rates[:, i], color=colour, linestyle=line, marker="o" if alone else "", label=str(arm))
    positive = rates[rates > 0]
    if len(positive) and positive.max() > _MAX_LINEAR_RATIO * positive.min():
        # Zero rates leave a gap in the line. Rates below a thousandth of the best are not worth more decades.
        ax.set_yscale("log", nonpositive="mask")
        ax.set_ylim(bottom=max(positive.min(), positive.max() / 1000) / 1.5)
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        ax.set_ylim(bottom=0)
    ax.grid(alpha=0.3)


def _check_bandit(result: Any) -> None:
    _check_history("result", result)
    arms = bandit_arms(result.history)
    if len(arms) < 2:
        algorithm = result.settings.get("algorithm", {}).get("name", "its algorithm")
        why = f"{algorithm} had a single choice, {arms[0]}" if arms else f"{algorithm} has no bandit"
        raise InvalidValueError(
            f"result must come from auto, or from mt-map-elites with several tournament sizes; {why}"
        )


def _check_history(name: str, result: Any) -> None:
    if not isinstance(result, Result):
        raise InvalidTypeError(f"{name} must be a Result, not {type(result).__name__}")
    if "coverage" not in result.history or len(result.history["evaluations"]) == 0:
        raise InvalidValueError(
            f"{name} must have a history, but it has none; results of te.solve have one, those of te.Optimizer do not"
        )


def _labels_and_results(results: Any, labels: Sequence[str] | None) -> tuple[list[str] | None, list[Result]]:
    """Return the labels, or None for replicates, and the results."""
    if not isinstance(results, Mapping | list | tuple):
        raise InvalidTypeError(
            f"result must be a Result, a list or dict of Result, or a Comparison, not {type(results).__name__}"
        )
    if len(results) == 0:
        raise InvalidValueError("result must hold at least one Result, but it is empty")
    names: list[Any] | None = None if labels is None else list(labels)
    if isinstance(results, Mapping):
        unknown = [name for name in names or () if name not in results]
        if unknown:
            raise InvalidValueError(f"labels must be among {', '.join(map(str, results))}, not {unknown[0]!r}")
        names = list(results) if names is None else names
        results = [results[name] for name in names]
    if names is not None and len(names) != len(results):
        raise InvalidValueError(f"labels must have one entry per result ({len(results)}), not {len(names)}")
    for i, result in enumerate(results):
        _check_history(f"result[{i if names is None else names[i]!r}]", result)
    return None if names is None else [str(name) for name in names], list(results)


def _has_unsolved(runs: Sequence[Result]) -> bool:
    return any((run.history["coverage"] < 1).any() for run in runs)


def _draw_result(ax: Any, result: Result, colour: Any) -> None:
    history = result.history
    points = history["evaluations"]
    # A line through a single point is invisible.
    marker = "o" if len(points) == 1 else ""
    ax.fill_between(
        *(points, history["q05"], history["q95"]), color=colour, alpha=0.2, linewidth=0, label="5 to 95 % of tasks"
    )
    ax.plot(points, history["mean"], color=colour, linewidth=2, marker=marker, label="mean")
    ax.plot(points, history["median"], color=colour, linestyle="--", marker=marker, label="median")


def _draw_results(ax: Any, names: list[str] | None, runs: list[Result], colours: Sequence[Any] | None) -> list[Any]:
    """Draw one line per result, and for replicates their median. Return the colours of the coverage.

    Args:
        ax: matplotlib axes.
        names: one label per result, or None for replicates.
        runs: results.
        colours: one colour per result, or None.
    """
    if colours is not None and len(colours) != len(runs):
        raise InvalidValueError(f"colours must have one entry per result ({len(runs)}), not {len(colours)}")
    for i, run in enumerate(runs):
        colour, line = colour_of(i if names is not None else 0) if colours is None else (colours[i], "-")
        points, values = run.history["evaluations"], run.history["mean"]
        marker = "o" if len(points) == 1 else ""
        if names is not None:
            ax.plot(points, values, color=colour, linestyle=line, marker=marker, label=display_label(names[i]))
        else:
            label = "each run" if i == 0 else None
            ax.plot(points, values, color=colour, linewidth=0.8, alpha=0.6, marker=marker, label=label)
    if names is None and len(runs) > 1:
        points = np.unique(np.concatenate([run.history["evaluations"] for run in runs]))
        means = [
            metrics.held(run.history["evaluations"], run.history["mean"], at=points, before=np.nan) for run in runs
        ]
        marker = "o" if len(points) == 1 else ""
        label = f"median of {len(runs)} runs"
        ax.plot(points, np.median(means, axis=0), color="black", linewidth=2, marker=marker, label=label)
    if colours is not None:
        return list(colours)
    return [_COVERAGE_COLOUR] * len(runs) if names is None else [colour_of(i)[0] for i in range(len(runs))]


def _draw_coverage(ax: Any, runs: Sequence[Result], colours: Sequence[Any]) -> Any:
    """Draw the coverage as dotted lines on new axes with their scale on the right, and return these axes."""
    from matplotlib.ticker import PercentFormatter

    right = ax.twinx()
    for i, (run, colour) in enumerate(zip(runs, colours, strict=True)):
        points = run.history["evaluations"]
        label = "coverage (right)" if i == 0 else None
        marker = "." if len(points) == 1 else ""
        style: dict[str, Any] = {"linewidth": 1.2, "linestyle": ":", "marker": marker, "label": label}
        right.plot(points, run.history["coverage"], color=colour, **style)
    right.set_ylim(0, 1.02)
    right.set_ylabel("coverage", color=_COVERAGE_COLOUR)
    right.yaxis.set_major_formatter(PercentFormatter(1))
    right.tick_params(colors=_COVERAGE_COLOUR)
    # The fitness must be drawn over the coverage, so its axes come to the front with a transparent background.
    ax.set_zorder(right.get_zorder() + 1)
    ax.patch.set_visible(False)
    return right
