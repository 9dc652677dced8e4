"""Ctrl-C that loses nothing."""

import signal
import threading
from types import FrameType
from typing import Any


class Interruption:
    """While it is open, the first Ctrl-C is noted instead of raised; a second one is raised at once.

    The search asks it between two evaluations, so that an interrupt never falls between giving a state away and getting
    the next one. Outside the main thread signals are not ours to handle, and it does nothing.

    Example:
        >>> with Interruption() as interruption:
        ...     interruption.noted
        False
    """

    def __init__(self) -> None:
        self.noted = False
        self._previous: Any = None

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            previous = signal.getsignal(signal.SIGINT)
            # Someone else's handler, or none: leave it alone.
            if previous is signal.default_int_handler:
                self._previous = previous
                signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.noted = True
        self._restore()

    def _restore(self) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._previous = None
