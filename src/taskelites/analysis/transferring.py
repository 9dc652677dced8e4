"""Transfer of elites to other tasks, to see whether a copy would be enough (figure 4B of the paper)."""

import hashlib
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from taskelites.analysis.elites import chosen_elites, ranking
from taskelites.analysis.evaluate import Rows, Trial, make_trial
from taskelites.errors import FitnessWarning, InvalidValueError, MissingFileError, StorageError, counted
from taskelites.evaluation import EvaluationKeywords, EvaluationOptions, evaluation_signature
from taskelites.problem.problem import Call
from taskelites.results.result import Result
from taskelites.runs.identity import code_of, text_of
from taskelites.storage import ArrayFile, Layout, reading, write_arrays

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False)
class Transfer:
    """Fitness of elites from some tasks on all solved tasks.

    Attributes:
        elites: `(k,)`, tasks that the elites belong to, the best first.
        tasks: `(m,)`, tasks that they were evaluated on.
        own: `(m,)`, fitness of each task's own elite, evaluated again; NaN if that failed.
        fitness: `(k, m)`, fitness of each elite on each task; NaN if the evaluation failed or was infeasible.
        ranked_by: `(k,)`, values of the result that rank the elites: `corrected` after `te.reevaluate`, otherwise
            `fitness`. None if unknown.
    """

    elites: np.ndarray
    tasks: np.ndarray
    own: np.ndarray
    fitness: np.ndarray
    ranked_by: np.ndarray | None = None

    def differences(self, first: int | None = None) -> np.ndarray:
        """Return the fitness of the first elites minus that of each task's own elite, `(first, m)`.

        NaN if one of the two failed, and for an elite on its own task.

        Args:
            first: number of elites; None for all.
        """
        elites = self.elites[:first]
        found = self.fitness[: len(elites)] - self.own
        return np.where(elites[:, None] == self.tasks, np.nan, found)

    @property
    def failed(self) -> int:
        """Number of failed or infeasible evaluations."""
        return int(np.isnan(self.fitness).sum() + np.isnan(self.own).sum())

    def __repr__(self) -> str:
        elites = counted(len(self.elites), "elite")
        return f"<Transfer: {elites} on {counted(len(self.tasks), 'task')}, {_median_text(self.differences())}>"

    def table(self) -> "pd.DataFrame":
        """Return a table with one row per elite.

        Columns: `rank`, `task`, `fitness` (on its own task, evaluated again), `ranked_by` (`corrected` after
        `te.reevaluate`, otherwise `fitness`; the order of "top" elites), `tried_on` (number of other tasks, without
        failures), `difference_q1`, `difference_median`, `difference_q3` and `difference_mean` (copy minus the task's
        own elite), `better_than_own` (number of tasks on which the copy is better).
        """
        import pandas as pd

        differences = self.differences()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # raised if all evaluations of an elite failed
            low, median, high = np.nanquantile(differences, [0.25, 0.5, 0.75], axis=1)
            mean = np.nanmean(differences, axis=1)
        own = np.full(int(max(self.tasks.max(), self.elites.max())) + 1, np.nan)
        own[self.tasks] = self.own
        rows = {
            "rank": np.arange(1, len(differences) + 1),
            "task": self.elites,
            "fitness": own[self.elites],
            **({} if self.ranked_by is None else {"ranked_by": self.ranked_by}),
            "tried_on": (~np.isnan(differences)).sum(axis=1),
            "difference_q1": low,
            "difference_median": median,
            "difference_q3": high,
            "difference_mean": mean,
            "better_than_own": (differences > 0).sum(axis=1),
        }
        return pd.DataFrame(rows)

    def summary(self) -> str:
        """Return a text summary.

        Example:
            >>> import numpy as np
            >>> found = Transfer(
            ...     elites=np.array([1]),
            ...     tasks=np.array([0, 1, 2]),
            ...     own=np.array([1.0, 2.0, 3.0]),
            ...     fitness=np.array([[0.5, 2.0, np.nan]]),
            ... )
            >>> print(found.summary())
            transfer     1 elite on 3 tasks
            difference   -0.5 in the median (quartiles -0.5 to -0.5), copy minus own elite
            better       0 of 1 copies are better than the task's own elite
            failed       1 of 6 evaluations
        """
        return "\n".join(f"{name:<12} {value}" for name, value in self._summary_rows())

    def _summary_rows(self) -> list[tuple[str, str]]:
        elites = counted(len(self.elites), "elite")
        known = self.differences()
        known = known[~np.isnan(known)]
        rows = [("transfer", f"{elites} on {counted(len(self.tasks), 'task')}")]
        if len(known):
            low, median, high = np.quantile(known, [0.25, 0.5, 0.75])
            spread = f"{median:.4g} in the median (quartiles {low:.4g} to {high:.4g}), copy minus own elite"
            rows.append(("difference", spread))
            better = f"{int((known > 0).sum()):,} of {len(known):,} copies are better than the task's own elite"
            rows.append(("better", better))
        else:
            rows.append(("difference", "unknown: all evaluations on other tasks failed"))
        if self.failed:
            rows.append(("failed", f"{self.failed:,} of {self.fitness.size + self.own.size:,} evaluations"))
        return rows

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the summary."""
        from taskelites.show.notebook import table_html

        return f"<div><div><strong>Transfer</strong></div>{table_html(self._summary_rows())}</div>"

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Plot the differences as box plots, and return the axes; see `taskelites.show.transfer`."""
        from taskelites.show import transfer as show_transfer

        return show_transfer(self, ax=ax, **kwargs)


@evaluation_signature
def transfer(
    result: Result,
    fitness: Any,
    elites: Any = "top 5 %",
    *,
    path: str | PathLike[str] | None = None,
    call: Call | None = None,
    samples: int = 1,
    progress: bool | None = None,
    **evaluation: Unpack[EvaluationKeywords],
) -> Transfer:
    """Evaluate elites of some tasks on all solved tasks, and compare them with each task's own elite.

    Each task's own elite is evaluated again, so the total is (elites + 1) x solved tasks evaluations.

    Args:
        result: the result with the elites.
        fitness: a function, or a domain with the result's tasks.
        elites: "top 5 %" (of all tasks), "top 10", "all", or indices of tasks. Elites are ranked by `corrected` after
            `te.reevaluate`, otherwise by `fitness`.
        path: `.npz` file to save values in, once per minute and at the end. The same call resumes from it.
        call: how to call the function, as in `te.solve`; by default, as in the run of the result.
        samples: number of calls per evaluation, whose mean is the result, as in `te.solve`.
        progress: whether to show a progress bar; by default, only in a terminal.
        **evaluation: `workers`, `executor`, `on_error`, `retries`, `timeout` and `setup`, as in `te.solve`. A failed
            evaluation is NaN, is retried or ends the analysis, depending on `on_error`.

    Raises:
        ValueError, TypeError: before any evaluation, if an argument is invalid, or the file is from another analysis.
        FitnessError: if all evaluations fail, one fails with `on_error="raise"`, or workers can't be set up.
        Interrupted: after Ctrl-C, SIGTERM or SIGHUP. Both exceptions have a `result`: the `Transfer` of the elites
            that were evaluated on all tasks, or None if there are none.

    Example:
        >>> import numpy as np, taskelites as te
        >>> tasks = np.linspace(0, 1, 200)[:, None]
        >>> def fitness(solution, task):
        ...     return -abs(solution[0] - task[0])
        >>> result = te.solve(fitness, tasks, bounds=(0, 1), dim=1, evaluations=5000)
        >>> found = te.transfer(result, fitness, elites="top 5")
        >>> found.fitness.shape, bool(np.nanmedian(found.differences()) < -0.1)
        ((5, 200), True)
    """
    evaluation_options = EvaluationOptions.from_keywords(transfer, evaluation, samples=samples)
    trial = make_trial(result, fitness, call, evaluation_options)
    chosen = chosen_elites(result, elites, "elites")
    return evaluate_on_all(trial, chosen, "transfer", path=path, progress=progress)


def evaluate_transfer(
    result: Result, domain: Any, elites: np.ndarray, path: Path, *, progress: bool = False
) -> Transfer:
    """Run `transfer` for an experiment: without warnings about failures, and overwriting a file of another map."""
    trial = make_trial(result, domain, None, EvaluationOptions())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitnessWarning)
        return evaluate_on_all(trial, np.asarray(elites), "transfer", path=path, overwrite=True, progress=progress)


def evaluate_on_all(
    trial: Trial,
    elites: np.ndarray,
    what: str,
    *,
    path: str | PathLike[str] | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
    make_result: Callable[[Transfer], Any] = lambda table: table,
) -> Any:
    """Evaluate each solved task's own elite again, then one elite after another on all solved tasks.

    Args:
        trial: the fitness and the elites.
        elites: tasks that the elites belong to.
        what: name of the analysis, for messages.
        path: file to save values in and to resume from.
        overwrite: whether to overwrite a file of another analysis.
        progress: whether to show a progress bar.
        make_result: converts the elites evaluated on all tasks to the return value, or to the `result` of an exception.

    Returns:
        `make_result` of all elites.
    """
    tasks = np.flatnonzero(trial.result.solved)
    number = len(tasks)
    total = number * (1 + len(elites))
    file = None if path is None else _File(path, _identity(trial, elites), total, overwrite=overwrite)

    def pairs(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        turns, targets = rows // number - 1, tasks[rows % number]
        return np.where(turns < 0, targets, elites[turns]), targets

    def table(values: np.ndarray) -> Any:
        complete = len(values) // number  # elites with values on only some tasks are left out
        if complete < 2:  # only the tasks' own elites
            return None
        values[~np.isfinite(values)] = np.nan  # in place, since the array may be large
        kept = values[: complete * number].reshape(complete, number)
        some = elites[: complete - 1]
        ranked_by = np.asarray(ranking(trial.result)[some], np.float64)
        return make_result(Transfer(elites=some, tasks=tasks, own=kept[0], fitness=kept[1:], ranked_by=ranked_by))

    known = None if file is None else file.read()
    rows = Rows(trial, what, total, pairs, known)
    hint = "" if file is None else f"; the same call with {file.path.name!r} resumes it"
    about = f"{counted(number, 'elite')} on their own tasks, then {len(elites):,} of them on all solved tasks"
    save = None if file is None else file.write
    return rows.run(progress=progress, about=about, save=save, make_result=table, hint=hint, depth=5)


class _File:
    """File of values that were evaluated so far, with the identity of their analysis."""

    def __init__(self, path: str | PathLike[str], identity: str, total: int, *, overwrite: bool) -> None:
        self.path = Path(path)
        self._identity = identity
        self._total = total
        self._overwrite = overwrite
        if self.path.suffix != ".npz":
            raise InvalidValueError(f"path must end in .npz, not {self.path.name!r}")
        if not self.path.parent.is_dir():
            raise MissingFileError(f"there is no folder {str(self.path.parent)!r} to write {self.path.name!r} to")

    def write(self, values: np.ndarray) -> None:
        """Save the values so far."""
        about = {"identity": np.array(self._identity), "total": np.array(self._total)}
        write_arrays(self.path, about | {"values": values})

    def read(self) -> np.ndarray | None:
        """Return saved values, or None if there are none.

        Raises:
            StorageError: if the file is damaged and must not be overwritten.
            ValueError: if it is from another analysis and must not be overwritten.
        """
        if not self.path.exists():
            return None
        layout: Layout = {"identity": ("U", ()), "total": ("iu", ()), "values": ("f", ("values",))}
        remedy = "path must be a new file or one saved by the same analysis"
        try:
            with reading(self.path, "another kind of file", remedy), self.path.open("rb") as file:
                kept = ArrayFile(file).read(layout)
        except StorageError:
            if self._overwrite:  # its values can be evaluated again
                return None
            raise
        values = kept["values"]
        same = str(kept["identity"]) == self._identity and int(kept["total"]) == self._total
        if same and values.dtype == np.float64 and len(values) <= self._total:
            return values
        if self._overwrite:
            return None
        raise InvalidValueError(
            f"path must be a new file or one saved by the same analysis, but {str(self.path)!r} is from other elites, "
            "tasks or another fitness"
        )


def _identity(trial: Trial, elites: np.ndarray) -> str:
    """Return a digest of everything that saved values depend on."""
    tasks, samples = trial.tasks, trial.evaluation_options.samples
    about: dict[str, Any] = {"options": trial.options, "tasks": tasks.digest}
    if not trial.options:  # a domain may have no options
        about |= {"code": code_of(trial.fitness, mutable=False), "call": trial.call}
    if tasks.objects is not None:
        about["objects"] = text_of(tasks.objects)
    if samples > 1:
        about["samples"] = samples
    parts = [
        np.ascontiguousarray(part).tobytes() for part in (trial.result.solutions, np.asarray(elites, dtype=np.int64))
    ]
    text = json.dumps(about, sort_keys=True, default=str)
    return hashlib.sha256(b"|".join([text.encode(), *parts])).hexdigest()


def _median_text(differences: np.ndarray) -> str:
    known = differences[~np.isnan(differences)]
    return f"median difference {np.median(known):.4g}" if len(known) else "no differences"
