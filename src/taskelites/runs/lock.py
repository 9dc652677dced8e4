"""One process at a time writes to a run folder."""

import contextlib
import errno
import fcntl
import os
import re
import socket
import warnings
from pathlib import Path

from taskelites.errors import RunInUseError

_NAME = ".lock"
_HOLDER = re.compile(r"process ([0-9]+) on host (\S+)\n")
_UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)


class RunLock:
    """An exclusive lock on a run folder, which the system frees when the process ends, whatever ends it.

    It is a lock on the file `.lock` in the folder. The file stays there: if it were removed, one process could hold the
    file that is gone while another locks a new one. Where the file system has no locks, it warns and does nothing.

    Args:
        folder: of the run; it must exist.

    Raises:
        RunInUseError: when acquired, if it is held already, by another process or in this one.
        OSError: when acquired, if the file can't be opened.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with RunLock(folder):
        ...     RunLock(folder).acquire()
        Traceback (most recent call last):
        taskelites.errors.RunInUseError: the run folder '...' is in use by this process; ...
    """

    def __init__(self, folder: Path) -> None:
        self._folder = Path(folder)
        self._descriptor: int | None = None

    def __enter__(self) -> "RunLock":
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock, or raise at once."""
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # Read before closing; closing a descriptor that never got the lock frees nothing.
            holder = _holder(descriptor)
            os.close(descriptor)
            self._refuse(error, holder)
            return
        self._descriptor = descriptor
        _held.add(self)
        # For the message of others only: a disk too full for it is no reason to stop.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on host {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        """Free the lock; nothing happens if it is not held."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        _held.discard(self)
        # Unlocked first: a child that is being started right now has a copy of the descriptor until its exec.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

    def _open(self) -> int:
        path = self._folder / _NAME
        try:
            # Python opens it so that no program started later inherits it. No links are followed, since it is emptied.
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise OSError(
                error.errno, f"could not open the lock file {str(path)!r}: {error.strerror}; check the run folder"
            ) from error

    def _refuse(self, error: OSError, holder: str) -> None:
        """Say why there is no lock: raise, or warn where there can be none."""
        folder = str(self._folder)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise RunInUseError(f"the run folder {folder!r} is in use by {holder}") from None
        if error.errno not in _UNSUPPORTED:
            raise OSError(error.errno, f"could not lock the run folder {folder!r}: {error.strerror}") from error
        warnings.warn(
            f"the file system of the run folder {folder!r} has no locks ({error.strerror}); "
            "see to it that no other process uses the folder",
            UserWarning,
            stacklevel=3,
        )


def _holder(descriptor: int) -> str:
    """Who holds the lock, and what to do about it; the file is empty for a moment after the lock is taken."""
    try:
        match = _HOLDER.fullmatch(os.pread(descriptor, 1000, 0).decode(errors="replace"))
    except OSError:
        match = None
    if match is None:
        return "another process; wait for it or stop it"
    if int(match[1]) == os.getpid() and match[2] == socket.gethostname():
        return "this process; wait for its other run or name another folder"
    return f"process {match[1]} on host {match[2]}; wait for it or stop it"


# A forked child has copies of all descriptors, and would keep a lock for as long as it lives.
_held: set[RunLock] = set()


def _forget() -> None:
    """In a child just forked: close the copies, which leaves the parent's lock as it is."""
    for lock in _held:
        if lock._descriptor is not None:
            os.close(lock._descriptor)
            lock._descriptor = None
    _held.clear()


os.register_at_fork(after_in_child=_forget)
