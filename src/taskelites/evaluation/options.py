"""Options for evaluating a Python fitness."""

import inspect
import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
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
# Rows per chunk of `call="batch"` without workers, unless the batch is larger: few enough for memory.
_INLINE_CHUNK_ROWS = 4096
# With workers, 8 to 64 chunks per batch, of 16 rows if possible: enough for many workers at a low message overhead.
_MIN_CHUNKS, _MAX_CHUNKS, _CHUNK_ROWS = 8, 64, 16

_Function = TypeVar("_Function", bound=Callable[..., Any])


class EvaluationKeywords(TypedDict, total=False):
    """Keywords shared by all functions that evaluate a fitness; see `EvaluationOptions` for their defaults."""

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
    """Validated evaluation options of `te.solve`.

    Args:
        workers: number of local worker processes, "auto" to choose by measured speed, or None to evaluate in this
            process.
        executor: any `concurrent.futures.Executor`, instead of `workers`.
        on_error: action on a failed evaluation: "skip", "retry" or "raise".
        retries: maximum number of retries per failed evaluation, with `on_error="retry"`; 2 by default.
        timeout: seconds per evaluation. It needs a process that can be killed, so it starts one worker if `workers` is
            None.
        setup: function without arguments, called once per worker; its return value is passed to the fitness as the last
            argument. It is called again after two exceptions in a row, and after each one with `on_error="retry"`.
        mode: "sync", which is repeatable, or "async", which does not wait for the slowest evaluation of a batch.
        samples: number of calls of the fitness per evaluation, whose mean is the result.

    Example:
        >>> EvaluationOptions(workers=4, on_error="retry").retry_count
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
        """Create options from the evaluation keywords of a function call.

        Args:
            function: the called function, for error messages.
            keywords: its evaluation keywords.
            samples: number of calls of the fitness per evaluation.

        Raises:
            TypeError: if a keyword is unknown.
            ValueError: if a value is invalid.
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
            raise InvalidValueError("mode='async' needs several concurrent evaluations; give workers= or executor=")

    def _check_retries(self) -> None:
        object.__setattr__(self, "retries", whole_number("retries", self.retries, least=1, most=1000))
        if self.on_error != "retry":
            raise InvalidValueError(f"retries={self.retries} needs on_error='retry', not {self.on_error!r}")

    def _check_timeout(self) -> None:
        message = f"timeout must be a number of seconds above 0, not {self.timeout!r}"
        if isinstance(self.timeout, bool) or not isinstance(self.timeout, int | float):
            raise InvalidTypeError(message)
        if not (self.timeout > 0 and math.isfinite(self.timeout)):
            raise InvalidValueError(message)

    def _check_executor(self) -> None:
        if not isinstance(self.executor, Executor):
            raise InvalidTypeError(
                f"executor must be a concurrent.futures.Executor, not {type(self.executor).__name__}; "
                "for Dask give client.get_executor(), for Ray te.RayExecutor()"
            )
        if self.workers is not None:
            raise InvalidValueError("workers and executor can't be combined; give one of them")
        if self.timeout is not None and not getattr(self.executor, "survives_death", False):
            raise InvalidValueError(
                "timeout needs processes that can be killed, which this executor does not offer; give workers=N or "
                "executor=te.RayExecutor()"
            )
        if forks(self.executor):
            raise InvalidValueError(
                "executor must not fork this process, which may deadlock because of its threads; create the pool with "
                "mp_context=multiprocessing.get_context('spawn'), or give workers=N instead"
            )

    def with_setup(self, setup: Callable[[], Any] | None) -> Self:
        """Return these options with the `setup` of a domain, unless the user gave one."""
        return self if self.setup is not None or setup is None else replace(self, setup=setup)

    @property
    def retry_count(self) -> int:
        """Maximum number of retries per failed evaluation."""
        return (self.retries or DEFAULT_RETRIES) if self.on_error == "retry" else 0

    @property
    def parallel(self) -> bool:
        """Whether other processes may evaluate."""
        return self.workers is not None or self.executor is not None

    def plain(self) -> dict[str, Any]:
        """Return the options to store with a result, as plain values, without defaults."""
        values = {
            "workers": self.workers,
            "executor": None if self.executor is None else type(self.executor).__name__,
            "retries": self.retry_count or None,
            "timeout": self.timeout,
            "mode": None if self.mode == "sync" else self.mode,
        }
        return {"on_error": self.on_error} | {name: value for name, value in values.items() if value is not None}

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
        on_rebuild: Callable[[str], None],
        log_folder: Path | None = None,
    ) -> Dispatcher:
        """Start an engine and return its dispatcher.

        Args:
            fitness: the user's function.
            call: "each" or "batch".
            behaviour_dim: length of the behaviour that the fitness returns; 0 if it returns none.
            keeps_behaviour: whether the behaviour is used.
            batch_size: batch size of the search.
            rows_per_call: number of rows per call at which the fitness is fastest; None if unknown.
            left: returns the number of remaining evaluations.
            halt: called between evaluations; returns whether to stop.
            note: called with messages for the user.
            on_rebuild: called when `setup` was called again, with the exception that was the reason.
            log_folder: folder for what local workers print; None to show it on stderr.
        """
        retries = self.on_error == "retry"
        caller = Caller(fitness, call, behaviour_dim, self.setup, self.samples, keeps_behaviour, retries)
        if not self.parallel:
            engine: Engine = InlineEngine(caller, halt)
        elif self.executor is not None:
            engine = ExecutorEngine(self.executor, caller, slots_of(self.executor) or cores(), self.timeout)
        else:
            engine = self._local_workers(caller, left, halt, note, log_folder)
        chunk = self.chunk(call, batch_size, rows_per_call)
        return Dispatcher(engine, chunk=chunk, retries=self.retry_count, on_rebuild=on_rebuild)

    def _local_workers(
        self,
        caller: Caller,
        left: Callable[[], int],
        halt: Callable[[], Any],
        note: Callable[[str], None],
        log_folder: Path | None,
    ) -> Engine:
        start = partial(Workers, caller, timeout=self.timeout, note=note, log_folder=log_folder)
        if isinstance(self.workers, int):
            return start(self.workers)
        if self.timeout is not None or self.mode == "async":
            reason = "a timeout" if self.timeout is not None else "mode='async'"
            note(f"workers='auto' starts {cores()} workers, one per core, since {reason} needs workers")
            return start(cores())
        return AutomaticEngine(InlineEngine(caller, halt), partial(start, cores()), left, note)

    def chunk(self, call: str, batch_size: int, rows_per_call: int | None = None) -> int | None:
        """Return the number of rows per chunk, or None if it may adapt to measured durations.

        A batch function may round differently for arrays of another length. Its chunks therefore depend on the batch
        size only, so that results do not depend on timing or on the workers.
        """
        if call == "each":
            return None
        if not self.parallel:
            return rows_per_call or max(batch_size, _INLINE_CHUNK_ROWS)
        target = min(-(-batch_size // _MIN_CHUNKS), _CHUNK_ROWS)
        return max(1, target, -(-batch_size // _MAX_CHUNKS))
