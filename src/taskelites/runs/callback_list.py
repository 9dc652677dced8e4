"""The callbacks of a run, whose errors do not end it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from taskelites.errors import CallbackWarning, StopRun, warn_user
from taskelites.evaluation.caller import describe_exception


@dataclass
class CallbackList:
    """Calls every callback with each row of the history.

    The first `Exception` of each callback is reported, and all of them are counted. The run goes on. `StopRun` and
    exceptions that are no `Exception`, such as `KeyboardInterrupt`, are kept in `stop`: the run ends where it can be
    saved, and raises it.

    Args:
        callbacks: functions of a row.
        note: called with one sentence per event, for the log.
        paused: returns a context in which a warning can be printed.

    Attributes:
        stop: the exception that ends the run; None while it goes on.
        failed: the number of errors in callbacks.
        reported: the positions of the callbacks whose first error was reported.

    Example:
        >>> callbacks = CallbackList([print])
        >>> callbacks({"evaluations": 64})
        {'evaluations': 64}
    """

    callbacks: Sequence[Callable[[Mapping[str, Any]], Any]] = ()
    note: Callable[[str], None] = lambda text: None
    paused: Callable[[], AbstractContextManager[None]] = nullcontext
    stop: BaseException | None = None
    failed: int = 0
    reported: set[int] = field(default_factory=set)

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Call every callback with a row."""
        for number, callback in enumerate(self.callbacks):
            try:
                callback(row)
            except StopRun as problem:
                self._end(problem)
            except Exception as problem:  # noqa: BLE001 - a user's function may raise anything
                self._survive(number, problem)
            except BaseException as problem:  # noqa: BLE001 - raised again as soon as the run is saved
                self._end(problem)

    def _end(self, problem: BaseException) -> None:
        self.stop = self.stop or problem

    def _survive(self, number: int, problem: Exception) -> None:
        self.failed += 1
        if number in self.reported:
            return
        self.reported.add(number)
        message, _ = describe_exception("callback", problem)
        text = f"{message}; the run goes on, and further errors of this callback are only counted"
        self.note(text)
        try:
            with self.paused():
                warn_user(text, CallbackWarning)
        except CallbackWarning:  # warnings are errors here, so this one ends the run
            self._end(problem)
