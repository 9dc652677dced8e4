"""What evaluates: chunks of candidates go in, answers come out, in any order."""

import pickle
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import cloudpickle
import numpy as np

from taskelites.errors import FitnessError
from taskelites.evaluation import caller as calling
from taskelites.evaluation.caller import Answer, Caller, Trouble, raised

_UNNOTICED = 0.02  # seconds
# Whoever is done with a chunk that takes less than this should find the next one waiting.
SHORT = 0.005
# Workers need not have this library, so what they run of it goes along with the fitness.
cloudpickle.register_pickle_by_value(calling)


@dataclass(eq=False)
class Work:
    """A chunk of candidates.

    Attributes:
        rows: `(n,)`, the candidates' numbers in whatever they are part of.
        solutions: `(n, dim)`.
        tasks: n of them.
        retries: how often it was tried before because of an error.
        deaths: how often a worker died of it.
    """

    rows: np.ndarray
    solutions: np.ndarray
    tasks: Any
    retries: int = 0
    deaths: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, which: Any, **changes: int) -> "Work":
        """Some of its candidates as work of their own."""
        chosen = np.arange(len(self))[which]
        tasks = self.tasks[chosen] if isinstance(self.tasks, np.ndarray) else [self.tasks[i] for i in chosen]
        counts = {"retries": self.retries, "deaths": self.deaths} | changes
        return Work(self.rows[chosen], self.solutions[chosen], tasks, **counts)


class Lost(NamedTuple):
    """A chunk without an answer: its worker died or was killed, at this row (None if nobody knows)."""

    kind: str
    row: int | None
    message: str


Finished = tuple[Work, Answer | Lost]


class Engine(Protocol):
    """Evaluates chunks."""

    @property
    def slots(self) -> int:
        """How many chunks it can evaluate at the same time."""

    def submit(self, work: Work) -> None:
        """Take a chunk."""

    def collect(self, wait: float) -> list[Finished]:
        """What is finished; if nothing is, wait for so many seconds at most."""

    def close(self) -> None:
        """End, at once, with all that is not finished, and leave no process behind."""


def as_answer(plain: tuple[Any, ...]) -> Answer:
    """An answer as it travels, as one to work with."""
    fitness, behaviour, troubles, seconds = plain
    return Answer(fitness, behaviour, [Trouble(*trouble) for trouble in troubles], seconds)


def pack(ticket: int, work: Work) -> bytes:
    """A chunk as it travels to another process."""
    try:
        # Objects may be of a class of the user's script; for arrays, the plain way is five times faster.
        dumps = pickle.dumps if isinstance(work.tasks, np.ndarray) else cloudpickle.dumps
        return bytes(dumps((ticket, work.solutions, work.tasks)))
    except Exception as problem:
        raise setup_error(
            f"tasks can't be sent to workers: {type(problem).__name__}: {problem}; give them as something that pickles"
        ) from problem


def setup_error(message: str, trace: str = "") -> FitnessError:
    """Why no evaluation is possible."""
    error = FitnessError(message)
    if trace:
        error.add_note(trace)
    return error


class InlineEngine:
    """This process, one chunk after another."""

    slots = 1

    def __init__(self, caller: Caller, halt: Callable[[], Any]) -> None:
        try:
            self._caller = caller.prepare()
        except Exception as problem:
            raise setup_error(raised("setup", problem)[0]) from problem
        self._halt = halt
        self.waiting: deque[Work] = deque()

    def submit(self, work: Work) -> None:
        """Take a chunk."""
        self.waiting.append(work)

    def collect(self, wait: float) -> list[Finished]:
        """Evaluate what waits, for as long as nobody would notice."""
        found: list[Finished] = []
        end = time.perf_counter() + _UNNOTICED
        while self.waiting and not (found and (self._halt() or time.perf_counter() > end)):
            work = self.waiting.popleft()
            given = calling.copies(work.solutions, work.tasks)  # as workers get them
            answer = as_answer(self._caller(*given, calling.nothing, self._halt))
            done = len(answer.fitness)
            if done < len(work):
                self.waiting.appendleft(work.part(slice(done, None)))
                work = work.part(slice(done))
            found.append((work, answer))
        return found

    def close(self) -> None:
        """Nothing to end."""
