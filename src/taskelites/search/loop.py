"""What the loops have in common: their interface, and what they report to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from taskelites.process import Interruption
from taskelites.results.result import Result
from taskelites.runs import Checkpoint, Checkpointer, Progress, Snapshot


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
        checkpointer: saves checkpoints when they are due; None if the run is not kept.
        bar: shows the progress; None if nobody looks.
        shown_before: evaluations that earlier runs have added to the bar.
        note: takes a sentence on what happens.
    """

    interruption: Interruption = field(default_factory=Interruption)
    checkpointer: Checkpointer | None = None
    bar: Progress | None = None
    shown_before: int = 0
    note: Callable[[str], None] = lambda text: None
