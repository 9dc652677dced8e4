"""Ask, evaluate, tell, until the budget is spent: `solve` and `Optimizer`.

Python functions run in `sync_loop.py` or `async_loop.py`, JAX functions inside a compiled loop (`jax_loop.py`);
`replicates.py` runs several of either.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from os import PathLike
from typing import Any, Unpack, overload

from taskelites.errors import InvalidTypeError, TaskWarning, whole_number
from taskelites.evaluation import EvaluationOptions
from taskelites.evaluation.options import Mode, OnError, WorkerCount
from taskelites.problem.problem import Call
from taskelites.process import shows_progress
from taskelites.results.result import Result
from taskelites.runs import Progress
from taskelites.search.job import MOST_EVALUATIONS, Target, as_seed, make_job, task_warnings
from taskelites.search.keywords import Callback, SolveKeywords
from taskelites.search.optimizer import Optimizer
from taskelites.search.replicates import open_run, run_all, warn_of_failures

__all__ = ["MOST_EVALUATIONS", "Optimizer", "Target", "solve"]


@overload
def solve(
    fitness: Any, tasks: Any = ..., *, evaluations: int, replicates: None = ..., **keywords: Unpack[SolveKeywords]
) -> Result: ...
@overload
def solve(
    fitness: Any, tasks: Any = ..., *, evaluations: int, replicates: int, **keywords: Unpack[SolveKeywords]
) -> list[Result]: ...
def solve(
    fitness: Any,
    tasks: Any = None,
    *,
    bounds: Any = None,
    dim: int | None = None,
    behaviour: Any = None,
    evaluations: int,
    call: Call | None = None,
    algorithm: Any = "auto",
    batch_size: int = 64,
    ahead: int = 1,
    seed: int = 0,
    initial: Any = None,
    warm_start: Any = None,
    target: Any = None,
    replicates: int | None = None,
    out: str | PathLike[str] | None = None,
    workers: WorkerCount | None = None,
    executor: Executor | None = None,
    on_error: OnError = "skip",
    retries: int | None = None,
    timeout: float | None = None,
    samples: int = 1,
    setup: Callable[[], Any] | None = None,
    mode: Mode = "sync",
    checkpoint_every: int | str | None = None,
    resume: bool = False,
    progress: bool | None = None,
    callback: Callback | Sequence[Callback] | None = None,
    request: Any = None,
) -> Result | list[Result]:
    """Find the best solution of every task.

    Args:
        fitness: higher is better. With `call="each"` (the default) a function `fitness(solution, task) -> float`; with
            `call="batch"` one over arrays, `fitness(solutions (n, dim), tasks (n, k)) -> (n,)`, each row on its own
            (for tasks that are objects: a list of n of them); with `call="jax"` a JAX-traceable `fitness(solution,
            descriptor) -> scalar`, and the whole loop is compiled. NaN or +inf = failed, -inf = infeasible: counted,
            never stored. A domain stands for `fitness`, `tasks`, `bounds`, `dim`, `behaviour` and `call` together.
        tasks: descriptors `(n, k)`, or `te.Tasks`, or `te.Box` for algorithms that can use one.
        bounds: a pair for all dimensions (with `dim`), or one pair a dimension.
        dim: length of a solution.
        behaviour: for a fitness that returns a pair `(fitness, behaviour)`: one pair `(lower, upper)` for each number
            of the behaviour. An algorithm that uses no behaviours drops it. docs/behaviours.md says more.
        evaluations: the budget, initialisation included; exactly this many results are told.
        call: "each", "batch" or "jax".
        algorithm: a name (`taskelites list` shows them) or settings, such as `te.MultiTaskMapElites(tournament=50)`.
            "auto" has nothing to set; "mt-map-elites" is the paper's.
        batch_size: candidates a step.
        ahead: batches asked from one state of the search, evaluated together, and told in order. A simulator that is
            faster with many rows per call gets `ahead * batch_size` rows; the search learns that much later. The result
            depends on it, as on the seed. 1 for algorithms that learn from whole steps (`cma-es`) or have larger steps
            than batches (`map-elites-all`); not for `call="jax"` or `mode="async"`.
        seed: the same seed gives the same result.
        initial: solutions `(m, dim)` to evaluate first, on random tasks; or a pair of them and the tasks' numbers.
        warm_start: an earlier `Result`, to begin with what it knows: first each task is tried with its elite there,
            or, if it was not solved there, with what `predict` gives for it. All of it is evaluated, and counts; a
            budget below the number of tasks reaches the first of them only.
        target: stop early once every task has been tried and every solved one has this fitness (a number, or one a
            task); `te.Target(fitness, share=0.9)` is content with a share of them.
        replicates: this many independent runs; a list of results, the i-th that of `seed + i`.
        workers: evaluate in so many local processes; "auto" measures whether that is faster. For "each" and "batch".
        executor: evaluate in any `concurrent.futures.Executor` instead: loky's, MPI's, Dask's, or `te.RayExecutor`.
        on_error: what an evaluation does that raises, gives NaN or nonsense, takes too long or kills its worker:
            "skip" counts it and goes on, "retry" tries it again first, "raise" ends the run.
        retries: how often, for "retry"; 2 by default.
        timeout: seconds after which the process of an evaluation is killed; without `workers` there is then one.
        samples: for a fitness with noise: each candidate is measured so often, and its fitness is the mean. The fitness
            is called samples x evaluations times, and `timeout` is that of one call. The first sample that fails or is
            infeasible decides, and the others are not made (of a batch, those of other rows are). Not with
            `call="jax"`, where the same arguments give the same number. `te.reevaluate` measures the elites again.
        setup: a function without arguments, called once in each worker; what it returns is handed to every call of the
            fitness as its last argument.
        mode: "sync" gives the same result for any number of workers; "async" waits for no slow evaluation, and its
            result depends on timing.
        out: a new folder for the run (with replicates: one each, below it): settings, metrics, log, failures,
            checkpoints, result.
        checkpoint_every: how often `out` is made safe: a number of evaluations, or a time such as "30s" (by default,
            "60s").
        resume: go on with the run that `out` holds, if it holds one, exactly where it stopped; all other arguments must
            be what they were, but `evaluations` may be higher, and how it is evaluated may differ.
        progress: whether to show it; by default, in a terminal.
        callback: called with each row of the history (a dict) as it comes; "replicate" in it says which run it is of.
            Or several of them in a list. `te.callbacks` has some ready.
        request: plain values that say how to make the run again, kept in the run folder; `taskelites run` states its
            options there.

    Returns:
        A `Result`, or a list of them if `replicates` is given.

    Raises:
        ValueError, TypeError: before any work, if an argument is wrong.
        FitnessError: if every evaluation fails, one does with `on_error="raise"`, or workers can't be set up.
        RunInUseError: if another process runs in `out`.
        OSError: if `out` can't be written to, as when the disk is full; what was saved before is intact.
        Interrupted: after Ctrl-C or SIGTERM.
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
    evaluation_options = EvaluationOptions(
        workers=workers,
        executor=executor,
        on_error=on_error,
        retries=retries,
        timeout=timeout,
        setup=setup,
        mode=mode,
        samples=samples,
    )
    job = make_job(
        fitness,
        tasks,
        evaluations=evaluations,
        bounds=bounds,
        dim=dim,
        behaviour=behaviour,
        call=call,
        algorithm=algorithm,
        batch_size=batch_size,
        ahead=ahead,
        initial=initial,
        warm_start=warm_start,
        target=target,
        evaluation_options=evaluation_options,
    )
    number = 1 if replicates is None else whole_number("replicates", replicates, least=1)
    first = as_seed(seed)
    seeds = [as_seed(first + i) for i in range(number)]
    tell = None if callback is None else _as_callback(callback)
    run = open_run(
        job, seeds, out, several=replicates is not None, resume=resume, every=checkpoint_every, request=request
    )
    with run as store:
        for sentence in task_warnings(job.problem, job.settings):
            warnings.warn(sentence, TaskWarning, stacklevel=2)
        shown = shows_progress(progress)
        with Progress(job.evaluations * number, job.label) if shown else nullcontext() as bar:
            run_all(job, seeds, store, bar, tell)
    warn_of_failures(store.results)
    return store.results if replicates is not None else store.results[0]


def _as_callback(callback: Any) -> Callable[[Mapping[str, Any]], None]:
    """Return one function that calls one callback, or several."""
    every = list(callback) if isinstance(callback, Sequence) else [callback]
    for each in every:
        if not callable(each):
            raise InvalidTypeError(
                f"callback must be a function of a row of the history, or a list of such, not {each!r}"
            )

    def tell_all(row: Mapping[str, Any]) -> None:
        for each in every:
            each(row)

    return tell_all
