"""How well the elites of some tasks do on all others: would a copy of one be enough? (figure 4B of the paper)."""

import hashlib
import json
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from taskelites.analysis.elites import chosen_elites, ranking
from taskelites.analysis.evaluate import Rows, Trial, make_trial
from taskelites.errors import FitnessWarning, InvalidValueError, MissingFileError
from taskelites.evaluation import EvaluationKeywords, EvaluationOptions, evaluation_signature
from taskelites.problem.problem import Call
from taskelites.results.result import Result
from taskelites.runs.identity import code_of, text_of
from taskelites.storage import write_arrays

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False)
class Transfer:
    """Elites of some tasks on all tasks that are solved.

    Attributes:
        elites: `(k,)`, the tasks that they are of, the best one first.
        tasks: `(m,)`, those that they were tried on.
        own: `(m,)`, what each task's own elite gives, evaluated again; NaN where that failed.
        fitness: `(k, m)`; NaN where the evaluation failed or was infeasible.
        ranked_by: `(k,)`, what the result says of them, by which the best are chosen: its `corrected`, if it was
            measured again (`te.reevaluate`), or else its `fitness`. None if nobody told.
    """

    elites: np.ndarray
    tasks: np.ndarray
    own: np.ndarray
    fitness: np.ndarray
    ranked_by: np.ndarray | None = None

    def differences(self, first: int | None = None) -> np.ndarray:
        """Fitness of the first so many elites minus that of each task's own elite, `(first, m)`.

        NaN where one of the two failed, and for an elite on its own task, where there is nothing to transfer.
        """
        elites = self.elites[:first]
        found = self.fitness[: len(elites)] - self.own
        return np.where(elites[:, None] == self.tasks, np.nan, found)

    @property
    def failed(self) -> int:
        """How many evaluations gave no number."""
        return int(np.isnan(self.fitness).sum() + np.isnan(self.own).sum())

    def __repr__(self) -> str:
        return f"<Transfer: {len(self.elites)} elites on {len(self.tasks):,} tasks, {_middle(self.differences())}>"

    def table(self) -> "pd.DataFrame":
        """One row an elite: `rank`, `task`, `fitness` (on its own task, evaluated again), and what its differences are.

        Columns: `ranked_by` (what the result says of it: `corrected` after `te.reevaluate`, or else `fitness`; "top"
        elites are in its order), `tried_on` (other tasks, without failures), quartiles and mean of the difference to
        their own elites, `better_than_own` (on how many the copy is better).
        """
        import pandas as pd

        differences = self.differences()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # an elite of which nothing worked has no quartiles
            low, middle, high = np.nanquantile(differences, [0.25, 0.5, 0.75], axis=1)
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
            "difference_median": middle,
            "difference_q3": high,
            "difference_mean": mean,
            "better_than_own": (differences > 0).sum(axis=1),
        }
        return pd.DataFrame(rows)

    def summary(self) -> str:
        """A few lines for a person.

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
        elites = f"{len(self.elites):,} elite{'s' if len(self.elites) != 1 else ''}"
        known = self.differences()
        known = known[~np.isnan(known)]
        rows = [("transfer", f"{elites} on {len(self.tasks):,} tasks")]
        if len(known):
            low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
            spread = f"{middle:.4g} in the median (quartiles {low:.4g} to {high:.4g}), copy minus own elite"
            rows.append(("difference", spread))
            better = f"{int((known > 0).sum()):,} of {len(known):,} copies are better than the task's own elite"
            rows.append(("better", better))
        else:
            rows.append(("difference", "unknown: no elite gave a number on another task"))
        if self.failed:
            rows.append(("failed", f"{self.failed:,} of {self.fitness.size + self.own.size:,} evaluations"))
        return rows

    def _repr_html_(self) -> str:
        """What a notebook shows: the summary."""
        from taskelites.show.notebook import table_html

        return f"<div><div><strong>Transfer</strong></div>{table_html(self._summary_rows())}</div>"

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """The differences as boxes (`taskelites.show.transfer`). Returns the axes."""
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
    """Evaluate elites of some tasks on all solved tasks: how much worse is a copy than each task's own elite?

    Each task's own elite is evaluated again, too, so it makes (elites + 1) x solved tasks evaluations.

    Args:
        result: the elites.
        fitness: a function, or a domain with the result's tasks.
        elites: "top 5 %" (of all tasks), "top 10", "all", or the numbers of tasks. The best are those with the highest
            fitness; where `te.reevaluate` has measured it again, with the highest `corrected`.
        path: an `.npz` file that keeps what was evaluated, once a minute and at the end; the same again goes on.
        call: how a function is called; as in the run of the result by default.
        samples: calls for each evaluation, which is their mean, as for `te.solve`.
        progress: whether to show it; by default, in a terminal.
        **evaluation: `workers`, `executor`, `on_error`, `retries`, `timeout` and `setup`, as for `te.solve`. A failed
            evaluation is NaN, tried again, or ends the analysis, depending on `on_error`.

    Raises:
        ValueError, TypeError: before any work, if an argument is wrong, or `path` holds something else.
        FitnessError: if every evaluation fails, one does with `on_error="raise"`, or workers can't be set up.
        Interrupted: after Ctrl-C or SIGTERM. Both carry the elites that were tried on all tasks as their `result`; None
            if there are none.

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
    return try_on_all(trial, chosen, "transfer", path=path, progress=progress)


def evaluate_transfer(
    result: Result, domain: Any, elites: np.ndarray, path: Path, *, progress: bool = False
) -> Transfer:
    """For an experiment, which tells of failures itself: as `transfer`, but a file of another map is written anew."""
    trial = make_trial(result, domain, None, EvaluationOptions())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitnessWarning)
        return try_on_all(trial, np.asarray(elites), "transfer", path=path, anew=True, progress=progress)


def try_on_all(
    trial: Trial,
    elites: np.ndarray,
    what: str,
    *,
    path: str | PathLike[str] | None = None,
    anew: bool = False,
    progress: bool | None = None,
    found: Callable[[Transfer], Any] = lambda table: table,
) -> Any:
    """Each solved task's own elite again, then elite by elite on all of them.

    Args:
        trial: what evaluates.
        elites: the tasks that they are of.
        what: a word for it.
        path: a file to keep values in, and to go on from.
        anew: whether a file of something else may be overwritten.
        progress: whether to show it.
        found: makes what is returned, or carried by an exception, of the elites that were tried on all tasks.
    """
    tasks = np.flatnonzero(trial.result.solved)
    number = len(tasks)
    total = number * (1 + len(elites))
    file = None if path is None else _File(path, _identity(trial, elites), total, anew=anew)

    def pairs(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        turn, on = rows // number - 1, tasks[rows % number]
        return np.where(turn < 0, on, elites[turn]), on

    def table(values: np.ndarray) -> Any:
        whole = len(values) // number  # those that are not through yet say little
        if whole < 2:  # the own elites alone
            return None
        values[~np.isfinite(values)] = np.nan  # in place, since there may be many millions
        kept = values[: whole * number].reshape(whole, number)
        some = elites[: whole - 1]
        ranked_by = np.asarray(ranking(trial.result)[some], np.float64)
        return found(Transfer(elites=some, tasks=tasks, own=kept[0], fitness=kept[1:], ranked_by=ranked_by))

    known = None if file is None else file.read()
    rows = Rows(trial, what, total, pairs, known)
    again = "" if file is None else f"; the same again, with {file.path.name!r}, goes on"
    about = f"the elites of {number:,} tasks again, and {len(elites):,} of them on all of these"
    keep = None if file is None else file.write
    return rows.run(progress=progress, about=about, keep=keep, found=table, hint=again, depth=5)


class _File:
    """Values as they come, with what they are of."""

    def __init__(self, path: str | PathLike[str], identity: str, total: int, *, anew: bool) -> None:
        self.path = Path(path)
        self._identity = identity
        self._total = total
        self._anew = anew
        if self.path.suffix != ".npz":
            raise InvalidValueError(f"path must end in .npz, not {self.path.name!r}")
        if not self.path.parent.is_dir():
            raise MissingFileError(f"there is no folder {str(self.path.parent)!r} to write {self.path.name!r} to")

    def write(self, values: np.ndarray) -> None:
        """Keep the values so far."""
        about = {"identity": np.array(self._identity), "total": np.array(self._total)}
        write_arrays(self.path, about | {"values": values})

    def read(self) -> np.ndarray | None:
        """The values that are there already.

        Raises:
            ValueError: if the file holds something else, unless it may be written anew.
        """
        if not self.path.exists():
            return None
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
                values: Any = kept["values"]
                same = str(kept["identity"]) == self._identity and int(kept["total"]) == self._total
                if same and values.dtype == np.float64 and values.ndim == 1 and len(values) <= self._total:
                    return np.asarray(values)
                problem = "is of other elites, tasks or another fitness"
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            problem = f"is damaged, or something else ({error})"
        if self._anew:  # they can be made again
            return None
        raise InvalidValueError(
            f"path must be a new file, or one of this very analysis, but {str(self.path)!r} {problem}"
        )


def _identity(trial: Trial, elites: np.ndarray) -> str:
    """What values that are kept must be of."""
    tasks, samples = trial.tasks, trial.evaluation_options.samples
    about: dict[str, Any] = {"options": trial.options, "tasks": tasks.digest}
    if not trial.options:  # a domain may say nothing of how it was made
        about |= {"code": code_of(trial.fitness), "call": trial.call}
    if tasks.objects is not None:
        about["objects"] = text_of(tasks.objects)
    if samples > 1:
        about["samples"] = samples
    parts = [
        np.ascontiguousarray(part).tobytes() for part in (trial.result.solutions, np.asarray(elites, dtype=np.int64))
    ]
    text = json.dumps(about, sort_keys=True, default=str)
    return hashlib.sha256(b"|".join([text.encode(), *parts])).hexdigest()


def _middle(differences: np.ndarray) -> str:
    known = differences[~np.isnan(differences)]
    return f"median difference {np.median(known):.4g}" if len(known) else "no differences"
