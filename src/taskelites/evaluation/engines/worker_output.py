"""What a worker prints: kept in a log file of bounded size, or shown on stderr."""

import fcntl
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tqdm import tqdm

from taskelites.errors import StorageError

# A log that exceeds the first size is cut to its last part, of the second size.
MAX_LOG_BYTES, KEPT_LOG_BYTES = 2**20, 2**19
_CUT = b"[earlier output was removed]\n"


class WorkerOutput:
    r"""File that a worker writes its stdout and stderr to. It never blocks the worker, as a pipe could.

    Args:
        path: the log file, which is appended to; None to show the output on stderr of this process.

    Raises:
        StorageError: if the log file can't be opened.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "workers" / "0.log"
        >>> output = WorkerOutput(path)
        >>> os.write(output.fileno(), b"loaded the model\n")
        17
        >>> output.close()
        >>> path.read_text()
        'loaded the model\n'
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._shown = 0
        self._unfinished = b""  # a line whose end is not written yet
        if path is None:
            self._descriptor, name = tempfile.mkstemp(prefix="taskelites-worker-")
            os.unlink(name)
        else:
            self._descriptor = _open_log(path)
        # All processes below the worker append to the same file, also after it was cut.
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | os.O_APPEND)

    def fileno(self) -> int:
        """Return the file descriptor, for the worker."""
        return self._descriptor

    def update(self) -> None:
        """Show new output, or cut the log if it is too large."""
        if self._path is None:
            self._show()
        elif (size := os.fstat(self._descriptor).st_size) > MAX_LOG_BYTES:
            kept = os.pread(self._descriptor, KEPT_LOG_BYTES, size - KEPT_LOG_BYTES)
            with suppress(OSError):  # a full disk
                os.ftruncate(self._descriptor, 0)
                os.write(self._descriptor, _CUT + kept[kept.find(b"\n") + 1 :])

    def close(self) -> None:
        """Show the rest, and remove a log without contents."""
        self.update()
        if self._unfinished:
            _print(self._unfinished + b"\n")
        empty = os.fstat(self._descriptor).st_size == 0
        os.close(self._descriptor)
        if self._path is not None and empty:
            with suppress(OSError):
                self._path.unlink()
                self._path.parent.rmdir()  # succeeds once no other worker has a log

    def _show(self) -> None:
        while new := os.pread(self._descriptor, MAX_LOG_BYTES, self._shown):
            self._shown += len(new)
            lines, newline, self._unfinished = (self._unfinished + new).rpartition(b"\n")
            if newline:
                _print(lines + newline)
        if self._shown > MAX_LOG_BYTES:
            os.ftruncate(self._descriptor, 0)
            self._shown = 0


def _open_log(path: Path) -> int:
    try:
        path.parent.mkdir(exist_ok=True, parents=True)
        # A link in the folder of a stranger must not lead to another file.
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            return os.open(path.name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StorageError(error.errno, f"could not open {str(path)!r}: {error.strerror or error}") from error


def _print(text: bytes) -> None:
    """Write to stderr, above the progress bars."""
    if sys.stderr is not None:
        tqdm.write(text.decode(errors="backslashreplace"), file=sys.stderr, end="")
        sys.stderr.flush()
