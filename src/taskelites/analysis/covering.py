"""Cover sets: a few elites that together serve all tasks, and their loss compared with one elite per task."""

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from taskelites.analysis.elites import chosen_elites, ranking, spread_elites
from taskelites.analysis.evaluate import make_trial
from taskelites.analysis.transferring import Transfer, evaluate_on_all
from taskelites.errors import counted, whole_number
from taskelites.evaluation import EvaluationKeywords, EvaluationOptions, evaluation_signature
from taskelites.problem.problem import Call
from taskelites.results.result import Result

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_CANDIDATES = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class Cover:
    """A few elites that serve all tasks, in the order of choice: the first k are the cover of size k.

    Attributes:
        elites: `(k,)`, tasks that the chosen elites belong to.
        solutions: `(k, dim)`, their solutions.
        tasks: `(m,)`, the tasks to serve: all solved tasks.
        own: `(m,)`, fitness of each task's own elite, evaluated again; if that failed, its fitness in the result.
        served: `(k, m)`, fitness of each chosen elite on each task; NaN if it failed or is infeasible.
        floor: `(m,)`, fitness assumed for a task that no chosen elite serves.
        number: number of tasks of the result, solved or not.
        candidates: number of elites to choose from.
        asked: requested number of elites, if known; fewer are chosen if more do not help.
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
        elites = f"{counted(len(self), 'elite')} for {counted(len(self.tasks), 'task')}"
        return f"<Cover: {elites}, mean loss {loss:.4g} against one per task>"

    def assignment(self, k: int | None = None) -> np.ndarray:
        """Return which of the first k elites serves each task, `(n,)`, as the index of the elite's own task.

        -1 for unsolved tasks, and for tasks on which all k elites fail. In a tie, the elite chosen earlier serves.
        """
        served = self._first(k)
        known = np.where(np.isnan(served), -np.inf, served)
        best = known.argmax(axis=0)
        chosen = np.full(self.number, -1)
        chosen[self.tasks] = np.where(known.max(axis=0) > -np.inf, self.elites[best], -1)
        return chosen

    def fitness(self, k: int | None = None) -> np.ndarray:
        """Return the best fitness of the first k elites on each task, `(n,)`; NaN where `assignment` is -1."""
        best = np.full(self.number, np.nan)
        best[self.tasks] = _best(self._first(k))
        return best

    def loss(self, k: int | None = None) -> np.ndarray:
        """Return the fitness of each task's own elite minus the best of the first k elites, `(m,)`."""
        best = _best(self._first(k))
        return np.asarray(self.own - np.where(np.isnan(best), self.floor, best))

    def table(self, within: float | None = None) -> "pd.DataFrame":
        """Return a table with one row for each k = 1, 2, 4, ... and the full cover.

        Columns: `k`, `mean` (mean fitness over tasks), `loss` (mean loss), `loss_median`, `loss_95` (95 % quantile),
        `loss_worst`, `unserved` (number of tasks on which all k elites fail).

        Args:
            within: if given, adds a column `within` with the fraction of tasks whose loss is at most this.
        """
        import pandas as pd

        rows = []
        for k in self._sizes():
            loss = self.loss(k)
            median, most, worst = np.quantile(loss, [0.5, 0.95, 1.0])
            row = {"k": k, "mean": (self.own - loss).mean(), "loss": loss.mean(), "loss_median": median}
            row |= {"loss_95": most, "loss_worst": worst, "unserved": int(np.isnan(_best(self._first(k))).sum())}
            if within is not None:
                row["within"] = float((loss <= within).mean())
            rows.append(row)
        return pd.DataFrame(rows)

    def summary(self) -> str:
        """Return the table as text; its last line is for each task's own elite.

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
               own          1.5
        """
        head, *lines = self._cells()
        rows = ["{:<6} {:>12} {:>12} {:>12} {:>12}  {}".format(*head)]
        rows += ["{:>6} {:>12} {:>12} {:>12} {:>12} {:>9}".format(*cells).rstrip() for cells in lines]
        return "\n".join([self._heading(), *rows, *self._shortfall()])

    def _heading(self) -> str:
        missing = self.number - len(self.tasks)
        more = f" ({missing:,} more {'is' if missing == 1 else 'are'} unsolved)" if missing else ""
        return f"{counted(len(self.tasks), 'task')}{more}, elites chosen from {self.candidates:,}"

    def _cells(self) -> list[list[str]]:
        """Return the cells of the summary, row by row."""
        lines = [["elites", "mean", "mean loss", "95 % within", "worst loss", "unserved"]]
        for row in self.table().itertuples():
            numbers: Any = (row.mean, row.loss, row.loss_95, row.loss_worst)
            lines.append([f"{row.k}", *(f"{float(value):.6g}" for value in numbers), f"{row.unserved:,}"])
        return [*lines, ["own", f"{self.own.mean():.6g}", "", "", "", ""]]

    def _shortfall(self) -> list[str]:
        """Return a line with the reason if fewer elites were chosen than requested, else no line."""
        if self.asked is None or self.asked <= len(self):
            return []
        reason = "there are no more candidates" if len(self) == self.candidates else "no other candidate would help"
        return [f"{self.asked:,} elites were requested: {reason}"]

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the summary."""
        from taskelites.show.notebook import table_html

        table = table_html(self._cells(), heading=True)
        shortfall = "".join(f"<div>{line}</div>" for line in self._shortfall())
        return f"<div><div><strong>Cover</strong>: {self._heading()}</div>{table}{shortfall}</div>"

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Plot the loss over the number of elites, and return the axes; see `taskelites.show.cover`."""
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
    """Choose k elites that together serve all solved tasks well, and measure the loss against one elite per task.

    Candidates are evaluated on all tasks. Then elites are chosen greedily: each choice maximises the mean over tasks of
    the best fitness among the chosen ones. The first is the best single elite, and the gain of k of them is at least
    63 % of the gain of the best k candidates (Nemhauser, Wolsey and Fisher, 1978). Fewer than k elites are returned if
    more do not help.

    Args:
        result: the result with the elites.
        fitness: a function, or a domain with the result's tasks.
        k: number of elites to choose.
        candidates: the elites to choose from: a number of elites, "all", "top 5 %", "top 10", or indices of tasks. A
            number gives half the best elites and half spread over the space of solutions; the default is 100. The total
            is (candidates + 1) x solved tasks evaluations.
        path: `.npz` file to save values in, once per minute and at the end. The same call resumes from it.
        call: how to call the function, as in `te.solve`; by default, as in the run of the result.
        samples: number of calls per evaluation, whose mean is the result, as in `te.solve`. For a noisy fitness, use
            several, since a single sample favours lucky candidates.
        progress: whether to show a progress bar; by default, only in a terminal.
        **evaluation: `workers`, `executor`, `on_error`, `retries`, `timeout` and `setup`, as in `te.solve`. An elite
            that fails on a task does not serve it. A task that no chosen elite serves counts with the result's `worst`,
            or with the lowest value measured on it if that is lower. Without `worst`, it counts with the lowest value
            measured on any task.

    Returns:
        The chosen elites with their fitness on all solved tasks.

    Raises:
        ValueError, TypeError: before any evaluation, if an argument is invalid, or the file is from another analysis.
        FitnessError: if all evaluations fail, one fails with `on_error="raise"`, or workers can't be set up.
        Interrupted: after Ctrl-C, SIGTERM or SIGHUP. Both exceptions have a `result`: the `Cover` from the candidates
            that were evaluated on all tasks, or None if there are none.

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
    return evaluate_on_all(
        trial,
        chosen,
        "cover",
        path=path,
        progress=progress,
        make_result=lambda table: make_cover(result, table, most),
    )


def _candidates(result: Result, which: Any) -> np.ndarray:
    if which is None:
        return spread_elites(result, DEFAULT_CANDIDATES)
    if isinstance(which, int | float | np.number):
        return spread_elites(result, whole_number("candidates", which, least=1))
    return chosen_elites(result, which, "candidates", ", a number of elites")


def make_cover(result: Result, table: Transfer, k: int) -> Cover:
    """Choose k elites from those that were evaluated on all tasks.

    Args:
        result: the result with the elites.
        table: fitness of the candidates on all solved tasks.
        k: number of elites to choose.

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
    recorded = ranking(result)
    recorded = np.where(np.isfinite(recorded), recorded, result.fitness)[table.tasks].astype(np.float64)
    own = np.where(np.isnan(table.own), recorded, table.own)
    floor = np.full(len(own), min(own.min(), np.nanmin(table.fitness, initial=np.inf)))
    if result.worst is not None:
        worst = np.asarray(result.worst, np.float64)[table.tasks]
        # A measured value may be below the domain's worst fitness. The floor must not exceed it, or the greedy choice
        # would be inconsistent with `loss`.
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
    """Return 1 to k rows, each chosen to maximise the mean over columns of the best value; ties go to the first row.

    NaN counts as no value, which is how `fmax` treats it.

    Example:
        >>> _greedy(np.array([[1.0, 0.0], [0.0, 3.0], [2.0, np.nan]]), np.zeros(2), 3)
        [1, 2]
    """
    best = floor.copy()
    order: list[int] = []
    while len(order) < k:
        # Row by row, since a vectorised maximum would need another array of the size of the table.
        means = np.array([np.fmax(best, row).mean() for row in table])
        chosen = int(means.argmax())
        if order and not means[chosen] > best.mean():
            break
        order.append(chosen)
        best = np.fmax(best, table[chosen])
    return order


def _best(served: np.ndarray) -> np.ndarray:
    """Return the best fitness of some elites on each task; NaN where all of them fail."""
    known = np.where(np.isnan(served), -np.inf, served).max(axis=0)
    return np.where(known > -np.inf, known, np.nan)
