"""`Comparison`: replicates of several algorithms on one problem, their measures and statistical tests."""

import itertools
import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.core import metrics
from taskelites.errors import (
    InvalidTypeError,
    InvalidValueError,
    MissingFileError,
    StorageError,
    counted,
    one_of,
    whole_number,
)
from taskelites.experiments.statistics import a12, holm, least_p, mann_whitney, nearest_to_median, quartiles
from taskelites.results.export import write_csv
from taskelites.results.result import Result, load
from taskelites.storage import file_name, read_json, reading, write_json, write_whole

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "taskelites-comparison"
FORMAT_VERSION = 2
# Measures of a replicate and their column titles; for the first three, higher is better.
MEASURES = {
    "mean_all": "mean over all tasks",
    "coverage": "coverage",
    "area": "area",
    "gap": "gap",
    "evaluations_to_99": "to 99 %",
    "seconds": "seconds",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """Replicates of several algorithms on one problem.

    Attributes:
        results: label of an algorithm -> its replicates.
        settings: settings of the problem and the runs, as plain values.

    Example:
        >>> import taskelites as te
        >>> arm = te.domain("arm", tasks=200)
        >>> found = te.compare(arm, algorithms=["mt-map-elites", "random"], replicates=3, evaluations=5000)
        >>> found.table().loc["mt-map-elites", "gap_median"] < found.table().loc["random", "gap_median"]
        np.True_
    """

    results: Mapping[str, list[Result]]
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.results, Mapping) or not self.results or not all(self.results.values()):
            raise InvalidValueError(
                "results must be a dict that maps labels to lists of results, with at least one result per algorithm"
            )
        every = [result for results in self.results.values() for result in results]
        if not all(isinstance(result, Result) and "coverage" in result.history for result in every):
            raise InvalidTypeError("results must be of runs with a history, such as te.solve and te.compare return")
        if len({(len(result), result.tasks.digest) for result in every}) > 1:
            raise InvalidValueError("results must have the same tasks, but these have different ones")

    def __repr__(self) -> str:
        runs = counted(sum(map(len, self.results.values())), "run")
        return (
            f"<Comparison: {counted(len(self.results), 'algorithm')}, {runs} of {counted(self.budget, 'evaluation')}>"
        )

    def _repr_html_(self) -> str:
        """Return the table of the summary for a notebook."""
        from taskelites.show.notebook import table_html

        about = f"{repr(self)[1:-1]}; median (interquartile range)"
        return f"<div><div><strong>{about}</strong></div>{table_html(self.cells(), heading=True)}</div>"

    @property
    def labels(self) -> list[str]:
        """The labels of the algorithms, in order."""
        return list(self.results)

    @property
    def budget(self) -> int:
        """The number of evaluations per run."""
        return max(result.evaluations for results in self.results.values() for result in results)

    @property
    def optimum(self) -> np.ndarray | None:
        """The best possible fitness of each task, `(n,)`; None if unknown."""
        return next(iter(self.results.values()))[0].optimum

    @cached_property
    def worst(self) -> np.ndarray:
        """The fitness that an unsolved task counts as, `(n,)`: the domain's `worst`, else the worst of all runs."""
        every = [result for results in self.results.values() for result in results]
        if every[0].worst is not None:
            return every[0].worst
        seen = [np.nanmin(result.history["lowest"], initial=np.inf) for result in every if result.history]
        seen += [np.nanmin(result.fitness, initial=np.inf) for result in every]
        lowest = min(seen)
        return np.full(len(every[0]), lowest if np.isfinite(lowest) else np.nan)

    def final_mean(self, result: Result) -> float:
        """Return the final mean fitness over all tasks; an unsolved task counts as `worst`."""
        return float(metrics.mean_all(result.fitness, self.worst))

    def curves(self, label: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean over all tasks during the runs: evaluations `(points,)`, values `(replicates, points)`."""
        runs = [self._curve(result) for result in self.results[one_of("label", label, self.results)]]
        points = np.unique(np.concatenate([evaluations for evaluations, _ in runs]))
        # Replicates of separate comparisons may have different points: a run keeps its value between its points.
        before = float(self.worst.mean())
        return points, np.array([metrics.held(*run, at=points, before=before) for run in runs])

    def _curve(self, result: Result) -> tuple[np.ndarray, np.ndarray]:
        history = result.history
        if "mean_all" in history:
            return history["evaluations"], history["mean_all"]
        covered = history["coverage"]
        mean = np.where(covered > 0, history["mean"], 0.0)
        return history["evaluations"], covered * mean + (1 - covered) * self.worst.mean()

    @cached_property
    def _level_99(self) -> float:
        """99 % of the way from the final mean of random sampling to the best; NaN without runs of random sampling."""
        starts = [
            self.final_mean(result)
            for results in self.results.values()
            for result in results
            if result.settings.get("algorithm", {}).get("name") == "random"
        ]
        if not starts:
            return math.nan
        finals = [self.final_mean(result) for results in self.results.values() for result in results]
        best = max(finals) if self.optimum is None else float(self.optimum.mean())
        start = float(np.median(starts))
        return start + 0.99 * (best - start)

    def replicates(self) -> "pd.DataFrame":
        """Return a table with one row per run: `algorithm`, `seed`, and the measures.

        `evaluations_to_99` is infinite for a run that did not reach the level, and NaN without runs of `random`, whose
        final value is the reference. Replicates that ran side by side share their `seconds` equally.
        """
        import pandas as pd

        rows = [
            {"algorithm": label, "seed": result.settings.get("seed", i)} | self._measures(result)
            for label, results in self.results.items()
            for i, result in enumerate(results)
        ]
        return pd.DataFrame(rows)

    def _measures(self, result: Result) -> dict[str, float]:
        evaluations, values = self._curve(result)
        reached = metrics.evaluations_to(evaluations, values, level=self._level_99)
        seconds = result.history["seconds"][-1] / result.settings.get("side_by_side", 1)
        mean_all = self.final_mean(result)
        return {
            "mean_all": mean_all,
            "coverage": result.coverage,
            "area": metrics.area(evaluations, values, worst=float(self.worst.mean()), budget=self.budget),
            "gap": math.nan if self.optimum is None else float(self.optimum.mean()) - mean_all,
            "evaluations_to_99": math.nan if math.isnan(self._level_99) else math.inf if reached is None else reached,
            "seconds": float(seconds),
        }

    def table(self) -> "pd.DataFrame":
        """Return a table with one row per algorithm: `runs`, and `_median`, `_q1`, `_q3` (quartiles) per measure."""
        import pandas as pd

        every = self.replicates()
        rows = {}
        for label in self.labels:
            own = every[every["algorithm"] == label]
            row: dict[str, float] = {"runs": len(own)}
            for measure in MEASURES:
                low, middle, high = quartiles(own[measure])
                row |= {f"{measure}_median": middle, f"{measure}_q1": low, f"{measure}_q3": high}
            rows[label] = row
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("algorithm")

    def tests(self, measure: str = "mean_all") -> "pd.DataFrame":
        """Return a table with one row per pair: `p` (Mann-Whitney, two-sided), `p_holm` (for all pairs), `a12`.

        `a12` is the probability that a run of `first` has a greater value than a run of `second`.
        """
        import pandas as pd

        one_of("measure", measure, MEASURES)
        every = self.replicates()
        groups = {label: every[every["algorithm"] == label][measure].to_numpy() for label in self.labels}
        rows = []
        for first, second in itertools.combinations(self.labels, 2):
            a, b = groups[first], groups[second]
            unknown = np.isnan(a).any() or np.isnan(b).any()  # e.g. no task was solved
            p, effect = (math.nan, math.nan) if unknown else (mann_whitney(a, b), a12(a, b))
            rows.append({"first": first, "second": second, "p": p, "a12": effect})
        columns = ["first", "second", "p", "p_holm", "a12"]
        frame = pd.DataFrame(rows, columns=[name for name in columns if name != "p_holm"])
        known = frame["p"].notna()
        frame["p_holm"] = math.nan
        frame.loc[known, "p_holm"] = holm(frame.loc[known, "p"])
        return frame[columns]

    def typical(self, label: str) -> Result:
        """Return the replicate whose final mean is nearest to the median of its algorithm."""
        results = self.results[label]
        return results[nearest_to_median([self.final_mean(result) for result in results])]

    @property
    def missing(self) -> dict[str, int]:
        """The number of missing runs by label, for algorithms with fewer runs than requested."""
        wanted = self.settings.get("replicates", 0)
        labels = [*self.labels, *(label for label in self.settings.get("algorithms", ()) if label not in self.results)]
        lacking = {label: wanted - len(self.results.get(label, ())) for label in labels}
        return {label: number for label, number in lacking.items() if number > 0}

    def summary(self, width: int | None = None) -> str:
        """Return the table and the tests as text.

        Args:
            width: width of the terminal in characters; a wider table is transposed.

        Example:
            >>> import taskelites as te
            >>> arm = te.domain("arm", tasks=200)
            >>> found = te.compare(arm, algorithms=["mt-map-elites", "random"], replicates=3, evaluations=5000)
            >>> print(found.summary())
            median (interquartile range) of 3 runs of 5,000 evaluations
            ...
            Mann-Whitney U on the final mean over all tasks; ...
        """
        runs = sorted({len(results) for results in self.results.values()})
        number = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        plural = "run" if runs == [1] else "runs"
        lines = [f"median (interquartile range) of {number} {plural} of {counted(self.budget, 'evaluation')}", ""]
        lines += [*format_table(self.cells(), width), self.note_on_99()]
        if self.missing:
            lines.append(
                "missing: "
                + ", ".join(f"{counted(number, 'run')} of {label}" for label, number in self.missing.items())
            )
        if len(self.labels) > 1:
            about = "Mann-Whitney U on the final mean over all tasks; A12: how likely the first is better"
            lines += ["", about, *([note] if (note := self.note_on_p()) else []), *_align(self.test_cells())]
        return "\n".join(lines)

    def note_on_99(self) -> str:
        """Return a sentence that explains the evaluations to 99 %, or why there are none."""
        if math.isnan(self._level_99):
            return "(no evaluations to 99 %: they are counted from the final value of random, which took no part)"
        best = "best that was found" if self.optimum is None else "optimum"
        return f"to 99 %: evaluations until 99 % of the way from the final value of random to the {best}"

    def note_on_p(self) -> str:
        """Return a warning if the runs are too few for a p-value of 0.01 or less; empty otherwise."""
        runs = min(len(results) for results in self.results.values())
        least = least_p(runs)
        if least <= 0.01:
            return ""
        return f"(with {runs} against {runs} no p can be below {least:.2g}: more replicates would tell more)"

    def cells(self) -> list[list[str]]:
        """Return the table as text: a header, then one row per algorithm."""
        table = self.table()
        shown = [measure for measure in MEASURES if not table[f"{measure}_median"].isna().all()]
        rows = [["algorithm", *(MEASURES[measure] for measure in shown)]]
        for label in self.labels:
            rows.append([label, *(_format_cell(table.loc[label], measure) for measure in shown)])
        if table["runs"].nunique() > 1:
            for row, number in zip(rows, ["runs", *(str(int(number)) for number in table["runs"])], strict=True):
                row.insert(1, number)
        return rows

    def test_cells(self) -> list[list[str]]:
        """Return the tests as text: a header, then one row per pair."""
        pairs = [["first", "second", "p", "p (Holm)", "A12"]]
        for row in self.tests().to_dict("records"):
            digits = {"p": ".2g", "p_holm": ".2g", "a12": ".2f"}
            numbers = ("-" if math.isnan(row[name]) else f"{row[name]:{form}}" for name, form in digits.items())
            pairs.append([str(row["first"]), str(row["second"]), *numbers])
        return pairs

    def plot(self, ax: Any = None, **kwargs: Any) -> np.ndarray:
        """Plot the curves and the final values (`taskelites.show.comparison`); return the two axes."""
        from taskelites.show import comparison

        return comparison(self, ax, **kwargs)

    def save(self, folder: str | PathLike[str], *, formulas: bool = False) -> Path:
        """Write tables, tests and figure to a folder, each file atomically.

        The files are `summary.csv`, `replicates.csv`, `tests.csv`, `curves.csv`, `comparison.json`, `comparison.png`
        and `comparison.pdf`. The runs are not written: `te.compare(..., out=folder)` writes them when they finish.

        Args:
            folder: path of the folder.
            formulas: whether labels that a spreadsheet would take for formulas are written to CSV files as they are;
                otherwise they get an apostrophe in front.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tables = {
            "summary": self.table().reset_index(),
            "replicates": self.replicates(),
            "tests": self.tests(),
            "curves": self.curve_table(),
        }
        for name, frame in tables.items():
            write_csv(folder / f"{name}.csv", frame, formulas=formulas)
        about = {
            name: json.loads(frame.to_json(orient="records")) for name, frame in tables.items() if name != "curves"
        }
        write_settings(folder, self.settings, about)
        save_figure(self.plot()[0].figure, folder / "comparison")
        return folder

    def curve_table(self) -> "pd.DataFrame":
        """Return the curves as a table: `algorithm`, `evaluations`, quartiles of the mean, and the median gap."""
        import pandas as pd

        frames = []
        for label in self.labels:
            evaluations, values = self.curves(label)
            low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
            columns = {"algorithm": label, "evaluations": evaluations}
            columns |= {"mean_all_q1": low, "mean_all_median": middle, "mean_all_q3": high}
            if self.optimum is not None:
                columns["gap_median"] = self.optimum.mean() - middle
            frames.append(pd.DataFrame(columns))
        return pd.concat(frames, ignore_index=True)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> "Comparison":
        """Read a comparison that `te.compare(..., out=folder)` wrote, with all its runs.

        Raises:
            FileNotFoundError: if there is none.
            StorageError: if `comparison.json` is damaged or has another format.
        """
        settings = read_settings(folder)
        results = {}
        for label in settings["algorithms"]:
            found = [
                result for path in run_folders(runs_of(folder, label)) if (result := _load_or_warn(path)) is not None
            ]
            if found:
                results[label] = found
        if not results:
            raise MissingFileError(f"{str(folder)!r} holds no finished run")
        return cls(results=results, settings=settings)


def runs_of(folder: str | PathLike[str], label: str) -> Path:
    """Return the folder with the runs of an algorithm."""
    return Path(folder) / "runs" / file_name(label)


def read_settings(folder: str | PathLike[str]) -> dict[str, Any]:
    """Return the settings of the comparison in a folder.

    Raises:
        FileNotFoundError: if there is none.
        StorageError: if the file is damaged or has another format.
    """
    path = Path(folder) / "comparison.json"
    if not path.is_file():
        raise MissingFileError(f"there is no comparison in {str(folder)!r}")
    what = "no comparison"
    remedy = "the runs next to it are intact: name a new folder for the comparison, and copy the folder 'runs' there"
    document = read_json(path, expected=FORMAT, newest=FORMAT_VERSION, what=what, remedy=remedy)
    with reading(path, what, remedy):
        settings = dict(document["settings"])
        if not all(isinstance(each, dict) for each in settings["algorithms"].values()):
            raise InvalidTypeError("its algorithms must be JSON objects")
        whole_number("its replicates", settings["replicates"], least=1)
        for name in ("evaluations", "batch_size", "ahead", "samples"):
            if name in settings:
                whole_number(f"its {name}", settings[name], least=1)
    return settings


def write_settings(folder: Path, settings: Mapping[str, Any], tables: Mapping[str, Any] | None = None) -> None:
    """Write the settings of a comparison and its tables, if there are any yet, to `comparison.json`."""
    document = {"format": FORMAT, "version": FORMAT_VERSION, "settings": settings, **(tables or {})}
    write_json(folder / "comparison.json", document)


def save_figure(figure: Any, path: Path, kinds: tuple[str, ...] = ("png", "pdf"), dpi: int = 150) -> None:
    """Write a figure in each of the file formats `kinds`, and close it."""
    import matplotlib.pyplot as plt

    # Without a date in the PDF, the same data give the same file. Publishers require fonts of type 42.
    for kind in kinds:
        about = {"CreationDate": None} if kind == "pdf" else {}
        write = partial(figure.savefig, format=kind, dpi=dpi, metadata=about)
        with plt.rc_context({"pdf.fonttype": 42}):
            write_whole(path.with_name(f"{path.name}.{kind}"), write)
    plt.close(figure)


def run_folders(place: Path) -> list[Path]:
    """Return the folders of replicates that contain a result, ordered by number.

    Example:
        >>> import tempfile
        >>> run_folders(Path(tempfile.mkdtemp()))
        []
    """
    numbers = {path: path.name.removeprefix("replicate-") for path in place.glob("replicate-*")}
    there = [path for path, number in numbers.items() if number.isdecimal() and (path / "result.npz").exists()]
    return sorted(there, key=lambda path: int(numbers[path]))


def _load_or_warn(path: Path) -> Result | None:
    try:
        return load(path)
    except StorageError as error:
        warnings.warn(f"{error}; it is left out; run the comparison again to replace it", stacklevel=4)
        return None


def _format_cell(row: Any, measure: str) -> str:
    """Format a median with its interquartile range."""
    low, middle, high = (row[f"{measure}_{part}"] for part in ("q1", "median", "q3"))
    if math.isnan(middle):
        return "-"
    many = row["runs"] > 1
    if measure == "coverage":
        return f"{100 * middle:.4g} %" + (f" ({100 * (high - low):.2g})" if high > low else "")
    if measure == "evaluations_to_99":
        return "never" if math.isinf(middle) else f"{middle:,.0f}" + (_format_range(low, high, ",.0f") if many else "")
    digits = {"seconds": ".3g", "gap": ".3g"}.get(measure, ".6g")
    return f"{middle:{digits}}" + (_format_range(low, high, ".2g") if many else "")


def _format_range(low: float, high: float, digits: str) -> str:
    return f" ({high - low:{digits}})" if math.isfinite(high - low) else " (some never)"


def format_table(rows: list[list[str]], width: int | None) -> list[str]:
    """Return a table, whose first row is the header, as lines; transposed if it is wider than `width`.

    Example:
        >>> format_table([["algorithm", "gap"], ["random", "0.5"]], 80)
        ['algorithm  gap', 'random     0.5']
        >>> format_table([["algorithm", "gap"], ["random", "0.5"]], 10)
        ['random', '  gap  0.5']
    """
    lines = _align(rows)
    if width is None or max(map(len, lines)) <= width:
        return lines
    heads, *rest = rows
    sideways = []
    for row in rest:
        sideways += [row[0], *_align([["", head, cell] for head, cell in zip(heads[1:], row[1:], strict=True)])]
    return sideways


def _align(rows: list[list[str]]) -> list[str]:
    """Pad the cells so that columns align."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
