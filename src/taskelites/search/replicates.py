"""Several runs of one search: side by side where that is faster, otherwise one after another."""

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import jax
import numpy as np

from taskelites import metrics
from taskelites.errors import FitnessError, FitnessWarning, Interrupted
from taskelites.result import Result
from taskelites.runs import Interruption, Progress, RunFolder
from taskelites.search.compiled import Compiled
from taskelites.search.optimizer import Hosted
from taskelites.search.record import Recorder
from taskelites.search.statement import Job


class Harvest:
    """Results as they come, each saved at once; whatever stops a run takes along what there is.

    Args:
        out: a new folder, or None.
        several: whether replicates were asked for, so that each gets a folder of its own.
    """

    def __init__(self, out: Any, *, several: bool) -> None:
        self.folder = None if out is None else RunFolder(out)
        self.several = several
        self.results: list[Result] = []

    def take(self, found: list[Result]) -> None:
        """Add results, and save them."""
        for result in found:
            self.results.append(result)
            self.keep(len(self.results) - 1, result)

    def keep(self, number: int, result: Result) -> None:
        """Save one result."""
        if self.folder is not None and result.evaluations > 0:
            folder = RunFolder(self.folder.path / f"replicate-{number}") if self.several else self.folder
            folder.write(result)

    def attach(self, problem: BaseException) -> None:
        """Give what there is to the exception, as its `result`: a list, if replicates were asked for."""
        alone = self.results[0] if self.results else None
        with suppress(AttributeError):  # some exceptions take no attributes
            problem.result = self.results if self.several else alone  # type: ignore[attr-defined]

    def where(self) -> str:
        """Half a sentence on where to find what there is."""
        found = self.folder is not None and any(result.evaluations for result in self.results)
        return f"; what was found is in {str(self.folder.path)!r}" if found and self.folder is not None else ""


def run_all(
    job: Job,
    seeds: list[int],
    harvest: Harvest,
    bar: Progress | None,
    callback: Callable[[Mapping[str, Any]], None] | None = None,
) -> None:
    """Run all replicates; what they find is in the harvest, whatever happens."""
    start = partial(Compiled, job, prepared=Compiled.prepare(job)) if job.call == "jax" else partial(Hosted, job)
    together = job.call == "jax" and jax.default_backend() != "cpu"
    groups = [list(range(len(seeds)))] if together else [[i] for i in range(len(seeds))]
    try:
        with Interruption() as interruption:
            for group in groups:
                recorders = [Recorder(job, i, callback) for i in group]
                search = start([seeds[i] for i in group])
                error = None
                try:
                    if group is groups[0]:
                        search.compile()
                    for recorder in recorders:
                        recorder.start_clock()
                    error = search.run(recorders, interruption, _shift(bar, job.evaluations * group[0], len(group)))
                except BaseException as problem:  # a fitness or a callback that raises, sys.exit, a second Ctrl-C
                    if not _inside_the_program(problem):
                        with suppress(RuntimeError):  # the second Ctrl-C may have come in the middle of a step
                            harvest.take(search.results(recorders))
                        raise
                    error = FitnessError(f"fitness failed inside the compiled run: {str(problem).splitlines()[0]}")
                    error.__cause__ = problem
                harvest.take(search.results(recorders))
                if error is not None:
                    error.args = (f"{error}{harvest.where()}",)
                    raise error
                if interruption.noted:
                    told = harvest.results[-1].evaluations
                    raise Interrupted(f"interrupted after {told:,} evaluations{harvest.where()}")
    except BaseException as problem:
        harvest.attach(problem)
        raise


def _inside_the_program(problem: BaseException) -> bool:
    """Whether compiled code failed; from its second call on, JAX raises another type than at the first."""
    return isinstance(problem, jax.errors.JaxRuntimeError) or (
        isinstance(problem, ValueError) and str(problem).startswith("INTERNAL: ")
    )


def _shift(bar: Progress | None, offset: int, runs: int) -> Callable[[int, Callable[[], Any]], None]:
    """How a group of replicates that run side by side reports its part of the whole."""

    def show(evaluations: int, fitness: Callable[[], np.ndarray]) -> None:
        if bar is not None:
            bar.update(offset + evaluations * runs, lambda: metrics.summary(fitness()))

    return show


def warn_of_failures(results: list[Result]) -> None:
    """Say once how many evaluations gave no usable number."""
    told = sum(result.evaluations for result in results)
    failed = sum(result.failed for result in results)
    if failed:
        warnings.warn(
            f"{failed:,} of {told:,} evaluations failed (fitness NaN or +inf) and were not stored",
            FitnessWarning,
            stacklevel=3,
        )
    if not any(result.solved.any() for result in results):
        warnings.warn("no task was solved: no evaluation gave a finite fitness", FitnessWarning, stacklevel=3)
