"""What runs in a worker process: started by its path, so that neither this library nor the user's script is imported.

It receives where to find modules and the fitness, answers that it is ready, then answers chunk after chunk until the
connection ends. A little shared memory says which row it is at, for whoever has to kill it.
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

# When the row began (in nanoseconds), which row, of which chunk: stored one by one in this order, so that whoever reads
# in between takes a row for younger than it is, never for older.
SINCE, ROW, TICKET = range(3)
PLACE_BYTES = 24


def main() -> None:
    """Serve until the connection ends."""
    if sys.platform == "linux":  # or a hung worker would outlive a run that was killed
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    descriptors = [int(text) for text in sys.argv[1:3]]
    for descriptor in descriptors:  # what a fitness starts must not keep the connection open
        os.set_inheritable(descriptor, False)
    # Never closed here: the run takes its end for the end of this process.
    connection = Connection(descriptors[0])
    place = memoryview(mmap.mmap(descriptors[1], PLACE_BYTES)).cast("q")
    sys.argv[:] = ["taskelites-worker"]
    try:
        path, payload = connection.recv()
        sys.path[:] = path
        caller = pickle.loads(payload).prepare()
    except BaseException as problem:  # noqa: BLE001 - whatever it is, the run must hear of it
        refuse(connection, "", problem)
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
        except Exception as problem:  # noqa: BLE001 - as above
            refuse(connection, "tasks can't be read there: ", problem)
            return

        def begins(row: int, ticket: int = ticket) -> None:
            place[SINCE] = time.monotonic_ns()
            place[ROW] = row
            place[TICKET] = ticket

        answer = caller(solutions, tasks, begins)
        if os.getpid() != own:  # the fitness forked, and this is its child
            os._exit(0)
        connection.send((ticket, answer, None))


def refuse(connection: Any, what: str, problem: BaseException) -> None:
    """Say why nothing can be evaluated here."""
    connection.send((None, f"{what}{type(problem).__name__}: {problem}", traceback.format_exc()))


if __name__ == "__main__":
    try:
        main()
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the run is gone
        os._exit(0)
