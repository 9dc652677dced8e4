"""A worker process, started by path so that neither this library nor the user's script is imported.

A worker receives the module search path and the fitness, reports that it is ready, and then evaluates chunks until the
connection is closed. Shared memory holds the row in progress, so that the run can tell which row exceeded its timeout
or ended the process.

On Linux the started process forks the worker and remains its supervisor. All processes that descend from the worker
stay below the supervisor, also those in sessions of their own. It kills them when the worker ends, when it gets
SIGTERM, and when the run dies.
"""

import ctypes
import mmap
import os
import pickle
import signal
import struct
import sys
import time
import traceback
import zlib
from contextlib import suppress
from typing import Any

# Fields of the shared status: start time of the row in nanoseconds, the row, the ticket of its chunk, the ticket of the
# last chunk whose answer was sent, and the process ID of the worker. The first three are written in this order, so that
# a concurrent read may underestimate the age of a row, but never overestimate it.
SINCE, ROW, TICKET, ANSWERED, PID = range(5)
STATUS_BYTES = 40
# A start time that no timeout reaches.
NEVER = 2**62

# A message is preceded by a mark, its length and its checksum, which reveal anything else that the fitness writes.
_HEADER = struct.Struct("<8sQI")
_MARK = b"te-work\n"
_READ_BYTES = 2**20

_SET_DEATH_SIGNAL, _SET_DUMPABLE, _SET_CHILD_SUBREAPER = 1, 4, 36  # options of prctl
_KILL_SECONDS = 5.0


class NonsenseError(Exception):
    """Something other than a message was read from a connection."""


def framed(message: bytes) -> bytes:
    """Return a message with its header."""
    return _HEADER.pack(_MARK, len(message), zlib.crc32(message)) + message


def take_message(buffer: bytearray) -> bytes | None:
    """Remove the first message from the bytes read so far; None if it is incomplete.

    Raises:
        NonsenseError: if the bytes are not a message.
    """
    if not buffer.startswith(_MARK[: len(buffer)]):
        raise NonsenseError
    if len(buffer) < _HEADER.size:
        return None
    _, length, checksum = _HEADER.unpack_from(buffer)
    end = _HEADER.size + length
    if len(buffer) < end:
        return None
    message = bytes(memoryview(buffer)[_HEADER.size : end])
    if zlib.crc32(message) != checksum:
        raise NonsenseError
    del buffer[:end]
    return message


def main() -> None:
    """Start the worker, below a supervisor where the system allows it."""
    connection, shared, run = (int(text) for text in sys.argv[1:4])
    for descriptor in (connection, shared):  # else child processes of the fitness would keep the connection open
        os.set_inheritable(descriptor, False)
    status = memoryview(mmap.mmap(shared, STATUS_BYTES)).cast("q")
    sys.argv[:] = ["taskelites-worker"]
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        _supervise(run, connection, library.prctl)
        library.setlinebuf(ctypes.c_void_p.in_dll(library, "stdout"))  # so that a crash loses no lines
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    status[PID] = os.getpid()
    _work(connection, status)


def _work(connection: int, status: "memoryview[int]") -> None:
    """Evaluate chunks until the connection is closed."""
    # It is never closed here: the run detects the end of this process by the end of the connection.
    buffer = bytearray()
    try:
        path, payload = pickle.loads(_receive(connection, buffer))
        sys.path[:] = path
        caller = pickle.loads(payload)
    except EOFError:
        return
    except BaseException as error:  # noqa: BLE001 - any failure must be reported to the run
        _report_failure(connection, "reading the fitness", error)
        return
    if problem := caller.set_up():
        _send(connection, (None, *problem))
        return
    _send(connection, (None, None, None))
    own = os.getpid()
    while True:
        try:
            message = _receive(connection, buffer)
        except EOFError:
            return
        try:
            ticket, solutions, tasks = pickle.loads(message)
        except Exception as error:  # noqa: BLE001 - as above
            _report_failure(connection, "reading the tasks", error)
            return

        def on_row(row: int | None, ticket: int = ticket) -> None:
            if row is None:  # `setup` is called again, and has no timeout
                status[SINCE] = NEVER
                return
            status[SINCE] = time.monotonic_ns()
            status[ROW] = row
            status[TICKET] = ticket

        answer = caller(solutions, tasks, on_row)
        if os.getpid() != own:  # a child that the fitness forked
            os._exit(0)
        _send(connection, (ticket, answer, None))
        status[ANSWERED] = ticket


def _send(connection: int, message: Any) -> None:
    rest = memoryview(framed(pickle.dumps(message)))
    while rest:
        rest = rest[os.write(connection, rest) :]


def _receive(connection: int, buffer: bytearray) -> bytes:
    """Return the next message; `buffer` keeps the bytes of later ones.

    Raises:
        EOFError: if the run has closed the connection.
    """
    while (message := take_message(buffer)) is None:
        read = os.read(connection, _READ_BYTES)
        if not read:
            raise EOFError
        buffer += read
    return message


def _report_failure(connection: int, stage: str, error: BaseException) -> None:
    """Send the reason why this worker can't evaluate."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    where = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    _send(connection, (None, f"{stage} raised {type(error).__name__}: {error}{where}", traceback.format_exc()))


def _supervise(run: int, connection: int, prctl: Any) -> None:
    """Fork the worker and return in it. This process watches the worker and ends with its exit status or signal.

    Args:
        run: process ID of the run.
        connection: descriptor that only the worker keeps, so that its end is noticed.
        prctl: the function of the C library.
    """
    own = os.getpid()
    watched = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it were ignored, no status could be read
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    prctl(_SET_CHILD_SUBREAPER, 1)
    prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)
    worker = os.fork()
    if worker == 0:
        prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != own:
            os._exit(1)
        os.setsid()  # what is sent to the fitness's process group does not reach the supervisor
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return
    os.close(connection)
    status = None
    number = 0
    while status is None and number in (0, signal.SIGCHLD):
        # The run may have died before the death signal was set.
        number = signal.sigwait(watched) if os.getppid() == run else signal.SIGTERM
        status = _reap().get(worker)
    _kill_descendants()
    if status is not None and not os.WIFSIGNALED(status):
        os._exit(os.WEXITSTATUS(status))
    number = number if status is None else os.WTERMSIG(status)
    prctl(_SET_DUMPABLE, 0)  # the worker itself has left a core dump
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(own, number)
    os._exit(1)


def _reap() -> dict[int, int]:
    """Return the exit status of each child that has ended, by process ID."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    return ended


def _kill_descendants() -> None:
    """Kill all children until none is left; the children of a killed process become those of this one."""
    end = time.monotonic() + _KILL_SECONDS  # some can't be killed: of another user, or waiting for a dead disk
    while time.monotonic() < end:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for child in _children():
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.001)


def _children() -> list[int]:
    own, found = os.getpid(), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])  # a program's name may contain anything
        except OSError:  # it has ended
            continue
        if parent == own:
            found.append(int(name))
    return found


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, ConnectionResetError):  # the run has ended
        os._exit(0)
