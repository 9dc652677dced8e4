"""Evaluation by any `concurrent.futures.Executor`: standard pools, loky, MPI, Dask, and Ray through an adapter."""

import asyncio
import queue
import time
import warnings
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import suppress
from typing import Any

import cloudpickle

from taskelites.errors import FitnessError, FitnessWarning
from taskelites.evaluation.caller import SETUP, Caller, Remote
from taskelites.evaluation.engines.inline import Finished, LostChunk, Work, as_answer, pack, setup_error

# Dask's scheduler pickles again what it received. By reference to this module, workers would import the library.
Remote.__module__ = "__main__"

# Seconds without an answer after which the engine checks that the executor has workers.
QUIET = 30.0


class Payload:
    """A fitness that any executor can send to its workers; it is set up once per process and thread.

    It pickles as a call of `cloudpickle.loads`, so workers need cloudpickle and NumPy, but not this library.

    Args:
        caller: the fitness.
        timeout: seconds after which the evaluating process ends itself; None for no limit.

    Attributes:
        ends_itself: whether there is a timeout. Then the executor should not retry, as this would take as long again.
        problem: the error of pickling the fitness, or None.
    """

    def __init__(self, caller: Caller, timeout: float | None = None) -> None:
        self.ends_itself = timeout is not None
        self.problem: Exception | None = None
        self._caller = caller
        self._remote = Remote(f"{id(self)}-{time.time_ns()}", caller, timeout)
        self._blob: bytes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._blob is None:
            try:
                self._remote.caller = cloudpickle.dumps(self._caller)
            except Exception as problem:
                self.problem = problem
                raise
            self._blob = cloudpickle.dumps(self._remote)
        return cloudpickle.loads, (self._blob,)

    def __call__(self, chunk: bytes) -> tuple[Any, ...]:
        """Evaluate a chunk in this process, for an executor of threads."""
        return self._remote(chunk)


class ExecutorEngine:
    """An engine that evaluates on an executor.

    Args:
        executor: the user's executor, which is never shut down here.
        caller: the fitness.
        slots: the number of chunks evaluated at the same time.
        timeout: seconds per chunk, for an executor that survives the death of a process; None for no limit.

    Example:
        >>> import numpy as np
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with ThreadPoolExecutor(2) as pool:
        ...     engine = ExecutorEngine(pool, Caller(lambda solution, task: solution[0] * task, "each"), slots=2)
        ...     engine.submit(Work(np.arange(2), np.ones((2, 1)), [2.0, 3.0]))
        ...     [(work, answer)] = engine.collect(10)
        >>> answer.fitness.tolist()
        [2.0, 3.0]
    """

    def __init__(self, executor: Executor, caller: Caller, slots: int, timeout: float | None = None) -> None:
        self.slots = slots
        self._executor = _Dask.of(executor) or executor
        self._payload = Payload(caller, timeout)
        self._timeout = timeout
        self._work: dict[Future[Any], tuple[Work, float]] = {}
        self._number = 0
        self._heard = time.monotonic()
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()

    def submit(self, work: Work) -> None:
        """Send a chunk to the executor."""
        # The number makes each message unique, since Dask merges equal tasks.
        self._number += 1
        chunk = pack(self._number, work)
        try:
            future = self._executor.submit(self._payload, chunk)
        except Exception as problem:  # the pool is broken or shut down, or can't pickle the fitness
            raise self._unusable(problem) from problem
        self._work[future] = (work, time.monotonic())
        future.add_done_callback(self._done.put)

    def collect(self, wait: float) -> list[Finished]:
        """Return the finished chunks; if there are none, wait at most `wait` seconds for one."""
        found: list[Finished] = []
        if not self._work:
            return found
        try:
            future = self._done.get(timeout=min(wait, 0.1)) if wait > 0 else self._done.get_nowait()
            while True:
                if future in self._work:  # otherwise it was dropped by `close`
                    found.append(self._finished(future))
                future = self._done.get_nowait()
        except queue.Empty:
            self._warn_if_deserted(bool(found))
            return found

    def _warn_if_deserted(self, heard: bool) -> None:
        """Warn if no answer came for a long time because the executor has no workers."""
        now = time.monotonic()
        if not heard and now - self._heard < QUIET:
            return
        self._heard = now
        # The run waits, since new workers may join the cluster.
        if not heard and isinstance(self._executor, _Dask) and self._executor.deserted:
            text = "executor has no workers left: the run waits until one joins; Ctrl-C ends it, nothing is lost"
            warnings.warn(text, FitnessWarning, stacklevel=2)

    def _finished(self, future: Future[Any]) -> Finished:
        work, since = self._work.pop(future)
        try:
            answer = as_answer(future.result())
        # The engine never cancels work that it waits for: the pool was shut down, or Dask lost its scheduler.
        except (BrokenExecutor, CancelledError) as problem:
            raise self._unusable(problem) from problem
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt) and future.exception() is not problem:
                raise  # it interrupts this process, not the worker
            if self._payload.problem is not None:
                raise self._unusable(problem) from problem
            # It may have waited in a queue when its node was lost, so only a second loss counts as a timeout.
            late = self._timeout is not None and time.monotonic() - since >= self._timeout and work.deaths > 0
            how = f"no answer came from its process ({_in_short(problem)})"
            if late:
                how = f"an evaluation took more than {self._timeout:g} s, and its process ended itself"
            return work, LostChunk("timeout" if late else "died", 0 if len(work) == 1 else None, how)
        for trouble in answer.failures:
            if trouble.kind == SETUP:
                raise setup_error(f"a worker could not be set up: {trouble.message}", trouble.trace)
        return work, answer

    def _unusable(self, problem: BaseException) -> FitnessError:
        if self._payload.problem is not None:
            return FitnessError(
                f"fitness can't be sent to executor: {_in_short(self._payload.problem)}; give it (or setup=) as "
                "something that pickles, and make what does not inside setup"
            )
        hint = ""
        if isinstance(problem, BrokenExecutor):
            hint = "; a standard pool does not survive the death of a process (workers=N and te.RayExecutor do)"
        elif isinstance(problem, CancelledError):
            hint = "; it was shut down, or lost its scheduler"
        return FitnessError(f"executor can't go on: {_in_short(problem)}{hint}")

    def close(self) -> None:
        """Cancel pending chunks and ignore running ones. The executor stays open, since it is the user's."""
        for future in list(self._work):
            self._work.pop(future)
            future.cancel()


class _Dask:
    """Dask's executor, with futures that always complete.

    Dask's own futures never complete if a worker dies after evaluating but before its answer is fetched. Dask offers no
    public way to its client and options, so this class, and no other code, uses private attributes of its executor.
    """

    def __init__(self, executor: Any) -> None:
        self._executor = executor
        self._client = executor._client

    @classmethod
    def of(cls, executor: Any) -> "_Dask | None":
        """Return a Dask executor wrapped, and None for any other executor."""
        return cls(executor) if hasattr(getattr(executor, "_client", None), "nthreads") else None

    def submit(self, call: Payload, chunk: bytes) -> Future[Any]:
        """Submit a call, as an executor does."""
        if self._executor._shutdown:
            raise RuntimeError("it was shut down")
        asked = self._client.submit(call, chunk, **self._executor._kwargs)
        self._executor._futures.add(asked)  # `shutdown` cancels these
        future: Future[Any] = Future()
        future.add_done_callback(lambda done: asked.cancel() if done.cancelled() else None)
        self._client.loop.add_callback(_pass_on, asked, future)
        return future

    @property
    def slots(self) -> int:
        """The number of threads of all workers."""
        return sum(self._client.nthreads().values())

    @property
    def deserted(self) -> bool:
        """Whether there are no workers; False if the scheduler does not answer."""
        with suppress(OSError):
            return self.slots == 0
        return False


async def _pass_on(asked: Any, future: Future[Any]) -> None:
    """Copy the outcome of a Dask future to a standard one, in the thread of Dask's client."""
    answer: Any
    (answer,) = await asyncio.gather(asked, return_exceptions=True)
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def _in_short(problem: BaseException) -> str:
    problem = getattr(problem, "cause", None) or problem  # Ray wraps the errors of its workers
    text = str(problem).strip().split("\n", 1)[0]
    return type(problem).__name__ + (f": {text}" if text else "")


def slots_of(executor: Any) -> int:
    """Return the number of calls that an executor makes at the same time; 0 if it is unknown."""
    # Standard pools and loky have only a private attribute for it; `num_workers` is mpi4py's.
    for name in ("slots", "_max_workers", "num_workers"):
        number = getattr(executor, name, None)
        if isinstance(number, int) and number > 0:
            return number
    dask = _Dask.of(executor)
    return 0 if dask is None else max(1, dask.slots)


def forks(executor: Any) -> bool:
    """Return whether a process pool starts its workers by forking this process."""
    context = getattr(executor, "_mp_context", None)  # no public attribute tells
    name: Callable[[], str] | None = getattr(context, "get_start_method", None)
    return name is not None and name() == "fork"
