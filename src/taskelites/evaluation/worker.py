"""What runs in a worker process: started by its path, so that neither this library nor the user's script is imported.

It receives where to find modules and the fitness, answers that it is ready, then answers chunk after chunk until the
connection ends. A little shared memory says which row it is at, for whoever has to kill it.
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
from multiprocessing.connection import Connection

# Which chunk, which of its rows, and when it began.
PLACE = struct.Struct("qqd")


def main() -> None:
    """Serve until the connection ends."""
    if sys.platform == "linux":  # or a hung worker would outlive a run that was killed
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    connection = Connection(int(sys.argv[1]))
    with mmap.mmap(int(sys.argv[2]), PLACE.size) as place, connection:
        try:
            path, payload = connection.recv()
            sys.path[:] = path
            # Tests are run by names such as -c and files that do not exist; a user's function may look.
            sys.argv[:] = ["taskelites-worker"]
            caller = pickle.loads(payload).prepare()
        except BaseException as problem:  # noqa: BLE001 - whatever it is, the run must hear of it
            connection.send((None, f"{type(problem).__name__}: {problem}", traceback.format_exc()))
            return
        connection.send((None, None, None))
        while True:
            try:
                ticket, solutions, tasks = pickle.loads(connection.recv_bytes())
            except EOFError:
                return

            def begins(row: int, ticket: int = ticket) -> None:
                PLACE.pack_into(place, 0, ticket, row, time.monotonic())

            connection.send((ticket, caller(solutions, tasks, begins), None))


if __name__ == "__main__":
    try:
        main()
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the run is gone
        os._exit(0)
