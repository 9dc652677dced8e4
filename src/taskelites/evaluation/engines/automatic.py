"""`workers="auto"`: begins in this process, and tries workers out when the run is long enough to gain by them."""

import time
from collections.abc import Callable

from taskelites.errors import FitnessError
from taskelites.evaluation.engines.inline import Finished, InlineEngine, Work
from taskelites.evaluation.engines.workers import Workers

# Starting workers costs about a tenth of a second of each core; a run that has less than this before it has no use.
_WORTH_SECONDS = 10.0
# How long each side is measured, at least.
_TRIAL_SECONDS = 0.3
_TRIAL_ROWS = 16


class _Clock:
    """Rows a second of one side, while it had work."""

    def __init__(self) -> None:
        self.rows = 0
        self.seconds = 0.0

    @property
    def enough(self) -> bool:
        return self.rows >= 1 and (self.seconds >= _TRIAL_SECONDS or self.rows >= 100_000)

    @property
    def rate(self) -> float:
        return self.rows / max(self.seconds, 1e-9)


class AutomaticEngine:
    """This process or workers, whichever was measured to be faster.

    Args:
        here: this process, as an engine.
        start: starts the workers.
        left: how many evaluations the run still has before it.
        note: told what was decided, and why.
    """

    def __init__(
        self, here: InlineEngine, start: Callable[[], Workers], left: Callable[[], int], note: Callable[[str], None]
    ) -> None:
        self._here = here
        self._start = start
        self._left = left
        self._note = note
        self._workers: Workers | None = None
        self._engine: InlineEngine | Workers = here
        self._alone, self._together = _Clock(), _Clock()
        self.decision = ""

    @property
    def slots(self) -> int:
        """Of the side that evaluates now."""
        return self._engine.slots

    def submit(self, work: Work) -> None:
        """Take a chunk."""
        begin = time.perf_counter()
        self._engine.submit(work)
        self._clock.seconds += time.perf_counter() - begin

    def collect(self, wait: float) -> list[Finished]:
        """What is finished; if nothing is, wait for so many seconds at most."""
        begin = time.perf_counter()
        found = self._engine.collect(wait)
        self._clock.seconds += time.perf_counter() - begin
        self._clock.rows += sum(len(work) for work, _ in found)
        if not self.decision:
            self._consider()
        return found

    def close(self) -> None:
        """End, with the workers."""
        if self._workers is not None:
            self._workers.close()

    @property
    def _clock(self) -> _Clock:
        return self._alone if self._engine is self._here else self._together

    def _consider(self) -> None:
        try:
            if self._workers is None:
                if self._alone.enough and self._left() / self._alone.rate > _WORTH_SECONDS:
                    self._workers = self._start()  # they start while this process goes on
            elif self._engine is self._here:
                if self._workers.ready:
                    self._engine = self._workers
                    while self._here.waiting:
                        self._workers.submit(self._here.waiting[0])  # which may refuse it
                        self._here.waiting.popleft()
            elif self._together.enough and self._together.rows >= _TRIAL_ROWS * self._workers.slots:
                self._decide(self._workers)
        except FitnessError as problem:  # workers can't be used
            self._settle(f"this process alone: {problem}")
            self._come_back()

    def _decide(self, workers: Workers) -> None:
        gain = self._together.rate / self._alone.rate
        if gain >= 1.0:
            self._settle(
                f"{workers.slots} workers, which are {gain:.3g} times as fast as this process alone (measured)"
            )
        else:
            times = f"{1 / gain:.3g} times as fast as {workers.slots} workers"
            self._settle(f"this process alone, which is {times} (measured)")
            self._come_back()

    def _settle(self, decision: str) -> None:
        self.decision = decision
        self._note(f"workers='auto' takes {decision}")

    def _come_back(self) -> None:
        if self._workers is not None:
            for work in self._workers.unfinished():
                self._here.submit(work)
            self._workers.close()
        self._workers = None
        self._engine = self._here
