"""The runs of one search: replicates run in groups, saved in the run folder, and resumed from it."""

import errno
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from taskelites.algorithms import about_algorithm
from taskelites.algorithms.large_bounds import bind
from taskelites.errors import (
    FitnessError,
    FitnessWarning,
    Interrupted,
    InvalidValueError,
    StorageError,
    counted,
    warn_user,
)
from taskelites.problem.tasks import Tasks
from taskelites.process import Interruption
from taskelites.results.failure_reasons import most_frequent_first
from taskelites.results.result import Result, load
from taskelites.runs import (
    CallbackList,
    Checkpoint,
    Checkpointer,
    CheckpointInterval,
    FailureAlarm,
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
from taskelites.search.run_plan import check_plan, equal, plan_of, run_digest
from taskelites.search.stepper import batches_ahead, host_precision
from taskelites.search.sync_loop import SyncLoop

Callback = Callable[[Mapping[str, Any]], None]


@dataclass
class ReplicateStore:
    """The results of finished runs, each saved at once.

    Args:
        several: whether `replicates` was given; each run then has its own folder.
        folder: the run folder, or None.
        plan: the plan of the run; needed with a folder.
        every: how often to save a checkpoint.

    Attributes:
        warned: whether the user was warned that most evaluations failed.
    """

    several: bool
    folder: RunFolder | None = None
    plan: dict[str, Any] = field(default_factory=dict)
    every: CheckpointInterval = DEFAULT
    results: list[Result] = field(default_factory=list)
    warned: bool = False

    def folder_of(self, number: int) -> RunFolder | None:
        """Return the folder of a replicate."""
        if self.folder is None:
            return None
        folder = self.folder
        if self.several:
            folder = RunFolder.part(folder.path / f"replicate-{number}", folder.run_id)
        folder.identify(run_digest(self.plan, number))
        return folder

    def take(self, group: list[Recorder], found: list[Result]) -> None:
        """Add the results of a group of runs, and save each in the folder of its run."""
        self.results += found
        for recorder, result in zip(group, found, strict=True):
            if recorder.folder is not None and result.evaluations > 0:
                recorder.folder.write(result)

    def attach(self, problem: BaseException) -> None:
        """Set `problem.result` to the results so far: a list, if `replicates` was given."""
        alone = self.results[0] if self.results else None
        with suppress(AttributeError):  # some exceptions take no attributes
            problem.result = self.results if self.several else alone  # type: ignore[attr-defined]

    def where(self) -> str:
        """Return the end of a message: where the results so far are saved."""
        found = self.folder is not None and any(result.evaluations for result in self.results)
        return f"; the results so far are in {self.folder.named!r}" if found and self.folder is not None else ""

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
        FileExistsError, ValueError: if the folder is not empty, or holds a run of other settings.
        RunInUseError: if another process uses it.
    """
    interval = DEFAULT if every is None else CheckpointInterval.parse(every)
    if out is None:
        if resume:
            raise InvalidValueError("resume=True continues the run in a folder: give out= as well")
        yield ReplicateStore(several=several, every=interval)
        return
    folder = RunFolder(out, resume=resume)
    with RunLock(folder.path):
        plan = plan_of(job, seeds, several=several)
        if folder.known is None:
            folder.log(f"begins: {counted(job.evaluations, 'evaluation')}, {job.settings.name} on {job.label}")
        else:
            for warning in check_plan(folder.known["plan"], plan, folder.named):
                folder.log(warning)
                warnings.warn(warning, UserWarning, stacklevel=4)
        folder.write_plan({"request": request or (folder.known or {}).get("request"), "plan": plan})
        try:
            yield ReplicateStore(several=several, folder=folder, plan=plan, every=interval)
        except BaseException as problem:
            with suppress(OSError):
                folder.log(f"stops: {str(problem) or type(problem).__name__}")
            raise
        folder.log("ends")


def run_all(
    job: Job, seeds: list[int], store: ReplicateStore, bar: Progress | None, callbacks: Sequence[Callback] = ()
) -> None:
    """Run all replicates. The store has their results, also if this raises."""
    note = partial(_note, store, bar)
    paused = nullcontext if bar is None else bar.paused
    called = CallbackList(callbacks, store.note, paused)
    alarm = FailureAlarm(store.note, paused)
    prepared = JaxLoop.prepare(job) if job.call == "jax" else None
    recorders = [
        Recorder(job, seed, i, called if callbacks else None, folder := store.folder_of(i), FailureLog(folder, note))
        for i, seed in enumerate(seeds)
    ]
    try:
        with Interruption() as interruption:
            for group, done in _groups(job, recorders):
                if done:
                    note("is complete already; raise evaluations to continue it")
                    store.results += done
                    if bar is not None:
                        bar.skip_to(job.evaluations * (group[-1].replicate + 1))
                    continue
                folders = [recorder.folder for recorder in group if recorder.folder is not None]
                checkpointer = Checkpointer(folders, store.every) if folders else None
                before = job.evaluations * group[0].replicate
                control = Control(interruption, checkpointer, called, alarm, bar, before, note)
                loop: Loop
                if prepared is not None:
                    loop = JaxLoop(job, group, control, prepared)
                else:
                    loop = (AsyncLoop if job.evaluation_options.mode == "async" else SyncLoop)(job, group, control)
                if checkpointer is not None:
                    _restore(loop, folders, checkpointer, note, alike=prepared is not None)
                if bar is not None:
                    bar.skip_to(before + loop.position * len(group))
                _run(loop, group, store, checkpointer)
                if called.stop is not None:
                    raise called.stop
                if interruption.noted:
                    raise _interrupted(interruption, store.results[-len(group) :], store)
    except BaseException as problem:
        store.attach(problem)
        raise
    finally:
        store.warned = alarm.given
        if called.failed > 1:
            with suppress(OSError):
                store.note(f"callbacks raised {called.failed:,} exceptions")


def _groups(job: Job, recorders: list[Recorder]) -> Iterator[tuple[list[Recorder], list[Result]]]:
    """Yield groups of runs that run together, in order; a complete run is a group of its own, with its result."""
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
    """Return the number of runs whose rows fit into `rows_per_call`; 1 without it, or with workers."""
    if job.rows_per_call is None or job.evaluation_options.parallel:
        return 1
    with host_precision():
        core = bind(job.settings, job.problem, job.batch_size)
    rows = core.rows * batches_ahead(core, job.batch_size, job.ahead)
    return max(1, job.rows_per_call // rows)


def _finished(job: Job, group: list[Recorder]) -> list[Result]:
    """Return the saved results of a group if all of its runs are complete, else an empty list."""
    results = []
    for recorder in group:
        folder = recorder.folder
        if folder is None or not (folder.path / "result.npz").is_file():
            return []
        try:
            result = load(folder.path / "result.npz")
        except StorageError as error:
            folder.log(f"{error}; the run continues from its checkpoint instead")
            return []
        _check_same_run(result, job, recorder.seed, folder)
        if result.evaluations != job.evaluations:
            return []
        # A file keeps task objects as text, and the caller has the objects.
        tasks = job.problem.tasks
        results.append(replace(result, tasks=tasks) if isinstance(tasks, Tasks) else result)
    return results


def _check_same_run(result: Result, job: Job, seed: int, folder: RunFolder) -> None:
    """Raise an error if the result in a folder was copied there from another run, since it would be replaced."""
    expected = job.problem.about() | {"algorithm": about_algorithm(job.settings), "call": job.call, "seed": seed}
    for name, value in expected.items():
        if not equal(result.settings.get(name), value):
            raise StorageError(
                errno.EBADMSG,
                f"{str(folder.path / 'result.npz')!r} is the result of another run, with {name} "
                f"{result.settings.get(name)!r} and not {value!r}; move it to the folder that it was copied from",
            )


def _restore(
    loop: Loop, folders: list[RunFolder], checkpointer: Checkpointer, note: Callable[[str], None], *, alike: bool
) -> None:
    """Continue from the newest usable checkpoints; `alike` runs need checkpoints of one position."""
    parts = [folders] if alike else [[folder] for folder in folders]
    kept = [checkpoint for part in parts for checkpoint in _common_checkpoints(part)]
    for folder, checkpoint in zip(folders, kept, strict=True):
        if checkpoint is None:
            folder.begin_again()
    if any(checkpoint is not None for checkpoint in kept):
        loop.restore(kept)
        checkpointer.begin(loop.position)
        note(f"continues after {counted(loop.position, 'evaluation')}")


def _common_checkpoints(folders: list[RunFolder]) -> list[Checkpoint | None]:
    """Return the newest checkpoints at one position, one per folder; a list of None if there are none."""
    for position in folders[0].checkpoints.positions():
        kept = [folder.checkpoints.load(position) for folder in folders]
        if all(checkpoint is not None for checkpoint in kept):
            return kept
    return [None for _ in folders]


def _run(loop: Loop, group: list[Recorder], store: ReplicateStore, checkpointer: Checkpointer | None) -> None:
    """Run one group to its end, and store its results, also if it fails.

    The results of a group without a checkpoint are not written: such runs begin again when they resume, and a run never
    overwrites a result.
    """

    def take() -> None:
        if checkpointer is None or checkpointer.saved:
            store.take(group, loop.results())
        else:
            store.results += loop.results()

    try:
        loop.run()
    except FitnessError as error:
        take()
        error.args = (f"{error}{store.where()}",)
        raise
    except BaseException as problem:  # sys.exit, a full disk, a second Ctrl-C
        with suppress(RuntimeError, OSError):  # a second Ctrl-C can interrupt a step, whose state is then lost
            take()
        if isinstance(problem, StorageError) and checkpointer is not None:
            raise StorageError(problem.errno, f"{problem}{checkpointer.last()}") from problem
        raise
    store.take(group, loop.results())


def _interrupted(interruption: Interruption, stopped: list[Result], store: ReplicateStore) -> Interrupted:
    told = max(result.evaluations for result in stopped)
    stop = Interrupted(f"interrupted after {counted(told, 'evaluation')}{store.where()}")
    stop.signal = interruption.signal
    return stop


def _note(store: ReplicateStore, bar: Progress | None, text: str) -> None:
    store.note(text)
    if bar is not None:
        bar.note(text)


def warn_of_failures(results: list[Result], *, warned: bool = False) -> None:
    """Warn about failed evaluations, and about runs that solved no task.

    Args:
        results: of all runs.
        warned: whether the user knows already that most evaluations failed.
    """
    told = sum(result.evaluations for result in results)
    failed = sum(result.failed for result in results)
    mostly = 2 * failed > told
    if failed and not (mostly and warned):
        kinds = {kind for result in results for kind in result.failures}
        counts = {kind: sum(result.failures.get(kind, 0) for result in results) for kind in sorted(kinds)}
        words = ", ".join(f"{kind} {number:,}" for kind, number in counts.items())
        why = ""
        if mostly:
            reasons = most_frequent_first(reason for result in results for reason in result.failure_reasons)
            why = f"; the most frequent reason: {reasons[0]}" if reasons else ""
        text = f"{failed:,} of {told:,} evaluations failed ({words}) and were not stored{why}"
        warn_user(text, FitnessWarning)
    if not any(np.isfinite(result.fitness).any() for result in results):
        warn_user("no task was solved: no evaluation returned a finite fitness", FitnessWarning)
