"""Any `concurrent.futures.Executor`: standard pools, loky, MPI, Dask, and Ray through an adapter."""

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

# Dask's scheduler pickles anew what it received: by its module's name, it would bring the library along.
Remote.__module__ = "__main__"

# Seconds without an answer, after which is asked whether anyone is there to give one.
QUIET = 30.0


class Payload:
    """A fitness in a form that any executor can send; where it arrives, it is made ready once a process and thread.

    It pickles as a call of `cloudpickle.loads`, so the other side needs cloudpickle and NumPy, and not this library.

    Args:
        caller: the fitness.
        timeout: after so many seconds the process that evaluates ends itself; None for never.

    Attributes:
        ends_itself: whether its process may do so; to run it once more would only take as long again.
        problem: why it can't be sent, once that was tried.
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
    """An executor as an engine.

    Args:
        executor: the user's; it is never shut down here.
        caller: the fitness.
        slots: how many chunks it evaluates at the same time.
        timeout: for an executor that survives the death of a process.

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
        self._executor = executor if _dask_client(executor) is None else _Dask(executor)
        self._payload = Payload(caller, timeout)
        self._timeout = timeout
        self._work: dict[Future[Any], tuple[Work, float]] = {}
        self._number = 0
        self._heard = time.monotonic()
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()

    def submit(self, work: Work) -> None:
        """Take a chunk."""
        # The number makes each message another one: Dask takes equal ones for one and the same.
        self._number += 1
        chunk = pack(self._number, work)
        try:
            future = self._executor.submit(self._payload, chunk)
        except Exception as problem:  # a pool that is broken or shut down, or can't pickle the fitness
            raise self._unusable(problem) from problem
        self._work[future] = (work, time.monotonic())
        future.add_done_callback(self._done.put)

    def collect(self, wait: float) -> list[Finished]:
        """What is finished; if nothing is, wait for so many seconds at most."""
        found: list[Finished] = []
        if not self._work:
            return found
        try:
            future = self._done.get(timeout=min(wait, 0.1)) if wait > 0 else self._done.get_nowait()
            while True:
                if future in self._work:  # or it was dropped
                    found.append(self._finished(future))
                future = self._done.get_nowait()
        except queue.Empty:
            self._listen(bool(found))
            return found

    def _listen(self, heard: bool) -> None:
        """Tell if nothing was heard for long because nobody is there."""
        now = time.monotonic()
        if not heard and now - self._heard < QUIET:
            return
        self._heard = now
        # A cluster may get others, so the run waits for them; but not in silence.
        if not heard and isinstance(self._executor, _Dask) and self._executor.deserted:
            text = "executor has no workers left: the run waits until one joins; Ctrl-C ends it, nothing is lost"
            warnings.warn(text, FitnessWarning, stacklevel=2)

    def _finished(self, future: Future[Any]) -> Finished:
        work, since = self._work.pop(future)
        try:
            answer = as_answer(future.result())
        # Nobody here cancels what is still awaited: a pool was shut down, or Dask lost its scheduler.
        except (BrokenExecutor, CancelledError) as problem:
            raise self._unusable(problem) from problem
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt) and future.exception() is not problem:
                raise  # it is this process's own
            if self._payload.problem is not None:
                raise self._unusable(problem) from problem
            # It may have waited in line before its node was lost, so only a second loss is taken for its own fault.
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
        """Cancel what has not begun, and forget the rest; the executor is the user's to shut down."""
        for future in list(self._work):
            self._work.pop(future)
            future.cancel()


class _Dask:
    """Dask's executor, with futures that always end.

    Its own ones don't if the process that has an answer dies before the answer is fetched.
    """

    def __init__(self, executor: Any) -> None:
        self._executor = executor

    def submit(self, call: Payload, chunk: bytes) -> Future[Any]:
        """As an executor does."""
        dask = self._executor
        if dask._shutdown:
            raise RuntimeError("it was shut down")
        asked = dask._client.submit(call, chunk, **dask._kwargs)
        dask._futures.add(asked)  # which `shutdown` cancels
        future: Future[Any] = Future()
        future.add_done_callback(lambda done: asked.cancel() if done.cancelled() else None)
        dask._client.loop.add_callback(_pass_on, asked, future)
        return future

    @property
    def deserted(self) -> bool:
        """Whether nobody is there to evaluate, as far as the scheduler answers."""
        with suppress(OSError):
            return not self._executor._client.nthreads()
        return False


async def _pass_on(asked: Any, future: Future[Any]) -> None:
    """What comes of a future of Dask, to one of the standard library; in the thread of Dask's client."""
    answer: Any
    (answer,) = await asyncio.gather(asked, return_exceptions=True)
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def _in_short(problem: BaseException) -> str:
    problem = getattr(problem, "cause", None) or problem  # Ray wraps what was raised elsewhere
    text = str(problem).strip().split("\n", 1)[0]
    return type(problem).__name__ + (f": {text}" if text else "")


def slots_of(executor: Any) -> int:
    """How many calls an executor makes at the same time, as far as it says."""
    for name in ("slots", "_max_workers", "num_workers"):
        number = getattr(executor, name, None)
        if isinstance(number, int) and number > 0:
            return number
    client = _dask_client(executor)
    return 0 if client is None else max(1, sum(client.nthreads().values()))


def _dask_client(executor: Any) -> Any:
    """What Dask's executor sends its work to; None for any other executor."""
    client = getattr(executor, "_client", None)
    return client if hasattr(client, "nthreads") else None


def forks(executor: Any) -> bool:
    """Whether a pool makes its processes by forking this one."""
    context = getattr(executor, "_mp_context", None)
    name: Callable[[], str] | None = getattr(context, "get_start_method", None)
    return name is not None and name() == "fork"
