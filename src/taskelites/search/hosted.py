"""One run of a Python fitness: exactly ask, evaluate, tell, until the budget is spent."""

import warnings
from collections.abc import Callable
from typing import Any

from taskelites import metrics
from taskelites.algorithms import Candidates
from taskelites.errors import FitnessError, FitnessWarning
from taskelites.evaluation import Dispatcher, Outcomes
from taskelites.result import Result
from taskelites.runs import Checkpoint, FailureLog, Interruption, Keeper, Snapshot
from taskelites.runs.failing import first_error
from taskelites.search.optimizer import Optimizer
from taskelites.search.record import Recorder, about_run, elites, findings, logged_points, make_result, measures
from taskelites.search.statement import Job

# Workers are said to be too many after so many seconds, if one process would have been this much faster.
_SLOW_SECONDS = 2.0
_SLOWER = 1.2


class Hosted:
    """One run of a Python fitness.

    Args:
        job: what `solve` was asked for.
        seeds: the seed, in a list.
        note: told in a sentence what happens.
    """

    def __init__(self, job: Job, seeds: list[int], note: Callable[[str], None] = lambda text: None) -> None:
        self.job = job
        self.note = note
        self.optimizer = Optimizer._of(job, seeds[0])
        self._said_slow = False

    def compile(self) -> None:
        """Nothing: a step can't be compiled without its results."""

    @property
    def position(self) -> int:
        """How far it is."""
        return self.optimizer.evaluations

    def run(self, recorders: list[Recorder], interruption: Interruption, show: Any, keeper: Keeper) -> Exception | None:
        """Until the budget is spent, the target reached, an error, or Ctrl-C."""
        self.recorder, self.show, self.keeper = recorders[0], show, keeper
        self.interruption = interruption
        every = logged_points(self.job, self.optimizer._opening_rows)
        self._looked_at = set(every)
        self._points = iter([point for point in every if point > self.optimizer.evaluations] or every[-1:])
        self._point = next(self._points)
        job, optimizer = self.job, self.optimizer
        used = optimizer._core.behaviour_dim
        returned = job.problem.returned_behaviour(used)
        caller = job.manner.caller(job.fitness, job.call, returned, keeps=used > 0)
        error: Exception | None = None
        try:
            dispatcher = job.manner.dispatcher(
                caller,
                job.batch_size,
                left=lambda: job.evaluations - optimizer.evaluations,
                halt=lambda: interruption.noted,
                note=self.note,
            )
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
            keeper.save(self.position, self.snapshots)
        recorders[0].log(optimizer._look(measures))
        if not stopped:
            keeper.save(self.position, self.snapshots)
        return error or self.failures.verdict(ended=optimizer.evaluations >= job.evaluations)

    @property
    def failures(self) -> FailureLog:
        """Of this run."""
        return self.recorder.failures

    def _search(self, dispatcher: Dispatcher) -> Exception | None:
        while not self._ended():
            error = self._step(dispatcher)
            if error is not None:
                return error
        return None

    def _ended(self) -> bool:
        optimizer = self.optimizer
        if optimizer.evaluations >= self.job.evaluations or self.interruption.noted:
            return True
        # Only where a run that was never interrupted looks, too.
        looks = optimizer._row == 0 or optimizer.evaluations in self._looked_at
        return self.job.target is not None and optimizer.evaluations > 0 and looks and self._reached()

    def _step(self, dispatcher: Dispatcher) -> Exception | None:
        """The rest of a step, or of the budget, or as far as the next point of the history if there is a target."""
        job, optimizer = self.job, self.optimizer
        limit = self._point if job.target is not None else job.evaluations
        asked = optimizer.ask(at_most=limit - optimizer.evaluations)
        stream = dispatcher.stream(
            asked.solutions,
            asked.tasks,
            offset=optimizer._row,
            behaviour_dim=optimizer._core.behaviour_dim,
            halt=lambda: self.interruption.noted,
        )
        for found in stream:
            error = self._take(found, asked)
            if error is not None:
                return error
        return None

    def _take(self, found: Outcomes, asked: Candidates) -> Exception | None:
        """Tell results, which follow those told before; an error, if one of them ends the run."""
        optimizer, job = self.optimizer, self.job
        error, usable = self._first_error(found, asked)
        done = 0
        while done < usable:
            upto = min(usable, done + self._point - optimizer.evaluations)
            if found.failures and not self.failures.succeeded:
                upto = done + 1  # a run in which everything fails ends where it does, however chunks are cut
            part = found.part(slice(done, upto)) if (done, upto) != (0, len(found)) else found
            self._note_failures(part, asked)
            optimizer._accept(part.fitness, part.behaviour)
            done = upto
            if optimizer.evaluations == self._point < job.evaluations:
                self.recorder.log(optimizer._glance())
                self._point = next(self._points)
            if found.failures and (hopeless := self.failures.verdict()) is not None:
                return hopeless
        self.show(optimizer.evaluations, lambda: optimizer._glance().fitness)
        self._look_after()
        return error

    def _first_error(self, found: Outcomes, asked: Candidates) -> tuple[FitnessError | None, int]:
        """What ends the run, if failures do; and how many results come before it."""
        if self.job.manner.on_error != "raise":
            return None, len(found)
        return first_error(found, asked.numbers, asked.solutions)

    def _note_failures(self, found: Outcomes, asked: Candidates, before: int = 0) -> None:
        """Count the failures among results that are about to be told, after so many others."""
        told = self.optimizer.evaluations + before
        self.failures.add_all(found, told, asked.numbers, asked.tasks, asked.solutions)

    def _look_after(self) -> None:
        """What is to be done now and then: checkpoints, and a word on workers that do not help."""
        self.keeper.look(self.optimizer.evaluations, self.snapshots)
        dispatcher = self.dispatcher
        if self.job.manner.parallel and not self._said_slow and dispatcher.waited > _SLOW_SECONDS:
            self._said_slow = True
            slower = dispatcher.waited > _SLOWER * dispatcher.seconds and not dispatcher.lost
            if slower and self.job.manner.workers != "auto":
                text = (
                    f"workers make this run slower: {dispatcher.evaluated:,} evaluations took {dispatcher.seconds:.3g} "
                    f"s, and sending them out and waiting {dispatcher.waited:.3g} s; without workers, or with "
                    "workers='auto', it is faster"
                )
                self.note(text)
                warnings.warn(text, FitnessWarning, stacklevel=2)

    def snapshots(self) -> list[Snapshot]:
        """What a checkpoint keeps."""
        arrays, about = self.optimizer._snapshot()
        recorded, rest = self.recorder.snapshot()
        return [({**arrays, **recorded}, {**about, **rest})]

    def restore(self, kept: list[Checkpoint], recorders: list[Recorder]) -> None:
        """Go on from checkpoints."""
        self.optimizer._restore(kept[0])
        recorders[0].restore(kept[0])

    def _reached(self) -> bool:
        archive = self.optimizer._look(elites).archive
        return bool(metrics.reached(archive.fitness, archive.evaluations, self.job.target, self.job.share))

    def results(self, recorders: list[Recorder]) -> list[Result]:
        """What was found."""
        job, optimizer = self.job, self.optimizer
        about = about_run(
            job.settings, job.problem, optimizer._core, seed=optimizer._seed, call=job.call, bits=64, job=job
        )
        return [make_result(optimizer._look(findings), job.problem, about, recorder=recorders[0])]
