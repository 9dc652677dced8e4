"""What the loops have in common: their interface, what they report to, and how rows of several runs are evaluated."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from taskelites.algorithms import Candidates
from taskelites.core import metrics
from taskelites.evaluation import Outcomes
from taskelites.results.result import Result
from taskelites.runs import Checkpoint, Checkpointer, Interruption, Progress, Snapshot


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


class Loop(Protocol):
    """Runs that go together, from their beginning or a checkpoint to their end."""

    @property
    def position(self) -> int:
        """The number of evaluations of each run, on average."""

    def restore(self, checkpoints: list[Checkpoint | None]) -> None:
        """Go on from checkpoints, one per run; None for a run that begins."""

    def run(self) -> None:
        """Run until the budget is spent, the target is reached, or the user interrupts.

        Raises:
            FitnessError: if an evaluation ends a run, or all evaluations of one fail.
        """

    def snapshots(self) -> list[Snapshot]:
        """Return what a checkpoint keeps, one per run."""

    def results(self) -> list[Result]:
        """Return what was found, one per run."""


@dataclass(frozen=True)
class Control:
    """What a loop asks and reports to while it runs.

    Attributes:
        interruption: whether the user wants it to stop.
        checkpointer: saves checkpoints when they are due.
        bar: shows the progress; None if nobody looks.
        shown_before: evaluations that earlier runs have added to the bar.
        note: told in a sentence what happens.
    """

    interruption: Interruption = field(default_factory=Interruption)
    checkpointer: Checkpointer = field(default_factory=Checkpointer)
    bar: Progress | None = None
    shown_before: int = 0
    note: Callable[[str], None] = lambda text: None

    def show(self, evaluations: int, fitness: Callable[[], np.ndarray]) -> None:
        """Show the progress; `fitness` of all tasks is asked for only if somebody looks now."""
        if self.bar is not None:
            self.bar.update(self.shown_before + evaluations, lambda: metrics.summary(fitness()))


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
