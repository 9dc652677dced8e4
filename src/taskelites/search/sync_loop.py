"""The loop over a Python fitness: runs advance in step, and their rows are evaluated in shared calls."""

import warnings
from bisect import bisect_right
from contextlib import closing

import numpy as np

from taskelites.algorithms import Candidates
from taskelites.core import metrics
from taskelites.errors import FitnessError, FitnessWarning
from taskelites.evaluation import Dispatcher, Outcomes
from taskelites.evaluation.dispatcher import evaluate_together
from taskelites.results.result import Result
from taskelites.runs import Checkpoint, Snapshot
from taskelites.runs.failure_log import raise_first
from taskelites.search.history import UNFIT, Recorder, logged_points, make_result
from taskelites.search.job import Job
from taskelites.search.loop import Control
from taskelites.search.stepper import Stepper
from taskelites.storage import reading

# Seconds and factor after which the user is warned that workers are slower than one process.
_SLOW_SECONDS = 2.0
_SLOWER = 1.2


class SearchRun:
    """One run of a search: its stepper, its history and its failures.

    Args:
        job: the checked request.
        recorder: records the history of the run.

    Attributes:
        telling: whether results are being told. An exception then leaves a state that must not be saved.
    """

    def __init__(self, job: Job, recorder: Recorder) -> None:
        self.job = job
        self.recorder = recorder
        self.failures = recorder.failures
        self.stepper = Stepper(
            job.problem,
            job.settings,
            batch_size=job.batch_size,
            ahead=job.ahead,
            seed=recorder.seed,
            initial=job.initial,
        )
        self.telling = False
        self._points = logged_points(job, self.stepper.opening_rows)

    @property
    def left(self) -> int:
        """The remaining budget, in evaluations."""
        return self.job.evaluations - self.stepper.evaluations

    @property
    def point(self) -> int:
        """The next point of the history."""
        logged = self.recorder.rows[-1]["evaluations"] if self.recorder.rows else 0
        return self._points[bisect_right(self._points, logged, hi=len(self._points) - 1)]

    def ended(self) -> bool:
        """Return whether the budget is spent, or the target reached."""
        stepper, target = self.stepper, self.job.target
        if stepper.evaluations >= self.job.evaluations:
            return True
        if target is None or stepper.evaluations == 0:
            return False
        if stepper.round.row > 0 and stepper.evaluations not in self._points:
            return False  # an uninterrupted run checks the target only at these points
        archive = stepper.read().elites.archive
        return bool(metrics.reached(archive.fitness, archive.evaluations, target, self.job.share))

    def ask(self) -> Candidates:
        """Return the rest of the round, cut at the budget and, with a target, at the next point of the history."""
        limit = self.job.evaluations if self.job.target is None else self.point
        return self.stepper.part(self.stepper.round.row, limit - self.stepper.evaluations)

    def take(self, found: Outcomes, asked: Candidates) -> None:
        """Tell the next results; see `Evaluable`."""
        self.telling = True
        if found.failures or found.again or self.failures.counts:
            self._take_with_failures(found, asked)
        else:
            self._tell(found)
        self.telling = False

    def _take_with_failures(self, found: Outcomes, asked: Candidates) -> None:
        fatal = self.job.evaluation_options.on_error == "raise" and bool(found.failures)
        usable = min(found.failures) if fatal else len(found)
        done = 0
        while done < usable:
            # One by one, so that a run in which everything fails ends at the same row for any size of chunks.
            upto = done + 1 if found.failures and not self._succeeded(0) else usable
            part = found.part(slice(done, upto))
            self.note_failures(part, asked)
            self._tell(part)
            done = upto
            self.failures.check()
        if fatal:
            raise_first(found, asked.numbers, asked.solutions)

    def _tell(self, found: Outcomes) -> None:
        """Tell results, and add a row to the history at each of its points."""
        stepper, start = self.stepper, 0
        while start < len(found):
            # Not `self.point`: if a run resumes with another budget, one of its points may lie behind already.
            point = self._points[bisect_right(self._points, stepper.evaluations, hi=len(self._points) - 1)]
            stop = min(len(found), start + point - stepper.evaluations)
            behaviour = None if found.behaviour is None else found.behaviour[start:stop]
            stepper.accept(found.fitness[start:stop], behaviour)
            start = stop
            if stepper.evaluations == point < self.job.evaluations:
                self.recorder.log(stepper.glance())

    def note_failures(self, found: Outcomes, asked: Candidates, before: int = 0) -> None:
        """Count the failures among the results to tell after the next `before` ones."""
        self.failures.succeeded = self._succeeded(before)
        told = self.stepper.evaluations + before
        self.failures.add_all(found, told, asked.numbers, asked.tasks, asked.solutions)

    def _succeeded(self, before: int) -> bool:
        """Return whether any evaluation has succeeded, counting `before` successes that are not told yet."""
        return self.stepper.evaluations + before > self.failures.counts.total()

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the run, for a checkpoint."""
        arrays, about = self.stepper.snapshot()
        recorded, rest = self.recorder.snapshot()
        return {**arrays, **recorded}, {**about, **rest}

    def restore(self, kept: Checkpoint) -> None:
        """Continue from a checkpoint.

        Raises:
            StorageError: if it does not fit this run.
        """
        with reading(kept.path, *UNFIT):
            self.stepper.restore(kept)
            self.recorder.restore(kept, self.stepper.evaluations)

    def result(self, side_by_side: int) -> Result:
        """Return the result of this run, one of `side_by_side` runs that ran together."""
        about = self.stepper.about(self.job.call, self.job)
        if side_by_side > 1:  # they share the seconds of the history
            about |= {"side_by_side": side_by_side}
        return make_result(self.stepper.read(), self.job.problem, about, recorder=self.recorder)


class SyncLoop:
    """Runs of a Python fitness, in step.

    Args:
        job: the checked request.
        recorders: one per run.
        control: the interruption, the checkpoints and the progress of the loop.
    """

    def __init__(self, job: Job, recorders: list[Recorder], control: Control) -> None:
        self.job = job
        self.control = control
        self.runs = [SearchRun(job, recorder) for recorder in recorders]
        self._said_slow = False

    @property
    def position(self) -> int:
        """The mean number of evaluations per run: an interruption may reach one run later than another."""
        return sum(run.stepper.evaluations for run in self.runs) // len(self.runs)

    def halted(self) -> bool:
        """Return whether the user, or a callback, has asked to stop."""
        return self.control.interruption.noted or self.control.callbacks.stop is not None

    def run(self) -> None:
        """Run until the budget is spent, the target is reached, or the user interrupts; see `Loop`."""
        job, behaviour_dim = self.job, self.runs[0].stepper.behaviour_dim
        dispatcher = job.evaluation_options.dispatcher(
            job.fitness,
            job.call,
            behaviour_dim=job.problem.returned_behaviour(behaviour_dim),
            keeps_behaviour=behaviour_dim > 0,
            batch_size=job.batch_size,
            rows_per_call=job.rows_per_call,
            left=lambda: sum(run.left for run in self.runs),
            halt=self.halted,
            note=self.control.note,
            on_rebuild=self.runs[0].failures.add_rebuild,
            log_folder=None if (folder := self.runs[0].recorder.folder) is None else folder.path / "workers",
        )
        if self.control.bar is not None:
            self.control.bar.begin()
        for run in self.runs:
            run.recorder.start_clock()
        try:
            with closing(dispatcher.engine):
                self._search(dispatcher)
        except FitnessError:
            if not self.halted():  # Ctrl-C reaches the processes of a pool too, and their deaths are no failures
                self._finish(stopped=True)
                raise
        except BaseException:  # from the fitness, a broken connection, a warning that is an error
            if not any(run.telling for run in self.runs):
                self.control.rescue(self.position, self.snapshots)
            raise
        self._finish(stopped=self.halted())
        for run in self.runs:
            if run.failures.counts:
                run.failures.check(ended=run.left <= 0)

    def _search(self, dispatcher: Dispatcher) -> None:
        going = self.runs
        while not self.halted() and (going := [run for run in going if not run.ended()]):
            self.step(dispatcher, going)

    def step(self, dispatcher: Dispatcher, going: list[SearchRun]) -> None:
        """Evaluate and tell the next candidates of these runs."""
        first = self.runs[0].stepper
        offset = first.round.row if len(self.runs) == 1 else 0
        for _ in evaluate_together(dispatcher, going, self.halted, offset=offset, behaviour_dim=first.behaviour_dim):
            self.report(dispatcher)

    def _finish(self, *, stopped: bool) -> None:
        """Save a checkpoint, and add the last row of the history."""
        checkpointer = self.control.checkpointer
        if stopped and checkpointer is not None:  # before the last row, which an uninterrupted run does not have
            checkpointer.save(self.position, self.snapshots)
        for run in self.runs:
            run.recorder.log(run.stepper.read().measures())
        if not stopped and checkpointer is not None:
            checkpointer.save(self.position, self.snapshots)

    def report(self, dispatcher: Dispatcher) -> None:
        """Show the progress and save a checkpoint when they are due; warn once if workers slow the run down."""
        control = self.control
        if control.bar is not None:
            told = sum(run.stepper.evaluations for run in self.runs)
            control.bar.update(control.shown_before + told, self._summary)
        for run in self.runs:
            if run.failures.mostly_failing:
                control.alarm.sound(run.failures, run.stepper.evaluations)
        if control.checkpointer is not None:
            control.checkpointer.look(self.position, self.snapshots)
        if self.job.evaluation_options.parallel and not self._said_slow and dispatcher.waited > _SLOW_SECONDS:
            self._said_slow = True
            self._warn_of_slow_workers(dispatcher)

    def _summary(self) -> dict[str, float]:
        """Return the summary of all runs together: coverage, mean fitness, quantiles, failed evaluations."""
        fitness = np.concatenate([run.stepper.glance().fitness for run in self.runs])
        return metrics.summary(fitness) | {"failed": sum(run.failures.counts.total() for run in self.runs)}

    def _warn_of_slow_workers(self, dispatcher: Dispatcher) -> None:
        slower = dispatcher.waited > _SLOWER * dispatcher.seconds and not dispatcher.lost
        if slower and self.job.evaluation_options.workers != "auto":
            text = (
                f"workers make this run slower: {dispatcher.evaluated:,} evaluations took {dispatcher.seconds:.3g} "
                f"s, and sending them out and waiting {dispatcher.waited:.3g} s; without workers, or with "
                "workers='auto', it is faster"
            )
            self.control.note(text)
            warnings.warn(text, FitnessWarning, stacklevel=2)

    def snapshots(self) -> list[Snapshot]:
        """Return the snapshot of each run, for a checkpoint."""
        return [run.snapshot() for run in self.runs]

    def restore(self, checkpoints: list[Checkpoint | None]) -> None:
        """Continue from checkpoints, one per run; None for a run that begins anew."""
        for run, checkpoint in zip(self.runs, checkpoints, strict=True):
            if checkpoint is not None:
                run.restore(checkpoint)

    def results(self) -> list[Result]:
        """Return the result of each run."""
        return [run.result(len(self.runs)) for run in self.runs]
