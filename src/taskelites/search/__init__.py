"""`solve` and `Optimizer`: ask, evaluate and tell until the budget is spent.

`sync_loop.py` and `async_loop.py` run Python functions, `jax_loop.py` runs JAX functions inside a compiled loop, and
`replicates.py` runs replicates in any of them.
"""

import warnings
from collections.abc import Callable, Sequence
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
        fitness: the function to maximise. With `call="each"` (the default) it is a function `fitness(solution, task) ->
            float`; with `call="batch"` one over arrays, `fitness(solutions (n, dim), tasks (n, k)) -> (n,)`, in which
            rows are independent (tasks that are objects come as a list of n); with `call="jax"` a JAX-traceable
            `fitness(solution, descriptor) -> scalar`, and the whole loop is compiled. NaN or +inf = failed, -inf =
            infeasible: counted, never stored. A domain stands for `fitness`, `tasks`, `bounds`, `dim`, `behaviour` and
            `call` together.
        tasks: descriptors `(n, k)`, `te.Tasks`, or `te.Box` for algorithms that support it.
        bounds: one pair for all dimensions (with `dim`), or one pair per dimension.
        dim: length of a solution.
        behaviour: for a fitness that returns a pair `(fitness, behaviour)`: one pair `(lower, upper)` per number of the
            behaviour. An algorithm without behaviours ignores it. See docs/behaviours.md.
        evaluations: the budget, initialisation included; exactly this many results are told.
        call: "each", "batch" or "jax".
        algorithm: a name (`taskelites list` shows them) or settings such as `te.MultiTaskMapElites(tournament=50)`.
            "auto" has no settings; "mt-map-elites" is the algorithm of the paper.
        batch_size: candidates per step.
        ahead: number of batches that are asked from one state of the search, evaluated together, and told in order. Use
            it for a simulator that is faster with more rows per call: it gets `ahead * batch_size` rows, and the search
            learns from them that much later. The result depends on it, as on the seed. It must be 1 with `call="jax"`
            and `mode="async"`, and has no effect on algorithms that learn from whole steps (`cma-es`) or whose steps
            are larger than a batch (`map-elites-all`).
        seed: the same seed gives the same result.
        initial: solutions `(m, dim)` to evaluate first, on random tasks; or a pair of them and their task numbers.
        warm_start: an earlier `Result` to begin with. Each task is first evaluated with its elite in that result or, if
            it was not solved there, with its prediction (`predict`). All of these evaluations count; a budget below the
            number of tasks covers the first tasks only.
        target: stop early once every task has been tried and every solved one has this fitness (a number, or one per
            task); `te.Target(fitness, share=0.9)` stops when a share of them has it.
        replicates: the number of independent runs; the i-th result equals that of a run with `seed + i`.
        workers: the number of local processes that evaluate; "auto" measures whether they are faster. For "each" and
            "batch".
        executor: any `concurrent.futures.Executor` to evaluate in instead: loky's, MPI's, Dask's, or `te.RayExecutor`.
        on_error: what to do with an evaluation that raises, returns NaN or something that is not a number, takes too
            long or kills its worker: "skip" counts it and continues, "retry" repeats it first, "raise" ends the run.
        retries: the number of repetitions for "retry"; 2 by default.
        timeout: seconds per evaluation, after which its process is killed. Without `workers`, it starts one worker.
        samples: the number of calls per evaluation, for a noisy fitness; the fitness of a candidate is their mean, and
            `timeout` applies to each call. The first sample that fails or is infeasible decides, and the remaining
            ones are not made, except for the other rows of a batch. Not with `call="jax"`, where the same arguments
            give the same number. `te.reevaluate` measures the elites again.
        setup: a function without arguments, called once in each worker. Its return value is passed to every call of the
            fitness as the last argument.
        mode: "sync" gives the same result for any number of workers. "async" does not wait for slow evaluations, and
            its result depends on timing.
        out: a new folder for the settings, metrics, log, failures, checkpoints and result of the run (one folder per
            replicate below it).
        checkpoint_every: the interval between checkpoints in `out`: a number of evaluations, or a time such as "30s"
            ("60s" by default).
        resume: continue the run in `out`, if there is one, exactly where it stopped. All other arguments must be the
            same, except that `evaluations` may be higher and the evaluation options may differ.
        progress: whether to show the progress; by default, only in a terminal.
        callback: a function, or a list of them, called with each row of the history (a dict) when it is logged; its
            "replicate" is the number of the run. See `te.callbacks`. An exception in it is reported once and counted,
            and the run goes on; `te.errors.StopRun` stops the run.
        request: plain values stored in the run folder that state how to make the run again; `taskelites run` stores its
            options.

    Returns:
        A `Result`, or a list of them if `replicates` is given.

    Raises:
        ValueError, TypeError: if an argument is wrong, before any work.
        FitnessError: if every evaluation fails, one fails with `on_error="raise"`, or workers can't be set up.
        RunInUseError: if another process uses `out`.
        OSError: if `out` can't be written, as when the disk is full; what was saved before is intact.
        Interrupted: after Ctrl-C, SIGTERM or SIGHUP.
        StopRun: if a callback raises it.

        An exception that stops a run has the results so far as its `result` (with replicates: a list).

    Example:
        >>> import numpy as np, taskelites as te
        >>> def fitness(solution, task):  # the best solution repeats the task
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
    callbacks = () if callback is None else _as_callbacks(callback)
    run = open_run(
        job, seeds, out, several=replicates is not None, resume=resume, every=checkpoint_every, request=request
    )
    with run as store:
        for sentence in task_warnings(job.problem, job.settings):
            warnings.warn(sentence, TaskWarning, stacklevel=2)
        shown = shows_progress(progress)
        with Progress(job.evaluations * number, job.label) if shown else nullcontext() as bar:
            run_all(job, seeds, store, bar, callbacks)
    warn_of_failures(store.results, warned=store.warned)
    return store.results if replicates is not None else store.results[0]


def _as_callbacks(callback: Any) -> Sequence[Callback]:
    """Check `callback=`: a function, or a list of them."""
    every = list(callback) if isinstance(callback, Sequence) else [callback]
    for each in every:
        if not callable(each):
            raise InvalidTypeError(
                f"callback must be a function that takes a row of the history, or a list of them, not {each!r}"
            )
    return every
