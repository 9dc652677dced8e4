"""Engine for `workers="auto"`: starts in this process, and tries workers if enough work is left to gain by them."""

import time
from collections.abc import Callable

from taskelites.errors import FitnessError
from taskelites.evaluation.engines.inline import Finished, InlineEngine, Work
from taskelites.evaluation.engines.workers import Workers

# Starting workers takes about 0.1 s per core, which does not pay off if less work than this is left.
_MIN_SECONDS_LEFT = 10.0
# Minimum duration of the measurement in this process and in workers.
_TRIAL_SECONDS = 0.3
_TRIAL_ROWS = 16


class _Throughput:
    """Measured throughput of an engine while it was busy."""

    def __init__(self) -> None:
        self.rows = 0
        self.seconds = 0.0

    @property
    def reliable(self) -> bool:
        return self.rows >= 1 and (self.seconds >= _TRIAL_SECONDS or self.rows >= 100_000)

    @property
    def rate(self) -> float:
        return self.rows / max(self.seconds, 1e-9)


class AutomaticEngine:
    """Engine that measures this process and workers, and uses the faster one.

    Args:
        inline: engine of this process.
        start: starts the workers.
        left: returns the number of remaining evaluations.
        note: called with the decision and its reason.
    """

    def __init__(
        self, inline: InlineEngine, start: Callable[[], Workers], left: Callable[[], int], note: Callable[[str], None]
    ) -> None:
        self._inline = inline
        self._start = start
        self._left = left
        self._note = note
        self._workers: Workers | None = None
        self._engine: InlineEngine | Workers = inline
        self._inline_throughput, self._workers_throughput = _Throughput(), _Throughput()
        self.decision = ""

    @property
    def slots(self) -> int:
        """Number of slots of the engine in use."""
        return self._engine.slots

    def submit(self, work: Work) -> None:
        """Queue a chunk."""
        begin = time.perf_counter()
        self._engine.submit(work)
        self._current_throughput.seconds += time.perf_counter() - begin

    def collect(self, wait: float) -> list[Finished]:
        """Return finished chunks, waiting at most `wait` seconds for the first one."""
        begin = time.perf_counter()
        found = self._engine.collect(wait)
        self._current_throughput.seconds += time.perf_counter() - begin
        self._current_throughput.rows += sum(len(work) for work, _ in found)
        if not self.decision:
            self._update_choice()
        return found

    def close(self) -> None:
        """Stop the workers."""
        if self._workers is not None:
            self._workers.close()

    @property
    def _current_throughput(self) -> _Throughput:
        return self._inline_throughput if self._engine is self._inline else self._workers_throughput

    def _update_choice(self) -> None:
        try:
            if self._workers is None:
                if self._inline_throughput.reliable and self._left() / self._inline_throughput.rate > _MIN_SECONDS_LEFT:
                    self._workers = self._start()  # they start in the background
            elif self._engine is self._inline:
                if self._workers.ready:
                    self._engine = self._workers
                    while self._inline.waiting:
                        self._workers.submit(self._inline.waiting[0])  # before popleft, since it may raise
                        self._inline.waiting.popleft()
            elif (
                self._workers_throughput.reliable and self._workers_throughput.rows >= _TRIAL_ROWS * self._workers.slots
            ):
                self._decide(self._workers)
        except FitnessError as error:  # workers can't be used
            self._settle(f"this process: {error}")
            self._return_to_inline()

    def _decide(self, workers: Workers) -> None:
        speedup = self._workers_throughput.rate / self._inline_throughput.rate
        if speedup >= 1.0:
            self._settle(f"{workers.slots} workers: measured {speedup:.3g} times as fast as this process")
        else:
            ratio = f"{1 / speedup:.3g} times as fast as {workers.slots} workers"
            self._settle(f"this process: measured {ratio}")
            self._return_to_inline()

    def _settle(self, decision: str) -> None:
        self.decision = decision
        self._note(f"workers='auto' uses {decision}")

    def _return_to_inline(self) -> None:
        if self._workers is not None:
            for work in self._workers.unfinished():
                self._inline.submit(work)
            self._workers.close()
        self._workers = None
        self._engine = self._inline
