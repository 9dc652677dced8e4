"""A few solutions for all tasks: which elites together serve them best, and what is lost against one elite a task."""

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from taskelites.analysis.elites import chosen_elites, ranking, spread_elites
from taskelites.analysis.evaluate import make_trial
from taskelites.analysis.transferring import Transfer, try_on_all
from taskelites.errors import whole_number
from taskelites.evaluation import EvaluationKeywords, EvaluationOptions, evaluation_signature
from taskelites.problem.problem import Call
from taskelites.results.result import Result

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_CANDIDATES = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class Cover:
    """A few elites for all tasks, in the order in which they were chosen: the first k are the cover of size k.

    Attributes:
        elites: `(k,)`, the tasks that they are of.
        solutions: `(k, dim)`, the same as solutions.
        tasks: `(m,)`, the tasks that they are to serve: all that are solved.
        own: `(m,)`, what each task's own elite gives, evaluated again (where that failed, what the result says).
        served: `(k, m)`, what each of them gives on each task; NaN where it failed or is infeasible.
        floor: `(m,)`, what a task counts as that none of them serves.
        number: how many tasks the result has, solved or not.
        candidates: how many elites they were chosen from.
        asked: how many were asked for, if that is known; there are fewer where more do not help.
    """

    elites: np.ndarray
    solutions: np.ndarray
    tasks: np.ndarray
    own: np.ndarray
    served: np.ndarray
    floor: np.ndarray
    number: int
    candidates: int
    asked: int | None = None

    def __len__(self) -> int:
        return len(self.elites)

    def __repr__(self) -> str:
        loss = float(self.loss().mean())
        return f"<Cover: {len(self)} elites for {len(self.tasks):,} tasks, mean loss {loss:.4g} against one a task>"

    def assignment(self, k: int | None = None) -> np.ndarray:
        """Which of the first k elites serves each task, `(n,)`: the number of the task that it is of.

        -1 where none of them gives a number, and for a task that was never solved. Of equals the earlier one serves.
        """
        served = self._first(k)
        known = np.where(np.isnan(served), -np.inf, served)
        best = known.argmax(axis=0)
        chosen = np.full(self.number, -1)
        chosen[self.tasks] = np.where(known.max(axis=0) > -np.inf, self.elites[best], -1)
        return chosen

    def fitness(self, k: int | None = None) -> np.ndarray:
        """What each task gets from the first k elites, `(n,)`; NaN where `assignment` has -1."""
        best = np.full(self.number, np.nan)
        best[self.tasks] = _best(self._first(k))
        return best

    def loss(self, k: int | None = None) -> np.ndarray:
        """How much less each of `tasks` gets from the first k elites than from its own, `(m,)`; negative if more."""
        best = _best(self._first(k))
        return np.asarray(self.own - np.where(np.isnan(best), self.floor, best))

    def table(self, within: float | None = None) -> "pd.DataFrame":
        """One row for each of k = 1, 2, 4, ... and the largest: what k elites give, and what is lost.

        Columns: `k`, `mean` (fitness over the tasks), `loss` (mean), `loss_median`, `loss_95` (95 % of the tasks lose
        no more), `loss_worst`, `unserved` (tasks on which all of them fail).

        Args:
            within: adds a column `within`, the share of tasks that lose at most so much.
        """
        import pandas as pd

        rows = []
        for k in self._sizes():
            loss = self.loss(k)
            middle, most, worst = np.quantile(loss, [0.5, 0.95, 1.0])
            row = {"k": k, "mean": (self.own - loss).mean(), "loss": loss.mean(), "loss_median": middle}
            row |= {"loss_95": most, "loss_worst": worst, "unserved": int(np.isnan(_best(self._first(k))).sum())}
            if within is not None:
                row["within"] = float((loss <= within).mean())
            rows.append(row)
        return pd.DataFrame(rows)

    def summary(self) -> str:
        """The table for a person, with one elite a task as its last line.

        Example:
            >>> import numpy as np
            >>> found = Cover(
            ...     elites=np.array([4]),
            ...     solutions=np.zeros((1, 2)),
            ...     tasks=np.array([3, 4]),
            ...     own=np.array([1.0, 2.0]),
            ...     served=np.array([[0.5, 2.0]]),
            ...     floor=np.zeros(2),
            ...     number=5,
            ...     candidates=2,
            ... )
            >>> print(found.summary())
            2 tasks (3 more are unsolved), elites chosen from 2
            elites         mean    mean loss  95 % within   worst loss  unserved
                 1         1.25         0.25        0.475          0.5         0
            a task          1.5
        """
        head, *lines = self._cells()
        rows = ["{:<6} {:>12} {:>12} {:>12} {:>12}  {}".format(*head)]
        rows += ["{:>6} {:>12} {:>12} {:>12} {:>12} {:>9}".format(*cells).rstrip() for cells in lines]
        return "\n".join([self._heading(), *rows, *self._fewer()])

    def _heading(self) -> str:
        missing = self.number - len(self.tasks)
        more = f" ({missing:,} more are unsolved)" if missing else ""
        return f"{len(self.tasks):,} tasks{more}, elites chosen from {self.candidates:,}"

    def _cells(self) -> list[list[str]]:
        """The lines of the summary, cell by cell."""
        lines = [["elites", "mean", "mean loss", "95 % within", "worst loss", "unserved"]]
        for row in self.table().itertuples():
            numbers: Any = (row.mean, row.loss, row.loss_95, row.loss_worst)
            lines.append([f"{row.k}", *(f"{float(value):.6g}" for value in numbers), f"{row.unserved:,}"])
        return [*lines, ["a task", f"{self.own.mean():.6g}", "", "", "", ""]]

    def _fewer(self) -> list[str]:
        """Why there are fewer than were asked for, if so."""
        if self.asked is None or self.asked <= len(self):
            return []
        why = "there are no more candidates" if len(self) == self.candidates else "no other candidate would help"
        return [f"{self.asked:,} elites were asked for: {why}"]

    def _repr_html_(self) -> str:
        """What a notebook shows: the summary."""
        from taskelites.show.notebook import table_html

        table = table_html(self._cells(), heading=True)
        fewer = "".join(f"<div>{line}</div>" for line in self._fewer())
        return f"<div><div><strong>Cover</strong>: {self._heading()}</div>{table}{fewer}</div>"

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """The loss over the number of elites (`taskelites.show.cover`). Returns the axes."""
        from taskelites.show import cover as show_cover

        return show_cover(self, ax=ax, **kwargs)

    def _first(self, k: int | None) -> np.ndarray:
        number = len(self) if k is None else whole_number("k", k, least=1, most=len(self))
        return self.served[:number]

    def _sizes(self) -> list[int]:
        doubling = [2**i for i in range(len(self).bit_length())]
        return sorted({*doubling, len(self)})


@evaluation_signature
def cover(
    result: Result,
    fitness: Any,
    k: int = 8,
    *,
    candidates: Any = None,
    path: str | PathLike[str] | None = None,
    call: Call | None = None,
    samples: int = 1,
    progress: bool | None = None,
    **evaluation: Unpack[EvaluationKeywords],
) -> Cover:
    """The k elites that together serve all solved tasks best, and what is lost against one elite a task.

    Candidates are evaluated on all tasks; then one after another is chosen that raises the mean over tasks of the best
    of those chosen by most. That is greedy: the first is the best single one, and k of them reach at least 63 % of what
    the best k candidates gain (Nemhauser, Wolsey and Fisher, 1978). Fewer than k come back if more do not help.

    Args:
        result: the elites.
        fitness: a function, or a domain with the result's tasks.
        k: how many.
        candidates: the elites to choose from: how many, "all", "top 5 %", "top 10", or the numbers of tasks. By default
            100 (all, if there are no more): half of them the best, half spread over the solutions. It makes
            (candidates + 1) x solved tasks evaluations.
        path: an `.npz` file that keeps what was evaluated, once a minute and at the end; the same again goes on.
        call: how a function is called; as in the run of the result by default.
        samples: calls for each evaluation, which is their mean, as for `te.solve`. With noise, one sample prefers
            candidates that were lucky.
        progress: whether to show it; by default, in a terminal.
        **evaluation: `workers`, `executor`, `on_error`, `retries`, `timeout` and `setup`, as for `te.solve`. An elite
            that fails on a task does not serve it; a task that no chosen elite serves counts as the result's `worst`
            (as the lowest value seen on it, if that is below), or else as the lowest value seen on any task.

    Raises:
        ValueError, TypeError: before any work, if an argument is wrong, or `path` holds something else.
        FitnessError: if every evaluation fails, one does with `on_error="raise"`, or workers can't be set up.
        Interrupted: after Ctrl-C or SIGTERM. Both carry a `Cover` by those candidates that were tried on all tasks as
            their `result`; None if there are none.

    Example:
        >>> import numpy as np, taskelites as te
        >>> tasks = np.linspace(0, 1, 200)[:, None]
        >>> def fitness(solutions, tasks):
        ...     return -np.abs(solutions - tasks).sum(axis=1)
        >>> result = te.solve(fitness, tasks, bounds=(0, 1), dim=1, call="batch", evaluations=10_000)
        >>> found = te.cover(result, fitness, k=4)
        >>> found.table()["k"].tolist(), bool(0.4 < found.solutions[0, 0] < 0.6)
        ([1, 2, 4], True)
    """
    evaluation_options = EvaluationOptions.from_keywords(cover, evaluation, samples=samples)
    trial = make_trial(result, fitness, call, evaluation_options)
    most = whole_number("k", k, least=1)
    chosen = _candidates(result, candidates)
    return try_on_all(
        trial,
        chosen,
        "cover",
        path=path,
        progress=progress,
        found=lambda table: make_cover(result, table, most),
    )


def _candidates(result: Result, which: Any) -> np.ndarray:
    if which is None:
        return spread_elites(result, DEFAULT_CANDIDATES)
    if isinstance(which, int | float | np.number):
        return spread_elites(result, whole_number("candidates", which, least=1))
    return chosen_elites(result, which, "candidates", ", a number of them")


def make_cover(result: Result, table: Transfer, k: int) -> Cover:
    """Choose from elites that were tried on all tasks.

    Example:
        >>> import numpy as np, taskelites as te
        >>> result = te.Result(
        ...     solutions=np.array([[0.1], [0.2]]),
        ...     fitness=np.array([3.0, 5.0]),
        ...     tasks=te.Tasks(["a", "b"]),
        ...     evaluations=2,
        ...     task_evaluations=np.ones(2, int),
        ...     last_improved=np.ones(2, int),
        ... )
        >>> both = np.array([0, 1])
        >>> tried = Transfer(elites=both, tasks=both, own=result.fitness, fitness=np.array([[3.0, 1.0], [2.0, 5.0]]))
        >>> make_cover(result, tried, 1).elites.tolist()
        [1]
    """
    believed = ranking(result)
    believed = np.where(np.isfinite(believed), believed, result.fitness)[table.tasks].astype(np.float64)
    own = np.where(np.isnan(table.own), believed, table.own)
    floor = np.full(len(own), min(own.min(), np.nanmin(table.fitness, initial=np.inf)))
    if result.worst is not None:
        worst = np.asarray(result.worst, np.float64)[table.tasks]
        # Where a value is below what the domain calls the worst, the value is right: greedy choice must not count it
        # as more than `loss` does.
        lowest = np.fmin(own, np.fmin.reduce(table.fitness, axis=0))
        floor = np.where(np.isfinite(worst), np.fmin(worst, lowest), floor)
    order = _greedy(table.fitness, floor, k)
    return Cover(
        elites=table.elites[order],
        solutions=np.asarray(result.solutions[table.elites[order]]),
        tasks=table.tasks,
        own=own,
        served=table.fitness[order],
        floor=floor,
        number=len(result),
        candidates=len(table.elites),
        asked=k,
    )


def _greedy(table: np.ndarray, floor: np.ndarray, k: int) -> list[int]:
    """Rows whose best is highest in the mean, one after another; of equal ones the first. At least one.

    A NaN serves nobody, which is what `fmax` makes of it.

    Example:
        >>> _greedy(np.array([[1.0, 0.0], [0.0, 3.0], [2.0, np.nan]]), np.zeros(2), 3)
        [1, 2]
    """
    best = floor.copy()
    order: list[int] = []
    while len(order) < k:
        # Row by row: the whole at once would be as large as the table again.
        means = np.array([np.fmax(best, row).mean() for row in table])
        chosen = int(means.argmax())
        if order and not means[chosen] > best.mean():
            break
        order.append(chosen)
        best = np.fmax(best, table[chosen])
    return order


def _best(served: np.ndarray) -> np.ndarray:
    """The best of some elites on each task; NaN where all of them fail."""
    known = np.where(np.isnan(served), -np.inf, served).max(axis=0)
    return np.where(known > -np.inf, known, np.nan)
