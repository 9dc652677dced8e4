"""Dispatch of candidates to an engine: chunks, retries and failures.

A failed evaluation is skipped, retried or ends the run, depending on `on_error`. If a process dies or hangs, the
candidate that it was evaluating is identified, and the other candidates of its chunk are evaluated again.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from taskelites.algorithms import Candidates
from taskelites.evaluation.caller import Answer, do_nothing
from taskelites.evaluation.engines.inline import SHORT_CHUNK_SECONDS, Engine, LostChunk, Work

# Target duration of a chunk: long enough to hide the overhead of messages, short enough to keep all workers busy.
_CHUNK_SECONDS = 0.02
_MAX_CHUNK_ROWS = 4096
_WAIT_SECONDS = 0.1
# Maximum number of pending chunks per slot within a step. Queued chunks are serialised in advance.
_QUEUED_PER_SLOT = 6


@dataclass(frozen=True)
class Failure:
    """A failed evaluation.

    Attributes:
        kind: "raised", "nan", "nonsense", "timeout" or "died".
        message: one-sentence description.
        trace: the traceback; empty if there is none.
        tries: number of attempts.
    """

    kind: str
    message: str
    trace: str = ""
    tries: int = 1


@dataclass(frozen=True)
class Outcomes:
    """Results of n candidates.

    Attributes:
        rows: `(n,)`, indices of the candidates.
        fitness: `(n,)`; NaN where the evaluation failed.
        behaviour: `(n, behaviour_dim)`, or None.
        failures: failed evaluations, by position in 0..n-1.
        again: number of repeated evaluations, by position in 0..n-1.
    """

    rows: np.ndarray
    fitness: np.ndarray
    behaviour: np.ndarray | None
    failures: dict[int, Failure] = field(default_factory=dict)
    again: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, which: slice) -> "Outcomes":
        """Return the results of a slice of the candidates."""
        start, stop, _ = which.indices(len(self))
        failures = {i - start: failure for i, failure in self.failures.items() if start <= i < stop}
        again = {i - start: number for i, number in self.again.items() if start <= i < stop}
        behaviour = None if self.behaviour is None else self.behaviour[which]
        return Outcomes(self.rows[which], self.fitness[which], behaviour, failures, again)


class Evaluable(Protocol):
    """Source of candidates: a run of a search, or the elites of an analysis."""

    def ask(self) -> Candidates:
        """Return the next candidates as NumPy arrays."""

    def take(self, found: Outcomes, asked: Candidates) -> None:
        """Process the next results.

        Args:
            found: results, in the order of the candidates.
            asked: the candidates that `found.rows` indexes.

        Raises:
            FitnessError: if a failure ends the run. The results before it are processed.
        """


class Evaluator(Protocol):
    """Interface for evaluating candidates: a `Dispatcher`, or a compiled function."""

    def stream(
        self, solutions: np.ndarray, tasks: Any, *, offset: int, behaviour_dim: int, halt: Callable[[], bool]
    ) -> Iterator[Outcomes]:
        """Yield results in the order of the rows as they become available, until all are done or `halt()` is true."""

    def close(self) -> None:
        """Release processes and connections."""


def evaluate_together(
    evaluator: Evaluator,
    runs: Sequence[Evaluable],
    halt: Callable[[], bool],
    *,
    offset: int = 0,
    behaviour_dim: int = 0,
) -> Iterator[None]:
    """Evaluate the next candidates of several runs in shared calls.

    Args:
        evaluator: evaluates the candidates.
        runs: each asks for candidates and receives their results.
        halt: returns whether to stop before all candidates are evaluated.
        offset: number of earlier rows, which aligns the chunks (see `Dispatcher.stream`).
        behaviour_dim: length of a behaviour; 0 if the runs use none.

    Yields:
        None, after each part of the results.
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
    """Concatenate the candidates of several runs."""
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in ("solutions", "niches", "numbers")
    }
    if isinstance(parts[0].tasks, np.ndarray):
        tasks: Any = np.concatenate([part.tasks for part in parts])
    else:
        tasks = [task for part in parts for task in part.tasks]
    return Candidates(**arrays, tasks=tasks)


def undescribed(fitness: np.ndarray, behaviour: np.ndarray | None) -> np.ndarray:
    """Return a mask `(n,)` of rows with a finite fitness but NaN in their behaviour: failed evaluations.

    Example:
        >>> undescribed(np.array([1.0, 2.0, -np.inf]), np.array([[0.5], [np.nan], [np.nan]])).tolist()
        [False, True, False]
    """
    if behaviour is None:
        return np.zeros(len(fitness), bool)
    return np.isfinite(fitness) & np.isnan(behaviour).any(axis=1)


class Dispatcher:
    """Sends candidates to an engine in chunks, and handles retries and failures.

    Args:
        engine: evaluates the chunks.
        chunk: number of rows per chunk; None to adapt it to the measured duration of an evaluation.
        retries: maximum number of retries per failed evaluation.
        on_rebuild: called when `setup` was called again, with the exception that was the reason.

    Attributes:
        evaluated: number of evaluations.
        seconds: total duration of all evaluations, measured where they ran.
        waited: seconds spent sending chunks and waiting for results.
        lost: number of chunks whose worker died or was killed.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        chunk: int | None,
        retries: int = 0,
        on_rebuild: Callable[[str], None] = do_nothing,
    ) -> None:
        self.engine = engine
        self.chunk = chunk
        self.seconds = 0.0
        self.waited = 0.0
        self.evaluated = 0
        self.lost = 0
        self._retries = retries
        self._on_rebuild = on_rebuild
        self._pending = 0
        self._chunks = 0

    def stream(
        self, solutions: np.ndarray, tasks: Any, *, offset: int, behaviour_dim: int, halt: Callable[[], Any]
    ) -> Iterator[Outcomes]:
        """Evaluate candidates, and yield results in their order as they become available.

        Chunks of a fixed size start at multiples of that size, counted from `offset` rows before the first candidate.
        Chunk boundaries therefore do not depend on where an earlier call stopped.

        Args:
            solutions: `(rows, dim)`.
            tasks: `rows` tasks.
            offset: number of rows before the first candidate.
            behaviour_dim: length of a behaviour; 0 for none.
            halt: returns whether to stop early.

        Yields:
            Results of one or more consecutive candidates.
        """
        rows = len(solutions)
        fitness = np.empty(rows)
        behaviour = np.empty((rows, behaviour_dim)) if behaviour_dim else None
        known = np.zeros(rows, bool)
        failures: dict[int, Failure] = {}
        again: dict[int, int] = {}
        sent = yielded = 0
        while yielded < rows:
            while sent < rows and self._pending < _QUEUED_PER_SLOT * self.engine.slots + 2:
                size = self._size(rows - sent, offset + sent)
                part = slice(sent, sent + size)
                self.send(Work(np.arange(sent, sent + size), solutions[part], tasks[part]))
                sent += size
            for found in self.arrived(_WAIT_SECONDS):
                fitness[found.rows] = found.fitness
                if behaviour is not None:
                    behaviour[found.rows] = np.nan if found.behaviour is None else found.behaviour
                known[found.rows] = True
                failures |= {int(found.rows[i]): failure for i, failure in found.failures.items()}
                again |= {int(found.rows[i]): number for i, number in found.again.items()}
            until = rows if known[yielded:].all() else yielded + int(known[yielded:].argmin())
            if until > yielded:
                whole = Outcomes(np.arange(rows), fitness, behaviour, failures, again)
                yield whole if until - yielded == rows else whole.part(slice(yielded, until))
                yielded = until
            if halt():
                return

    def send(self, work: Work) -> None:
        """Submit a chunk to the engine."""
        begin = time.perf_counter()
        self._pending += 1
        self.engine.submit(work)
        self.waited += time.perf_counter() - begin

    def arrived(self, wait: float) -> list[Outcomes]:
        """Return final results, waiting at most `wait` seconds for the first finished chunk."""
        begin = time.perf_counter()
        finished = self.engine.collect(wait)
        if self.evaluated:  # exclude the start-up of the workers
            self.waited += time.perf_counter() - begin
        self._pending -= len(finished)
        settled = [self._settle(*each) for each in finished]
        return [each for each in settled if each is not None]

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    def size(self, rows: int) -> int:
        """Return the size of the next chunk, given the number of remaining rows."""
        return self._size(rows, 0)

    @property
    def room(self) -> int:
        """Number of additional chunks that keep all slots of the engine busy."""
        slots = self.engine.slots
        are_short = self._chunks > 0 and self.seconds / self._chunks < SHORT_CHUNK_SECONDS
        return slots + (slots + 2 if are_short else max(2, slots // 4)) - self._pending

    def _size(self, left: int, sent: int) -> int:
        if self.chunk is not None:
            return min(left, self.chunk - sent % self.chunk)
        if not self.evaluated:
            return 1
        each = max(self.seconds / self.evaluated, 1e-9)
        fair = left if self.engine.slots == 1 else -(-left // (2 * self.engine.slots))
        # If workers die often, keep the chance that a chunk is lost below one half.
        safe = self.evaluated // (2 * self.lost) if self.lost else _MAX_CHUNK_ROWS
        return max(1, min(int(_CHUNK_SECONDS / each), fair, safe, _MAX_CHUNK_ROWS))

    def _settle(self, work: Work, answer: Answer | LostChunk) -> Outcomes | None:
        """Return the final results of a chunk, and send its other rows again."""
        if isinstance(answer, LostChunk):
            return self._settle_lost(work, answer)
        self.seconds += answer.seconds
        self.evaluated += len(work)
        self._chunks += 1
        for reason in answer.rebuilt:
            self._on_rebuild(reason)
        fitness = answer.fitness
        complete = answer.behaviour is None or not undescribed(fitness, answer.behaviour).any()
        if not answer.failures and np.isfinite(fitness).all() and complete:
            again = _extra_evaluations(work) if work.retries or work.deaths else {}
            return Outcomes(work.rows, fitness, answer.behaviour, again=again)
        if answer.failures and answer.failures[0].row < 0:
            failure = answer.failures[0]
            if failure.kind == "raised" and len(work) > 1:  # find the row that raised
                self._send_individually(work)
                return None
            failures = {i: Failure(failure.kind, failure.message, failure.trace) for i in range(len(work))}
        else:
            failures = {each.row: Failure(each.kind, each.message, each.trace) for each in answer.failures}
            for i in np.flatnonzero(np.isnan(fitness) | (fitness == np.inf)):
                failures.setdefault(int(i), Failure("nan", f"fitness returned {fitness[i]}"))
            for i in np.flatnonzero(undescribed(fitness, answer.behaviour)):
                failures.setdefault(int(i), Failure("nan", "the behaviour contains NaN"))
        return self._finish(work, fitness, answer.behaviour, failures)

    def _settle_lost(self, work: Work, lost: LostChunk) -> Outcomes | None:
        self.lost += 1
        if lost.row is None:
            # Retry the same rows first, since only equal chunks give bitwise equal results; then isolate the culprit.
            if lost.kind == "died" and work.deaths == 0:
                self.send(work.part(slice(None), deaths=1))
            else:
                self._send_individually(work)
            return None
        others = [i for i in range(len(work)) if i != lost.row]
        while others:
            size = self.size(len(others))
            self.send(work.part(others[:size]))
            others = others[size:]
        suspect = work.part([lost.row], deaths=work.deaths + (lost.kind == "died"))
        # The operating system may have killed the worker, for example for lack of memory: retry before blaming the row.
        if lost.kind == "died" and suspect.deaths == 1:
            self.send(suspect)
            return None
        behaviour = None  # the receiver fills in NaN
        return self._finish(suspect, np.array([np.nan]), behaviour, {0: Failure(lost.kind, lost.message)})

    def _send_individually(self, work: Work) -> None:
        """Send each row as a chunk of its own, with its count of deaths reset."""
        for i in range(len(work)):
            self.send(work.part([i], deaths=0))

    def _finish(
        self, work: Work, fitness: np.ndarray, behaviour: np.ndarray | None, failures: dict[int, Failure]
    ) -> Outcomes | None:
        """Return the final results of a chunk with failures, and send failed rows again while retries are left."""
        if failures and work.retries < self._retries:
            places = sorted(failures)
            self.send(work.part(places, retries=work.retries + 1))
            kept = np.setdiff1d(np.arange(len(work)), places)
            if not len(kept):
                return None
            part = work.part(kept)
            return Outcomes(
                part.rows, fitness[kept], None if behaviour is None else behaviour[kept], {}, _extra_evaluations(part)
            )
        again = _extra_evaluations(work)
        tries = 1 + again.get(0, 0)
        failures = {i: Failure(each.kind, each.message, each.trace, tries) for i, each in failures.items()}
        values = fitness.copy()
        values[list(failures)] = np.nan
        return Outcomes(work.rows, values, behaviour, failures, again)


def _extra_evaluations(work: Work) -> dict[int, int]:
    """Return the number of repeated evaluations per row, except those caused by another row of its chunk."""
    more = work.retries + (work.deaths > 0)
    return dict.fromkeys(range(len(work)), more) if more else {}
