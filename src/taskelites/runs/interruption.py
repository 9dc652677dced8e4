"""Ctrl-C, and a polite request to end, that lose nothing."""

import signal
import sys
import threading
from types import FrameType
from typing import Any


class Interruption:
    """While it is open, the first Ctrl-C or SIGTERM is noted instead of acted on; a second one has its usual effect.

    The search asks it between two evaluations, so that an interrupt never falls between giving a state away and getting
    the next one. Outside the main thread signals are not ours to handle, and it does nothing.

    Attributes:
        signal: which one it was; None if there was none.

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
        """Whether there was one."""
        return self.signal is not None

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
                # Someone else's handler, or none: leave it alone.
                if signal.getsignal(number) is usual:
                    self._previous[number] = usual
                    signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(signum)
        self._restore()
        if sys.stderr is not None and sys.stderr.isatty():
            print("\nstopping, and saving what there is; once more ends it at once", file=sys.stderr, flush=True)

    def _restore(self) -> None:
        for number, usual in self._previous.items():
            signal.signal(number, usual)
        self._previous.clear()
