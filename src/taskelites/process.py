"""What belongs to the process as a whole: its signals and its terminal."""

import signal
import sys
import threading
from types import FrameType
from typing import Any


class Interruption:
    """A context in which the first Ctrl-C or SIGTERM is noted instead of acted on; a second one has its usual effect.

    The search looks at it between two evaluations, so that an interrupt never falls between giving a state away and
    getting the next one. Outside the main thread it does nothing, since only the main thread can handle signals.

    Attributes:
        signal: the signal that was noted, or None.

    Example:
        >>> with Interruption() as interruption:
        ...     interruption.noted
        False
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._previous: dict[int, Any] = {}

    @property
    def noted(self) -> bool:
        """Whether a signal was noted."""
        return self.signal is not None

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
                # A handler of somebody else's stays.
                if signal.getsignal(number) is usual:
                    self._previous[number] = usual
                    signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(signum)
        self._restore()
        if shows_progress(None):
            print("\nstopping and saving; interrupt again to stop at once", file=sys.stderr, flush=True)

    def _restore(self) -> None:
        for number, usual in self._previous.items():
            signal.signal(number, usual)
        self._previous.clear()


def shows_progress(progress: bool | None) -> bool:
    """Return whether to show progress: as the user wishes, or else if stderr is a terminal.

    Example:
        >>> shows_progress(True), shows_progress(False)
        (True, False)
    """
    return (sys.stderr is not None and sys.stderr.isatty()) if progress is None else progress
