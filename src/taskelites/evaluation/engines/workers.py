"""Local worker processes: fresh interpreters, never forks, killed on timeout and replaced when they die."""

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
from taskelites.evaluation.engines import worker_process
from taskelites.evaluation.engines.inline import (
    SHORT_CHUNK_SECONDS,
    Finished,
    LostChunk,
    Work,
    as_answer,
    pack,
    setup_error,
)

# One thread per worker avoids oversubscribed cores, and the CPU backend leaves the accelerator to the search.
_ENVIRONMENT = {
    **dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
    ),
    **{"VECLIB_MAXIMUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"},
    **{"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", "JAX_PLATFORMS": "cpu"},
}
# A pipe buffers messages of this size; sending a longer one could block forever if the worker hangs.
_PIPE_BYTES = 32_768
_MAX_WAIT_SECONDS = 0.1
_SLOW_SETUP_SECONDS = 10.0
# Maximum number of consecutive deaths after the first result, since a fitness may crash often and still be usable.
_MAX_DEATHS = 1000


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """A worker process, with its unanswered chunks."""

    def __init__(self) -> None:
        own_end, worker_end = multiprocessing.Pipe()
        self.connection: Connection = own_end
        self.sent: deque[tuple[int, Work, bytes]] = deque()
        self.ready = False
        self.kill_reason = ""
        with worker_end, tempfile.TemporaryFile() as shared:
            shared.truncate(worker_process.STATUS_BYTES)
            self._status = memoryview(mmap.mmap(shared.fileno(), worker_process.STATUS_BYTES)).cast("q")
            self.process = subprocess.Popen(
                [sys.executable, "-P", worker_process.__file__, str(worker_end.fileno()), str(shared.fileno())],
                pass_fds=(worker_end.fileno(), shared.fileno()),
                stdin=subprocess.DEVNULL,
                env=os.environ | _ENVIRONMENT,
                start_new_session=True,  # the run handles Ctrl-C, and kills whole process groups
            )

    def send_setup(self, payload: bytes) -> "_Worker":
        """Send the fitness; a separate step, so that several workers can start concurrently."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # `_receive` handles deaths
            self.connection.send(([str(Path.cwd()) if entry == "" else entry for entry in sys.path], payload))
        return self

    def send(self, ticket: int, work: Work, message: bytes) -> None:
        self.sent.append((ticket, work, message))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send_bytes(message)

    def row(self) -> tuple[int | None, float | None]:
        """Return the current row of the first unanswered chunk and its start time; None if it has not started."""
        if not self.sent or self._status[worker_process.TICKET] != self.sent[0][0]:
            return None, None
        return self._status[worker_process.ROW], self._status[worker_process.SINCE] / 1e9

    def kill(self) -> None:
        """Kill the process and its children."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> str:
        """Release the resources of a dead worker, and return how it ended."""
        self.connection.close()
        self._status.release()
        status = self.process.wait()
        if status < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by {signal.Signals(-status).name}"
        return f"ended with status {status}"


class Workers:
    """Engine of local worker processes.

    Args:
        caller: evaluates chunks; sent to each worker.
        number: number of workers.
        timeout: seconds per evaluation after which its worker is killed. For a batch, the timeout is multiplied by the
            number of rows. None for no limit.
        note: called with messages for the user.

    Raises:
        FitnessError: if the fitness can't be pickled or a worker can't be started; from `collect`, if `setup` fails or
            workers die repeatedly without a result.

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
        self._is_batch = caller.call == "batch"
        self._note = note
        try:
            self._payload = cloudpickle.dumps(caller)
        except Exception as error:
            raise setup_error(
                f"fitness can't be sent to workers: {type(error).__name__}: {error}; give a fitness (and setup=) that "
                "can be pickled, and create everything else in setup"
            ) from error
        self._waiting: deque[tuple[int, Work, bytes]] = deque()
        self._tickets = 1  # 0 means that a worker has not started a chunk
        self._deaths = 0
        self._any_answer = False
        self._replaced = 0
        self._started, self._reported_slow_setup = time.monotonic(), False
        self._chunk_seconds = 1.0  # moving average of seconds per chunk
        self._workers: list[_Worker] = []
        try:
            for _ in range(number):
                self._workers.append(_Worker())
        except OSError as error:
            self.close()
            raise setup_error(
                f"only {len(self._workers)} of {number} workers could be started: {error.strerror or error}"
            ) from error
        for worker in self._workers:
            worker.send_setup(self._payload)

    @property
    def ready(self) -> bool:
        """Whether all workers have started; to be polled before the first chunk is submitted."""
        if not all(worker.ready for worker in self._workers):
            self._receive(0)
        return all(worker.ready for worker in self._workers)

    def submit(self, work: Work) -> None:
        """Queue a chunk."""
        # Serialised in advance, so that idle workers need not wait for it.
        self._waiting.append((self._tickets, work, pack(self._tickets, work)))
        self._tickets += 1
        self._distribute()

    def collect(self, wait: float) -> list[Finished]:
        """Return finished chunks, waiting at most `wait` seconds for the first one."""
        end = time.monotonic() + wait
        self._report_slow_setup()
        while True:
            found = self._receive(max(0.0, min(end - time.monotonic(), self._until_deadline())))
            found += self._kill_overdue()
            self._distribute()
            if found or time.monotonic() >= end:
                return found

    def unfinished(self) -> list[Work]:
        """Return all chunks without a result."""
        return [work for worker in self._workers for _, work, _ in worker.sent] + [work for _, work, _ in self._waiting]

    def close(self) -> None:
        """Kill all workers."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.end()
        self._workers = []

    def _distribute(self) -> None:
        for ahead in range(self._queue_depth):
            for worker in self._workers:
                if not self._waiting:
                    return
                if len(worker.sent) == ahead:
                    self._send_next(worker, ahead)

    @property
    def _queue_depth(self) -> int:
        """Maximum number of chunks per worker: 2 if chunks are short or many are queued, so that no worker waits."""
        return 2 if self._chunk_seconds < SHORT_CHUNK_SECONDS or len(self._waiting) >= 2 * self.slots else 1

    def _send_next(self, worker: _Worker, ahead: int) -> None:
        """Send the next chunk to a worker that has at most `ahead` unanswered ones."""
        if self._waiting and worker.ready and len(worker.sent) <= ahead:
            ticket, work, message = self._waiting[0]
            if not (worker.sent and len(message) > _PIPE_BYTES):
                self._waiting.popleft()
                worker.send(ticket, work, message)

    def _receive(self, seconds: float) -> list[Finished]:
        found: list[Finished] = []
        by_connection = {worker.connection: worker for worker in self._workers}
        readable = wait(list(by_connection), seconds)
        if not readable:  # children of a dead worker may keep its end of the connection open
            dead = [each for each in self._workers if each.process.poll() is not None and not each.connection.poll()]
            return [lost for worker in dead for lost in self._replace(worker)]
        for connection in readable:
            worker = by_connection[connection]  # type: ignore[index]
            try:
                ticket, answer, trace = worker.connection.recv()
            except (EOFError, OSError):
                found += self._replace(worker)
                continue
            if ticket is None:
                if answer is not None:
                    raise setup_error(f"a worker could not be set up: {answer}", trace)
                worker.ready = True
                continue
            if not worker.sent or ticket != worker.sent[0][0]:  # the fitness has written to the connection
                found += self._replace(worker)
                continue
            _, work, _ = worker.sent.popleft()
            self._send_next(worker, self._queue_depth - 1)  # first of all, so that it does not idle
            found.append((work, as_answer(answer)))
            self._deaths, self._any_answer = 0, True
            self._chunk_seconds += 0.2 * (found[-1][1].seconds - self._chunk_seconds)  # type: ignore[union-attr]
        return found

    def _replace(self, worker: _Worker, kind: str = "died") -> list[Finished]:
        """Replace a dead worker. The chunk in progress is lost; its other chunks are queued again."""
        row, _ = worker.row()
        if not worker.kill_reason:  # wait for its exit status
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(timeout=1)
        worker.kill()  # its children, too
        end = worker.end()
        reason = worker.kill_reason or f"the worker {end}"
        lost: list[Finished] = []
        if worker.sent and row is not None:  # else no chunk was in progress
            _, work, _ = worker.sent.popleft()
            at = 0 if len(work) == 1 else None if self._is_batch else row
            lost.append((work, LostChunk(kind, at, reason)))
        self._waiting.extendleft(reversed(worker.sent))
        self._replaced += 1
        # Report the first deaths and then powers of ten only, to keep the log short.
        if self._replaced <= 3 or 10 ** round(math.log10(self._replaced)) == self._replaced:
            self._note(f"{reason}; started a new worker ({self._replaced:,} replaced so far)")
        if kind == "died":
            self._deaths = 1 if row else self._deaths + 1  # a later row means that earlier ones were evaluated
            limit = _MAX_DEATHS if self._any_answer else 10 + 3 * self.slots
            if self._deaths > limit:
                raise FitnessError(
                    f"workers keep dying: {self._deaths} in a row without an evaluation; the last "
                    f"{reason.removeprefix('the worker ')}. Use workers=None to debug the fitness in this process"
                )
        self._workers[self._workers.index(worker)] = _Worker().send_setup(self._payload)
        return lost

    def _report_slow_setup(self) -> None:
        """Report workers whose setup takes long, since setup has no timeout."""
        if self._any_answer or self._reported_slow_setup or time.monotonic() - self._started < _SLOW_SETUP_SECONDS:
            return
        self._reported_slow_setup = True
        missing = sum(not worker.ready for worker in self._workers)
        if missing:
            self._note(f"{missing} of {self.slots} workers are still being set up, after {_SLOW_SETUP_SECONDS:g} s")

    def _until_deadline(self) -> float:
        if self._timeout is None:
            return _MAX_WAIT_SECONDS
        return min([_MAX_WAIT_SECONDS, *(left for _, left in self._time_left())])

    def _time_left(self) -> list[tuple[_Worker, float]]:
        """Return each busy worker with its seconds until the timeout."""
        left = []
        for worker in self._workers:
            row, since = worker.row()
            if row is not None and since is not None and self._timeout is not None:
                allowed = self._timeout * (len(worker.sent[0][1]) if self._is_batch else 1)
                left.append((worker, since + allowed - time.monotonic()))
        return left

    def _kill_overdue(self) -> list[Finished]:
        found: list[Finished] = []
        if self._timeout is None:
            return found
        for worker, left in self._time_left():
            if left <= 0 and not worker.connection.poll() and worker.row()[1] is not None:
                worker.kill_reason = f"an evaluation took more than {self._timeout:g} s, and its worker was killed"
                found += self._replace(worker, "timeout")
        return found
