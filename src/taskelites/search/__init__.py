"""Ask, evaluate, tell, until the budget is spent: `solve` and `Optimizer`.

Python functions run through an `Optimizer` (`optimizer.py`), JAX functions inside a compiled loop over the same ask and
tell (`compiled.py`).
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, overload

import jax
import numpy as np

from taskelites import metrics
from taskelites.errors import FitnessError, FitnessWarning, Interrupted, whole_number
from taskelites.result import Result
from taskelites.runs import Interruption, Progress, RunFolder
from taskelites.search.compiled import Compiled
from taskelites.search.optimizer import Hosted, Optimizer
from taskelites.search.record import Recorder
from taskelites.search.statement import MOST_EVALUATIONS, Job, Target, as_seed, make_job, warn_of_tasks

__all__ = ["MOST_EVALUATIONS", "Optimizer", "Target", "solve"]


@overload
def solve(fitness: Any, tasks: Any = ..., *, replicates: None = ..., **rest: Any) -> Result: ...
@overload
def solve(fitness: Any, tasks: Any = ..., *, replicates: int, **rest: Any) -> list[Result]: ...
def solve(  # type: ignore[misc]  # the overloads name only what decides the type of the answer
    fitness: Any,
    tasks: Any = None,
    *,
    bounds: Any = None,
    dim: int | None = None,
    evaluations: int,
    call: str | None = None,
    algorithm: Any = "mt-map-elites",
    batch_size: int = 64,
    seed: int = 0,
    initial: Any = None,
    target: Any = None,
    replicates: int | None = None,
    out: Any = None,
    progress: bool | None = None,
    callback: Callable[[Mapping[str, Any]], None] | None = None,
) -> Result | list[Result]:
    """Find the best solution of every task.

    Args:
        fitness: higher is better. With `call="each"` (the default) a function `fitness(solution, task) -> float`; with
            `call="batch"` one over arrays, `fitness(solutions (n, dim), tasks (n, k)) -> (n,)`, each row on its own
            (for tasks that are objects: a list of n of them); with `call="jax"` a JAX-traceable `fitness(solution,
            descriptor) -> scalar`, and the whole loop is compiled. NaN or +inf = failed, -inf = infeasible: counted,
            never stored. A domain stands for `fitness`, `tasks`, `bounds`, `dim` and `call` together.
        tasks: descriptors `(n, k)`, or `te.Tasks`, or `te.Box` for algorithms that can use one.
        bounds: a pair for all dimensions (with `dim`), or one pair a dimension.
        dim: length of a solution.
        evaluations: the budget, initialisation included; exactly this many results are told.
        call: "each", "batch" or "jax".
        algorithm: a name (`taskelites list` shows them) or settings, such as `te.MultiTaskMapElites(tournament=50)`.
        batch_size: candidates a step.
        seed: the same seed gives the same result.
        initial: solutions `(m, dim)` to evaluate first, on random tasks; or a pair of them and the tasks' numbers.
        target: stop early once every task has been tried and every solved one has this fitness (a number, or one a
            task); `te.Target(fitness, share=0.9)` is content with a share of them.
        replicates: this many independent runs; a list of results, the i-th that of `seed + i`.
        out: a new folder for the result (with replicates: one folder each, below it).
        progress: whether to show it; by default, in a terminal.
        callback: called with each row of the history (a dict) as it comes; "replicate" in it says which run it is of.

    Returns:
        A `Result`, or a list of them if `replicates` is given.

    Raises:
        ValueError, TypeError: before any work, if an argument is wrong.
        FitnessError: if the fitness raises or returns nonsense.
        Interrupted: after Ctrl-C.
            Whatever stops a run carries what was found before as its `result` (with replicates: a list).

    Example:
        >>> import numpy as np, taskelites as te
        >>> def fitness(solution, task):  # the best solution of a task is the task itself, twice
        ...     return -np.abs(solution - task[0]).sum()
        >>> tasks = np.linspace(0, 1, 200)[:, None]
        >>> result = te.solve(fitness, tasks, bounds=(0, 1), dim=2, evaluations=20_000)
        >>> bool(np.abs(result.solutions[100] - tasks[100]).max() < 0.1)
        True
    """
    job = make_job(fitness, tasks, bounds, dim, call, algorithm, batch_size, evaluations, initial, target)
    number = 1 if replicates is None else whole_number("replicates", replicates, least=1)
    first = as_seed(seed)
    seeds = [as_seed(first + i) for i in range(number)]
    harvest = _Harvest(out, several=replicates is not None)
    warn_of_tasks(job.problem, job.settings)
    shown = progress if progress is not None else sys.stderr is not None and sys.stderr.isatty()
    with Progress(job.evaluations * number, job.label) if shown else nullcontext() as bar:
        _run_all(job, seeds, harvest, bar, callback)
    _warn_of_failures(harvest.results)
    return harvest.results if replicates is not None else harvest.results[0]


class _Harvest:
    """Results as they come, each saved at once; whatever stops a run takes along what there is."""

    def __init__(self, out: Any, *, several: bool) -> None:
        self.folder = None if out is None else RunFolder(out)
        self.several = several
        self.results: list[Result] = []

    def take(self, found: list[Result]) -> None:
        """Add results, and save them."""
        for result in found:
            number = len(self.results)
            self.results.append(result)
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


def _run_all(
    job: Job,
    seeds: list[int],
    harvest: _Harvest,
    bar: Progress | None,
    callback: Callable[[Mapping[str, Any]], None] | None,
) -> None:
    """All replicates: side by side where that is faster, otherwise one after another."""
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
                    error = search.run(recorders, interruption, _shift(bar, job.evaluations * group[0], len(group)))
                except jax.errors.JaxRuntimeError as problem:
                    error = FitnessError(f"fitness failed inside the compiled run: {str(problem).splitlines()[0]}")
                    error.__cause__ = problem
                except BaseException:  # a callback that raises, sys.exit, a second Ctrl-C
                    with suppress(RuntimeError):  # the second Ctrl-C may have come in the middle of a step
                        harvest.take(search.results(recorders))
                    raise
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


def _shift(bar: Progress | None, offset: int, runs: int) -> Callable[[int, Callable[[], Any]], None]:
    """How a group of replicates that run side by side reports its part of the whole."""

    def show(evaluations: int, fitness: Callable[[], np.ndarray]) -> None:
        if bar is not None:
            bar.update(offset + evaluations * runs, lambda: metrics.summary(fitness()))

    return show


def _warn_of_failures(results: list[Result]) -> None:
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
