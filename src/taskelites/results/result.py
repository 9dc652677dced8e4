"""What comes out of a run: NumPy arrays, and ways to keep, read and use them."""

import json
import operator
import zipfile
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np

from taskelites.core import metrics
from taskelites.errors import InvalidTypeError, InvalidValueError, MissingFileError, whole_number
from taskelites.problem.tasks import Box, Names, Tasks, column_names
from taskelites.results.prediction import Prediction, Predictor, as_good
from taskelites.results.repertoire import Repertoire
from taskelites.storage import write_arrays

if TYPE_CHECKING:
    import pandas as pd

    from taskelites.search.keywords import SearchKeywords

FORMAT = "taskelites-result"
FORMAT_VERSION = 1
# What NumPy, zip and JSON raise, between them, for a file that was cut, changed or is none of ours.
_UNREADABLE = (
    *(ValueError, KeyError, TypeError, EOFError, OSError, AttributeError, RuntimeError, OverflowError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)
_ARRAYS = ("solutions", "fitness", "task_evaluations", "last_improved")
# The arrays of a file that have an entry a task: kinds of numbers, dimensions.
_LAYOUT = (
    *(("solutions", "f", 2), ("fitness", "f", 1), ("task_evaluations", "iu", 1), ("last_improved", "iu", 1)),
    *(("optimum", "f", 1), ("worst", "f", 1), ("corrected", "f", 1), ("deviation", "f", 1)),
)
# Those of them that a result may not have.
_OPTIONAL = ("optimum", "worst", "corrected", "deviation")


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The best solution found for every task.

    Attributes:
        solutions: `(n, dim)`; NaN for a task that was never solved.
        fitness: `(n,)`; NaN for a task that was never solved.
        tasks: what was solved.
        evaluations: how many results were told.
        task_evaluations: `(n,)`, how many of them on each task.
        last_improved: `(n,)`, the number of the evaluation that gave each elite, counted from 1; 0 if never solved.
        failed: how many evaluations gave NaN or +inf.
        infeasible: how many gave -inf.
        failures: how many failed in which way: "raised", "nan", "nonsense", "timeout", "died".
        retried: evaluations that were made again because they had failed; they count in no other number.
        history: columns of equal length, one row a logged point. All but `seconds` are repeatable.
        settings: how it was made: algorithm, seed, versions.
        optimum: `(n,)`, the best possible fitness of each task, where it is known.
        worst: `(n,)`, the least possible, where it is known.
        corrected: `(n,)`, the mean of what `te.reevaluate` measured; NaN for a task that was never solved, and where
            each sample failed. None if nothing was measured again.
        deviation: `(n,)`, the standard deviation of these samples; NaN where there are fewer than two.
        samples: how many of them each elite has, failed ones included; 0 if nothing was measured again.
        repertoire: what the algorithm keeps besides the best of each task: solutions with other behaviours
            (docs/behaviours.md), or on other tasks of a `te.Box` (docs/continuous.md); None where it keeps nothing.

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
    retried: int = 0
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
        """Which tasks have a solution, `(n,)`."""
        return metrics.solved(self.fitness)

    @property
    def coverage(self) -> float:
        """Solved tasks / tasks."""
        return metrics.coverage(self.fitness)

    @property
    def gap(self) -> float:
        """Mean distance to the optimum; NaN where that is unknown or a task is unsolved."""
        return float("nan") if self.optimum is None else metrics.gap(self.fitness, self.optimum)

    @property
    def bounds(self) -> np.ndarray:
        """The box of the solutions, `(dim, 2)`: that of the run, or, where the settings tell none, what elites span.

        Example:
            >>> import taskelites as te
            >>> te.solve(te.domain("arm", tasks=200, dim=3), evaluations=500).bounds.tolist()
            [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
        """
        dim = self.solutions.shape[1]
        try:
            return np.broadcast_to(np.asarray(self.settings["bounds"], np.float64), (dim, 2))
        except (KeyError, TypeError, ValueError):  # made by hand, or from a file that somebody changed
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
        """What a notebook shows: the summary, and how the fitness went."""
        from taskelites.show.notebook import result_html

        return result_html(self)

    def to_row(self) -> dict[str, float]:
        """The measures of this result: coverage, mean, median, quantiles, and the gap (NaN where unknown).

        Example:
            >>> import taskelites as te
            >>> result = te.solve(te.domain("arm", tasks=300), evaluations=10_000)
            >>> sorted(result.to_row())
            ['coverage', 'gap', 'highest', 'lowest', 'mean', 'median', 'q05', 'q95']
        """
        return metrics.summary(self.fitness) | {"gap": self.gap}

    def summary(self) -> str:
        """A few lines for a person: coverage, fitness, gap, failures.

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
        """The lines of the summary, each a name and a text.

        Example:
            >>> import taskelites as te
            >>> result = te.solve(te.domain("arm", tasks=300), evaluations=10_000)
            >>> result.summary_rows()[0]
            ('evaluations', '10,000')
        """
        numbers = self.to_row()
        tasks = counted(len(self), "task")
        rows = [
            ("evaluations", f"{self.evaluations:,}{self._sampling()}"),
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
            rows.append(("corrected", self._correction()))
        if self.failed:
            rows.append(("failed", f"{counted(self.failed, 'evaluation')} ({self.failure_counts()})"))
        if self.retried:
            rows.append(("retried", counted(self.retried, "evaluation")))
        if self.infeasible:
            rows.append(("infeasible", f"{counted(self.infeasible, 'evaluation')} (-inf)"))
        return rows

    def _sampling(self) -> str:
        samples = self.settings.get("samples", 1)
        return f", each the mean of {samples:,} samples" if samples > 1 else ""

    def _correction(self) -> str:
        """What measuring again says, and what was believed of the same elites."""
        assert self.corrected is not None  # whoever asks has looked
        known = metrics.solved(self.corrected) & self.solved
        lost = int(self.solved.sum() - known.sum())
        less = f"; {lost:,} of the elites gave no number" if lost else ""
        if not known.any():
            return f"unknown{less}"
        of = "one sample" if self.samples == 1 else f"{self.samples:,} samples"
        now, believed = (float(values[known].mean(dtype=np.float64)) for values in (self.corrected, self.fitness))
        return f"{now:.6g} mean of {of} (believed {believed:.6g}){less}"

    def failure_counts(self) -> str:
        """How many evaluations failed in which way, in words.

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
        """One row a task.

        Columns: `task_id`, `task` (the text of an object), the descriptors by their names, `fitness`, `optimum` (where
        it is known), `evaluations`, `last_improved`, `solution_0`, ...; NaN in an unsolved task's fitness and solution.
        A descriptor that has the name of another column (earlier versions took some) gets `descriptor_` before it.

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
            columns["task"] = [str(task) for task in self.tasks.objects]
        if self.tasks.descriptors is not None:
            columns |= dict(zip(column_names(self.tasks.names), self.tasks.descriptors.T, strict=True))
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
        """All solutions that were kept of one task, the best first: of most algorithms one, or none if it is unsolved.

        `.to_dataframe()` of what is returned is a table of them.

        Args:
            task: its number.

        Example:
            >>> import numpy as np, taskelites as te
            >>> tasks = np.linspace(0, 1, 200)[:, None]
            >>> result = te.solve(lambda x, t: -abs(x[0] - t[0]), tasks, bounds=(0, 1), dim=1, evaluations=5000)
            >>> result.solutions_of(7)
            <Repertoire: 1 solutions of 1 tasks>
        """
        number = whole_number("task", task, least=0, most=len(self) - 1)
        if self.repertoire is not None:
            return self.repertoire.of(number)
        own = np.arange(number, number + 1)[self.solved[number : number + 1]]
        return Repertoire(numbers=own, solutions=self.solutions[own], fitness=self.fitness[own])

    def to_pyribs(self, **kwargs: Any) -> Any:
        """A `ribs.archives.CVTArchive` of pyribs: the tasks are its centroids, in their order, the elites its elites.

        The elite of task `i` is in cell `i`, with its fitness as objective and the descriptors of its task as measures;
        the cell of an unsolved task is empty. Descriptors are taken as they are, without the scale of `te.Tasks`.
        Where tasks have equal descriptors, pyribs can tell one of them only: the best elite is kept, with a warning.

        Args:
            **kwargs: of `CVTArchive`, such as `ranges` (by default half a cell wider than the tasks) or
                `qd_score_offset` (0 by default; its QD score wants the least fitness that is possible).

        Raises:
            ValueError: for tasks without descriptors.
            ImportError: if pyribs, 0.9 or newer, is not installed.

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
        """A solution for tasks that were not solved, made of the elites of solved tasks near them, `(m, dim)`.

        Nothing is evaluated, and all lie inside the bounds (those of the run; for a result that was made by hand, and
        tells none, the ranges of its elites). A task that was solved gets its elite. docs/unseen.md says more. A result
        on a `te.Box` also uses those evaluations of its repertoire that are as good as the elites around them.

        Args:
            new_tasks: descriptors `(m, k)`, or `te.Tasks` with descriptors.
            method: "nearest" copies the elite of the nearest solved task; "blend" is a mean of some near ones, weighted
                by the inverse square of their distance; "linear" reads a plane that is fitted to them; "regressor"
                smooths them (a small Gaussian process). By default, the one that predicts the elites of this result
                best, each one left out in turn; but "nearest" where none predicts them well, since a mixture of
                solutions that differ much is seldom a solution.
            report: whether to return a `Prediction`: `solutions`, `method`, `error`, `errors` and `distances`.

        Raises:
            ValueError: if nothing is solved, tasks have no descriptors, or `new_tasks` does not fit them.

        Example:
            >>> import numpy as np, taskelites as te
            >>> tasks = np.linspace(0, 1, 300)[:, None]
            >>> result = te.solve(lambda x, t: -abs(x[0] - t[0]), tasks, bounds=(0, 1), dim=1, evaluations=5000)
            >>> bool(abs(result.predict([[0.501]])[0, 0] - 0.501) < 0.05)
            True
            >>> sorted(result.predict([[0.501]], report=True).errors)
            ['blend', 'linear', 'nearest', 'regressor']
        """
        found = self._predictor.predict(self._places(new_tasks), method)
        return found if report else found.solutions

    @cached_property
    def _predictor(self) -> Predictor:
        """What makes the predictions, with what it has measured of them."""
        if self.tasks.descriptors is None:
            raise InvalidValueError(
                "predict needs tasks with descriptors, which say what lies between them; these have none: "
                "give them to te.Tasks(objects, descriptors=...)"
            )
        solved = self.solved
        if not solved.any():
            raise InvalidValueError("predict needs at least one solved task, and none is solved")
        places, solutions, fitness = self.tasks.positions[solved], self.solutions[solved], self.fitness[solved]
        kept = self.repertoire
        if kept is not None and kept.tasks is not None and len(kept):
            known = self.tasks.locate(kept.tasks)
            good = np.flatnonzero(as_good(known, kept.fitness, places, fitness))
            places = np.concatenate([places, known[good]])
            solutions = np.concatenate([solutions, kept.solutions[good]])
            fitness = np.concatenate([fitness, kept.fitness[good]])
        return Predictor(places, solutions, fitness, *self.bounds.T)

    def _places(self, new_tasks: Any) -> np.ndarray:
        """Where other tasks lie among these."""
        given = new_tasks
        if isinstance(new_tasks, Tasks):
            if new_tasks.descriptors is None:
                raise InvalidValueError("new_tasks must have descriptors, as the solved tasks do, but they have none")
            given = new_tasks.descriptors
        elif isinstance(new_tasks, Box):
            raise InvalidTypeError(
                "new_tasks must be a list of tasks, not a te.Box; te.tasks.cvt spreads a list over it"
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
        """Solve new tasks, beginning with what `predict` says of them.

        The predictions are evaluated first, each on its task: those of the best method, then those of the others,
        where they differ (at most four evaluations a task). Then a search goes on from them. What comes out is never
        worse than the predictions were.

        Args:
            new_tasks: descriptors `(m, k)`, or `te.Tasks` with descriptors; or a domain, which brings its fitness.
            fitness: as for `te.solve`: a function, or a domain whose fitness, call and bounds are used.
            evaluations: the budget, the predictions included; at least one a task.
            method: of the predictions, as for `predict`; a name gives those of this method only.
            options: all that `te.solve` takes: `seed`, `call`, `workers`, `out`, ...; what is not given of `call`,
                `bounds` and `dim` is as it was for this result. `algorithm` is by default a descent in which
                neighbouring tasks share what they learn, or with `mode="async"`, `te.MultiTaskMapElites`.

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
        """Go on with more tasks: a result on these tasks and, after them, the new ones.

        First the predictions for the new tasks are evaluated, then the elites of the old ones, which are evaluated
        again to take part in the search; all of it counts. No old task ends with less than it had: where the budget
        or a failure leaves it with less, it keeps its old elite.

        Args:
            new_tasks: descriptors `(m, k)`, or `te.Tasks`, of the same kind as the old ones.
            fitness: the same as before, as for `te.solve`: a function, or a domain whose fitness, call and bounds are
                used.
            evaluations: the budget.
            options: all that `te.solve` takes; what is not given of `call`, `bounds` and `dim` is as it was.

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
        """The map: tasks in the plane, coloured by fitness (`taskelites.show.map`). Returns the axes."""
        from taskelites.show import map as show_map

        return show_map(self, ax=ax, **kwargs)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write everything to one `.npz` file, whole or not at all. `te.load` reads it.

        Tasks that are Python objects are kept as their text, and a distance matrix or function is not kept.

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

        write_arrays(path, {"about": np.array(json.dumps(about)), **arrays})
        return path

    def _contents(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {f"history_{name}": column for name, column in self.history.items()}
        arrays |= {name: value for name in _OPTIONAL if (value := getattr(self, name)) is not None}
        if self.tasks.descriptors is not None:
            arrays["descriptors"] = self.tasks.descriptors
        if self.repertoire is not None:
            arrays |= self.repertoire.to_arrays()
        about = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "evaluations": self.evaluations,
            "failed": self.failed,
            "infeasible": self.infeasible,
            "failures": self.failures,
            "retried": self.retried,
            "samples": self.samples,
            "history": list(self.history),
            "settings": self.settings,
            "task_names": list(self.tasks.names),
            "task_scale": self.tasks.scale,
            "task_objects": None if self.tasks.objects is None else [str(task) for task in self.tasks.objects],
        }
        return arrays, about


def counted(number: int, noun: str) -> str:
    """A number of things, in words.

    Example:
        >>> counted(1, "task"), counted(5000, "task")
        ('1 task', '5,000 tasks')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def load(path: str | PathLike[str]) -> Result:
    """Read a result from a file that `Result.save` wrote, or from a run folder.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if the file is damaged, not ours, or from a newer version.

    Example:
        >>> import taskelites as te
        >>> te.load("nowhere.npz")
        Traceback (most recent call last):
        FileNotFoundError: there is no result 'nowhere.npz'
    """
    path = Path(path)
    file = path / "result.npz" if path.is_dir() else path
    if not file.is_file():
        below = sorted(folder.parent.name for folder in path.glob("*/result.npz")) if path.is_dir() else []
        hint = f"; there are some in its folders {below[0]!r} to {below[-1]!r}" if below else ""
        raise MissingFileError(f"there is no result {str(file)!r}{hint}")
    try:
        if not zipfile.is_zipfile(file):
            raise InvalidValueError("it is no .npz file")
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            contents = {name: archive[name] for name in archive.files}
        about = json.loads(str(contents["about"]))
        kind, version = about["format"], int(about["version"])
    except _UNREADABLE as error:
        raise InvalidValueError(f"{str(file)!r} is damaged or no taskelites result ({error})") from None
    if kind != FORMAT:
        raise InvalidValueError(f"{str(file)!r} is no taskelites result, but {kind!r}")
    if version > FORMAT_VERSION:
        raise InvalidValueError(
            f"{str(file)!r} has format version {version}, and this taskelites reads up to {FORMAT_VERSION}; upgrade it"
        )
    try:
        return _from_contents(contents, about)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidValueError(f"{str(file)!r} is damaged: {error}") from None


def _from_contents(contents: dict[str, np.ndarray], about: dict[str, Any]) -> Result:
    number = len(contents["fitness"])
    for name, kinds, ndim in _LAYOUT:
        if name in contents and (contents[name].dtype.kind not in kinds or contents[name].ndim != ndim):
            raise InvalidValueError(f"its {name} is no array of numbers with {ndim} dimensions")
        if name in contents and len(contents[name]) != number:
            raise InvalidValueError("its arrays are of different lengths")
    tasks = Tasks(
        about["task_objects"],
        descriptors=contents.get("descriptors"),
        scale=about["task_scale"],
        names=Names(about["task_names"] or ()) or None,
    )
    if len(tasks) != number:
        raise InvalidValueError("its arrays are of different lengths")
    return Result(
        **{name: contents[name] for name in _ARRAYS},
        tasks=tasks,
        evaluations=operator.index(about["evaluations"]),
        failed=operator.index(about["failed"]),
        infeasible=operator.index(about["infeasible"]),
        failures={str(kind): operator.index(number) for kind, number in about.get("failures", {}).items()},
        retried=operator.index(about.get("retried", 0)),
        history={name: contents[f"history_{name}"] for name in about["history"]},
        settings=about["settings"],
        samples=operator.index(about.get("samples", 0)),
        optimum=contents.get("optimum"),
        worst=contents.get("worst"),
        corrected=contents.get("corrected"),
        deviation=contents.get("deviation"),
        repertoire=Repertoire.from_arrays(contents, number, contents["solutions"].shape[1]),
    )
