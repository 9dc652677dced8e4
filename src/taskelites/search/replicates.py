"""Several runs of one search, side by side or in step where that is faster, else one after another; kept, resumed."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import jax

from taskelites.algorithms import Core
from taskelites.errors import FitnessError, FitnessWarning, Interrupted, InvalidValueError, StorageError
from taskelites.evaluation import JaxFitness
from taskelites.problem.tasks import Tasks
from taskelites.results.result import Result, load
from taskelites.runs import (
    Checkpoint,
    Checkpointer,
    CheckpointInterval,
    FailureLog,
    Interruption,
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


class ReplicateStore:
    """Results as they come, each saved at once; whatever stops a run takes along what there is.

    Args:
        several: whether replicates were asked for, so that each gets a folder of its own.
        folder: where to keep them, or None.
        every: how often a checkpoint is written.
    """

    def __init__(
        self, *, several: bool, folder: RunFolder | None = None, every: CheckpointInterval | None = None
    ) -> None:
        self.folder = folder
        self.several = several
        self.every = every or CheckpointInterval.parse(DEFAULT)
        self.lock: RunLock | None = None
        self.results: list[Result] = []

    def __enter__(self) -> "ReplicateStore":
        return self

    def __exit__(self, *_: object) -> None:
        if self.lock is not None:
            self.lock.release()

    def folder_of(self, number: int) -> RunFolder | None:
        """Where a replicate is kept."""
        if self.folder is None or not self.several:
            return self.folder
        return RunFolder.part(self.folder.path / f"replicate-{number}")

    def take(self, found: list[Result]) -> None:
        """Add results, and save them."""
        for result in found:
            self.results.append(result)
            self.keep(len(self.results) - 1, result)

    def keep(self, number: int, result: Result) -> None:
        """Save one result."""
        folder = self.folder_of(number)
        if folder is not None and result.evaluations > 0:
            folder.write(result)

    def attach(self, problem: BaseException) -> None:
        """Give what there is to the exception, as its `result`: a list, if replicates were asked for."""
        alone = self.results[0] if self.results else None
        with suppress(AttributeError):  # some exceptions take no attributes
            problem.result = self.results if self.several else alone  # type: ignore[attr-defined]

    def where(self) -> str:
        """Half a sentence on where to find what there is."""
        found = self.folder is not None and any(result.evaluations for result in self.results)
        return f"; what was found is in {self.folder.named!r}" if found and self.folder is not None else ""

    def note(self, text: str) -> None:
        """Add a line to the log of the run."""
        if self.folder is not None:
            self.folder.log(text)


def open_run(
    job: Job, seeds: list[int], out: Any, *, several: bool, resume: bool, every: Any, origin: Any
) -> ReplicateStore:
    """Make or open the run folder, and lock it.

    Raises:
        FileExistsError, ValueError: if there is something else in it, or a run of something else.
        RunInUseError: if another process is at it.
    """
    interval = CheckpointInterval.parse(DEFAULT if every is None else every)
    if out is None:
        if resume:
            raise InvalidValueError("resume=True goes on with the run in out=, which is missing")
        return ReplicateStore(several=several, every=interval)
    folder = RunFolder(out, resume=resume)
    lock = RunLock(folder.path)
    lock.acquire()
    store = ReplicateStore(several=several, folder=folder, every=interval)
    store.lock = lock
    plan = plan_of(job, seeds, several=several)
    try:
        if folder.known is None:
            folder.log(f"begins: {job.evaluations:,} evaluations, {job.settings.name} on {job.label}")
        else:
            for warning in check_plan(folder.known["plan"], plan, folder.named):
                folder.log(warning)
                warnings.warn(warning, UserWarning, stacklevel=4)
        folder.write_plan({"origin": origin or (folder.known or {}).get("origin"), "plan": plan})
        folder.write_settings(plan)
    except BaseException:
        lock.release()
        raise
    return store


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
                checkpointer = Checkpointer(_folders(group), store.every)
                before = job.evaluations * group[0].replicate
                control = Control(interruption, checkpointer, bar, before, note)
                _run(_begin_or_restore(job, group, control, prepared), store, checkpointer)
                if interruption.noted:
                    raise _interrupted(interruption, store.results[-len(group) :], store)
    except BaseException as problem:
        store.attach(problem)
        with suppress(OSError):
            store.note(f"stops: {str(problem) or type(problem).__name__}")
        raise
    store.note("ends")


def _groups(job: Job, recorders: list[Recorder]) -> Iterator[tuple[list[Recorder], list[Result]]]:
    """Yield runs that go together, in order; runs that are at their end already stand alone, with their results."""
    if job.call == "jax" and jax.default_backend() != "cpu":
        yield recorders, _finished(job, recorders)
        return
    size = _runs_in_step(job) if len(recorders) > 1 else 1
    together: list[Recorder] = []
    for recorder in recorders:
        done = _finished(job, [recorder])
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


def _folders(group: list[Recorder]) -> list[RunFolder]:
    return [recorder.folder for recorder in group if recorder.folder is not None]


def _finished(job: Job, group: list[Recorder]) -> list[Result]:
    """Return the results of runs that are all at their end already; none if one is not."""
    results = []
    for folder in _folders(group):
        file = folder.path / "result.npz"
        if not file.is_file():
            return []
        try:
            result = load(file)
        except ValueError as error:
            folder.log(f"{error}; it is made again from the checkpoint")
            return []
        if result.evaluations != job.evaluations:
            return []
        # With tasks as they are: a file keeps objects as their text.
        tasks = job.problem.tasks
        results.append(replace(result, tasks=tasks) if isinstance(tasks, Tasks) else result)
    return results


def _begin_or_restore(
    job: Job, group: list[Recorder], control: Control, prepared: tuple[Core, JaxFitness] | None
) -> Loop:
    """Return the loop that runs a group, at its beginning or where its checkpoints are."""
    loop: Loop
    if prepared is not None:
        loop = JaxLoop(job, group, control, prepared)
    elif job.evaluation_options.mode == "async":
        loop = AsyncLoop(job, group, control)
    else:
        loop = SyncLoop(job, group, control)
    folders = _folders(group)
    # Compiled runs are all at the same step.
    alike = [folders] if prepared is not None else [[folder] for folder in folders]
    kept = [checkpoint for part in alike for checkpoint in _common_checkpoints(part)]
    for folder, checkpoint in zip(folders, kept, strict=True):
        if checkpoint is None:
            folder.begin_again()
    if any(checkpoint is not None for checkpoint in kept):
        loop.restore(kept)
        control.checkpointer.begin(loop.position)
        control.note(f"goes on after {loop.position:,} evaluations")
    return loop


def _common_checkpoints(folders: list[RunFolder]) -> list[Checkpoint | None]:
    """Return the newest checkpoints, one per folder, all of one position; None for each if there are none."""
    for position in folders[0].checkpoints.positions() if folders else ():
        kept = [folder.checkpoints.load(position) for folder in folders]
        if all(checkpoint is not None for checkpoint in kept):
            return kept
    return [None for _ in folders]


def _run(loop: Loop, store: ReplicateStore, checkpointer: Checkpointer) -> None:
    """Run one group to its end, and keep what it finds."""
    try:
        loop.run()
    except FitnessError as error:
        store.take(loop.results())
        error.args = (f"{error}{store.where()}",)
        raise
    except BaseException as problem:  # a callback that raises, sys.exit, a full disk, a second Ctrl-C
        with suppress(RuntimeError, OSError):  # the second Ctrl-C may have come in the middle of a step
            store.take(loop.results())
        if isinstance(problem, StorageError):
            raise StorageError(problem.errno, f"{problem.strerror}{checkpointer.last()}") from problem
        raise
    store.take(loop.results())


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
    """Say once how many evaluations gave no usable number."""
    told = sum(result.evaluations for result in results)
    failed = sum(result.failed for result in results)
    if failed:
        kinds = {kind for result in results for kind in result.failures}
        counts = {kind: sum(result.failures.get(kind, 0) for result in results) for kind in sorted(kinds)}
        words = ", ".join(f"{kind} {number:,}" for kind, number in counts.items())
        warnings.warn(
            f"{failed:,} of {told:,} evaluations failed ({words}) and were not stored", FitnessWarning, stacklevel=3
        )
    if not any(result.solved.any() for result in results):
        warnings.warn("no task was solved: no evaluation gave a finite fitness", FitnessWarning, stacklevel=3)
