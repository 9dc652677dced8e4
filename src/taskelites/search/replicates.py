"""Several runs of one search, side by side or in step where that is faster, else one after another; kept, resumed."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from taskelites.algorithms import Core
from taskelites.errors import FitnessError, FitnessWarning, Interrupted, InvalidValueError, StorageError
from taskelites.evaluation import JaxFitness
from taskelites.problem.tasks import Tasks
from taskelites.process import Interruption
from taskelites.results.result import Result, load
from taskelites.runs import (
    Checkpoint,
    Checkpointer,
    CheckpointInterval,
    FailureLog,
    Progress,
    RunFolder,
    RunLock,
)
from taskelites.runs.checkpoint_interval import DEFAULT
from taskelites.search.async_loop import AsyncLoop
from taskelites.search.history import Recorder
from taskelites.search.jax_loop import JaxLoop
from taskelites.search.job import Job
from taskelites.search.loop import Control, Loop
from taskelites.search.run_plan import check_plan, plan_of
from taskelites.search.stepper import batches_ahead, host_precision
from taskelites.search.sync_loop import SyncLoop

Callback = Callable[[Mapping[str, Any]], None]


@dataclass
class ReplicateStore:
    """Results as they come, each saved at once.

    Args:
        several: whether replicates were asked for, so that each gets a folder of its own.
        folder: where to keep them, or None.
        every: how often a checkpoint is saved.
    """

    several: bool
    folder: RunFolder | None = None
    every: CheckpointInterval = DEFAULT
    results: list[Result] = field(default_factory=list)

    def folder_of(self, number: int) -> RunFolder | None:
        """Return where a replicate is kept."""
        if self.folder is None or not self.several:
            return self.folder
        return RunFolder.part(self.folder.path / f"replicate-{number}")

    def take(self, group: list[Recorder], found: list[Result]) -> None:
        """Add the results of a group of runs, and save each in the folder of its run."""
        self.results += found
        for recorder, result in zip(group, found, strict=True):
            if recorder.folder is not None and result.evaluations > 0:
                recorder.folder.write(result)

    def attach(self, problem: BaseException) -> None:
        """Give what there is to the exception, as its `result`: a list, if replicates were asked for."""
        alone = self.results[0] if self.results else None
        with suppress(AttributeError):  # some exceptions take no attributes
            problem.result = self.results if self.several else alone  # type: ignore[attr-defined]

    def where(self) -> str:
        """Return half a sentence on where to find what there is."""
        found = self.folder is not None and any(result.evaluations for result in self.results)
        return f"; what was found is in {self.folder.named!r}" if found and self.folder is not None else ""

    def note(self, text: str) -> None:
        """Add a line to the log of the run."""
        if self.folder is not None:
            self.folder.log(text)


@contextmanager
def open_run(
    job: Job, seeds: list[int], out: Any, *, several: bool, resume: bool, every: Any, request: Any
) -> Iterator[ReplicateStore]:
    """Make or open the run folder, and lock it.

    Raises:
        FileExistsError, ValueError: if there is something else in it, or a run of something else.
        RunInUseError: if another process uses it.
    """
    interval = DEFAULT if every is None else CheckpointInterval.parse(every)
    if out is None:
        if resume:
            raise InvalidValueError("resume=True goes on with the run in out=, which is missing")
        yield ReplicateStore(several=several, every=interval)
        return
    folder = RunFolder(out, resume=resume)
    with RunLock(folder.path):
        plan = plan_of(job, seeds, several=several)
        if folder.known is None:
            folder.log(f"begins: {job.evaluations:,} evaluations, {job.settings.name} on {job.label}")
        else:
            for warning in check_plan(folder.known["plan"], plan, folder.named):
                folder.log(warning)
                warnings.warn(warning, UserWarning, stacklevel=4)
        folder.write_plan({"request": request or (folder.known or {}).get("request"), "plan": plan})
        try:
            yield ReplicateStore(several=several, folder=folder, every=interval)
        except BaseException as problem:
            with suppress(OSError):
                folder.log(f"stops: {str(problem) or type(problem).__name__}")
            raise
        folder.log("ends")


def run_all(
    job: Job, seeds: list[int], store: ReplicateStore, bar: Progress | None, callback: Callback | None = None
) -> None:
    """Run all replicates; what they find is in the store, whatever happens."""
    note = partial(_note, store, bar)
    prepared = JaxLoop.prepare(job) if job.call == "jax" else None
    recorders = [
        Recorder(job, seed, i, callback, folder := store.folder_of(i), FailureLog(folder, note))
        for i, seed in enumerate(seeds)
    ]
    try:
        with Interruption() as interruption:
            for group, done in _groups(job, recorders):
                if done:
                    note("is complete already; only a higher budget goes on")
                    store.results += done
                    continue
                folders = [recorder.folder for recorder in group if recorder.folder is not None]
                checkpointer = Checkpointer(folders, store.every) if folders else None
                before = job.evaluations * group[0].replicate
                loop = _loop(job, group, Control(interruption, checkpointer, bar, before, note), prepared)
                if checkpointer is not None:
                    _restore(loop, folders, checkpointer, note, alike=prepared is not None)
                _run(loop, group, store, checkpointer)
                if interruption.noted:
                    raise _interrupted(interruption, store.results[-len(group) :], store)
    except BaseException as problem:
        store.attach(problem)
        raise


def _groups(job: Job, recorders: list[Recorder]) -> Iterator[tuple[list[Recorder], list[Result]]]:
    """Yield runs that go together, in order; runs that are at their end already stand alone, with their results."""
    if job.call == "jax" and jax.default_backend() != "cpu":
        yield recorders, _finished(job, recorders)
        return
    size = _runs_in_step(job) if len(recorders) > 1 else 1
    together: list[Recorder] = []
    for recorder in recorders:
        done = [] if recorder.folder is None else _finished(job, [recorder])
        if not done:
            together.append(recorder)
        if together and (done or len(together) == size or recorder is recorders[-1]):
            yield together, []
            together = []
        if done:
            yield [recorder], done


def _runs_in_step(job: Job) -> int:
    """Return the number of runs that together ask for at most `rows_per_call` rows: 1 without it, or with workers."""
    if job.rows_per_call is None or job.evaluation_options.parallel:
        return 1
    with host_precision():
        core = job.settings.bind(job.problem, job.batch_size)
    rows = core.rows * batches_ahead(core, job.batch_size, job.ahead)
    return max(1, job.rows_per_call // rows)


def _finished(job: Job, group: list[Recorder]) -> list[Result]:
    """Return the results of runs that are all at their end already; none if one is not."""
    results = []
    for folder in (recorder.folder for recorder in group):
        if folder is None or not (folder.path / "result.npz").is_file():
            return []
        try:
            result = load(folder.path / "result.npz")
        except ValueError as error:
            folder.log(f"{error}; it is made again from the checkpoint")
            return []
        if result.evaluations != job.evaluations:
            return []
        # With tasks as they are: a file keeps objects as their text.
        tasks = job.problem.tasks
        results.append(replace(result, tasks=tasks) if isinstance(tasks, Tasks) else result)
    return results


def _loop(job: Job, group: list[Recorder], control: Control, prepared: tuple[Core, JaxFitness] | None) -> Loop:
    """Return the loop that runs a group, at its beginning."""
    if prepared is not None:
        return JaxLoop(job, group, control, prepared)
    if job.evaluation_options.mode == "async":
        return AsyncLoop(job, group, control)
    return SyncLoop(job, group, control)


def _restore(
    loop: Loop, folders: list[RunFolder], checkpointer: Checkpointer, note: Callable[[str], None], *, alike: bool
) -> None:
    """Go on where the newest usable checkpoints are; `alike` runs are all at the same step."""
    parts = [folders] if alike else [[folder] for folder in folders]
    kept = [checkpoint for part in parts for checkpoint in _common_checkpoints(part)]
    for folder, checkpoint in zip(folders, kept, strict=True):
        if checkpoint is None:
            folder.begin_again()
    if any(checkpoint is not None for checkpoint in kept):
        loop.restore(kept)
        checkpointer.begin(loop.position)
        note(f"goes on after {loop.position:,} evaluations")


def _common_checkpoints(folders: list[RunFolder]) -> list[Checkpoint | None]:
    """Return the newest checkpoints, one per folder, all of one position; None for each if there are none."""
    for position in folders[0].checkpoints.positions():
        kept = [folder.checkpoints.load(position) for folder in folders]
        if all(checkpoint is not None for checkpoint in kept):
            return kept
    return [None for _ in folders]


def _run(loop: Loop, group: list[Recorder], store: ReplicateStore, checkpointer: Checkpointer | None) -> None:
    """Run one group to its end, and keep what it finds."""
    try:
        loop.run()
    except FitnessError as error:
        store.take(group, loop.results())
        error.args = (f"{error}{store.where()}",)
        raise
    except BaseException as problem:  # a callback that raises, sys.exit, a full disk, a second Ctrl-C
        with suppress(RuntimeError, OSError):  # the second Ctrl-C may have come in the middle of a step
            store.take(group, loop.results())
        if isinstance(problem, StorageError) and checkpointer is not None:
            raise StorageError(problem.errno, f"{problem.strerror}{checkpointer.last()}") from problem
        raise
    store.take(group, loop.results())


def _interrupted(interruption: Interruption, stopped: list[Result], store: ReplicateStore) -> Interrupted:
    told = max(result.evaluations for result in stopped)
    stop = Interrupted(f"interrupted after {told:,} evaluations{store.where()}")
    stop.signal = interruption.signal
    return stop


def _note(store: ReplicateStore, bar: Progress | None, text: str) -> None:
    store.note(text)
    if bar is not None:
        bar.note(text)


def warn_of_failures(results: list[Result]) -> None:
    """Warn once of evaluations that gave no usable number."""
    told = sum(result.evaluations for result in results)
    failed = sum(result.failed for result in results)
    if failed:
        kinds = {kind for result in results for kind in result.failures}
        counts = {kind: sum(result.failures.get(kind, 0) for result in results) for kind in sorted(kinds)}
        words = ", ".join(f"{kind} {number:,}" for kind, number in counts.items())
        warnings.warn(
            f"{failed:,} of {told:,} evaluations failed ({words}) and were not stored", FitnessWarning, stacklevel=3
        )
    if not any(np.isfinite(result.fitness).any() for result in results):
        warnings.warn("no task was solved: no evaluation gave a finite fitness", FitnessWarning, stacklevel=3)
