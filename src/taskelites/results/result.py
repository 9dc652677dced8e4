"""The result of a run, with methods to summarise, save, plot and reuse it."""

from dataclasses import asdict, dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np

from taskelites.core import metrics
from taskelites.errors import InvalidTypeError, InvalidValueError, MissingFileError, counted, whole_number
from taskelites.problem.tasks import Box, Tasks
from taskelites.results.failure_reasons import FailureReason
from taskelites.results.prediction import Prediction, Predictor, reaches_local_median
from taskelites.results.repertoire import LAYOUT as REPERTOIRE_LAYOUT
from taskelites.results.repertoire import PREFIX, Repertoire
from taskelites.storage import ArrayFile, check_format, count_in, escaped, reading, write_arrays

if TYPE_CHECKING:
    import pandas as pd

    from taskelites.search.keywords import SearchKeywords

FORMAT = "taskelites-result"
FORMAT_VERSION = 1
_ARRAYS = ("solutions", "fitness", "task_evaluations", "last_improved")
# Arrays that a result need not have.
_OPTIONAL = ("optimum", "worst", "corrected", "deviation")
_LAYOUT = {
    "solutions": ("f", ("tasks", "dimensions")),
    "task_evaluations": ("iu", ("tasks",)),
    "last_improved": ("iu", ("tasks",)),
    **dict.fromkeys(("fitness", *_OPTIONAL), ("f", ("tasks",))),
    "descriptors": ("f", ("tasks", "descriptors")),
    "task_texts": ("u", ("bytes of texts",)),
    "task_text_ends": ("i", ("tasks",)),
    "history_*": ("biufU", ("points",)),
    **{f"{PREFIX}{name}": entry for name, entry in REPERTOIRE_LAYOUT.items()},
}
# The types of those settings that this library reads.
_SETTINGS = {"algorithm": dict, "options": dict, "versions": dict, "tasks": dict, "problem": str, "call": str}


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The best solution found for every task.

    Attributes:
        solutions: `(n, dim)`, the elite of each task; NaN for unsolved tasks.
        fitness: `(n,)`, the fitness of each elite; NaN for unsolved tasks.
        tasks: the n tasks.
        evaluations: number of evaluations, including failed and infeasible ones.
        task_evaluations: `(n,)`, number of evaluations per task.
        last_improved: `(n,)`, the evaluation that found each elite, counted from 1; 0 for unsolved tasks.
        failed: number of failed evaluations, for example with fitness NaN or +inf.
        infeasible: number of infeasible evaluations, with fitness -inf.
        failures: number of failed evaluations by kind: "raised", "nan", "nonsense", "timeout" or "died".
        failure_reasons: the same by reason, the most frequent first: kind, message, file and line, and count.
        retried: number of repeated evaluations after failures, which are not part of any other count.
        rebuilt: number of times that `setup` was called again in a worker, after exceptions.
        history: columns of equal length with one row per logged point. All columns except `seconds` are repeatable.
        settings: settings of the run, such as algorithm, seed and versions.
        optimum: `(n,)`, the best possible fitness per task; None if unknown.
        worst: `(n,)`, the worst possible fitness per task; None if unknown.
        corrected: `(n,)`, the mean fitness of each elite as measured by `te.reevaluate`; NaN for unsolved tasks and if
            all samples failed. None without `te.reevaluate`.
        deviation: `(n,)`, the standard deviation of these samples; NaN with fewer than two samples.
        samples: number of samples per elite in `te.reevaluate`, including failed ones; 0 without it.
        repertoire: other solutions that the algorithm keeps: with different behaviours (docs/behaviours.md), or for
            other tasks of a `te.Box` (docs/continuous.md). None if it keeps only elites.

    Example:
        >>> import numpy as np, taskelites as te
        >>> tasks = np.linspace(0, 1, 300)[:, None]
        >>> result = te.solve(
        ...     lambda x, t: -np.abs(x - t).sum(1), tasks, bounds=(0, 1), dim=2, call="batch", evaluations=5000
        ... )
        >>> result.solutions.shape, bool(result.solved.all()), result.evaluations
        ((300, 2), True, 5000)
    """

    solutions: np.ndarray
    fitness: np.ndarray
    tasks: Tasks
    evaluations: int
    task_evaluations: np.ndarray
    last_improved: np.ndarray
    failed: int = 0
    infeasible: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    failure_reasons: tuple[FailureReason, ...] = ()
    retried: int = 0
    rebuilt: int = 0
    history: dict[str, np.ndarray] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    optimum: np.ndarray | None = None
    worst: np.ndarray | None = None
    corrected: np.ndarray | None = None
    deviation: np.ndarray | None = None
    samples: int = 0
    repertoire: Repertoire | None = None

    @property
    def solved(self) -> np.ndarray:
        """Mask of tasks that have a solution, `(n,)`."""
        return metrics.solved(self.fitness)

    @property
    def coverage(self) -> float:
        """Fraction of tasks that are solved."""
        return metrics.coverage(self.fitness)

    @property
    def gap(self) -> float:
        """Mean difference between optimum and fitness; NaN if an optimum is unknown or a task is unsolved."""
        return float("nan") if self.optimum is None else metrics.gap(self.fitness, self.optimum)

    @property
    def bounds(self) -> np.ndarray:
        """Bounds of solutions, `(dim, 2)`, from the settings of the run or, if absent, the range of the elites.

        Example:
            >>> import taskelites as te
            >>> te.solve(te.domain("arm", tasks=200, dim=3), evaluations=500).bounds.tolist()
            [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
        """
        dim = self.solutions.shape[1]
        try:
            return np.broadcast_to(np.asarray(self.settings["bounds"], np.float64), (dim, 2))
        except (KeyError, TypeError, ValueError):  # created without a run, or from a modified file
            elites = self.solutions[self.solved].astype(np.float64)
            return (
                np.stack([elites.min(axis=0), elites.max(axis=0)], axis=1)
                if len(elites)
                else np.tile([0.0, 1.0], (dim, 1))
            )

    def __len__(self) -> int:
        return len(self.fitness)

    def __repr__(self) -> str:
        numbers = metrics.summary(self.fitness)
        mean = f"mean fitness {numbers['mean']:.6g}, " if numbers["coverage"] else ""
        solved = f"{int(self.solved.sum()):,} of {counted(len(self), 'task')} solved"
        return f"<Result: {solved}, {mean}{counted(self.evaluations, 'evaluation')}>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the summary and the fitness curve."""
        from taskelites.show.notebook import result_html

        return result_html(self)

    def to_row(self) -> dict[str, float]:
        """Return the metrics of this result: coverage, mean, median, quantiles and gap (NaN if unknown).

        Example:
            >>> import taskelites as te
            >>> result = te.solve(te.domain("arm", tasks=300), evaluations=10_000)
            >>> sorted(result.to_row())
            ['coverage', 'gap', 'highest', 'lowest', 'mean', 'median', 'q05', 'q95']
        """
        return metrics.summary(self.fitness) | {"gap": self.gap}

    def summary(self) -> str:
        """Return a text summary: coverage, fitness, gap and failures.

        Example:
            >>> import numpy as np, taskelites as te
            >>> result = te.Result(
            ...     solutions=np.zeros((2, 1)),
            ...     fitness=np.array([1.0, 2.0]),
            ...     tasks=te.Tasks(["a", "b"]),
            ...     evaluations=9,
            ...     task_evaluations=np.array([4, 5]),
            ...     last_improved=np.array([2, 3]),
            ... )
            >>> print(result.summary())
            evaluations  9
            coverage     100 % (2 of 2 tasks)
            mean         1.5
            median       1.5
            best         2
            worst        1
        """
        return "\n".join(f"{name:<12} {value}" for name, value in self.summary_rows())

    def summary_rows(self) -> list[tuple[str, str]]:
        """Return the lines of the summary as pairs of a name and a text.

        Example:
            >>> import taskelites as te
            >>> result = te.solve(te.domain("arm", tasks=300), evaluations=10_000)
            >>> result.summary_rows()[0]
            ('evaluations', '10,000')
        """
        numbers = self.to_row()
        tasks = counted(len(self), "task")
        rows = [
            ("evaluations", f"{self.evaluations:,}{self._samples_text()}"),
            ("coverage", f"{100 * numbers['coverage']:.4g} % ({int(self.solved.sum()):,} of {tasks})"),
        ]
        if numbers["coverage"]:
            shown = {"mean": "mean", "median": "median", "best": "highest", "worst": "lowest"}
            rows += [(name, f"{numbers[measure]:.6g}") for name, measure in shown.items()]
        if self.repertoire is not None:
            rows.append(("solutions", f"{len(self.repertoire):,} kept"))
        if self.optimum is not None:
            gap = f"{self.gap:.3g} to the optimum" if self.solved.all() else "unknown while tasks are unsolved"
            rows.append(("gap", gap))
        if self.corrected is not None:
            rows.append(("corrected", self._corrected_text()))
        if self.failed:
            rows.append(("failed", f"{counted(self.failed, 'evaluation')} ({self.failure_counts()})"))
        if self.retried:
            rows.append(("retried", counted(self.retried, "evaluation")))
        if self.rebuilt:
            rows.append(("rebuilt", f"setup was called again {counted(self.rebuilt, 'time')}"))
        if self.infeasible:
            rows.append(("infeasible", f"{counted(self.infeasible, 'evaluation')} (-inf)"))
        return rows

    def _samples_text(self) -> str:
        samples = self.settings.get("samples", 1)
        return f", each the mean of {samples:,} samples" if samples > 1 else ""

    def _corrected_text(self) -> str:
        """Return the corrected mean, and the mean fitness that the search recorded for the same elites."""
        assert self.corrected is not None  # checked by the caller
        known = metrics.solved(self.corrected) & self.solved
        lost = int(self.solved.sum() - known.sum())
        missing = f"; {counted(lost, 'elite')} failed or {'was' if lost == 1 else 'were'} infeasible" if lost else ""
        if not known.any():
            return f"unknown{missing}"
        of = "one sample" if self.samples == 1 else f"{self.samples:,} samples"
        now, recorded = (float(values[known].mean(dtype=np.float64)) for values in (self.corrected, self.fitness))
        return f"{now:.6g} mean of {of} (believed {recorded:.6g}){missing}"

    def failure_counts(self) -> str:
        """Return the number of failed evaluations per kind as a text.

        Example:
            >>> import warnings, numpy as np, taskelites as te
            >>> tasks = np.linspace(0, 1, 200)[:, None]
            >>> with warnings.catch_warnings(action="ignore"):
            ...     result = te.solve(lambda x, t: 1 / int(2 * x[0]), tasks, bounds=(0, 1), dim=1, evaluations=64)
            >>> result.failure_counts() == f"raised {result.failed}"
            True
        """
        return ", ".join(f"{kind} {number:,}" for kind, number in self.failures.items() if number) or "NaN or +inf"

    def to_dataframe(self) -> "pd.DataFrame":
        """Return a table with one row per task.

        Columns: `task_id`, `task` (for task objects, as text), one column per descriptor, `fitness`, `optimum` (if
        known), `evaluations`, `last_improved`, `corrected` and `deviation` (after `te.reevaluate`), `solution_0`, ...
        Fitness and solution of an unsolved task are NaN. A descriptor with the name of another column, which earlier
        versions allowed, gets the prefix `descriptor_`.

        Example:
            >>> import numpy as np, taskelites as te
            >>> tasks = te.tasks.grid((200,), [0], [1], names=["load"])
            >>> result = te.solve(lambda x, t: -abs(x[0] - t[0]), tasks, bounds=(0, 1), dim=1, evaluations=300)
            >>> list(result.to_dataframe().columns)
            ['task_id', 'load', 'fitness', 'evaluations', 'last_improved', 'solution_0']
        """
        import pandas as pd

        columns: dict[str, Any] = {"task_id": np.arange(len(self))}
        if self.tasks.objects is not None:
            columns["task"] = [escaped(str(task)) for task in self.tasks.objects]
        if self.tasks.descriptors is not None:
            columns |= dict(zip(self.tasks.names, self.tasks.descriptors.T, strict=True))
        columns["fitness"] = self.fitness
        if self.optimum is not None:
            columns["optimum"] = self.optimum
        columns |= {
            "evaluations": self.task_evaluations,
            "last_improved": self.last_improved,
        }
        if self.corrected is not None:
            columns |= {"corrected": self.corrected, "deviation": self.deviation}
        columns |= {f"solution_{i}": column for i, column in enumerate(self.solutions.T)}
        return pd.DataFrame(columns)

    def solutions_of(self, task: int) -> Repertoire:
        """Return all kept solutions of one task, the best first.

        Most algorithms keep one solution per solved task. Call `.to_dataframe()` on the returned repertoire for a
        table.

        Args:
            task: index of the task.

        Example:
            >>> import numpy as np, taskelites as te
            >>> tasks = np.linspace(0, 1, 200)[:, None]
            >>> result = te.solve(lambda x, t: -abs(x[0] - t[0]), tasks, bounds=(0, 1), dim=1, evaluations=5000)
            >>> result.solutions_of(7)
            <Repertoire: 1 solution of 1 task>
        """
        number = whole_number("task", task, least=0, most=len(self) - 1)
        if self.repertoire is not None:
            return self.repertoire.of(number)
        own = np.arange(number, number + 1)[self.solved[number : number + 1]]
        return Repertoire(numbers=own, solutions=self.solutions[own], fitness=self.fitness[own])

    def to_pyribs(self, **kwargs: Any) -> Any:
        """Return a pyribs archive, `ribs.archives.CVTArchive`, with one cell per task.

        The elite of task `i` is in cell `i`, with its fitness as objective and the task descriptors as measures. Cells
        of unsolved tasks are empty. Descriptors are not scaled by the `scale` of `te.Tasks`. If several tasks have
        equal descriptors, pyribs can't distinguish them: only the best of their elites is kept, with a warning.

        Args:
            **kwargs: arguments of `CVTArchive`, such as `ranges` (by default the range of the tasks, extended by half a
                cell) or `qd_score_offset` (0 by default; set it to the lowest possible fitness for a meaningful QD
                score).

        Raises:
            ValueError: if the tasks have no descriptors.
            ImportError: if pyribs 0.9 or newer is not installed.

        Example:
            >>> import taskelites as te
            >>> result = te.solve(te.domain("arm", tasks=200), evaluations=5000)
            >>> archive = result.to_pyribs()
            >>> archive.cells, bool(archive.stats.obj_max == result.fitness.max())
            (200, True)
        """
        from taskelites.results.export import to_pyribs

        return to_pyribs(self, **kwargs)

    @overload
    def predict(self, new_tasks: Any, method: str | None = ..., *, report: Literal[False] = ...) -> np.ndarray: ...
    @overload
    def predict(self, new_tasks: Any, method: str | None = ..., *, report: Literal[True]) -> Prediction: ...
    def predict(self, new_tasks: Any, method: str | None = None, *, report: bool = False) -> np.ndarray | Prediction:
        """Predict solutions for new tasks from the elites of nearby solved tasks, without evaluations.

        Predictions are within `bounds`. A new task with the descriptors of a solved one gets its elite. A result on a
        `te.Box` also uses evaluations from its repertoire that are as good as the elites around them. See
        docs/unseen.md.

        Args:
            new_tasks: descriptors `(m, k)`, or `te.Tasks` with descriptors.
            method: "nearest" copies the elite of the nearest solved task. "blend" is the mean of nearby elites,
                weighted by the inverse square of their distances. "linear" fits a plane to them. "regressor" fits a
                small Gaussian process to them. By default, the method with the smallest leave-one-out error on the
                elites, or "nearest" if that error is large, since a mixture of very different solutions is rarely good.
            report: whether to return a `Prediction` instead, with error estimates.

        Returns:
            Solutions `(m, dim)`, or a `Prediction` with `report=True`.

        Raises:
            ValueError: if no task is solved, the tasks have no descriptors, or `new_tasks` has another number of
                descriptors.

        Example:
            >>> import numpy as np, taskelites as te
            >>> tasks = np.linspace(0, 1, 300)[:, None]
            >>> result = te.solve(lambda x, t: -abs(x[0] - t[0]), tasks, bounds=(0, 1), dim=1, evaluations=5000)
            >>> bool(abs(result.predict([[0.501]])[0, 0] - 0.501) < 0.05)
            True
            >>> sorted(result.predict([[0.501]], report=True).errors)
            ['blend', 'linear', 'nearest', 'regressor']
        """
        found = self.predictor.predict(self.positions_of(new_tasks), method)
        return found if report else found.solutions

    @cached_property
    def predictor(self) -> Predictor:
        """Predictor for these elites, cached with its measured errors."""
        if self.tasks.descriptors is None:
            raise InvalidValueError(
                "predict needs tasks with descriptors, but these have none; give te.Tasks(objects, descriptors=...)"
            )
        solved = self.solved
        if not solved.any():
            raise InvalidValueError("predict needs at least one solved task, but none is solved")
        places, solutions, fitness = self.tasks.positions[solved], self.solutions[solved], self.fitness[solved]
        kept = self.repertoire
        if kept is not None and kept.tasks is not None and len(kept):
            known = self.tasks.locate(kept.tasks)
            good = np.flatnonzero(reaches_local_median(known, kept.fitness, places, fitness))
            places = np.concatenate([places, known[good]])
            solutions = np.concatenate([solutions, kept.solutions[good]])
            fitness = np.concatenate([fitness, kept.fitness[good]])
        return Predictor(places, solutions, fitness, *self.bounds.T)

    def positions_of(self, new_tasks: Any) -> np.ndarray:
        """Return the positions of new tasks in the space of these tasks."""
        given = new_tasks
        if isinstance(new_tasks, Tasks):
            if new_tasks.descriptors is None:
                raise InvalidValueError("new_tasks must have descriptors, as the solved tasks do, but has none")
            given = new_tasks.descriptors
        elif isinstance(new_tasks, Box):
            raise InvalidTypeError(
                "new_tasks must be a list of tasks, not a te.Box; te.tasks.cvt generates a list of tasks in a box"
            )
        return self.tasks.locate(given, name="new_tasks")

    def refine(
        self,
        new_tasks: Any,
        fitness: Any = None,
        *,
        evaluations: int,
        method: str | None = None,
        **options: "Unpack[SearchKeywords]",
    ) -> "Result":
        """Solve new tasks with a search that starts from the predictions of `predict`.

        First, the predictions are evaluated, each on its task: those of the best method, then those of the other
        methods where they differ, with at most four evaluations per task. Then a search starts from them. The returned
        fitness is never worse than that of the predictions.

        Args:
            new_tasks: descriptors `(m, k)`, or `te.Tasks` with descriptors, or a domain, which includes its fitness.
            fitness: as in `te.solve`: a function, or a domain whose fitness, call and bounds are used.
            evaluations: budget, including the predictions; at least one evaluation per task.
            method: prediction method, as in `predict`; if given, only its predictions are evaluated.
            options: options of `te.solve`, such as `seed`, `call`, `workers` and `out`. `call`, `bounds` and `dim`
                default to their values for this result. `algorithm` defaults to a descent in which neighbouring tasks
                share information, or to `te.MultiTaskMapElites` with `mode="async"`.

        Example:
            >>> import numpy as np, taskelites as te
            >>> def fitness(x, t):
            ...     return -abs(x[0] - t[0])
            >>> tasks = np.linspace(0, 1, 300)[:, None]
            >>> result = te.solve(fitness, tasks, bounds=(0, 1), dim=1, evaluations=2000)
            >>> better = result.refine(te.tasks.uniform(20, [0], [1]), fitness, evaluations=400)
            >>> better.coverage, bool(better.fitness.mean() > -0.01)
            (1.0, True)
        """
        from taskelites.search.continuation import refine

        return refine(self, new_tasks, fitness, evaluations=evaluations, method=method, options=options)

    def extend(
        self, new_tasks: Any, fitness: Any, *, evaluations: int, **options: "Unpack[SearchKeywords]"
    ) -> "Result":
        """Add new tasks and continue the search on all tasks.

        First, the predictions for the new tasks are evaluated, then the elites of the old tasks, so that they can take
        part in the search. These evaluations count towards the budget. No old task ends with a lower fitness: if the
        budget or a failure would leave it with less, it keeps its old elite.

        Args:
            new_tasks: descriptors `(m, k)`, or `te.Tasks`, of the same kind as the old ones.
            fitness: the same fitness as before, as in `te.solve`: a function, or a domain whose fitness, call and
                bounds are used.
            evaluations: budget.
            options: options of `te.solve`. `call`, `bounds` and `dim` default to their values for this result.

        Returns:
            A result with the old tasks followed by the new ones.

        Example:
            >>> import numpy as np, taskelites as te
            >>> def fitness(x, t):
            ...     return -abs(x[0] - t[0])
            >>> tasks = np.linspace(0, 1, 300)[:, None]
            >>> result = te.solve(fitness, tasks, bounds=(0, 1), dim=1, evaluations=10_000)
            >>> more = result.extend([[0.3334], [0.5001]], fitness, evaluations=1000)
            >>> len(more), bool((more.fitness[:300] >= result.fitness).all())
            (302, True)
        """
        from taskelites.search.continuation import extend

        return extend(self, new_tasks, fitness, evaluations=evaluations, options=options)

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Plot the tasks in the plane, coloured by fitness, and return the axes; see `taskelites.show.map`."""
        from taskelites.show import map as show_map

        return show_map(self, ax=ax, **kwargs)

    def save(self, path: str | PathLike[str]) -> Path:
        """Save the result atomically to a `.npz` file, which `te.load` reads.

        Task objects are saved as text. A distance matrix or function is not saved.

        Example:
            >>> import tempfile, numpy as np, taskelites as te
            >>> tasks = np.linspace(0, 1, 200)[:, None]
            >>> result = te.solve(lambda x, t: -abs(x[0] - t[0]), tasks, bounds=(0, 1), dim=1, evaluations=300)
            >>> path = result.save(tempfile.mkdtemp() + "/result.npz")
            >>> te.load(path).evaluations
            300
        """
        path = Path(path)
        if path.suffix != ".npz":
            raise InvalidValueError(f"path must end in .npz, not {path.name!r}")
        if not path.parent.is_dir():
            raise MissingFileError(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
        arrays, about = self._contents()
        write_arrays(path, arrays, about)
        return path

    def _contents(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {f"history_{name}": column for name, column in self.history.items()}
        arrays |= {name: value for name in _OPTIONAL if (value := getattr(self, name)) is not None}
        if self.tasks.descriptors is not None:
            arrays["descriptors"] = self.tasks.descriptors
        if self.tasks.objects is not None:
            arrays |= _text_arrays([str(task) for task in self.tasks.objects])
        if self.repertoire is not None:
            arrays |= self.repertoire.to_arrays()
        about = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "evaluations": self.evaluations,
            "failed": self.failed,
            "infeasible": self.infeasible,
            "failures": self.failures,
            "failure_reasons": [asdict(reason) for reason in self.failure_reasons],
            "retried": self.retried,
            "rebuilt": self.rebuilt,
            "samples": self.samples,
            "history": list(self.history),
            "settings": self.settings,
            "task_names": list(self.tasks.names),
            "task_scale": self.tasks.scale,
        }
        return arrays, about


def load(path: str | PathLike[str]) -> Result:
    """Load a result from a file saved by `Result.save`, or from a run folder.

    Raises:
        FileNotFoundError: if there is no result.
        StorageError: if the file is damaged, not a result, or from a newer version.

    Example:
        >>> import taskelites as te
        >>> te.load("nowhere.npz")
        Traceback (most recent call last):
        taskelites.errors.MissingFileError: there is no result 'nowhere.npz'
    """
    path = Path(path)
    file = path / "result.npz" if path.is_dir() else path
    if not file.is_file():
        below = sorted(folder.parent.name for folder in path.glob("*/result.npz")) if path.is_dir() else []
        hint = f"; there are some in its folders {below[0]!r} to {below[-1]!r}" if below else ""
        raise MissingFileError(f"there is no result {str(file)!r}{hint}")
    remedy = "restore it, or resume its run, which writes it again from the last checkpoint"
    with reading(file, "not a taskelites result", remedy), file.open("rb") as stream:
        members = ArrayFile(stream)
        about = members.document()
        check_format(file, about, expected=FORMAT, newest=FORMAT_VERSION)
        return _from_contents(members.read(_LAYOUT, optional=_LAYOUT.keys() - set(_ARRAYS)), about)


def _from_contents(contents: dict[str, np.ndarray], about: dict[str, Any]) -> Result:
    """Return the result in a file, after a check of its values.

    Raises:
        ValueError, TypeError, KeyError: if a value is missing or wrong.
    """
    number, dim = contents["solutions"].shape
    if dim == 0:
        raise InvalidValueError("its solutions must have at least one dimension")
    evaluations = count_in(about, "evaluations")
    last_improved = contents["last_improved"]
    if (contents["task_evaluations"] < 0).any() or (last_improved < 0).any():
        raise InvalidValueError("its numbers of evaluations per task must be at least 0")
    names = about["task_names"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidTypeError(f"its task_names must be a list of texts, not {names!r}")
    objects = None
    if "task_texts" in contents:
        objects = _texts(contents["task_texts"], contents["task_text_ends"])
    history = {
        name.removeprefix("history_"): column for name, column in contents.items() if name.startswith("history_")
    }
    if set(about["history"]) != set(history):
        raise InvalidValueError(f"its history must have the columns {about['history']}, not {list(history)}")
    return Result(
        **{name: contents[name] for name in _ARRAYS},
        tasks=Tasks(
            objects,
            descriptors=contents.get("descriptors"),
            scale=about["task_scale"],
            names=names or None,
        ),
        evaluations=evaluations,
        failed=count_in(about, "failed"),
        infeasible=count_in(about, "infeasible"),
        failures={kind: count_in(about["failures"], kind) for kind in about.get("failures", {})},
        failure_reasons=tuple(FailureReason.from_plain(reason) for reason in about.get("failure_reasons", ())),
        retried=count_in({"retried": 0} | about, "retried"),
        rebuilt=count_in({"rebuilt": 0} | about, "rebuilt"),
        history={name: history[name] for name in about["history"]},
        settings=_checked_settings(about["settings"]),
        samples=count_in({"samples": 0} | about, "samples"),
        optimum=contents.get("optimum"),
        worst=contents.get("worst"),
        corrected=contents.get("corrected"),
        deviation=contents.get("deviation"),
        repertoire=Repertoire.from_arrays(contents, number, dim),
    )


def _checked_settings(settings: Any) -> dict[str, Any]:
    """Return the settings in a file, whose values may be wrong.

    Raises:
        ValueError, TypeError: if one that this library reads is wrong.
    """
    if not isinstance(settings, dict):
        raise InvalidTypeError(f"its settings must be a JSON object, not {settings!r}")
    for name, kind in _SETTINGS.items():
        if not isinstance(settings.get(name, kind()), kind):
            raise InvalidTypeError(f"its setting {name!r} must be of type {kind.__name__}, not {settings[name]!r}")
    for name in ("samples", "side_by_side", "ahead", "batch_size"):
        if name in settings:
            whole_number(f"its setting {name!r}", settings[name], least=1)
    return settings


def _text_arrays(texts: list[str]) -> dict[str, np.ndarray]:
    """Return texts as bytes and the end of each: one long text does not make the others long."""
    encoded = [text.encode(errors="surrogatepass") for text in texts]
    ends = np.cumsum([len(data) for data in encoded], dtype=np.int64)
    return {"task_texts": np.frombuffer(b"".join(encoded), np.uint8), "task_text_ends": ends}


def _texts(data: np.ndarray, ends: np.ndarray) -> list[str]:
    whole, begins = data.tobytes(), [0, *ends[:-1].tolist()]
    pairs = list(zip(begins, ends.tolist(), strict=True))
    if any(not 0 <= begin <= end <= len(whole) for begin, end in pairs):
        raise InvalidValueError("the texts of its tasks do not fit together")
    return [whole[begin:end].decode(errors="surrogatepass") for begin, end in pairs]
