"""Ask, evaluate, tell, until the budget is spent: `solve` and `Optimizer`.

Python functions run through an `Optimizer` (`optimizer.py`), JAX functions inside a compiled loop over the same ask and
tell (`compiled.py`).
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, overload

import jax
import numpy as np

from taskelites import metrics
from taskelites.errors import FitnessWarning, Interrupted, whole_number
from taskelites.result import Result
from taskelites.runs import Interruption, Progress, RunFolder
from taskelites.search.compiled import Compiled
from taskelites.search.optimizer import Hosted, Optimizer
from taskelites.search.record import Recorder
from taskelites.search.statement import Job, Target, as_seed, make_job, warn_of_tasks

__all__ = ["Optimizer", "Target", "solve"]


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
        FitnessError: if the fitness raises or returns nonsense; what was found before is in its `result`.
        Interrupted: after Ctrl-C; what was found before is in its `result`.

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
    folders = _folders(out, number, replicates is not None)
    warn_of_tasks(job.problem, job.settings)
    shown = progress if progress is not None else sys.stderr is not None and sys.stderr.isatty()
    bar = Progress(job.evaluations * number, job.label) if shown else None
    results = _run_all(job, seeds, folders, bar, callback)
    return results if replicates is not None else results[0]


def _folders(out: Any, number: int, several: bool) -> list[RunFolder | None]:
    if out is None:
        return [None] * number
    if not several:
        return [RunFolder(out)]
    parent = RunFolder(out)
    return [RunFolder(parent.path / f"replicate-{i}") for i in range(number)]


def _run_all(
    job: Job,
    seeds: list[int],
    folders: list[RunFolder | None],
    bar: Progress | None,
    callback: Callable[[Mapping[str, Any]], None] | None,
) -> list[Result]:
    """All replicates, each saved as it ends; what was found is saved, too, if something stops them."""
    together = job.call == "jax" and jax.default_backend() != "cpu"
    groups = [list(range(len(seeds)))] if together else [[i] for i in range(len(seeds))]
    results: list[Result] = []
    try:
        with Interruption() as interruption:
            for group in groups:
                recorders = [Recorder(job, i, callback) for i in group]
                search = (Compiled if job.call == "jax" else Hosted)(job, [seeds[i] for i in group])
                error = search.run(recorders, interruption, _shift(bar, job.evaluations * group[0], len(group)))
                found = search.results(recorders)
                for i, result in zip(group, found, strict=True):
                    folder = folders[i]
                    if folder is not None:
                        folder.write(result)
                results += found
                if error is not None:
                    error.result = found[0]
                    raise error
                if interruption.noted:
                    where = f"; what was found is in {str(folders[group[0]].path)!r}" if folders[group[0]] else ""  # type: ignore[union-attr]
                    raise Interrupted(f"interrupted after {found[0].evaluations:,} evaluations{where}", found[0])
    finally:
        if bar is not None:
            bar.__exit__()
    _warn_of_failures(results)
    return results


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
            stacklevel=4,
        )
    if not any(result.solved.any() for result in results):
        warnings.warn("no task was solved: no evaluation gave a finite fitness", FitnessWarning, stacklevel=4)
