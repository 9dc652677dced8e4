"""The failed evaluations of a run: counts per kind, and the first of each kind with all details."""

import os
import re
import reprlib
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from taskelites.errors import (
    FitnessError,
    FitnessWarning,
    InvalidTypeError,
    InvalidValueError,
    MissingFileError,
    warn_user,
    whole_number,
)
from taskelites.evaluation import Failure, Outcomes
from taskelites.evaluation.caller import shown
from taskelites.results.failure_reasons import FailureReason, most_frequent_first
from taskelites.runs.folder import RunFolder
from taskelites.storage import MALFORMED, MOST_UNPACKED, count_in, parse_json, read_text, reading

# Failures of each kind that are kept with all details.
_KEPT = 100
# A run ends after this many failures without one success. A function may return NaN on purpose, so its limit is higher.
_PATIENCE = 20
_PATIENCE_NAN = 10_000
# A run also ends after this many errors in a row: a licence may have expired, or a disk may be gone.
_STREAK = 1000
# The user is warned when more than half of this many evaluations failed.
_WINDOW = 100
# A line of a traceback that names a file.
_FRAME = re.compile(r'^[ +|]*File "(.+?)", line ([0-9]+)', re.MULTILINE)
# Files that are not the user's: installed packages, Python's own modules.
_LIBRARY = re.compile(r"[/\\](site|dist)-packages[/\\]|[/\\]lib[/\\]python3[^/\\]*[/\\]|^<frozen ")
_OWN = f"{Path(__file__).parent.parent}{os.sep}"


@dataclass
class FailureLog:
    """The failures of one run.

    Args:
        folder: the run folder that keeps them, or None.
        note: called with one sentence for the first failure of each kind.

    Attributes:
        counts: the number of failures of each kind.
        retried: the number of repeated evaluations, which no other count includes.
        rebuilt: how often `setup` was called again.
        reasons: the failures by reason.
        mostly_failing: whether more than half of 100 consecutive evaluations have failed.
    """

    folder: RunFolder | None
    note: Callable[[str], None]
    counts: Counter[str] = field(default_factory=Counter)
    retried: int = 0
    rebuilt: int = 0
    first: Failure | None = None
    where: str = ""
    last: str = ""
    recorded: int = 0
    succeeded: bool = False
    streak: int = 0
    reasons: dict[tuple[str, str, str], FailureReason] = field(default_factory=dict)
    mostly_failing: bool = False
    # The numbers of the last evaluations that failed.
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=_WINDOW // 2 + 1))

    def add_success(self) -> None:
        """Record that an evaluation succeeded."""
        self.succeeded = True
        self.streak = 0

    def add(self, failure: Failure, evaluation: int, number: int, task: Any, solution: np.ndarray) -> None:
        """Count the failure of evaluation `evaluation`, on task `number`."""
        self.counts[failure.kind] += 1
        self.streak += failure.kind != "nan"
        self._add_reason(failure)
        self.recent.append(evaluation)
        if len(self.recent) == self.recent.maxlen and evaluation - self.recent[0] < _WINDOW:
            self.mostly_failing = True
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

    def _add_reason(self, failure: Failure) -> None:
        where = raised_at(failure.trace) if failure.kind == "raised" else ""
        message = failure.message
        if where:  # it says what the message repeats
            message = re.sub(r" \([^()]*, line [0-9]+\)", "", message.removeprefix("fitness raised "))
        reason = FailureReason(kind=failure.kind, message=message, where=where)
        known = self.reasons.get(reason.key)
        self.reasons[reason.key] = reason if known is None else replace(known, count=known.count + 1)

    def add_all(self, found: Outcomes, told: int, numbers: np.ndarray, tasks: Any, solutions: np.ndarray) -> None:
        """Count the failures and successes among the outcomes of some candidates.

        Args:
            found: the outcomes.
            told: the number of results before these.
            numbers: task numbers of the candidates that `found.rows` index.
            tasks: their tasks, as the fitness receives them.
            solutions: their solutions, `(rows, dim)`.
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

    def add_rebuild(self, reason: str) -> None:
        """Count a further call of `setup`, made after this exception."""
        self.rebuilt += 1
        # Report the first ones and then powers of ten only, to keep the log short.
        if self.rebuilt <= 3 or set(str(self.rebuilt)[1:]) == {"0"}:
            self.note(f"setup was called again (rebuild {self.rebuilt:,}), since {reason}")

    def check(self, *, ended: bool = False) -> None:
        """Raise if everything fails.

        Args:
            ended: whether the run is at its end, where a single error without a success is enough.

        Raises:
            FitnessError: with the first failure, or the last one of a streak.
        """
        if self.streak >= _STREAK and self.succeeded:
            raise FitnessError(f"the last {self.streak:,} evaluations all failed; the last one: {self.last}")
        if self.succeeded or self.first is None:
            return
        total = self.counts.total()
        errors = total - self.counts["nan"]
        if errors >= _PATIENCE or total >= _PATIENCE_NAN or (ended and errors):
            failed = "the only evaluation failed" if total == 1 else f"all {total:,} evaluations failed; the first"
            error = FitnessError(f"{failed}: {self.first.message} {self.where}")
            if self.first.trace:
                error.add_note(self.first.trace)
            raise error

    def snapshot(self) -> dict[str, Any]:
        """Return plain values for a checkpoint."""
        first = None if self.first is None else [self.first.kind, self.first.message, self.first.trace]
        return {
            "counts": dict(self.counts),
            "retried": self.retried,
            "rebuilt": self.rebuilt,
            "first": first,
            "where": self.where,
            "recorded": self.recorded,
            "succeeded": self.succeeded,
            "streak": self.streak,
            "reasons": [asdict(reason) for reason in self.reasons.values()],
        }

    def restore(self, kept: dict[str, Any]) -> None:
        """Continue from a snapshot.

        Raises:
            ValueError, TypeError, KeyError: if it is malformed.
        """
        self.counts = Counter({kind: count_in(kept["counts"], kind) for kind in kept["counts"]})
        first = kept["first"]
        if not all(isinstance(text, str) for text in [kept["where"], *(first or ())]):
            raise InvalidTypeError("its failures must have texts")
        self.first = None if first is None else Failure(*first)
        self.where, self.succeeded = kept["where"], bool(kept["succeeded"])
        for name in ("retried", "rebuilt", "recorded", "streak"):
            setattr(self, name, count_in(kept, name))
        reasons = map(FailureReason.from_plain, kept["reasons"])
        self.reasons = {reason.key: reason for reason in reasons}
        if self.folder is not None:
            self.folder.keep_failures(self.recorded)


@dataclass
class FailureAlarm:
    """Warns once per run, while it runs, that more than half of the recent evaluations failed.

    Args:
        note: called with the warning, for the log.
        paused: returns a context in which a warning can be printed.

    Attributes:
        given: whether the warning was given.
        seen: the numbers of failed and of all evaluations at the last call of `check_counts`.
    """

    note: Callable[[str], None] = lambda text: None
    paused: Callable[[], AbstractContextManager[None]] = nullcontext
    given: bool = False
    seen: tuple[int, int] = (0, 0)

    def sound(self, failures: FailureLog, evaluations: int) -> None:
        """Warn that a run that has made `evaluations` so far mostly fails."""
        if not self.given:
            reason = most_frequent_first(failures.reasons.values())[0]
            most = f"; the most frequent reason, {reason.count:,} times: {reason}"
            self._warn(min(_WINDOW, evaluations), failures.counts.total(), evaluations, most)

    def check_counts(self, failed: int, evaluations: int) -> None:
        """Warn if the evaluations since the last call mostly failed, given the counts since the run began."""
        before_failed, before = self.seen
        if evaluations < before:  # the next run
            before_failed = before = 0
        new = evaluations - before
        if new < _WINDOW:
            return
        self.seen = failed, evaluations
        if not self.given and 2 * (failed - before_failed) > new:
            self._warn(new, failed, evaluations, ": fitness returned NaN or +inf")

    def _warn(self, window: int, failed: int, evaluations: int, why: str) -> None:
        self.given = True
        text = f"more than half of the last {window:,} evaluations failed, {failed:,} of {evaluations:,} so far{why}"
        self.note(text)
        with self.paused():
            warn_user(text, FitnessWarning)


def raised_at(trace: str) -> str:
    r"""Return file:line of the deepest frame of a traceback that is the user's, or else of the deepest one.

    Example:
        >>> raised_at('File "/home/me/arm.py", line 3, in f\n  File "/usr/lib/python3.12/json/__init__.py", line 9')
        '/home/me/arm.py:3'
    """
    frames = [frame for frame in _FRAME.findall(trace) if not frame[0].startswith(_OWN)]
    users = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    return ":".join((users or frames)[-1]) if frames else ""


def raise_first(found: Outcomes, numbers: np.ndarray, solutions: np.ndarray) -> None:
    """Raise the first failure among these outcomes, for `on_error="raise"`."""
    at = min(found.failures)
    failure, row = found.failures[at], int(found.rows[at])
    error = FitnessError(f"{failure.message} {place(int(numbers[row]), solutions[row])}")
    if failure.trace:
        error.add_note(failure.trace)
    raise error


def place(number: int, solution: np.ndarray) -> str:
    """Return the task and the solution of an evaluation, for a message."""
    return f"[task {number}, solution {reprlib.repr(solution.tolist())}]"


@dataclass(frozen=True)
class FailedEvaluation:
    """A failed evaluation of a run, read from its folder.

    Attributes:
        id: its number among the failures that were kept.
        evaluation: its number among all evaluations of the run.
        kind: "raised", "nan", "nonsense", "timeout" or "died".
        message: a sentence on what happened.
        task: the number of the task.
        descriptors: the descriptors of the task, or the text of a task that is an object.
        solution: `(dim,)`.
        tries: the number of evaluations, retries included.
        traceback: the traceback, or an empty text.
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
    """Read the failed evaluations that a run kept: the first hundred of each kind.

    Args:
        run: a run folder.

    Raises:
        FileNotFoundError: if the folder does not exist.
        StorageError: if `failures.jsonl` can't be read or is larger than 1 GiB. Malformed lines are left out.

    Example:
        >>> import tempfile, taskelites as te
        >>> te.analysis.failures(tempfile.mkdtemp())
        []
    """
    folder = Path(run)
    if not folder.is_dir():
        raise MissingFileError(f"there is no run folder {str(folder)!r}")
    path = folder / "failures.jsonl"
    if not path.is_file():
        return []
    with reading(path, "not of a taskelites run", "restore it, or remove it"):
        lines = read_text(path, MOST_UNPACKED).split("\n")
    found = []
    for line in lines:
        with suppress(*MALFORMED):  # a killed run can leave half a line
            found.append(_failure_of(parse_json(line)))
    return found


def _failure_of(record: dict[str, Any]) -> FailedEvaluation:
    """Return the failure in a line of `failures.jsonl`, after a check of its values."""
    for name in ("id", "evaluation", "task", "tries"):
        count_in(record, name)
    if not all(isinstance(record[name], str) for name in ("kind", "message", "traceback")):
        raise InvalidTypeError("its kind, message and traceback must be texts")
    solution = np.array(record["solution"], np.float64)
    if solution.ndim != 1:
        raise InvalidValueError("its solution must be a list of numbers")
    return FailedEvaluation(**record | {"solution": solution})


def read_failure(run: Any, number: int) -> FailedEvaluation:
    """Read one failed evaluation by its id."""
    found = failures(run)
    wanted = whole_number("ID", number, least=1)
    for failure in found:
        if failure.id == wanted:
            return failure
    below = sorted(path.parent.name for path in Path(run).glob("*/failures.jsonl"))
    known = f"it has {found[0].id} to {found[-1].id}" if found else "it has none"
    hint = f"; there are some in its folders {', '.join(below)}" if below else ""
    raise InvalidValueError(f"run {str(run)!r} has no failure {wanted}: {known}{hint}")
