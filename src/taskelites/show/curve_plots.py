"""How runs went: fitness and coverage over evaluations, and what the bandit chose."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from taskelites.core import metrics
from taskelites.errors import InvalidTypeError, InvalidValueError, one_of
from taskelites.results.result import Result
from taskelites.show.canvas import axes_or_new, given_pair
from taskelites.show.comparison_plots import COLOURS, colour_of, draw_medians, shown, tidy_log
from taskelites.show.history import bandit_arms, bandit_table, bandit_title

if TYPE_CHECKING:
    from taskelites.experiments import Comparison

_QUIET = "0.45"
# Each point of the bandit's plot is about this share of the run, and this many logged points at least: a batch has one
# size, so a few batches alone say little.
_WINDOW, _LEAST_POINTS = 0.05, 12
# Success rates that differ by more than this many times are not seen on a linear axis.
_MANY_TIMES = 20


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
    """Draw the fitness over evaluations.

    Of one result: mean and median over the solved tasks, and a band in which nine in ten of them are. Of a list of
    results, which are taken as replicates: the mean of each as a thin line, and their median. Of a dict of labels and
    results: the mean of each in a colour of its own. Of a comparison: the median of the replicates of each algorithm,
    and the interquartile range as a band.

    A mean over solved tasks says little without the coverage, which is drawn dotted, with an axis on the right, unless
    all tasks were solved at all logged points. A comparison needs none: it draws means over all tasks.

    Args:
        result: of `te.solve` or `te.load`, several of them, or what `te.compare` gave.
        ax: matplotlib axes; new ones by default.
        labels: of the algorithms of a comparison, or the results of a dict, to show, in their order; all by default.
            For a list of results, a label each, as if it were a dict.
        measure: of a comparison: "gap" (to the optimum, on a logarithmic axis) or "mean_all" (the mean fitness over all
            tasks, an unsolved one counting as the worst); by default the gap, where the optimum is known.
        colours: one for each line.
        coverage: whether to draw it, for results; by default, if some logged point has unsolved tasks.
        xscale: "log" or "linear".

    Returns:
        The axes. Those of the coverage are the last of its figure.

    Raises:
        ValueError, TypeError: for results without a history, and for arguments that do not fit.

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
                "coverage is for results; a comparison draws means over all tasks, unsolved ones included"
            )
        chosen, found = None if labels is None else list(labels), cast("Comparison", result)
        return draw_medians(found, ax, labels=chosen, measure=measure, colours=colours, xscale=xscale)
    if measure is not None:
        raise InvalidValueError("measure is for a comparison; results show the mean over their solved tasks")
    if isinstance(result, Result):
        _check_history("result", result)
        if labels is not None:
            raise InvalidValueError("labels is for several results; leave it out, or give a dict of label and result")
        ax = axes_or_new(ax)
        _draw_one(ax, result, colours[0] if colours else COLOURS[0])
        runs, styles = [result], [_QUIET]
    else:
        named, runs = _several(result, labels)
        ax = axes_or_new(ax)
        styles = _draw_several(ax, named, runs, colours)
    ax.set(xlabel="evaluations", ylabel="fitness of the solved tasks" if _unsolved(runs) else "fitness")
    ax.set_xscale(xscale)
    if xscale == "log":
        tidy_log(ax.xaxis, ax.get_xlim())
    ax.grid(alpha=0.3)
    handles, names = ax.get_legend_handles_labels()
    if _unsolved(runs) if coverage is None else coverage:
        more, others = _draw_coverage(ax, runs, styles).get_legend_handles_labels()
        handles, names = handles + more, names + others
    ax.legend(handles, names, fontsize="small")
    return ax


def bandit(result: Result, ax: Any = None) -> np.ndarray:
    """Draw what was chosen while a run went on: ways of `auto`, tournament sizes of `mt-map-elites`; and its success.

    The upper panel has the share of each among the candidates, stacked; the lower one how often a candidate of it
    became an elite. Both are means over a twentieth of the run around each point (of short runs: twelve
    logged points). `show.history.bandit_table` gives the numbers.

    Args:
        result: of a run of `auto`, or of `mt-map-elites` with several tournament sizes.
        ax: a pair of matplotlib axes, such as `plt.subplots(2, 1)[1]`; new ones by default.

    Returns:
        The pair of axes: that of the shares, that of the success rates.

    Raises:
        ValueError: for a run without a bandit.

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
    window = max(_WINDOW, min(_LEAST_POINTS / len(result.history["evaluations"]), 1.0))
    evaluations, arms, shares, rates = bandit_table(result.history, window=window)
    # Only what comes before the first choice holds nothing.
    used = np.isfinite(shares[:, 0])
    if not used.any():
        raise InvalidValueError("result must have choices, and this run ended before its first one: give it more")
    upper, lower = pair = _new_pair() if ax is None else given_pair(ax)
    first = int(np.flatnonzero(used)[0])
    # From where the interval of the first row begins, so that a single row is seen, too.
    begin = evaluations[first - 1] if first else 0
    points = np.concatenate([[begin], evaluations[first:]])
    stacked = np.concatenate([shares[first : first + 1], shares[first:]])
    colours = [colour_of(i)[0] for i in range(len(arms))]
    upper.stackplot(points, stacked.T, colors=colours, labels=arms, linewidth=0)
    upper.set(xlim=(points[0], points[-1]), ylim=(0, 1), ylabel="share of candidates")
    _draw_rates(lower, evaluations, arms, rates)
    lower.set(xlim=(points[0], points[-1]), xlabel="evaluations", ylabel="success rate")
    # As they are stacked, the largest on top.
    handles, names = upper.get_legend_handles_labels()
    title = bandit_title(arms).replace(" ", "\n")
    upper.legend(handles[::-1], names[::-1], title=title, loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    return pair


def _new_pair() -> np.ndarray:
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(6.4, 5.2), layout="constrained")
    pair: np.ndarray = figure.subplots(2, 1, sharex=True)
    return pair


def _draw_rates(ax: Any, evaluations: np.ndarray, arms: np.ndarray, rates: np.ndarray) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for i, arm in enumerate(arms):
        colour, line = colour_of(i)
        alone = np.isfinite(rates[:, i]).sum() == 1  # a line of one point would not be seen
        ax.plot(evaluations, rates[:, i], color=colour, linestyle=line, marker="o" if alone else "", label=str(arm))
    positive = rates[rates > 0]
    if len(positive) and positive.max() > _MANY_TIMES * positive.min():
        # Where nothing succeeded there is a gap; less than a thousandth of the best is as good as nothing.
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
        why = f"{algorithm} had one, {arms[0]}" if arms else f"{algorithm} has none"
        raise InvalidValueError(f"result must be of auto, or of mt-map-elites with several tournament sizes, but {why}")


def _check_history(name: str, result: Any) -> None:
    if not isinstance(result, Result):
        raise InvalidTypeError(f"{name} must be a Result, not {type(result).__name__}")
    if "coverage" not in result.history or len(result.history["evaluations"]) == 0:
        raise InvalidValueError(
            f"{name} must have a history, which te.solve keeps and te.Optimizer does not; this one has none"
        )


def _several(results: Any, labels: Sequence[str] | None) -> tuple[list[str] | None, list[Result]]:
    """Results, and their labels, if they have some."""
    if not isinstance(results, Mapping | list | tuple):
        raise InvalidTypeError(
            f"result must be a Result, a list or dict of them, or what te.compare gives, not {type(results).__name__}"
        )
    if len(results) == 0:
        raise InvalidValueError("result must hold at least one Result, but it is empty")
    names: list[Any] | None = None if labels is None else list(labels)
    if isinstance(results, Mapping):
        unknown = [name for name in names or () if name not in results]
        if unknown:
            raise InvalidValueError(f"labels must be some of {', '.join(map(str, results))}, not {unknown[0]!r}")
        names = list(results) if names is None else names
        results = [results[name] for name in names]
    if names is not None and len(names) != len(results):
        raise InvalidValueError(f"labels must be one for each of the {len(results)} results, not {len(names)}")
    for i, result in enumerate(results):
        _check_history(f"result[{i if names is None else names[i]!r}]", result)
    return None if names is None else [str(name) for name in names], list(results)


def _unsolved(runs: Sequence[Result]) -> bool:
    return any((run.history["coverage"] < 1).any() for run in runs)


def _draw_one(ax: Any, result: Result, colour: Any) -> None:
    history = result.history
    points = history["evaluations"]
    # A curve of one point would not be seen.
    marker = "o" if len(points) == 1 else ""
    ax.fill_between(
        *(points, history["q05"], history["q95"]), color=colour, alpha=0.2, linewidth=0, label="5 to 95 % of tasks"
    )
    ax.plot(points, history["mean"], color=colour, linewidth=2, marker=marker, label="mean")
    ax.plot(points, history["median"], color=colour, linestyle="--", marker=marker, label="median")


def _draw_several(ax: Any, names: list[str] | None, runs: list[Result], colours: Sequence[Any] | None) -> list[Any]:
    """Draw a line each; and if they have no names, which makes them replicates, their median. Returns the colours."""
    if colours is not None and len(colours) != len(runs):
        raise InvalidValueError(f"colours must be one for each of the {len(runs)} results, not {len(colours)}")
    for i, run in enumerate(runs):
        colour, line = colour_of(i if names is not None else 0) if colours is None else (colours[i], "-")
        points, values = run.history["evaluations"], run.history["mean"]
        marker = "o" if len(points) == 1 else ""
        if names is not None:
            ax.plot(points, values, color=colour, linestyle=line, marker=marker, label=shown(names[i]))
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
    return [_QUIET] * len(runs) if names is None else [colour_of(i)[0] for i in range(len(runs))]


def _draw_coverage(ax: Any, runs: Sequence[Result], colours: Sequence[Any]) -> Any:
    """Draw the coverage on axes of its own, dotted, so that it stands back. Returns them."""
    from matplotlib.ticker import PercentFormatter

    right = ax.twinx()
    for i, (run, colour) in enumerate(zip(runs, colours, strict=True)):
        points = run.history["evaluations"]
        label = "coverage (right)" if i == 0 else None
        marker = "." if len(points) == 1 else ""
        style: dict[str, Any] = {"linewidth": 1.2, "linestyle": ":", "marker": marker, "label": label}
        right.plot(points, run.history["coverage"], color=colour, **style)
    right.set_ylim(0, 1.02)
    right.set_ylabel("coverage", color=_QUIET)
    right.yaxis.set_major_formatter(PercentFormatter(1))
    right.tick_params(colors=_QUIET)
    # The fitness is what is looked at, so its axes stand in front, and let those behind be seen.
    ax.set_zorder(right.get_zorder() + 1)
    ax.patch.set_visible(False)
    return right
