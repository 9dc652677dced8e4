"""The runs of the hexapod experiment: made in groups, stored in small files, and simulated again where needed."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.algorithms import about_algorithm, as_algorithm
from taskelites.analysis.noise import reevaluate
from taskelites.core import metrics
from taskelites.errors import InvalidValueError, counted
from taskelites.experiments.comparison.comparison import Comparison
from taskelites.experiments.comparison.finished import FinishedRuns, load_runs, save_runs
from taskelites.experiments.comparison.run import compare
from taskelites.experiments.paper.hexapod.claims import BANDIT
from taskelites.experiments.statistics import nearest_to_median
from taskelites.problem.problem import Domain
from taskelites.results.result import Result
from taskelites.search.run_plan import equal
from taskelites.storage import file_name

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RunMaker:
    """Makes the missing runs of the experiment.

    Args:
        folder: folder of the experiment. Its folder `runs` has each group as a comparison of its own, its folder
            `finished` a small file per finished group.
        batch_size: batch size of each run.
        in_step: the number of runs per group.
        seed: seed of the first run.
        shown: whether to show progress.
        native: function that makes the domain in which final maps are simulated again; None to use them unchanged.
    """

    folder: Path
    batch_size: int
    in_step: int
    seed: int
    shown: bool
    native: Callable[..., Domain] | None

    def compare(
        self,
        kind: str,
        domain: Domain,
        algorithms: Mapping[str, Any],
        *,
        replicates: int,
        evaluations: int,
        ahead: int,
    ) -> Comparison:
        """Return a comparison of some algorithms; load the finished runs and make the others.

        Args:
            kind: the part of the experiment, a prefix of file names.
            domain: the domain to solve.
            algorithms: names or settings, by label.
            replicates: runs per algorithm.
            evaluations: evaluations per run.
            ahead: as for `te.solve`.

        Returns:
            The comparison. If maps are simulated again, `fitness` is from native MuJoCo and `corrected` is the fitness
            in the search.
        """
        found: dict[str, list[Result]] = {}
        settings: dict[str, Any] = {}
        sizes = {"evaluations": evaluations, "batch_size": self.batch_size, "ahead": ahead}
        for label, algorithm in algorithms.items():
            found[label] = []
            for first in range(0, replicates, self.in_step):
                number = min(self.in_step, replicates - first)
                group = self._group(kind, domain, label, algorithm, first, number, sizes)
                named = settings.get("algorithms", {}) | group.settings["algorithms"]
                settings = group.settings | {"algorithms": named}
                found[label] += group.results
        return Comparison(results=found, settings=settings | {"seed": self.seed, "replicates": replicates})

    def _group(
        self, kind: str, domain: Domain, label: str, algorithm: Any, first: int, number: int, sizes: dict[str, Any]
    ) -> FinishedRuns:
        """Return a group of runs of one algorithm; load them from their file, or make them and write it."""
        name = file_name("-".join(filter(None, [kind, label, f"{first}-{first + number - 1}"])))
        path = self.folder / "finished" / f"{name}.npz"
        if not path.exists():
            if self.shown:
                about = f"{label}{f' ({kind})' if kind else ''}: runs {first + 1} to {first + number}"
                print(about, file=sys.stderr, flush=True)
            made = compare(
                domain,
                algorithms={label: algorithm},
                replicates=number,
                seed=self.seed + first,
                out=self.folder / "runs" / name,
                progress=self.shown,
                **sizes,
            )
            results = self._simulate_again(label, made.results[label])
            whole = _typical_index(results) if (kind, label) == ("", BANDIT) else None
            save_runs(path, FinishedRuns(results, made.settings), whole)
        runs = load_runs(path, domain.tasks)
        plain = about_algorithm(as_algorithm(algorithm))
        wanted = sizes | {"options": domain.options, "seed": self.seed + first, "replicates": number, label: plain}
        made_with = {key: value for key, value in runs.settings["algorithms"][label].items() if key != "code"}
        known = runs.settings | {label: made_with}
        for setting, value in wanted.items():
            if not equal(known.get(setting), value):
                raise InvalidValueError(
                    f"{str(path)!r} holds runs with {setting} {known.get(setting)!r}, and this experiment has "
                    f"{value!r}; make them agree, or name a new folder"
                )
        return FinishedRuns([_with_native_fitness(run) for run in runs.results], runs.settings)

    def _simulate_again(self, label: str, runs: list[Result]) -> list[Result]:
        """Return the runs with `corrected` set to the fitness of their elites in native MuJoCo."""
        if self.native is None:
            return runs
        if self.shown:
            print(f"{label}: simulating {counted(len(runs), 'map')} again in MuJoCo", file=sys.stderr, flush=True)
        return [reevaluate(run, self.native(tasks=run.tasks), samples=1, progress=False) for run in runs]


def _with_native_fitness(run: Result) -> Result:
    """Return the run with `fitness` and `corrected` swapped, if it was simulated again."""
    return run if run.corrected is None else replace(run, fitness=run.corrected, corrected=run.fitness)


def _typical_index(results: list[Result]) -> int:
    """Return the index of the run whose final mean is nearest to the median."""
    return nearest_to_median([np.nanmean(_with_native_fitness(run).fitness) for run in results])


def typical_map(comparison: Comparison) -> Result:
    """Return the run of Multi-task MAP-Elites with solutions whose final mean is nearest to the median of all runs."""
    runs = comparison.results[BANDIT]
    whole = [np.isfinite(run.solutions).any() for run in runs]
    return runs[nearest_to_median([comparison.final_mean(run) for run in runs], whole)]


def run_table(comparison: Comparison) -> "pd.DataFrame":
    """Return a table with one row per run: measures, settings and, for maps simulated again, `believed` and `ranks`.

    `believed` is the final mean over all bodies in the search. `ranks` is the rank correlation between the fitness of
    the elites in the search and in native MuJoCo.
    """
    frame = comparison.replicates()
    settings = comparison.settings
    runs = [run for results in comparison.results.values() for run in results]
    believed = [np.nan if run.corrected is None else _mean_in_search(run, comparison.worst) for run in runs]
    ranks = [np.nan if run.corrected is None else _rank_correlation(run) for run in runs]
    return frame.assign(
        tasks=len(comparison.worst),
        evaluations=[run.evaluations for run in runs],
        batch_size=settings["batch_size"],
        ahead=[run.settings.get("ahead", 1) for run in runs],
        simulator=settings["options"]["simulator"],
        believed=believed,
        ranks=ranks,
    )


def _mean_in_search(run: Result, worst: np.ndarray) -> float:
    assert run.corrected is not None  # checked by the caller
    return float(metrics.mean_all(run.corrected, worst))


def _rank_correlation(run: Result) -> float:
    assert run.corrected is not None  # checked by the caller
    from scipy.stats import spearmanr

    both = np.isfinite(run.fitness) & np.isfinite(run.corrected)
    return float(spearmanr(run.fitness[both], run.corrected[both]).statistic) if both.sum() > 1 else np.nan


def run_curves(comparison: Comparison) -> "pd.DataFrame":
    """Return the quartiles of the curves, with the number of tasks, batch size, number of runs and first seed."""
    frame = comparison.curve_table()
    runs = {label: len(results) for label, results in comparison.results.items()}
    return frame.assign(
        tasks=len(comparison.worst),
        batch_size=comparison.settings["batch_size"],
        runs=[runs[label] for label in frame["algorithm"]],
        first_seed=comparison.settings["seed"],
    )
