"""The lock of a run folder: one process at a time writes to it."""

import contextlib
import errno
import fcntl
import os
import re
import socket
import warnings
from pathlib import Path

from taskelites.errors import RunInUseError
from taskelites.storage import refuse_link

_NAME = ".lock"
_HOLDER = re.compile(r"process ([0-9]+) on host (\S+)\n")
_UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)


class RunLock:
    """An exclusive lock on a run folder, which the operating system frees when the process ends for any reason.

    It locks the file `.lock` in the folder. The file is never removed: otherwise one process could hold the removed
    file while another locks a new one. On a file system without locks, it warns and does nothing.

    Args:
        folder: the run folder, which must exist.

    Raises:
        RunInUseError: on acquisition, if another process or this one holds the lock.
        OSError: on acquisition, if the file can't be opened; a `StorageError`, if it is a symbolic link.

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
        """Take the lock, or raise without waiting."""
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # Closing a descriptor that never got the lock does not free the lock.
            holder = _holder(descriptor)
            os.close(descriptor)
            self._refuse(error, holder)
            return
        self._descriptor = descriptor
        _held.add(self)
        # Only for the message in other processes, so a full disk is no reason to stop.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on host {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        """Free the lock if it is held."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        _held.discard(self)
        # Unlock before closing: a child that is just starting has a copy of the descriptor until its exec.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

    def _open(self) -> int:
        path = self._folder / _NAME
        refuse_link(path)
        try:
            # Do not follow a link: the file is truncated.
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise OSError(
                error.errno, f"could not open the lock file {str(path)!r}: {error.strerror}; check the run folder"
            ) from error

    def _refuse(self, error: OSError, holder: str) -> None:
        """Raise the reason why the lock is not taken, or warn if the file system has no locks."""
        folder = str(self._folder)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise RunInUseError(f"the run folder {folder!r} is in use by {holder}") from None
        if error.errno not in _UNSUPPORTED:
            raise OSError(error.errno, f"could not lock the run folder {folder!r}: {error.strerror}") from error
        warnings.warn(
            f"the file system of the run folder {folder!r} has no locks ({error.strerror}); "
            "make sure that no other process uses the folder",
            UserWarning,
            stacklevel=3,
        )


def _holder(descriptor: int) -> str:
    """Return who holds the lock and what to do, for a message. The file is empty just after the lock is taken."""
    try:
        match = _HOLDER.fullmatch(os.pread(descriptor, 1000, 0).decode(errors="replace"))
    except OSError:
        match = None
    if match is None:
        return "another process; wait for it or stop it"
    if int(match[1]) == os.getpid() and match[2] == socket.gethostname():
        return "this process; wait for its other run or name another folder"
    return f"process {match[1]} on host {match[2]}; wait for it or stop it"


# A forked child copies all descriptors, and would hold the locks until it ends.
_held: set[RunLock] = set()


def _forget() -> None:
    """Close the copies of the descriptors in a forked child, which does not affect the parent's locks."""
    for lock in _held:
        if lock._descriptor is not None:
            os.close(lock._descriptor)
            lock._descriptor = None
    _held.clear()


os.register_at_fork(after_in_child=_forget)
