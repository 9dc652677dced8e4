"""Runs of a Python fitness: exactly ask, evaluate, tell, until the budget is spent.

Several runs go in step: each asks for what it may, all rows are evaluated together, and each is told its own.
"""

import warnings
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from taskelites.algorithms import Candidates
from taskelites.core import metrics
from taskelites.errors import FitnessError, FitnessWarning
from taskelites.evaluation import Dispatcher, Outcomes
from taskelites.results.result import Result
from taskelites.runs import Checkpoint, Checkpointer, FailureLog, Interruption, Snapshot
from taskelites.runs.failure_log import first_error
from taskelites.search.history import Recorder, elites, findings, logged_points, make_result, measures
from taskelites.search.job import Job
from taskelites.search.stepper import Stepper, batches_ahead, host_precision

# Warn that workers are slower than one process: after this many seconds, if they are slower by this factor.
_SLOW_SECONDS = 2.0
_SLOWER = 1.2


def runs_in_step(job: Job) -> int:
    """Return the number of runs that together ask for at most `rows_per_call` rows: 1 without it, or with workers."""
    if job.rows_per_call is None or job.evaluation_options.parallel:
        return 1
    with host_precision():
        core = job.settings.bind(job.problem, job.batch_size)
    rows = core.rows * batches_ahead(core, job.batch_size, job.ahead)
    return max(1, job.rows_per_call // rows)


class Run:
    """One run: its stepper, its history and its failures.

    Args:
        job: what `solve` was asked for.
        seed: of the run.
    """

    def __init__(self, job: Job, seed: int) -> None:
        self.job = job
        self.stepper = Stepper.of_job(job, seed)

    def begin(self, recorder: Recorder) -> None:
        """Get ready to take results, from the beginning or where a checkpoint was."""
        self.recorder = recorder
        every = logged_points(self.job, self.stepper.opening_rows)
        self._looked_at = set(every)
        self._points = iter([point for point in every if point > self.stepper.evaluations] or every[-1:])
        self.point = next(self._points)

    @property
    def failures(self) -> FailureLog:
        """Of this run."""
        return self.recorder.failures

    @property
    def left(self) -> int:
        """How much of the budget is left."""
        return self.job.evaluations - self.stepper.evaluations

    def ended(self) -> bool:
        """Whether the budget is spent, or the target reached."""
        stepper = self.stepper
        if self.left <= 0:
            return True
        # Only where a run that was never interrupted looks, too.
        looks = stepper.row == 0 or stepper.evaluations in self._looked_at
        return self.job.target is not None and stepper.evaluations > 0 and looks and self._reached()

    def _reached(self) -> bool:
        archive = self.stepper.look(elites).archive
        return bool(metrics.reached(archive.fitness, archive.evaluations, self.job.target, self.job.share))

    def ask(self) -> Candidates:
        """The rest of a round, or of the budget, or as far as the next point of the history if there is a target."""
        limit = self.job.evaluations if self.job.target is None else self.point
        return self.stepper.rest(limit - self.stepper.evaluations)

    def take(self, found: Outcomes, asked: Candidates) -> tuple[Exception | None, bool]:
        """Tell results, which follow those told before.

        Args:
            found: what came.
            asked: what `found.rows` point into.

        Returns:
            An error, if one of them ends the run; and whether that is because everything fails.
        """
        stepper = self.stepper
        error, usable = self.first_error(found, asked)
        done = 0
        while done < usable:
            upto = min(usable, done + self.point - stepper.evaluations)
            if found.failures and not self.failures.succeeded:
                upto = done + 1  # a run in which everything fails ends where it does, however chunks are cut
            part = found.part(slice(done, upto)) if (done, upto) != (0, len(found)) else found
            self.note_failures(part, asked)
            stepper.accept(part.fitness, part.behaviour)
            done = upto
            if stepper.evaluations == self.point < self.job.evaluations:
                self.log_point()
            if found.failures and (hopeless := self.failures.verdict()) is not None:
                return hopeless, True
        return error, False

    def log_point(self) -> None:
        """Add a row to the history, and go on to the next point of it that lies ahead."""
        self.recorder.log(self.stepper.glance())
        while self.point <= self.stepper.evaluations:
            self.point = next(self._points)

    def first_error(self, found: Outcomes, asked: Candidates) -> tuple[FitnessError | None, int]:
        """What ends the run, if failures do; and how many results come before it."""
        if self.job.evaluation_options.on_error != "raise":
            return None, len(found)
        return first_error(found, asked.numbers, asked.solutions)

    def note_failures(self, found: Outcomes, asked: Candidates, before: int = 0) -> None:
        """Count the failures among results that are told next, after `before` others."""
        told = self.stepper.evaluations + before
        self.failures.add_all(found, told, asked.numbers, asked.tasks, asked.solutions)

    def verdict(self) -> FitnessError | None:
        """Why the run, which is at its end, is none, if everything failed."""
        return self.failures.verdict(ended=self.left <= 0)

    def snapshot(self) -> Snapshot:
        """What a checkpoint keeps."""
        arrays, about = self.stepper.snapshot()
        recorded, rest = self.recorder.snapshot()
        return {**arrays, **recorded}, {**about, **rest}

    def result(self, recorder: Recorder, side_by_side: int) -> Result:
        """What was found, of one of several runs that went together."""
        about = self.stepper.about(self.job.call, self.job)
        if side_by_side > 1:  # the seconds of the history are those of all
            about |= {"side_by_side": side_by_side}
        return make_result(self.stepper.look(findings), self.job.problem, about, recorder=recorder)


class SyncLoop:
    """Runs of a Python fitness, in step.

    Args:
        job: what `solve` was asked for.
        seeds: one per run.
        note: told in a sentence what happens.
    """

    def __init__(self, job: Job, seeds: list[int], note: Callable[[str], None] = lambda text: None) -> None:
        self.job = job
        self.note = note
        self.runs = [Run(job, seed) for seed in seeds]
        self._said_slow = False

    def compile(self) -> None:
        """Nothing: a step can't be compiled without its results."""

    @property
    def evaluations(self) -> int:
        """How many results were told, in all runs together."""
        return sum(run.stepper.evaluations for run in self.runs)

    @property
    def position(self) -> int:
        """How far the runs are, on average: one that was interrupted within a round may be further than another."""
        return self.evaluations // len(self.runs)

    def run(
        self, recorders: list[Recorder], interruption: Interruption, show: Any, checkpointer: Checkpointer
    ) -> Exception | None:
        """Until the budget is spent, the target reached, an error, or Ctrl-C."""
        self.show, self.checkpointer, self.interruption = show, checkpointer, interruption
        for run, recorder in zip(self.runs, recorders, strict=True):
            run.begin(recorder)
        error: Exception | None = None
        try:
            dispatcher = self._dispatcher()
        except FitnessError as problem:
            return problem
        self.dispatcher = dispatcher
        try:
            error = self._search(dispatcher)
        except FitnessError as problem:  # workers that can't be set up, or only die
            error = None if interruption.noted else problem  # a pool whose processes heard of Ctrl-C first
        finally:
            dispatcher.engine.close()
        stopped = error is not None or interruption.noted
        if stopped:  # before the history gets a row that a run which goes on does not have
            checkpointer.save(self.position, self.snapshots)
        for run in self.runs:
            run.recorder.log(run.stepper.look(measures))
        if not stopped:
            checkpointer.save(self.position, self.snapshots)
        return error or next((verdict for run in self.runs if (verdict := run.verdict()) is not None), None)

    def _dispatcher(self) -> Dispatcher:
        job, interruption = self.job, self.interruption
        used = self.runs[0].stepper.behaviour_dim
        returned = job.problem.returned_behaviour(used)
        caller = job.evaluation_options.caller(job.fitness, job.call, returned, keeps=used > 0)
        return job.evaluation_options.dispatcher(
            caller,
            job.batch_size,
            rows_per_call=job.rows_per_call,
            left=lambda: sum(run.left for run in self.runs),
            halt=lambda: interruption.noted,
            note=self.note,
        )

    def _search(self, dispatcher: Dispatcher) -> Exception | None:
        going = self.runs
        while going := self._going(going):
            error = self._step(dispatcher, going)
            if error is not None:
                return error
        return None

    def _going(self, runs: list[Run]) -> list[Run]:
        """Those of the runs that are not at their end."""
        return [run for run in runs if not (self.interruption.noted or run.ended())]

    def _step(self, dispatcher: Dispatcher, runs: list[Run]) -> Exception | None:
        """Ask all of these runs, evaluate what they ask together, and tell each its own."""
        parts = [run.ask() for run in runs]
        asked = _joined(parts)
        ends = list(accumulate(map(len, parts)))
        stream = dispatcher.stream(
            asked.solutions,
            asked.tasks,
            offset=runs[0].stepper.row if len(self.runs) == 1 else 0,
            behaviour_dim=runs[0].stepper.behaviour_dim,
            halt=lambda: self.interruption.noted,
        )
        for found in stream:
            error = None
            for i, its_own in _shared_out(found, ends):
                error, hopeless = runs[i].take(its_own, asked)
                if hopeless:
                    return error
                if error is not None:
                    break
            self.report()
            if error is not None:
                return error
        return None

    def report(self) -> None:
        """What is to be done when results were told: progress, checkpoints, and a word on workers that do not help."""
        self.show(self.evaluations, lambda: np.concatenate([run.stepper.glance().fitness for run in self.runs]))
        self.checkpointer.look(self.position, self.snapshots)
        dispatcher = self.dispatcher
        if self.job.evaluation_options.parallel and not self._said_slow and dispatcher.waited > _SLOW_SECONDS:
            self._said_slow = True
            slower = dispatcher.waited > _SLOWER * dispatcher.seconds and not dispatcher.lost
            if slower and self.job.evaluation_options.workers != "auto":
                text = (
                    f"workers make this run slower: {dispatcher.evaluated:,} evaluations took {dispatcher.seconds:.3g} "
                    f"s, and sending them out and waiting {dispatcher.waited:.3g} s; without workers, or with "
                    "workers='auto', it is faster"
                )
                self.note(text)
                warnings.warn(text, FitnessWarning, stacklevel=2)

    def snapshots(self) -> list[Snapshot]:
        """What checkpoints keep, one per run."""
        return [run.snapshot() for run in self.runs]

    def restore(self, kept: list[Checkpoint | None], recorders: list[Recorder]) -> None:
        """Go on from checkpoints, one per run; None for a run that begins."""
        for run, each, recorder in zip(self.runs, kept, recorders, strict=True):
            if each is not None:
                run.stepper.restore(each)
                recorder.restore(each)

    def results(self, recorders: list[Recorder]) -> list[Result]:
        """What was found by each run."""
        return [run.result(recorder, len(self.runs)) for run, recorder in zip(self.runs, recorders, strict=True)]


def _joined(parts: list[Candidates]) -> Candidates:
    """Candidates of several runs, one after another."""
    if len(parts) == 1:
        return parts[0]
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in ("solutions", "niches", "numbers")
    }
    if isinstance(parts[0].tasks, np.ndarray):
        tasks: Any = np.concatenate([part.tasks for part in parts])
    else:
        tasks = [task for part in parts for task in part.tasks]
    return Candidates(**arrays, tasks=tasks)


def _shared_out(found: Outcomes, ends: list[int]) -> Iterator[tuple[int, Outcomes]]:
    """Results by the run that they are of; `ends` says where the rows of each run end."""
    first, begin = int(found.rows[0]), 0
    for i, end in enumerate(ends):
        start, stop = max(begin - first, 0), min(end - first, len(found))
        if start < stop:
            yield i, found if (start, stop) == (0, len(found)) else found.part(slice(start, stop))
        begin = end
