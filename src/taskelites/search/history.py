"""The history of a run while it runs, and the result at its end."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from taskelites.algorithms import Candidates, Core, Elites, about_algorithm
from taskelites.algorithms.interface import NOWHERE, Columns, Kept
from taskelites.core import metrics
from taskelites.core.archive import Archive
from taskelites.errors import InvalidValueError
from taskelites.problem.problem import Problem
from taskelites.problem.tasks import Tasks
from taskelites.results.failure_reasons import FailureReason, most_frequent_first
from taskelites.results.repertoire import Repertoire
from taskelites.results.result import Result
from taskelites.runs import Checkpoint, FailureLog, RunFolder
from taskelites.search.job import Job
from taskelites.storage import plain, versions

_LOGGED_POINTS = 200
# The end of a message about a checkpoint whose values do not fit the run; see `reading`.
UNFIT = ("not of this run", "remove it, and the run continues from the one before it")


class Measures(NamedTuple):
    """What the history records of a state, as arrays.

    Attributes:
        fitness: `(n,)`, the best fitness per task.
        told: the number of results told.
        failed: the number of failed evaluations.
        infeasible: the number of infeasible evaluations.
        diagnostics: the algorithm's own numbers.
    """

    fitness: Any
    told: Any
    failed: Any
    infeasible: Any
    diagnostics: dict[str, Any]


class Findings(NamedTuple):
    """What a result is made of.

    Attributes:
        elites: the best solution per task.
        kept: solutions that the algorithm keeps beside them; None if it keeps none.
        diagnostics: the algorithm's own numbers.
    """

    elites: Elites
    kept: Kept | None
    diagnostics: dict[str, Any]

    def measures(self) -> Measures:
        """Return what the history records."""
        archive = self.elites.archive
        return Measures(archive.fitness, archive.told, archive.failed, archive.infeasible, self.diagnostics)


def findings(core: Core, state: Any) -> Findings:
    """Read a state; traceable."""
    return Findings(core.elites(state), core.kept(state), core.diagnostics(state))


def measure(core: Core, state: Any) -> Measures:
    """Read what the history records of a state; traceable."""
    return Findings(core.elites(state), None, core.diagnostics(state)).measures()


def check_archive(archive: Archive, told: int) -> None:
    """Raise an error if the counts in an archive from a file are impossible.

    Args:
        archive: the archive.
        told: the number of results that it must have been told.

    Raises:
        ValueError: if they are.
    """
    if archive.told != told:
        raise InvalidValueError(f"its state was told {int(archive.told):,} results, not {told:,}")
    counts = (archive.evaluations, archive.last_improved, archive.failed, archive.infeasible)
    if any(np.min(count) < 0 or np.max(count) > told for count in counts) or not (archive.fitness < np.inf).all():
        raise InvalidValueError("its state has impossible counts or fitness values")


def measure_inside(core: Core, state: Any, candidates: Candidates, fitness: Any, rows: Any) -> Measures:
    """Return the measures in the middle of a step, with its first `rows` rows counted; traceable.

    The history may have several points within a step, which only a whole step turns into a new state. The best fitness
    per task is known without that.

    Args:
        core: the algorithm on its problem.
        state: the state before the step is told.
        candidates: the candidates of the step.
        fitness: `(rows of the step,)`.
        rows: the number of rows to count.
    """
    before = measure(core, state)
    counted = jnp.arange(len(candidates)) < rows
    number = candidates.niches if candidates.numbers is None else candidates.numbers
    failed = counted & (jnp.isnan(fitness) | (fitness == jnp.inf))
    infeasible = counted & (fitness == -jnp.inf)
    place = jnp.where(counted & jnp.isfinite(fitness), number, NOWHERE)
    return Measures(
        fitness=before.fitness.at[place].max(fitness, mode="drop"),
        told=before.told + jnp.sum(counted, dtype=jnp.int32),
        failed=before.failed + jnp.sum(failed, dtype=jnp.int32),
        infeasible=before.infeasible + jnp.sum(infeasible, dtype=jnp.int32),
        diagnostics=before.diagnostics,
    )


def one_by_one(batched: Any) -> list[Any]:
    """Fetch a pytree of arrays whose first axis is the replicates; return one pytree per replicate."""
    fetched = jax.device_get(batched)
    return [jax.tree.map(itemgetter(i), fetched) for i in range(len(jax.tree.leaves(fetched)[0]))]


def logged_points(job: Job, opening_rows: int) -> list[int]:
    """Return the numbers of evaluations at which the history gets a row.

    These are batches 1, 2, 4, ... and then 200 points at equal distances. They do not depend on the number of rows per
    step of the algorithm, so histories can be compared. The time before the first step gets one row, at its end.
    """
    start = min(job.initial_rows, job.evaluations)
    batches = -(-(job.evaluations - start) // job.batch_size)
    every = max(1, batches // _LOGGED_POINTS)
    doubling = [2**i for i in range(every.bit_length())]
    chosen = {0, *doubling, *range(every, batches + 1, every), batches}
    points = {start + batch * job.batch_size for batch in chosen if batch <= batches}
    opened = start + opening_rows
    within = {point for point in points | {opened} if max(opened, 1) <= point < job.evaluations}
    return [*sorted(within), job.evaluations]


@dataclass
class Recorder:
    """The history of one run, row by row.

    Args:
        job: the checked request.
        seed: the seed of the run.
        replicate: the number of the run among the replicates.
        callback: called with each row.
        folder: the run folder, which each row is written to at once.
        failures: the failure log of the run.
    """

    job: Job
    seed: int = 0
    replicate: int = 0
    callback: Callable[[Mapping[str, Any]], None] | None = None
    folder: RunFolder | None = None
    failures: FailureLog = field(default_factory=lambda: FailureLog(None, lambda text: None))
    begin: float = field(default_factory=time.monotonic)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def start_clock(self) -> None:
        """Count seconds from now on, without compilation; seconds of an earlier process are kept."""
        self.begin = time.monotonic() - (self.rows[-1]["seconds"] if self.rows else 0.0)

    def log(self, now: Measures) -> None:
        """Add a row, unless no result was told since the last one."""
        evaluations = int(now.told)
        if self.rows and self.rows[-1]["evaluations"] == evaluations:
            return
        row: dict[str, Any] = {"evaluations": evaluations, "seconds": time.monotonic() - self.begin}
        row |= metrics.summary(now.fitness)
        if self.job.worst is not None:
            row["mean_all"] = metrics.mean_all(now.fitness, self.job.worst)
        row |= {"failed": int(now.failed), "infeasible": int(now.infeasible)}
        for name, value in now.diagnostics.items():
            if isinstance(value, tuple | Columns):  # one column per entry, such as tried_10 or tried_copy
                which, values = (value.names, value.values) if isinstance(value, Columns) else value
                row |= {f"{name}_{each}": number for each, number in zip(which, values.tolist(), strict=True)}
            else:
                row[name] = value.item()
        self.rows.append(row)
        if self.folder is not None:
            self.folder.add_metrics(row)
        if self.callback is not None:
            self.callback({"replicate": self.replicate, **row})

    def history(self) -> dict[str, np.ndarray]:
        """Return the rows as columns."""
        return {name: np.array([row[name] for row in self.rows]) for name in (self.rows[0] if self.rows else ())}

    def snapshot(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return what a checkpoint keeps: arrays, and plain values."""
        history = self.history()
        arrays = {f"history.{name}": column for name, column in history.items()}
        return arrays, {"history": list(history), "failures": self.failures.snapshot()}

    def restore(self, kept: Checkpoint, evaluations: int) -> None:
        """Continue from a checkpoint after `evaluations` evaluations, and remove rows that were written after it.

        Raises:
            ValueError, TypeError, KeyError: if its history or its failures are malformed.
        """
        columns = {name: kept.arrays[f"history.{name}"] for name in kept.about["history"]}
        if columns:
            logged = np.append(columns["evaluations"], evaluations + 1)
            numbers = all(column.ndim == 1 and column.dtype.kind in "biuf" for column in columns.values())
            if not numbers or logged.dtype.kind not in "iu" or (np.diff(logged) <= 0).any() or "seconds" not in columns:
                raise InvalidValueError(f"its history must be of increasing evaluations up to {evaluations:,}")
        self.rows = [
            dict(zip(columns, row, strict=True))
            for row in zip(*(column.tolist() for column in columns.values()), strict=True)
        ]
        self.failures.restore(kept.about["failures"])
        if self.folder is not None:
            self.folder.write_metrics(columns)


def make_result(
    found: Findings, problem: Problem, settings: dict[str, Any], *, recorder: Recorder | None = None
) -> Result:
    """Return the result of a run."""
    (archive, chosen), kept, _ = found
    solved = np.isfinite(archive.fitness)
    failed = int(archive.failed)
    failures = {"nan": failed} if failed else {}
    reasons = [FailureReason(kind="nan", message="fitness returned NaN or +inf", count=failed)] if failed else []
    optimum = worst = None
    if recorder is not None:
        job = recorder.job
        if job.call != "jax":  # compiled functions and loops of users have only one kind of failure
            failures = dict(recorder.failures.counts)
            reasons = list(recorder.failures.reasons.values())
        # A te.Box has one value for all of its tasks.
        optimum, worst = (
            None if values is None else np.broadcast_to(values, len(solved)) for values in (job.optimum, job.worst)
        )
    return Result(
        solutions=np.where(solved[:, None], archive.solutions, np.nan),
        fitness=np.where(solved, archive.fitness, np.nan),
        # The sides of a box may have different units, so none of them may count for more in a distance.
        tasks=problem.tasks if isinstance(problem.tasks, Tasks) else Tasks(descriptors=chosen, scale="range"),
        evaluations=int(archive.told),
        task_evaluations=np.array(archive.evaluations),
        last_improved=np.array(archive.last_improved),
        failed=failed,
        infeasible=int(archive.infeasible),
        failures=failures,
        failure_reasons=most_frequent_first(reasons) if reasons else (),
        retried=0 if recorder is None else recorder.failures.retried,
        rebuilt=0 if recorder is None else recorder.failures.rebuilt,
        history={} if recorder is None else recorder.history(),
        settings=settings,
        optimum=optimum,
        worst=worst,
        repertoire=None if kept is None else Repertoire.of_solved(**kept._asdict()),
    )


def about_run(
    settings: Any,
    problem: Problem,
    core: Core,
    *,
    seed: int,
    call: str,
    bits: int,
    ahead: int = 1,
    job: Job | None = None,
) -> dict[str, Any]:
    """Return how a result is made, as plain values."""
    about: dict[str, Any] = {}
    if job is not None:
        about |= {"problem": job.label, "options": plain(job.options), "evaluations": job.evaluations}
        if job.call != "jax":
            about |= {"evaluation": job.evaluation_options.plain(), "samples": job.evaluation_options.samples}
    return {
        **about,
        "algorithm": about_algorithm(settings),
        "batch_size": getattr(core, "batch_size", core.rows),
        "ahead": ahead,
        "seed": seed,
        "call": call,
        "bits": bits,
        **problem.about(),
        "versions": versions(),
    }
