"""Local worker processes: fresh interpreters, never forks, each replaced when it dies and killed when it hangs."""

import contextlib
import math
import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path

import cloudpickle

from taskelites.errors import FitnessError
from taskelites.evaluation.caller import Caller
from taskelites.evaluation.engines import worker_process as worker
from taskelites.evaluation.engines.inline import SHORT, Finished, Lost, Work, as_answer, pack, setup_error

# As many processes as cores are wanted, not their square; and no worker may take the accelerator from the search.
_ENVIRONMENT = {
    **dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
    ),
    **{"VECLIB_MAXIMUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"},
    **{"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", "JAX_PLATFORMS": "cpu"},
}
# What a pipe takes without anybody reading; more could wait for ever for a worker that hangs.
_PIPE_BYTES = 32_768
_LONGEST_WAIT = 0.1
_LATE = 10.0  # seconds
# One after another, once something was evaluated: a fitness that crashes often is not one that only crashes.
_MOST_DEATHS = 1000


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """One process, and what was sent to it and not answered."""

    def __init__(self) -> None:
        ours, theirs = multiprocessing.Pipe()
        self.connection: Connection = ours
        self.sent: deque[tuple[int, Work, bytes]] = deque()
        self.ready = False
        self.closing = ""
        with theirs, tempfile.TemporaryFile() as shared:
            shared.truncate(worker.PLACE_BYTES)
            self._place = memoryview(mmap.mmap(shared.fileno(), worker.PLACE_BYTES)).cast("q")
            self.process = subprocess.Popen(
                [sys.executable, "-P", worker.__file__, str(theirs.fileno()), str(shared.fileno())],
                pass_fds=(theirs.fileno(), shared.fileno()),
                stdin=subprocess.DEVNULL,
                env=os.environ | _ENVIRONMENT,
                start_new_session=True,  # Ctrl-C is the run's to handle, and its children can be killed with it
            )

    def greet(self, payload: bytes) -> "_Worker":
        """Send what it needs; apart from its start, so that several start at the same time."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a death is noticed where all deaths are
            self.connection.send(([str(Path.cwd()) if entry == "" else entry for entry in sys.path], payload))
        return self

    def send(self, ticket: int, work: Work, message: bytes) -> None:
        self.sent.append((ticket, work, message))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send_bytes(message)

    def row(self) -> tuple[int | None, float | None]:
        """The row of the first unanswered chunk that it is at, and since when."""
        if not self.sent or self._place[worker.TICKET] != self.sent[0][0]:
            return None, None
        return self._place[worker.ROW], self._place[worker.SINCE] / 1e9

    def kill(self) -> None:
        """Kill it with all that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> str:
        """Close what is left of a dead one; how it died."""
        self.connection.close()
        self._place.release()
        status = self.process.wait()
        if status < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by {signal.Signals(-status).name}"
        return f"ended with status {status}"


class Workers:
    """Processes on this machine.

    Args:
        caller: the fitness.
        number: how many.
        timeout: seconds after which an evaluation's process is killed (a batch has so many a row); None for never.
        note: told in a sentence what happens to workers.

    Raises:
        FitnessError: from `collect`, if the fitness can't be sent, `setup` fails, or workers do nothing but die.

    Example:
        >>> import numpy as np
        >>> from taskelites.evaluation.caller import Caller
        >>> workers = Workers(Caller(lambda solution, task: solution[0] * task, "each"), 1)
        >>> workers.submit(Work(np.arange(2), np.ones((2, 1)), [2.0, 3.0]))
        >>> (work, answer), *_ = workers.collect(60)
        >>> answer.fitness.tolist()
        [2.0, 3.0]
        >>> workers.close()
    """

    def __init__(
        self,
        caller: Caller,
        number: int,
        timeout: float | None = None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.slots = number
        self._timeout = timeout
        self._whole = caller.call == "batch"
        self._note = note
        try:
            self._payload = cloudpickle.dumps(caller)
        except Exception as problem:
            raise setup_error(
                f"fitness can't be sent to workers: {type(problem).__name__}: {problem}; give it (or setup=) as "
                "something that pickles, and make what does not inside setup"
            ) from problem
        self._waiting: deque[tuple[int, Work, bytes]] = deque()
        self._tickets = 1  # a worker that has not begun yet shows 0
        self._deaths = 0
        self._answered = False
        self._buried = 0
        self._start, self._late = time.monotonic(), False
        self._seconds = 1.0  # that a chunk takes, of late
        self._workers: list[_Worker] = []
        try:
            for _ in range(number):
                self._workers.append(_Worker())
        except OSError as problem:
            self.close()
            raise setup_error(
                f"only {len(self._workers)} of {number} workers could be started: {problem.strerror or problem}"
            ) from problem
        for each in self._workers:
            each.greet(self._payload)

    @property
    def ready(self) -> bool:
        """Whether all have started; asked instead of `collect` while nothing was submitted."""
        if not all(each.ready for each in self._workers):
            self._listen(0)
        return all(each.ready for each in self._workers)

    def submit(self, work: Work) -> None:
        """Take a chunk."""
        # Packed now, so that a worker that is done need not wait for it.
        self._waiting.append((self._tickets, work, pack(self._tickets, work)))
        self._tickets += 1
        self._hand_out()

    def collect(self, wait: float) -> list[Finished]:
        """What is finished; if nothing is, wait for so many seconds at most."""
        end = time.monotonic() + wait
        self._say_if_late()
        while True:
            found = self._listen(max(0.0, min(end - time.monotonic(), self._until_deadline())))
            found += self._past_deadline()
            self._hand_out()
            if found or time.monotonic() >= end:
                return found

    def unfinished(self) -> list[Work]:
        """All that was submitted and did not come back."""
        return [work for each in self._workers for _, work, _ in each.sent] + [work for _, work, _ in self._waiting]

    def close(self) -> None:
        """Kill all of them."""
        for each in self._workers:
            each.kill()
        for each in self._workers:
            each.end()
        self._workers = []

    def _hand_out(self) -> None:
        for ahead in range(self._depth):
            for each in self._workers:
                if not self._waiting:
                    return
                if len(each.sent) == ahead:
                    self._hand_to(each, ahead)

    @property
    def _depth(self) -> int:
        """How many chunks a worker gets: a second one where waiting for it would cost, and others have enough."""
        return 2 if self._seconds < SHORT or len(self._waiting) >= 2 * self.slots else 1

    def _hand_to(self, each: _Worker, ahead: int) -> None:
        """The next chunk, if this one has no more than so many."""
        if self._waiting and each.ready and len(each.sent) <= ahead:
            ticket, work, message = self._waiting[0]
            if not (each.sent and len(message) > _PIPE_BYTES):
                self._waiting.popleft()
                each.send(ticket, work, message)

    def _listen(self, seconds: float) -> list[Finished]:
        found: list[Finished] = []
        by_connection = {each.connection: each for each in self._workers}
        heard = wait(list(by_connection), seconds)
        if not heard:  # a dead one whose own children hold its end of the connection
            dead = [each for each in self._workers if each.process.poll() is not None and not each.connection.poll()]
            return [lost for each in dead for lost in self._bury(each)]
        for connection in heard:
            each = by_connection[connection]  # type: ignore[index]
            try:
                ticket, answer, trace = each.connection.recv()
            except (EOFError, OSError):
                found += self._bury(each)
                continue
            if ticket is None:
                if answer is not None:
                    raise setup_error(f"a worker could not be set up: {answer}", trace)
                each.ready = True
                continue
            if not each.sent or ticket != each.sent[0][0]:  # something else has written to its connection
                found += self._bury(each)
                continue
            _, work, _ = each.sent.popleft()
            self._hand_to(each, self._depth - 1)  # before anything else is done
            found.append((work, as_answer(answer)))
            self._deaths, self._answered = 0, True
            self._seconds += 0.2 * (found[-1][1].seconds - self._seconds)  # type: ignore[union-attr]
        return found

    def _bury(self, each: _Worker, kind: str = "died") -> list[Finished]:
        """Replace a dead worker; the chunk it was at is lost, and others that it had wait again."""
        row, _ = each.row()
        if not each.closing:  # how it ended is worth the wait
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.process.wait(timeout=1)
        each.kill()  # or what it may have started
        end = each.end()
        how = each.closing or f"the worker {end}"
        lost: list[Finished] = []
        if each.sent and row is not None:  # or it had not begun
            _, work, _ = each.sent.popleft()
            at = 0 if len(work) == 1 else None if self._whole else row
            lost.append((work, Lost(kind, at, how)))
        self._waiting.extendleft(reversed(each.sent))
        self._buried += 1
        if self._buried <= 3 or 10 ** round(math.log10(self._buried)) == self._buried:  # not a line for each of a day's
            self._note(f"{how}; a new one takes its place ({self._buried:,} so far)")
        if kind == "died":
            self._deaths = 1 if row else self._deaths + 1  # rows before this one were evaluated
            limit = _MOST_DEATHS if self._answered else 10 + 3 * self.slots
            if self._deaths > limit:
                raise FitnessError(
                    f"workers do nothing but die: {self._deaths} of them one after another, without an evaluation in "
                    f"between; the last {how.removeprefix('the worker ')}. workers=None evaluates in this process, "
                    "where a debugger can look"
                )
        self._workers[self._workers.index(each)] = _Worker().greet(self._payload)
        return lost

    def _say_if_late(self) -> None:
        """A setup has no timeout, so whoever waits for it should know."""
        if self._answered or self._late or time.monotonic() - self._start < _LATE:
            return
        self._late = True
        missing = sum(not each.ready for each in self._workers)
        if missing:
            self._note(f"{missing} of {self.slots} workers are still being set up, after {_LATE:g} s")

    def _until_deadline(self) -> float:
        if self._timeout is None:
            return _LONGEST_WAIT
        return min([_LONGEST_WAIT, *(left for _, left in self._left())])

    def _left(self) -> list[tuple[_Worker, float]]:
        """How many seconds each busy worker has left."""
        left = []
        for each in self._workers:
            row, since = each.row()
            if row is not None and since is not None and self._timeout is not None:
                allowed = self._timeout * (len(each.sent[0][1]) if self._whole else 1)
                left.append((each, since + allowed - time.monotonic()))
        return left

    def _past_deadline(self) -> list[Finished]:
        found: list[Finished] = []
        if self._timeout is None:
            return found
        for each, left in self._left():
            if left <= 0 and not each.connection.poll() and each.row()[1] is not None:
                each.closing = f"an evaluation took more than {self._timeout:g} s, and its worker was killed"
                found += self._bury(each, "timeout")
        return found
