"""How a Python fitness is to be evaluated: where, in how many processes, and what a failure does."""

import inspect
import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, TypedDict, TypeVar, get_args

from taskelites.errors import InvalidTypeError, InvalidValueError, did_you_mean, one_of, whole_number
from taskelites.evaluation.caller import Caller
from taskelites.evaluation.dispatcher import Dispatcher
from taskelites.evaluation.engines.automatic import AutomaticEngine
from taskelites.evaluation.engines.executor import ExecutorEngine, forks, slots_of
from taskelites.evaluation.engines.inline import Engine, InlineEngine
from taskelites.evaluation.engines.workers import Workers, cores

WorkerCount = int | Literal["auto"]
OnError = Literal["skip", "retry", "raise"]
Mode = Literal["sync", "async"]
ON_ERROR = get_args(OnError)
MODES = get_args(Mode)
DEFAULT_RETRIES = 2
# Rows of a chunk of `call="batch"`: without workers, as many as fit into memory many times over.
_WHOLE_ROWS = 4096
# With them, 8 to 64 chunks a batch, of 16 rows if possible: enough for many workers, and not too many messages.
_FEWEST_CHUNKS, _MOST_CHUNKS, _CHUNK_ROWS = 8, 64, 16

_Function = TypeVar("_Function", bound=Callable[..., Any])


class EvaluationKeywords(TypedDict, total=False):
    """Keywords of every function that evaluates; `EvaluationOptions` has their defaults."""

    workers: WorkerCount | None
    executor: Executor | None
    on_error: OnError
    retries: int | None
    timeout: float | None
    setup: Callable[[], Any] | None


def evaluation_signature(function: _Function) -> _Function:
    """Show the evaluation keywords in the signature of a function that takes them as `**evaluation`.

    Example:
        >>> @evaluation_signature
        ... def measure(fitness, **evaluation): ...
        >>> list(inspect.signature(measure).parameters)
        ['fitness', 'workers', 'executor', 'on_error', 'retries', 'timeout', 'setup']
    """
    signature = inspect.signature(function)
    named = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    defaults = {field.name: field.default for field in fields(EvaluationOptions)}
    for name, kind in EvaluationKeywords.__annotations__.items():
        keyword = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=kind)
        named.append(keyword)
    function.__signature__ = signature.replace(parameters=named)  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """How to evaluate, as `te.solve` takes it; checked.

    Args:
        workers: local processes: a number, "auto" (measured), or None for this process.
        executor: any `concurrent.futures.Executor` instead.
        on_error: "skip", "retry" or "raise".
        retries: how often a failed evaluation is tried again, for "retry"; 2 by default.
        timeout: seconds for one evaluation; it needs processes that can be killed, so without `workers` there is one.
        setup: a function without arguments; what it returns is the last argument of every call of the fitness.
        mode: "sync", which is repeatable, or "async", in which nobody waits for the slowest of a batch.
        samples: calls of the fitness for one evaluation, which is their mean.

    Example:
        >>> EvaluationOptions(workers=4, on_error="retry").tries_more
        2
    """

    workers: WorkerCount | None = None
    executor: Executor | None = None
    on_error: OnError = "skip"
    retries: int | None = None
    timeout: float | None = None
    setup: Callable[[], Any] | None = None
    mode: Mode = "sync"
    samples: int = 1

    @classmethod
    def from_keywords(cls, function: Callable[..., Any], keywords: EvaluationKeywords, *, samples: int = 1) -> Self:
        """Check the evaluation keywords that a function was called with.

        Raises:
            TypeError: for a keyword that the function does not have.
        """
        for name in keywords:
            if name not in EvaluationKeywords.__annotations__:
                hint = did_you_mean(name, inspect.signature(function).parameters)
                raise InvalidTypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}{hint}")
        return cls(**keywords, samples=samples)

    def __post_init__(self) -> None:
        one_of("on_error", self.on_error, ON_ERROR)
        one_of("mode", self.mode, MODES)
        object.__setattr__(self, "samples", whole_number("samples", self.samples, least=1, most=1_000_000))
        if self.retries is not None:
            self._check_retries()
        if self.timeout is not None:
            self._check_timeout()
        if self.setup is not None and not callable(self.setup):
            raise InvalidTypeError(f"setup must be a function without arguments, not {self.setup!r}")
        if self.executor is not None:
            self._check_executor()
        elif isinstance(self.workers, str):
            if self.workers != "auto":
                raise InvalidValueError(f"workers must be a number, 'auto' or None, not {self.workers!r}")
        elif self.workers is not None:
            object.__setattr__(self, "workers", whole_number("workers", self.workers, least=1, most=10_000))
        elif self.timeout is not None:
            object.__setattr__(self, "workers", 1)
        if self.mode == "async" and self.workers is None and self.executor is None:
            raise InvalidValueError("mode='async' keeps several evaluations going: it needs workers= or executor=")

    def _check_retries(self) -> None:
        object.__setattr__(self, "retries", whole_number("retries", self.retries, least=1, most=1000))
        if self.on_error != "retry":
            raise InvalidValueError(f"retries={self.retries} needs on_error='retry', not {self.on_error!r}")

    def _check_timeout(self) -> None:
        wrong = f"timeout must be a number of seconds above 0, not {self.timeout!r}"
        if isinstance(self.timeout, bool) or not isinstance(self.timeout, int | float):
            raise InvalidTypeError(wrong)
        if not (self.timeout > 0 and math.isfinite(self.timeout)):
            raise InvalidValueError(wrong)

    def _check_executor(self) -> None:
        if not isinstance(self.executor, Executor):
            raise InvalidTypeError(
                f"executor must be a concurrent.futures.Executor, not {type(self.executor).__name__}; "
                "Dask's is client.get_executor(), Ray's te.RayExecutor()"
            )
        if self.workers is not None:
            raise InvalidValueError("workers and executor are two ways to the same end; give one of them")
        if self.timeout is not None and not getattr(self.executor, "survives_death", False):
            raise InvalidValueError(
                "timeout needs processes that may be killed: workers=N, or te.RayExecutor; other executors offer no way"
            )
        if forks(self.executor):
            raise InvalidValueError(
                "executor forks this process, which may hang in its threads; make the pool with "
                "mp_context=multiprocessing.get_context('spawn'), or give workers=N instead"
            )

    @property
    def tries_more(self) -> int:
        """How often a failed evaluation is tried again."""
        return (self.retries or DEFAULT_RETRIES) if self.on_error == "retry" else 0

    @property
    def parallel(self) -> bool:
        """Whether anything but this process evaluates, or may."""
        return self.workers is not None or self.executor is not None

    def plain(self) -> dict[str, Any]:
        """What is worth keeping with a result, as plain values; what is as usual is left out."""
        told = {
            "workers": self.workers,
            "executor": None if self.executor is None else type(self.executor).__name__,
            "retries": self.tries_more or None,
            "timeout": self.timeout,
            "mode": None if self.mode == "sync" else self.mode,
        }
        return {"on_error": self.on_error} | {name: value for name, value in told.items() if value is not None}

    def dispatcher(
        self,
        fitness: Callable[..., Any],
        call: str,
        *,
        behaviour_dim: int = 0,
        keeps_behaviour: bool = False,
        batch_size: int,
        rows_per_call: int | None = None,
        left: Callable[[], int],
        halt: Callable[[], Any],
        note: Callable[[str], None],
    ) -> Dispatcher:
        """Start what evaluates.

        Args:
            fitness: the function.
            call: "each" or "batch".
            behaviour_dim: length of the behaviour that the fitness returns; 0 if it returns none.
            keeps_behaviour: whether anybody uses it.
            batch_size: of the search.
            rows_per_call: rows per call at which the fitness is fastest; None if it does not say.
            left: returns the number of evaluations that are left.
            halt: returns whether to stop between two evaluations.
            note: takes a sentence on what happens.
        """
        caller = Caller(fitness, call, behaviour_dim, self.setup, self.samples, keeps_behaviour)
        if not self.parallel:
            engine: Engine = InlineEngine(caller, halt)
        elif self.executor is not None:
            engine = ExecutorEngine(self.executor, caller, slots_of(self.executor) or cores(), self.timeout)
        else:
            engine = self._local_workers(caller, left, halt, note)
        return Dispatcher(engine, chunk=self.chunk(call, batch_size, rows_per_call), retries=self.tries_more)

    def _local_workers(
        self, caller: Caller, left: Callable[[], int], halt: Callable[[], Any], note: Callable[[str], None]
    ) -> Engine:
        if isinstance(self.workers, int):
            return Workers(caller, self.workers, self.timeout, note)
        if self.timeout is not None or self.mode == "async":
            why = "a timeout" if self.timeout is not None else "mode='async'"
            note(f"workers='auto' takes {cores()} workers, one per core, since {why} needs some")
            return Workers(caller, cores(), self.timeout, note)
        return AutomaticEngine(InlineEngine(caller, halt), lambda: Workers(caller, cores(), None, note), left, note)

    def chunk(self, call: str, batch_size: int, rows_per_call: int | None = None) -> int | None:
        """Rows of a chunk; None where they may follow the clock.

        A function over arrays may round differently for arrays of another length, so there it depends on the batch size
        alone: results never depend on timing, on the number of workers, or on who they are.
        """
        if call == "each":
            return None
        if not self.parallel:
            return rows_per_call or max(batch_size, _WHOLE_ROWS)
        few = min(-(-batch_size // _FEWEST_CHUNKS), _CHUNK_ROWS)
        return max(1, few, -(-batch_size // _MOST_CHUNKS))
