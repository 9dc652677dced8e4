"""Plots of analyses: elites copied to other tasks (`te.transfer`), and a few elites for all tasks (`te.cover`)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.errors import InvalidTypeError, counted, whole_number
from taskelites.show.canvas import axes_or_new
from taskelites.show.comparison_plots import COLOURS

if TYPE_CHECKING:
    from taskelites.analysis import Cover, Transfer


def transfer(transfer: "Transfer", ax: Any = None, *, first: int = 10) -> Any:
    """Draw box plots of the fitness of elites on other tasks, relative to the elite of each task (paper, figure 4B).

    There is one box per elite for the first ones, one for these together, and one for all elites that were tried. Boxes
    show quartiles, whiskers the 5 % and 95 % quantiles. Above 0, a copy is better than the task's own elite.

    Args:
        transfer: result of `te.transfer`.
        ax: matplotlib axes; default: new axes.
        first: number of elites with their own box.

    Returns:
        The axes.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> import taskelites as te
        >>> arm = te.domain("arm", tasks=200)
        >>> found = te.transfer(te.solve(arm, evaluations=5000), arm, elites="top 3")
        >>> [tick.get_text().split() for tick in te.show.transfer(found).get_xticklabels()]
        [['1'], ['2'], ['3'], ['all', '3']]
    """
    if not hasattr(transfer, "differences"):
        raise InvalidTypeError(f"transfer must be the result of te.transfer, not {type(transfer).__name__}")
    each = transfer.differences(whole_number("first", first, least=1))
    number = len(transfer.elites)
    pooled = {}
    if number > len(each):
        pooled[f"first\n{len(each)}"] = each
    if number > 1:
        pooled[f"all\n{number}"] = transfer.differences()
    ax = axes_or_new(ax)
    difference_boxes(ax, each, pooled)
    ax.set(
        xlabel="elites, the best one first; then together",
        ylabel="fitness of the copy minus fitness of the task's elite",
    )
    ax.set_title(f"on {counted(len(transfer.tasks), 'task')}; boxes: quartiles, whiskers: 5 to 95 %", fontsize="small")
    return ax


def difference_boxes(ax: Any, each: np.ndarray, pooled: Mapping[str, np.ndarray]) -> None:
    """Draw box plots of fitness differences. NaN is ignored.

    Args:
        ax: matplotlib axes.
        each: `(elites, tasks)`, best elite first; one box per row, labelled with its rank.
        pooled: differences by label, one box per label, drawn to the right of the others.
    """
    groups = {f"{rank + 1}": row for rank, row in enumerate(each)} | dict(pooled)
    values = [group[~np.isnan(group)] for group in groups.values()]
    places = np.arange(len(groups)) + np.where(np.arange(len(groups)) >= len(each), 0.6, 0.0)
    boxes = ax.boxplot(values, positions=places, widths=0.65, patch_artist=True, whis=(5, 95), showfliers=False)
    for i, box in enumerate(boxes["boxes"]):
        box.set(facecolor=COLOURS[0] if i < len(each) else COLOURS[1], alpha=0.45)
    for median in boxes["medians"]:
        median.set(color="black")
    ax.axhline(0, color="black", linewidth=1)
    ax.set_xticks(places, list(groups))
    ax.grid(axis="y", alpha=0.3)


def cover(cover: "Cover", ax: Any = None) -> Any:
    """Draw the loss of fitness relative to one elite per task, over the number of elites that serve all tasks.

    The line is the mean over tasks, the band the interquartile range, and the dashed line the 95 % quantile.

    Args:
        cover: result of `te.cover`.
        ax: matplotlib axes; default: new axes.

    Returns:
        The axes.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> import taskelites as te
        >>> arm = te.domain("arm", tasks=200)
        >>> found = te.cover(te.solve(arm, evaluations=5000), arm, k=4)
        >>> te.show.cover(found).get_xlabel()
        'elites for all tasks'
    """
    if not hasattr(cover, "assignment"):
        raise InvalidTypeError(f"cover must be the result of te.cover, not {type(cover).__name__}")
    from matplotlib.ticker import MaxNLocator

    sizes = range(1, len(cover) + 1)
    losses = np.stack([cover.loss(k) for k in sizes])
    low, high, most = np.quantile(losses, [0.25, 0.75, 0.95], axis=1)
    ax = axes_or_new(ax)
    ax.fill_between(sizes, low, high, color=COLOURS[0], alpha=0.25, linewidth=0, label="middle half of the tasks")
    ax.plot(sizes, losses.mean(axis=1), "o-", color=COLOURS[0], markersize=4, label="mean over tasks")
    ax.plot(sizes, most, "--", color=COLOURS[1], marker="o", markersize=3, label="95 % of the tasks lose no more")
    ax.axhline(0, color="black", linewidth=1)
    ax.set(xlabel="elites for all tasks", ylabel="loss of fitness against one elite per task")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    ax.set_title(f"{counted(len(cover.tasks), 'task')}, elites chosen from {cover.candidates:,}", fontsize="small")
    return ax
