"""The interface of the loops: what they offer, and the interruption, checkpoints, callbacks and progress they use."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from taskelites.process import Interruption
from taskelites.results.result import Result
from taskelites.runs import CallbackList, Checkpoint, Checkpointer, FailureAlarm, Progress, Snapshot


class Loop(Protocol):
    """Runs that advance together, from their beginning or a checkpoint to their end."""

    @property
    def position(self) -> int:
        """The mean number of evaluations per run."""

    def restore(self, checkpoints: list[Checkpoint | None]) -> None:
        """Continue from checkpoints, one per run; None for a run that begins anew."""

    def run(self) -> None:
        """Run until the budget is spent, the target is reached, or the user interrupts.

        Raises:
            FitnessError: if one evaluation ends a run (`on_error="raise"`), or every evaluation of a run fails.
            BaseException: whatever else ends a run. A checkpoint is saved first, unless results were being told.
        """

    def snapshots(self) -> list[Snapshot]:
        """Return the snapshot of each run, for a checkpoint."""

    def results(self) -> list[Result]:
        """Return the result of each run."""


@dataclass(frozen=True)
class Control:
    """How a loop is stopped, saved and watched while it runs.

    Attributes:
        interruption: whether the user has asked to stop.
        checkpointer: saves checkpoints when they are due; None without a run folder.
        callbacks: the user's callbacks, one of which may have asked to stop.
        alarm: warns when most evaluations fail.
        bar: shows the progress; None if it is not shown.
        shown_before: evaluations that earlier runs have added to the bar.
        note: called with one sentence per event, for the log and the terminal.
    """

    interruption: Interruption = field(default_factory=Interruption)
    checkpointer: Checkpointer | None = None
    callbacks: CallbackList = field(default_factory=CallbackList)
    alarm: FailureAlarm = field(default_factory=FailureAlarm)
    bar: Progress | None = None
    shown_before: int = 0
    note: Callable[[str], None] = lambda text: None

    def rescue(self, position: int, snapshots: Callable[[], list[Snapshot]]) -> None:
        """Save a checkpoint before an exception ends the run; what is wrong with that matters less."""
        if self.checkpointer is not None and position:
            # RuntimeError: JAX's, for a state that was lost.
            with suppress(RuntimeError, OSError):
                self.checkpointer.save(position, snapshots)
