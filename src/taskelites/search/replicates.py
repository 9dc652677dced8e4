"""Several runs of one search, side by side or in step where that is faster, else one after another; kept, resumed."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from taskelites.core import metrics
from taskelites.errors import FitnessError, FitnessWarning, Interrupted, InvalidValueError, StorageError
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
from taskelites.search.run_plan import check_plan, plan_of
from taskelites.search.sync_loop import SyncLoop, runs_in_step

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


@dataclass
class _Group:
    """Runs that go together."""

    numbers: list[int]
    seeds: list[int]
    folders: list[RunFolder]
    recorders: list[Recorder]

    def add(self, other: "_Group") -> None:
        """Take further runs in."""
        self.numbers += other.numbers
        self.seeds += other.seeds
        self.folders += other.folders
        self.recorders += other.recorders


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
    first = True
    try:
        with Interruption() as interruption:
            for group, done in _groups(job, seeds, store, callback, note):
                if done is not None:
                    note("is complete already; only a higher budget goes on")
                    store.results += done
                    continue
                search = _search(job, group, prepared, note)
                show = _shift(bar, job.evaluations * group.numbers[0])
                _run(search, group, store, interruption, show, compile_first=first)
                first = False
                if interruption.noted:
                    raise _interrupted(interruption, store.results[-len(group.numbers) :], store)
    except BaseException as problem:
        store.attach(problem)
        with suppress(OSError):
            store.note(f"stops: {str(problem) or type(problem).__name__}")
        raise
    store.note("ends")


def _groups(
    job: Job, seeds: list[int], store: ReplicateStore, callback: Callback | None, note: Any
) -> Iterator[tuple[_Group, list[Result] | None]]:
    """Runs that go together, in order; runs that are at their end already stand alone, with their results."""
    if job.call == "jax" and jax.default_backend() != "cpu":
        group = _group(job, list(range(len(seeds))), seeds, store, callback, note)
        yield group, _finished(job, group)
        return
    size = runs_in_step(job) if len(seeds) > 1 else 1
    together: _Group | None = None
    for i in range(len(seeds)):
        group = _group(job, [i], seeds, store, callback, note)
        done = _finished(job, group)
        if done is None and together is not None:
            together.add(group)
        elif done is None:
            together = group
        if together is not None and (done is not None or len(together.numbers) == size or i == len(seeds) - 1):
            yield together, None
            together = None
        if done is not None:
            yield group, done


def _group(
    job: Job, numbers: list[int], seeds: list[int], store: ReplicateStore, callback: Callback | None, note: Any
) -> _Group:
    folders = [folder for i in numbers if (folder := store.folder_of(i)) is not None]
    recorders = []
    for place, i in enumerate(numbers):
        folder = folders[place] if folders else None
        failures = FailureLog(folder, note)
        recorders.append(Recorder(job, i, callback, folder, failures))
    return _Group(numbers, [seeds[i] for i in numbers], folders, recorders)


def _finished(job: Job, group: _Group) -> list[Result] | None:
    """The results of runs that are at their end already."""
    results = []
    for folder in group.folders:
        file = folder.path / "result.npz"
        if not file.is_file():
            return None
        try:
            result = load(file)
        except ValueError as error:
            folder.log(f"{error}; it is made again from the checkpoint")
            return None
        if result.evaluations != job.evaluations:
            return None
        # With tasks as they are: a file keeps objects as their text.
        tasks = job.problem.tasks
        results.append(replace(result, tasks=tasks) if isinstance(tasks, Tasks) else result)
    return results or None


def _search(job: Job, group: _Group, prepared: Any, note: Any) -> Any:
    """What runs a group, at its beginning or where its checkpoints are."""
    search: Any
    if job.call == "jax":
        search = JaxLoop(job, group.seeds, prepared)
    else:
        search = (AsyncLoop if job.evaluation_options.mode == "async" else SyncLoop)(job, group.seeds, note)
    if job.call == "jax":  # all are at the same step
        kept: list[Any] = _common_checkpoints(group.folders) or [None for _ in group.folders]
    else:
        kept = [next(iter(_common_checkpoints([folder])), None) for folder in group.folders]
    for folder, each in zip(group.folders, kept, strict=True):
        if each is None:
            folder.begin_again()
    if any(each is not None for each in kept):
        search.restore(kept, group.recorders)
        note(f"goes on after {search.position:,} evaluations")
    return search


def _common_checkpoints(folders: list[RunFolder]) -> list[Checkpoint]:
    """The newest checkpoints of runs that go side by side, all of one position; none if there are none."""
    if not folders:
        return []
    for position in folders[0].checkpoints.positions():
        kept = [folder.checkpoints.load(position) for folder in folders]
        found = [each for each in kept if each is not None]
        if len(found) == len(folders):
            return found
    return []


def _run(
    search: Any, group: _Group, store: ReplicateStore, interruption: Interruption, show: Any, *, compile_first: bool
) -> None:
    """Run one group to its end, and keep what it finds."""
    recorders, checkpointer = group.recorders, Checkpointer(group.folders, store.every)
    if search.position:
        checkpointer.begin(search.position)
    error = None
    try:
        if compile_first:
            search.compile()
        for recorder in recorders:
            recorder.start_clock()
        error = search.run(recorders, interruption, show, checkpointer)
    except BaseException as problem:  # a callback that raises, sys.exit, a full disk, a second Ctrl-C
        if not _inside_the_program(problem):
            with suppress(RuntimeError, OSError):  # the second Ctrl-C may have come in the middle of a step
                store.take(search.results(recorders))
            if isinstance(problem, StorageError):
                raise StorageError(problem.errno, f"{problem.strerror}{checkpointer.last()}") from problem
            raise
        error = FitnessError(f"fitness failed inside the compiled run: {str(problem).splitlines()[0]}")
        error.__cause__ = problem
    store.take(search.results(recorders))
    if error is not None:
        error.args = (f"{error}{store.where()}",)
        raise error


def _interrupted(interruption: Interruption, stopped: list[Result], store: ReplicateStore) -> Interrupted:
    told = max(result.evaluations for result in stopped)
    stop = Interrupted(f"interrupted after {told:,} evaluations{store.where()}")
    stop.signal = interruption.signal
    return stop


def _note(store: ReplicateStore, bar: Progress | None, text: str) -> None:
    store.note(text)
    if bar is not None:
        bar.note(text)


def _inside_the_program(problem: BaseException) -> bool:
    """Whether compiled code failed; from its second call on, JAX raises another type than at the first."""
    return isinstance(problem, jax.errors.JaxRuntimeError) or (
        isinstance(problem, ValueError) and str(problem).startswith("INTERNAL: ")
    )


def _shift(bar: Progress | None, offset: int) -> Callable[[int, Callable[[], Any]], None]:
    """How a group of replicates reports its part of the whole: with the evaluations of all its runs."""

    def show(evaluations: int, fitness: Callable[[], np.ndarray]) -> None:
        if bar is not None:
            bar.update(offset + evaluations, lambda: metrics.summary(fitness()))

    return show


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
