"""Local worker processes: fresh interpreters, never forks, killed on timeout and replaced when they die."""

import contextlib
import math
import mmap
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import cloudpickle

from taskelites.errors import FitnessError, StorageError
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
from taskelites.evaluation.engines.worker_output import WorkerOutput

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
_READ_BYTES = 2**20
_MAX_WAIT_SECONDS = 0.1
_OUTPUT_SECONDS = 0.2
_END_SECONDS = 10.0
_SLOW_SETUP_SECONDS = 10.0
# Maximum number of consecutive deaths after the first result, since a fitness may crash often and still be usable.
_MAX_DEATHS = 1000


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """A worker process, with its unanswered chunks.

    Args:
        output: receives what it prints.
    """

    def __init__(self, output: WorkerOutput) -> None:
        self.connection, worker_end = socket.socketpair()
        for end in (self.connection, worker_end):
            end.settimeout(None)  # the user may have set a default timeout
        self.sent: deque[tuple[int, Work, bytes]] = deque()
        self.ready = False
        self.reason = ""  # why it was killed
        self._read = bytearray()
        with worker_end, tempfile.TemporaryFile() as shared:
            shared.truncate(worker_process.STATUS_BYTES)
            self._status = memoryview(mmap.mmap(shared.fileno(), worker_process.STATUS_BYTES)).cast("q")
            descriptors = (worker_end.fileno(), shared.fileno())
            self.process = subprocess.Popen(
                [sys.executable, "-P", worker_process.__file__, *map(str, (*descriptors, os.getpid()))],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stdout=output.fileno(),
                stderr=subprocess.STDOUT,
                env=os.environ | _ENVIRONMENT,
                start_new_session=True,  # the run handles Ctrl-C
            )

    def send_setup(self, payload: bytes) -> "_Worker":
        """Send the fitness; a separate step, so that several workers can start concurrently."""
        path = [str(Path.cwd()) if entry == "" else entry for entry in sys.path]
        self._send(pickle.dumps((path, payload)))
        return self

    def send(self, ticket: int, work: Work, message: bytes) -> None:
        self.sent.append((ticket, work, message))
        self._send(message)

    def _send(self, message: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # `_receive` handles deaths
            self.connection.sendall(worker_process.framed(message))

    def received(self) -> Iterator[Any]:
        """Yield the messages that have arrived, without waiting.

        Raises:
            EOFError: if the worker has closed the connection.
            NonsenseError: if something other than messages has arrived.
        """
        try:
            read = self.connection.recv(_READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            raise EOFError from None
        if not read:
            raise EOFError
        self._read += read
        while (message := worker_process.take_message(self._read)) is not None:
            try:
                content = pickle.loads(message)
            except Exception:  # noqa: BLE001 - unpickling may raise anything
                raise worker_process.NonsenseError from None
            yield content

    def has_sent(self) -> bool:
        """Return whether there is something to receive."""
        return bool(wait([self.connection], 0))

    def has_lost_answer(self) -> bool:
        """Return whether a chunk was answered, but something else was read instead."""
        answered = self._status[worker_process.ANSWERED]  # first, since the answer may arrive now
        return any(ticket == answered for ticket, _, _ in self.sent) and not self.has_sent()

    def row(self) -> tuple[int | None, float | None]:
        """Return the current row of the first unanswered chunk and its start time; None if it has not started."""
        if not self.sent or self._status[worker_process.TICKET] != self.sent[0][0]:
            return None, None
        return self._status[worker_process.ROW], self._status[worker_process.SINCE] / 1e9

    def kill(self) -> None:
        """Begin to kill the process and all that it started; `end` waits for it."""
        if sys.platform == "linux" and self._status[worker_process.PID]:
            self.process.terminate()  # its supervisor kills the others
        else:
            self.process.kill()

    def end(self) -> str:
        """Release the resources of a worker that is dead or was killed, and return how it ended."""
        try:
            status = self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        if pid := self._status[worker_process.PID]:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # without a supervisor, or if it was killed
                os.killpg(pid, signal.SIGKILL)
        self.connection.close()
        self._status.release()
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
        log_folder: folder for what the workers print, in one file per worker; None to show it on stderr.

    Raises:
        FitnessError: if the fitness can't be pickled or a worker can't be started; from `collect`, if `setup` fails or
            workers die repeatedly without a result.
        StorageError: if a log file can't be opened.

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
        log_folder: Path | None = None,
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
        self._outputs: list[WorkerOutput] = []
        self._showed_output = 0.0
        try:
            for i in range(number):
                self._outputs.append(WorkerOutput(None if log_folder is None else log_folder / f"{i}.log"))
                self._workers.append(_Worker(self._outputs[-1]))
        except StorageError:
            self.close()
            raise
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
        self._update_outputs()
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
        for output in self._outputs:
            output.close()
        self._workers, self._outputs = [], []

    def _update_outputs(self) -> None:
        if time.monotonic() - self._showed_output >= _OUTPUT_SECONDS:
            for output in self._outputs:
                output.update()
            self._showed_output = time.monotonic()

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
        readable = set(wait([worker.connection for worker in self._workers], seconds))
        for worker in list(self._workers):
            try:
                if worker.connection in readable:
                    for message in worker.received():
                        found += self._take(worker, message)
                elif worker.has_lost_answer():
                    raise worker_process.NonsenseError
                # Children of a dead worker may keep its end of the connection open.
                elif not readable and worker.process.poll() is not None and not worker.has_sent():
                    raise EOFError
            except EOFError:
                found += self._replace(worker)
            except worker_process.NonsenseError:
                worker.reason = "the worker sent something other than an answer: fitness may write to its connection"
                found += self._replace(worker, row_is_known=False)
        return found

    def _take(self, worker: _Worker, message: Any) -> list[Finished]:
        """Process a message of a worker.

        Raises:
            NonsenseError: if it is not the answer to the first unanswered chunk.
        """
        try:
            ticket, answer, trace = message
            if ticket is None and answer is not None:
                raise setup_error(f"a worker could not be set up: {answer}", trace)
            if ticket is None:
                worker.ready = True
                return []
            answered = as_answer(answer)
            expected = worker.sent and ticket == worker.sent[0][0] and len(answered.fitness) == len(worker.sent[0][1])
        except (TypeError, ValueError):
            expected = False
        if not expected:
            raise worker_process.NonsenseError
        _, work, _ = worker.sent.popleft()
        self._send_next(worker, self._queue_depth - 1)  # first of all, so that it does not idle
        self._deaths, self._any_answer = 0, True
        self._chunk_seconds += 0.2 * (answered.seconds - self._chunk_seconds)
        return [(work, answered)]

    def _replace(self, worker: _Worker, kind: str = "died", *, row_is_known: bool = True) -> list[Finished]:
        """Replace a dead worker. The chunk in progress is lost; its other chunks are queued again."""
        row, _ = worker.row()
        if not worker.reason:  # wait for its exit status
            try:
                worker.process.wait(timeout=1)
            except subprocess.TimeoutExpired:
                worker.reason = "the worker closed its connection"
        worker.kill()  # its children, too
        number = self._workers.index(worker)
        end = worker.end()
        self._outputs[number].update()
        reason = worker.reason or f"the worker {end}"
        lost: list[Finished] = []
        if worker.sent and (row is not None or not row_is_known):  # else no chunk was in progress
            _, work, _ = worker.sent.popleft()
            at = 0 if len(work) == 1 else row if row_is_known and not self._is_batch else None
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
                del self._workers[number]
                raise FitnessError(
                    f"workers keep dying: {self._deaths} in a row without an evaluation; the last "
                    f"{reason.removeprefix('the worker ')}. Use workers=None to debug the fitness in this process"
                )
        self._workers[number] = _Worker(self._outputs[number]).send_setup(self._payload)
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
            if left <= 0 and not worker.has_sent() and worker.row()[1] is not None:
                worker.reason = f"an evaluation took more than {self._timeout:g} s, and its worker was killed"
                found += self._replace(worker, "timeout")
        return found
