"""Which evaluations failed, how often and why; and enough of each kind to look at them again."""

import json
import reprlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from taskelites.errors import FitnessError, InvalidValueError, MissingFileError, whole_number
from taskelites.evaluation import Failure, Outcomes
from taskelites.evaluation.caller import shown
from taskelites.runs.folder import RunFolder

# So many of each kind are kept whole.
_KEPT = 100
# A run ends when so many evaluations failed and not one succeeded. NaN is what a function may mean to return, so it has
# more patience with it.
_PATIENCE = 20
_PATIENCE_NAN = 10_000
# Or when so many errors came one after another, whatever went before: a licence that ran out, a disk that is gone.
_STREAK = 1000


@dataclass
class FailureLog:
    """The failures of one run.

    Args:
        folder: keeps them on disk.
        note: told of the first of each kind.

    Attributes:
        counts: how many of each kind.
        retried: evaluations made again because they had failed; not counted anywhere else.
    """

    folder: RunFolder | None
    note: Callable[[str], None]
    counts: Counter[str] = field(default_factory=Counter)
    retried: int = 0
    first: Failure | None = None
    where: str = ""
    last: str = ""
    recorded: int = 0
    succeeded: bool = False
    streak: int = 0

    def add_success(self) -> None:
        """Some evaluation gave a number."""
        self.succeeded = True
        self.streak = 0

    def add(self, failure: Failure, evaluation: int, number: int, task: Any, solution: np.ndarray) -> None:
        """Count a failure, which is that of evaluation `evaluation`, on task `number`."""
        self.counts[failure.kind] += 1
        self.streak += failure.kind != "nan"
        where = place(number, solution)
        self.last = f"{failure.message} {where}"
        if self.first is None:
            self.first, self.where = failure, where
        if self.counts[failure.kind] == 1:
            known = "" if self.folder is None else f", failure {self.recorded + 1}"
            self.note(f"evaluation {evaluation:,} failed ({failure.kind}{known}): {failure.message} {where}")
        if self.folder is not None and self.counts[failure.kind] <= _KEPT:
            self.recorded += 1
            self.folder.add_failure(
                {
                    "id": self.recorded,
                    "evaluation": evaluation,
                    "kind": failure.kind,
                    "message": failure.message,
                    "task": number,
                    "descriptors": task.tolist() if isinstance(task, np.ndarray) else shown(task),
                    "solution": solution.tolist(),
                    "tries": failure.tries,
                    "traceback": failure.trace,
                }
            )

    def add_all(self, found: Outcomes, told: int, numbers: np.ndarray, tasks: Any, solutions: np.ndarray) -> None:
        """Count what came of some candidates, after `told` others.

        Args:
            found: what came.
            told: results before these.
            numbers: of the tasks of all candidates that `found.rows` point into.
            tasks: as the fitness receives them.
            solutions: `(rows, dim)`.
        """
        self.retried += sum(found.again.values())
        next_ = 0
        for at, failure in sorted(found.failures.items()):
            if at > next_:
                self.add_success()
            next_ = at + 1
            row = int(found.rows[at])
            self.add(failure, told + at + 1, int(numbers[row]), tasks[row], solutions[row])
        if next_ < len(found):
            self.add_success()

    def check(self, *, ended: bool = False) -> None:
        """Raise if the run should end because everything fails.

        Args:
            ended: whether the run is at its end, so that few failures are enough.

        Raises:
            FitnessError: that says so.
        """
        if self.streak >= _STREAK and self.succeeded:
            raise FitnessError(f"the last {self.streak:,} evaluations failed one after another: {self.last}")
        if self.succeeded or self.first is None:
            return
        total = self.counts.total()
        errors = total - self.counts["nan"]
        if errors >= _PATIENCE or total >= _PATIENCE_NAN or (ended and errors):
            error = FitnessError(f"all {total:,} evaluations failed; the first: {self.first.message} {self.where}")
            if self.first.trace:
                error.add_note(self.first.trace)
            raise error

    def snapshot(self) -> dict[str, Any]:
        """All that a checkpoint keeps of it."""
        first = None if self.first is None else [self.first.kind, self.first.message, self.first.trace]
        return {
            "counts": dict(self.counts),
            "retried": self.retried,
            "first": first,
            "where": self.where,
            "recorded": self.recorded,
            "succeeded": self.succeeded,
            "streak": self.streak,
        }

    def restore(self, kept: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        self.counts = Counter(kept["counts"])
        self.first = None if kept["first"] is None else Failure(*kept["first"])
        for name in ("retried", "where", "recorded", "succeeded", "streak"):
            setattr(self, name, kept[name])
        if self.folder is not None:
            self.folder.keep_failures(self.recorded)


def raise_first(found: Outcomes, numbers: np.ndarray, solutions: np.ndarray) -> None:
    """Raise the first failure among these results, for `on_error="raise"`."""
    at = min(found.failures)
    failure, row = found.failures[at], int(found.rows[at])
    error = FitnessError(f"{failure.message} {place(int(numbers[row]), solutions[row])}")
    if failure.trace:
        error.add_note(failure.trace)
    raise error


def place(number: int, solution: np.ndarray) -> str:
    """Which evaluation it was, for a message."""
    return f"[task {number}, solution {reprlib.repr(solution.tolist())}]"


@dataclass(frozen=True)
class FailedEvaluation:
    """A failed evaluation of a run, read from its folder.

    Attributes:
        id: its number among those that were kept.
        evaluation: its number among all of the run.
        kind: "raised", "nan", "nonsense", "timeout" or "died".
        message: what happened.
        task: the task's number.
        descriptors: of the task; the text of a task that is an object.
        solution: `(dim,)`.
        tries: how often it was evaluated.
        traceback: where there is one.
    """

    id: int
    evaluation: int
    kind: str
    message: str
    task: int
    descriptors: Any
    solution: np.ndarray
    tries: int
    traceback: str


def failures(run: Any) -> list[FailedEvaluation]:
    """The failed evaluations that a run kept: the first hundred of each kind.

    Args:
        run: a run folder.

    Raises:
        FileNotFoundError: if there is no such folder.

    Example:
        >>> import tempfile, taskelites as te
        >>> te.analysis.failures(tempfile.mkdtemp())
        []
    """
    folder = Path(run)
    if not folder.is_dir():
        raise MissingFileError(f"there is no run folder {str(folder)!r}")
    path = folder / "failures.jsonl"
    found = []
    for line in path.read_text(encoding="utf-8").split("\n") if path.is_file() else ():
        try:
            record = json.loads(line)
            found.append(FailedEvaluation(**record | {"solution": np.array(record["solution"], np.float64)}))
        except (ValueError, TypeError, KeyError):  # the last line of a run that was killed
            continue
    return found


def read_failure(run: Any, number: int) -> FailedEvaluation:
    """One of them, by its id."""
    found = failures(run)
    wanted = whole_number("ID", number, least=1)
    for failure in found:
        if failure.id == wanted:
            return failure
    below = sorted(path.parent.name for path in Path(run).glob("*/failures.jsonl"))
    known = f"it has {found[0].id} to {found[-1].id}" if found else "it has none"
    hint = f"; there are some in its folders {', '.join(below)}" if below else ""
    raise InvalidValueError(f"run {str(run)!r} has no failure {wanted}: {known}{hint}")
