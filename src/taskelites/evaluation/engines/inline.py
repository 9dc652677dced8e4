"""Interface of engines, which evaluate chunks in any order, and the engine that evaluates in this process."""

import pickle
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import cloudpickle
import numpy as np

from taskelites.errors import FitnessError
from taskelites.evaluation import caller as caller_module
from taskelites.evaluation.caller import Answer, Caller, RowFailure

# Maximum time without a check for interruption, apart from one evaluation.
_MAX_BLOCK_SECONDS = 0.02
# Below this duration a worker gets its next chunk in advance, since waiting for it would dominate.
SHORT_CHUNK_SECONDS = 0.005
# Workers need not have this library installed.
cloudpickle.register_pickle_by_value(caller_module)


@dataclass(eq=False)
class Work:
    """A chunk of candidates.

    Attributes:
        rows: `(n,)`, indices of the candidates.
        solutions: `(n, dim)`.
        tasks: n tasks.
        retries: number of retries so far, after failed evaluations.
        deaths: number of workers that died while evaluating it.
    """

    rows: np.ndarray
    solutions: np.ndarray
    tasks: Any
    retries: int = 0
    deaths: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, which: Any, **changes: int) -> "Work":
        """Return the selected candidates as a new chunk, with fields changed as given."""
        chosen = np.arange(len(self))[which]
        tasks = self.tasks[chosen] if isinstance(self.tasks, np.ndarray) else [self.tasks[i] for i in chosen]
        counts = {"retries": self.retries, "deaths": self.deaths} | changes
        return Work(self.rows[chosen], self.solutions[chosen], tasks, **counts)


class LostChunk(NamedTuple):
    """A chunk without a result, because its worker died or was killed at this row (None if unknown)."""

    kind: str
    row: int | None
    message: str


Finished = tuple[Work, Answer | LostChunk]


class Engine(Protocol):
    """Interface for evaluating chunks."""

    @property
    def slots(self) -> int:
        """Number of chunks that can be evaluated at the same time."""

    def submit(self, work: Work) -> None:
        """Queue a chunk."""

    def collect(self, wait: float) -> list[Finished]:
        """Return finished chunks, waiting at most `wait` seconds for the first one."""

    def close(self) -> None:
        """Stop at once, discard unfinished chunks and leave no process behind."""


def as_answer(plain: tuple[Any, ...]) -> Answer:
    """Convert the plain tuple returned by a `Caller` to an `Answer`."""
    fitness, behaviour, failures, *rest = plain
    return Answer(fitness, behaviour, [RowFailure(*failure) for failure in failures], *rest)


def pack(ticket: int, work: Work) -> bytes:
    """Serialise a chunk for another process.

    Raises:
        FitnessError: if the tasks can't be pickled.
    """
    try:
        # Task objects may be of a class from the user's script; for arrays, pickle is five times as fast.
        dumps = pickle.dumps if isinstance(work.tasks, np.ndarray) else cloudpickle.dumps
        return bytes(dumps((ticket, work.solutions, work.tasks)))
    except Exception as error:
        raise setup_error(
            f"tasks can't be sent to workers: {type(error).__name__}: {error}; give tasks that can be pickled"
        ) from error


def setup_error(message: str, trace: str = "") -> FitnessError:
    """Create the error for a setup failure, after which nothing can be evaluated."""
    error = FitnessError(message)
    if trace:
        error.add_note(trace)
    return error


class InlineEngine:
    """Engine that evaluates one chunk after another in this process."""

    slots = 1

    def __init__(self, caller: Caller, halt: Callable[[], Any]) -> None:
        if problem := caller.set_up():
            raise setup_error(*problem)
        self._caller = caller
        self._halt = halt
        self.waiting: deque[Work] = deque()

    def submit(self, work: Work) -> None:
        """Queue a chunk."""
        self.waiting.append(work)

    def collect(self, wait: float) -> list[Finished]:
        """Evaluate queued chunks for a short time, at least one of them in part."""
        found: list[Finished] = []
        end = time.perf_counter() + _MAX_BLOCK_SECONDS
        while self.waiting and not (found and (self._halt() or time.perf_counter() > end)):
            work = self.waiting.popleft()
            arguments = caller_module.copies(work.solutions, work.tasks)  # the fitness may modify its arguments
            answer = as_answer(self._caller(*arguments, caller_module.do_nothing, self._halt))
            done = len(answer.fitness)
            if done < len(work):
                self.waiting.appendleft(work.part(slice(done, None)))
                work = work.part(slice(done))
            found.append((work, answer))
        return found

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
