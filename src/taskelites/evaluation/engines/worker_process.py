"""Main loop of a worker process, started by path so that neither this library nor the user's script is imported.

A worker receives the module search path and the fitness, reports that it is ready, and then evaluates chunks until the
connection is closed. Shared memory holds the row in progress, so that the run can tell which row exceeded its timeout
or ended the process.
"""

import ctypes
import mmap
import os
import pickle
import signal
import sys
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

# Fields of the shared status: start time of the row in nanoseconds, the row, and the ticket of its chunk. They are
# written in this order, so that a concurrent read may underestimate the age of a row, but never overestimate it.
SINCE, ROW, TICKET = range(3)
STATUS_BYTES = 24
# A start time that no timeout reaches.
NEVER = 2**62


def main() -> None:
    """Evaluate chunks until the connection is closed."""
    if sys.platform == "linux":  # else a hung worker would outlive a killed run
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    descriptors = [int(text) for text in sys.argv[1:3]]
    for descriptor in descriptors:  # else child processes of the fitness would keep the connection open
        os.set_inheritable(descriptor, False)
    # Never closed here: the run detects the end of this process by the end of the connection.
    connection = Connection(descriptors[0])
    status = memoryview(mmap.mmap(descriptors[1], STATUS_BYTES)).cast("q")
    sys.argv[:] = ["taskelites-worker"]
    try:
        path, payload = connection.recv()
        sys.path[:] = path
        caller = pickle.loads(payload)
    except BaseException as error:  # noqa: BLE001 - any failure must be reported to the run
        report_failure(connection, "", error)
        return
    if problem := caller.set_up():
        connection.send((None, *problem))
        return
    connection.send((None, None, None))
    own = os.getpid()
    while True:
        try:
            message = connection.recv_bytes()
        except EOFError:
            return
        try:
            ticket, solutions, tasks = pickle.loads(message)
        except Exception as error:  # noqa: BLE001 - as above
            report_failure(connection, "tasks can't be unpickled in a worker: ", error)
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
        connection.send((ticket, answer, None))


def report_failure(connection: Any, what: str, error: BaseException) -> None:
    """Send the reason why this worker can't evaluate."""
    connection.send((None, f"{what}{type(error).__name__}: {error}", traceback.format_exc()))


if __name__ == "__main__":
    try:
        main()
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the run has ended
        os._exit(0)
