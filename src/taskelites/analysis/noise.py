"""Re-evaluation of elites, which corrects the optimistic bias of the best of many noisy values."""

import warnings
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from taskelites.analysis.evaluate import Rows, make_trial
from taskelites.errors import InvalidValueError, counted, whole_number
from taskelites.evaluation import EvaluationKeywords, EvaluationOptions, evaluation_signature
from taskelites.problem.problem import Call
from taskelites.results.result import Result

DEFAULT_SAMPLES = 10


@evaluation_signature
def reevaluate(
    result: Result,
    fitness: Any,
    samples: int | None = None,
    *,
    call: Call | None = None,
    progress: bool | None = None,
    **evaluation: Unpack[EvaluationKeywords],
) -> Result:
    """Re-evaluate each elite of a noisy fitness.

    A search keeps the candidate with the highest value, so the fitness of an elite is biased by noise. The mean of new
    samples is unbiased.

    Args:
        result: the result with the elites.
        fitness: a function, or a domain with the result's tasks.
        samples: number of evaluations per elite; 10 by default, and always 1 with `call="jax"`, since a JAX function
            returns the same value each time. The total is samples x solved tasks evaluations.
        call: how to call the function, as in `te.solve`; by default, as in the run of the result.
        progress: whether to show a progress bar; by default, only in a terminal.
        **evaluation: `workers`, `executor`, `on_error`, `retries`, `timeout` and `setup`, as in `te.solve`. A failed
            sample is left out of the mean, retried or ends the re-evaluation, depending on `on_error`.

    Returns:
        A copy of the result with `corrected` (the mean of the samples of each elite), `deviation` (their standard
        deviation) and `samples`. Its `fitness` is unchanged. `corrected` is -inf if an elite is infeasible in any
        sample, and NaN if all its samples fail.

    Raises:
        ValueError, TypeError: before any evaluation, if an argument is invalid.
        FitnessError: if all evaluations fail, one fails with `on_error="raise"`, or workers can't be set up.
        Interrupted: after Ctrl-C, SIGTERM or SIGHUP. Both exceptions have a `result` with the samples measured so far.

    Example:
        >>> import numpy as np, taskelites as te
        >>> rng = np.random.default_rng(0)
        >>> def noisy(solutions, tasks):
        ...     return -np.abs(solutions - tasks).sum(axis=1) + rng.normal(0, 0.1, len(tasks))
        >>> tasks = np.linspace(0, 1, 200)[:, None]
        >>> result = te.solve(noisy, tasks, bounds=(0, 1), dim=1, call="batch", evaluations=10_000)
        >>> result = te.reevaluate(result, noisy, samples=20)
        >>> bool(result.fitness.mean() > 0 > result.corrected.mean())  # 0 is the best there is
        True
    """
    evaluation_options = EvaluationOptions.from_keywords(reevaluate, evaluation)
    trial = make_trial(result, fitness, call, evaluation_options)
    if trial.call == "jax" and samples not in (None, 1):
        raise InvalidValueError(
            f"samples must be 1 with call='jax', not {samples!r}: a JAX function returns the same value for the same "
            "arguments"
        )
    default = 1 if trial.call == "jax" else DEFAULT_SAMPLES
    number = whole_number("samples", default if samples is None else samples, least=1, most=1_000_000)
    tasks = np.flatnonzero(result.solved)

    def pairs(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        on = tasks[rows % len(tasks)]
        return on, on

    def make_result(values: np.ndarray) -> Result:
        rounds = -(-len(values) // len(tasks))
        table = np.full((rounds, len(tasks)), np.nan)
        table.ravel()[: len(values)] = values
        corrected, deviation = np.full(len(result), np.nan), np.full(len(result), np.nan)
        corrected[tasks], deviation[tasks] = _mean_and_deviation(table)
        return replace(result, corrected=corrected, deviation=deviation, samples=rounds)

    # Sample by sample, so that after an interruption all elites have about the same number of samples.
    rows = Rows(trial, "re-evaluation", number * len(tasks), pairs)
    about = f"{counted(len(tasks), 'elite')}, {counted(number, 'time')} each"
    return rows.run(progress=progress, about=about, make_result=make_result)


def _mean_and_deviation(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation over samples `(samples, elites)`, ignoring failed ones (NaN).

    Example:
        >>> mean, deviation = _mean_and_deviation(np.array([[1.0, 2.0], [3.0, np.nan]]))
        >>> mean.tolist(), deviation.round(6).tolist()
        ([2.0, 2.0], [1.414214, nan])
    """
    if len(table) == 0:
        return np.full(table.shape[1], np.nan), np.full(table.shape[1], np.nan)
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # raised for elites without samples
        return np.nanmean(table, axis=0), np.nanstd(table, axis=0, ddof=1)
