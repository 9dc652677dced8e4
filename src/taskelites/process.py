"""Signals and terminal of the process."""

import os
import signal
import stat
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

_HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none
_USUAL: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
if _HANGUP is not None:
    _USUAL[_HANGUP] = signal.SIG_DFL


class Interruption:
    """Context manager that records the first Ctrl-C, SIGTERM or SIGHUP; a second one has its usual effect.

    The search checks it between evaluations. An interrupt can therefore not occur after a state was donated to JAX and
    before the next one is available. Outside the main thread it does nothing, since Python handles signals only there.
    Under nohup, SIGHUP remains ignored.

    Attributes:
        signal: the recorded signal, or None.

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
        """Whether a signal was recorded."""
        return self.signal is not None

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number, usual in _USUAL.items():
                # Do not replace a handler that the user installed, nor nohup's.
                if signal.getsignal(number) is usual:
                    self._previous[number] = usual
                    signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(signum)
        self._restore()
        if signum == _HANGUP:
            signal.signal(signum, signal.SIG_IGN)  # a closing terminal may send it twice
            self._previous[signum] = _USUAL[signum]
            _leave_closed_terminal()
        if shows_progress(None):
            print("\nstopping and saving; interrupt again to stop at once", file=sys.stderr, flush=True)

    def _restore(self) -> None:
        for number, usual in self._previous.items():
            signal.signal(number, usual)
        self._previous.clear()


def _leave_closed_terminal() -> None:
    """Discard further output to a terminal that was closed, since writing to it would raise an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
                os.dup2(nowhere, descriptor)
    os.close(nowhere)


def shows_progress(progress: bool | None) -> bool:
    """Return whether to show progress; if `progress` is None, whether stderr is a terminal or a notebook.

    Example:
        >>> shows_progress(True), shows_progress(False)
        (True, False)
    """
    if progress is not None:
        return progress
    return sys.stderr is not None and (sys.stderr.isatty() or in_notebook())


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", ())
