"""What elites are worth when they are measured again: the best of many noisy values is too good to be true."""

import warnings
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from taskelites.analysis.evaluate import Rows, make_trial
from taskelites.errors import InvalidValueError, whole_number
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
    """Measure each elite again, for a fitness with noise.

    A search keeps the candidate that gave the best value, so with noise the fitness of an elite is its luck, too.
    Measured again, it has none.

    Args:
        result: the elites.
        fitness: a function, or a domain with the result's tasks.
        samples: how often each elite is evaluated; 10 by default. A JAX function gives the same number each time, so
            with `call="jax"` it is 1. It makes samples x solved tasks evaluations.
        call: how a function is called; as in the run of the result by default.
        progress: whether to show it; by default, in a terminal.
        **evaluation: `workers`, `executor`, `on_error`, `retries`, `timeout` and `setup`, as for `te.solve`. A failed
            sample is left out of the mean, tried again, or ends the measurement, depending on `on_error`.

    Returns:
        The same result, with `corrected` (the mean of the samples of each task's elite), `deviation` (their standard
        deviation) and `samples`. Its `fitness` stays what the search believed. An elite that is infeasible in one
        sample has -inf; one that fails in all of them NaN.

    Raises:
        ValueError, TypeError: before any work, if an argument is wrong.
        FitnessError: if every evaluation fails, one does with `on_error="raise"`, or workers can't be set up.
        Interrupted: after Ctrl-C or SIGTERM. Both carry a result with what was measured until then as their `result`.

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
            f"samples must be 1 with call='jax', not {samples!r}: a JAX function gives the same number for the same "
            "arguments"
        )
    usual = 1 if trial.call == "jax" else DEFAULT_SAMPLES
    number = whole_number("samples", usual if samples is None else samples, least=1, most=1_000_000)
    tasks = np.flatnonzero(result.solved)

    def pairs(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        on = tasks[rows % len(tasks)]
        return on, on

    def found(values: np.ndarray) -> Result:
        rounds = -(-len(values) // len(tasks))
        table = np.full((rounds, len(tasks)), np.nan)
        table.ravel()[: len(values)] = values
        corrected, deviation = np.full(len(result), np.nan), np.full(len(result), np.nan)
        corrected[tasks], deviation[tasks] = _mean_and_deviation(table)
        return replace(result, corrected=corrected, deviation=deviation, samples=rounds)

    # Round by round, so that whoever is interrupted has measured all elites about equally often.
    rows = Rows(trial, "re-evaluation", number * len(tasks), pairs)
    about = f"{len(tasks):,} elites, {number:,} times each"
    return rows.run(progress=progress, about=about, found=found)


def _mean_and_deviation(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Over the samples `(samples, elites)`, failed ones (NaN) left out.

    Example:
        >>> mean, deviation = _mean_and_deviation(np.array([[1.0, 2.0], [3.0, np.nan]]))
        >>> mean.tolist(), deviation.round(6).tolist()
        ([2.0, 2.0], [1.414214, nan])
    """
    if len(table) == 0:
        return np.full(table.shape[1], np.nan), np.full(table.shape[1], np.nan)
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of elites without samples
        return np.nanmean(table, axis=0), np.nanstd(table, axis=0, ddof=1)
