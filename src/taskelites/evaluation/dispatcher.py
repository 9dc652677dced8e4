"""Between the search and an engine: cuts candidates into chunks, and settles what became of each of them.

An evaluation that fails is skipped, tried again or ends the run, as the user wishes. When a process dies or hangs, the
candidate it was at is found, and all others of its chunk are evaluated again.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from taskelites.algorithms import Candidates
from taskelites.evaluation.caller import Answer
from taskelites.evaluation.engines.inline import SHORT, Engine, Lost, Work

# A chunk of single evaluations should take this long: much longer than a message, much shorter than a coffee.
_CHUNK_SECONDS = 0.02
_MOST_ROWS = 4096
_WAIT = 0.1
# Chunks of a step that are sent for each slot; what waits in line is packed already.
_LINE = 6


@dataclass(frozen=True)
class Failure:
    """An evaluation that gave no number.

    Attributes:
        kind: "raised", "nan", "nonsense", "timeout" or "died".
        message: what happened, in a sentence.
        trace: the traceback, where there is one.
        tries: how often it was evaluated.
    """

    kind: str
    message: str
    trace: str = ""
    tries: int = 1


@dataclass(frozen=True)
class Outcomes:
    """What came of some candidates.

    Attributes:
        rows: `(n,)`, which.
        fitness: `(n,)`.
        behaviour: `(n, behaviour_dim)`, or None.
        failures: by place among these n.
        again: by place among these n, how many evaluations more than one were made.
    """

    rows: np.ndarray
    fitness: np.ndarray
    behaviour: np.ndarray | None
    failures: dict[int, Failure] = field(default_factory=dict)
    again: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, which: slice) -> "Outcomes":
        """Some of them."""
        start, stop, _ = which.indices(len(self))
        failures = {i - start: failure for i, failure in self.failures.items() if start <= i < stop}
        again = {i - start: number for i, number in self.again.items() if start <= i < stop}
        behaviour = None if self.behaviour is None else self.behaviour[which]
        return Outcomes(self.rows[which], self.fitness[which], behaviour, failures, again)


class Evaluable(Protocol):
    """Something whose candidates are evaluated: a run of a search, or the elites of an analysis."""

    def ask(self) -> Candidates:
        """Return the next candidates, on the host."""

    def take(self, found: Outcomes, asked: Candidates) -> None:
        """Take the next results.

        Args:
            found: results, in the order of the candidates.
            asked: the candidates that `found.rows` point into.

        Raises:
            FitnessError: if one of them ends the run; those before it are taken.
        """


class Evaluator(Protocol):
    """Something that evaluates rows: a `Dispatcher`, or a compiled function."""

    def stream(
        self, solutions: np.ndarray, tasks: Any, *, offset: int, behaviour_dim: int, halt: Callable[[], bool]
    ) -> Iterator[Outcomes]:
        """Yield results in the order of the rows, as they become known, until all are or `halt()`."""

    def close(self) -> None:
        """Let go of processes and connections."""


def evaluate_together(
    evaluator: Evaluator,
    runs: Sequence[Evaluable],
    halt: Callable[[], bool],
    *,
    offset: int = 0,
    behaviour_dim: int = 0,
) -> Iterator[None]:
    """Ask all of these runs, evaluate their rows in shared calls, and let each take its own.

    Args:
        evaluator: evaluates the rows.
        runs: each asks for some rows.
        halt: whether to stop before all rows are evaluated.
        offset: rows before the first one, by which the rows are cut into chunks.
        behaviour_dim: length of a behaviour; 0 if the runs use none.

    Yields:
        After each part of the results.
    """
    parts = [run.ask() for run in runs]
    asked = parts[0] if len(parts) == 1 else _joined(parts)
    ends = list(accumulate(map(len, parts)))
    stream = evaluator.stream(asked.solutions, asked.tasks, offset=offset, behaviour_dim=behaviour_dim, halt=halt)
    for found in stream:
        first, begin = int(found.rows[0]), 0
        for run, end in zip(runs, ends, strict=True):
            start, stop = max(begin - first, 0), min(end - first, len(found))
            if start < stop:
                run.take(found if stop - start == len(found) else found.part(slice(start, stop)), asked)
            begin = end
        yield


def _joined(parts: list[Candidates]) -> Candidates:
    """Return the candidates of several runs, one run after another."""
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in ("solutions", "niches", "numbers")
    }
    if isinstance(parts[0].tasks, np.ndarray):
        tasks: Any = np.concatenate([part.tasks for part in parts])
    else:
        tasks = [task for part in parts for task in part.tasks]
    return Candidates(**arrays, tasks=tasks)


def undescribed(fitness: np.ndarray, behaviour: np.ndarray | None) -> np.ndarray:
    """Which rows have a fitness, but NaN in their behaviour: such an evaluation has failed.

    Example:
        >>> undescribed(np.array([1.0, 2.0, -np.inf]), np.array([[0.5], [np.nan], [np.nan]])).tolist()
        [False, True, False]
    """
    if behaviour is None:
        return np.zeros(len(fitness), bool)
    return np.isfinite(fitness) & np.isnan(behaviour).any(axis=1)


class Dispatcher:
    """Sends candidates to an engine and settles what comes back.

    Args:
        engine: what evaluates.
        chunk: rows of a chunk; None to fit them to how long an evaluation takes.
        retries: how often an evaluation that failed is tried again.

    Attributes:
        evaluated: how many evaluations were made.
        seconds: in all evaluations together, as measured where they ran.
        waited: seconds spent sending and waiting.
        lost: chunks whose worker died or was killed.
    """

    def __init__(self, engine: Engine, *, chunk: int | None, retries: int = 0) -> None:
        self.engine = engine
        self.chunk = chunk
        self.seconds = 0.0
        self.waited = 0.0
        self.evaluated = 0
        self.lost = 0
        self._retries = retries
        self._unanswered = 0
        self._chunks = 0

    def stream(
        self, solutions: np.ndarray, tasks: Any, *, offset: int, behaviour_dim: int, halt: Callable[[], Any]
    ) -> Iterator[Outcomes]:
        """Evaluate candidates; gives what is known, in their order, as it becomes known, until done or `halt()`.

        Chunks begin at whole multiples of their size, counted from `offset` rows before the first candidate; so where
        they begin does not depend on where an earlier call ended.
        """
        rows = len(solutions)
        fitness = np.empty(rows)
        behaviour = np.empty((rows, behaviour_dim)) if behaviour_dim else None
        known = np.zeros(rows, bool)
        failures: dict[int, Failure] = {}
        again: dict[int, int] = {}
        sent = given = 0
        while given < rows:
            while sent < rows and self._unanswered < _LINE * self.engine.slots + 2:
                size = self._size(rows - sent, offset + sent)
                part = slice(sent, sent + size)
                self.send(Work(np.arange(sent, sent + size), solutions[part], tasks[part]))
                sent += size
            for found in self.arrived(_WAIT):
                fitness[found.rows] = found.fitness
                if behaviour is not None:
                    behaviour[found.rows] = np.nan if found.behaviour is None else found.behaviour
                known[found.rows] = True
                failures |= {int(found.rows[i]): failure for i, failure in found.failures.items()}
                again |= {int(found.rows[i]): number for i, number in found.again.items()}
            until = rows if known[given:].all() else given + int(known[given:].argmin())
            if until > given:
                whole = Outcomes(np.arange(rows), fitness, behaviour, failures, again)
                yield whole if until - given == rows else whole.part(slice(given, until))
                given = until
            if halt():
                return

    def send(self, work: Work) -> None:
        """Hand a chunk to the engine."""
        begin = time.perf_counter()
        self._unanswered += 1
        self.engine.submit(work)
        self.waited += time.perf_counter() - begin

    def arrived(self, wait: float) -> list[Outcomes]:
        """What is settled by now; if nothing is finished, wait for so many seconds at most."""
        begin = time.perf_counter()
        finished = self.engine.collect(wait)
        if self.evaluated:  # what comes before the first answer is start-up
            self.waited += time.perf_counter() - begin
        self._unanswered -= len(finished)
        settled = [self._settle(*each) for each in finished]
        return [each for each in settled if each is not None]

    def close(self) -> None:
        """End what evaluates."""
        self.engine.close()

    def size(self, rows: int) -> int:
        """How many of so many rows the next chunk takes."""
        return self._size(rows, 0)

    @property
    def room(self) -> int:
        """How many chunks more the engine should get, so that none of its slots runs dry."""
        slots = self.engine.slots
        short = self._chunks > 0 and self.seconds / self._chunks < SHORT
        return slots + (slots + 2 if short else max(2, slots // 4)) - self._unanswered

    def _size(self, left: int, sent: int) -> int:
        if self.chunk is not None:
            return min(left, self.chunk - sent % self.chunk)
        if not self.evaluated:
            return 1
        each = max(self.seconds / self.evaluated, 1e-9)
        fair = left if self.engine.slots == 1 else -(-left // (2 * self.engine.slots))
        # Where workers die often, a chunk should rather survive than not.
        surviving = self.evaluated // (2 * self.lost) if self.lost else _MOST_ROWS
        return max(1, min(int(_CHUNK_SECONDS / each), fair, surviving, _MOST_ROWS))

    def _settle(self, work: Work, answer: Answer | Lost) -> Outcomes | None:
        """What is final of a chunk; the rest of it is on its way again."""
        if isinstance(answer, Lost):
            return self._settle_lost(work, answer)
        self.seconds += answer.seconds
        self.evaluated += len(work)
        self._chunks += 1
        fitness = answer.fitness
        complete = answer.behaviour is None or not undescribed(fitness, answer.behaviour).any()
        if not answer.troubles and np.isfinite(fitness).all() and complete:
            again = _again(work) if work.retries or work.deaths else {}
            return Outcomes(work.rows, fitness, answer.behaviour, again=again)
        if answer.troubles and answer.troubles[0].row < 0:
            trouble = answer.troubles[0]
            if trouble.kind == "raised" and len(work) > 1:  # one of them is the culprit
                self._one_by_one(work)
                return None
            failures = {i: Failure(trouble.kind, trouble.message, trouble.trace) for i in range(len(work))}
        else:
            failures = {each.row: Failure(each.kind, each.message, each.trace) for each in answer.troubles}
            for i in np.flatnonzero(np.isnan(fitness) | (fitness == np.inf)):
                failures.setdefault(int(i), Failure("nan", f"fitness returned {fitness[i]}"))
            for i in np.flatnonzero(undescribed(fitness, answer.behaviour)):
                failures.setdefault(int(i), Failure("nan", "the behaviour has NaN in it"))
        return self._final(work, fitness, answer.behaviour, failures)

    def _settle_lost(self, work: Work, lost: Lost) -> Outcomes | None:
        self.lost += 1
        if lost.row is None:
            # Once more as it is, since the same rows give the same bits; then one of them is taken to be the culprit.
            if lost.kind == "died" and work.deaths == 0:
                self.send(work.part(slice(None), deaths=1))
            else:
                self._one_by_one(work)
            return None
        others = [i for i in range(len(work)) if i != lost.row]
        while others:
            size = self.size(len(others))
            self.send(work.part(others[:size]))
            others = others[size:]
        culprit = work.part([lost.row], deaths=work.deaths + (lost.kind == "died"))
        # Workers are also killed by others: by whoever wants the memory, say. So no evaluation is blamed at once.
        if lost.kind == "died" and culprit.deaths == 1:
            self.send(culprit)
            return None
        behaviour = None  # whoever stores it fills in NaN
        return self._final(culprit, np.array([np.nan]), behaviour, {0: Failure(lost.kind, lost.message)})

    def _one_by_one(self, work: Work) -> None:
        """Send candidates once more, each on its own; of those that are fine, nobody died."""
        for i in range(len(work)):
            self.send(work.part([i], deaths=0))

    def _final(
        self, work: Work, fitness: np.ndarray, behaviour: np.ndarray | None, failures: dict[int, Failure]
    ) -> Outcomes | None:
        """What is final of a chunk with failures: all, unless they are to be tried again."""
        if failures and work.retries < self._retries:
            places = sorted(failures)
            self.send(work.part(places, retries=work.retries + 1))
            kept = np.setdiff1d(np.arange(len(work)), places)
            if not len(kept):
                return None
            part = work.part(kept)
            return Outcomes(part.rows, fitness[kept], None if behaviour is None else behaviour[kept], {}, _again(part))
        again = _again(work)
        tries = 1 + again.get(0, 0)
        failures = {i: Failure(each.kind, each.message, each.trace, tries) for i, each in failures.items()}
        values = fitness.copy()
        values[list(failures)] = np.nan
        return Outcomes(work.rows, values, behaviour, failures, again)


def _again(work: Work) -> dict[int, int]:
    """How many evaluations more than one each row took, apart from those for the sake of another row."""
    more = work.retries + (work.deaths > 0)
    return dict.fromkeys(range(len(work)), more) if more else {}
