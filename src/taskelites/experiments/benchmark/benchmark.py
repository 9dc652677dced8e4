"""`Bench`: the result of a benchmark, with one comparison per domain and one table of all."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError, MissingFileError, counted
from taskelites.experiments.comparison.comparison import Comparison, format_table, save_figure
from taskelites.results.export import write_csv
from taskelites.storage import file_name, read_json, reading, write_json, write_text

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "taskelites-bench"
FORMAT_VERSION = 2
# Significance level of the p-values, which are corrected for all pairs of a domain.
LEVEL = 0.05
# Maximum number of points per curve in `curves.csv`: enough for a figure on a logarithmic axis.
_POINTS = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class Bench:
    """The result of `te.bench`.

    Attributes:
        comparisons: label of a domain -> the comparison on it.
        refused: label of a domain -> algorithms that can't be run on it -> the reason.
        left_out: label of a domain that could not be made -> the reason.
        made: date, command and machine, one line per call of `te.bench` that added runs.

    Example:
        >>> import taskelites as te
        >>> options = {"algorithms": ["mt-map-elites"], "tasks": 200, "evaluations": 2000, "replicates": 2}
        >>> te.bench(["arm"], **options).table().index.tolist()
        [('arm', 'mt-map-elites'), ('arm', 'random')]
    """

    comparisons: Mapping[str, Comparison]
    refused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    made: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.comparisons:
            raise InvalidValueError(
                "comparisons must be a dict that maps labels to comparisons, with at least one entry"
            )

    def __repr__(self) -> str:
        runs = sum(len(results) for found in self.comparisons.values() for results in found.results.values())
        return f"<Bench: {counted(len(self.comparisons), 'domain')}, {counted(runs, 'run')}>"

    def table(self) -> "pd.DataFrame":
        """Return a table with one row per domain and algorithm: `Comparison.table`, and `better` and `worse`.

        `better` is the number of algorithms that it is significantly better than by the final mean over all tasks
        (Mann-Whitney, Holm's correction for all pairs of the domain, p < 0.05); `worse` is the opposite. Within a
        domain, rows are sorted by the median, the best first.
        """
        import pandas as pd

        frames = {}
        for label, found in self.comparisons.items():
            frame = found.table()
            tests = found.tests()
            tests = tests[tests["p_holm"] < LEVEL]
            ahead = [*tests["first"][tests["a12"] > 0.5], *tests["second"][tests["a12"] < 0.5]]
            behind = [*tests["second"][tests["a12"] > 0.5], *tests["first"][tests["a12"] < 0.5]]
            frame["better"] = [ahead.count(name) for name in frame.index]
            frame["worse"] = [behind.count(name) for name in frame.index]
            frames[label] = frame.sort_values("mean_all_median", ascending=False, kind="stable")
        return pd.concat(frames, names=["domain", "algorithm"])

    def replicates(self) -> "pd.DataFrame":
        """Return a table with one row per run: `domain`, and the columns of `Comparison.replicates`."""
        return self._concatenate(Comparison.replicates)

    def tests(self) -> "pd.DataFrame":
        """Return a table with one row per domain and pair: `domain`, and the columns of `Comparison.tests`."""
        return self._concatenate(Comparison.tests)

    def curve_table(self) -> "pd.DataFrame":
        """Return the columns of `Comparison.curve_table`, and `domain`; at most 60 points per curve, log-spaced."""
        return self._concatenate(_log_spaced_curves)

    def _concatenate(self, part: Any) -> "pd.DataFrame":
        import pandas as pd

        frames = [part(found).assign(domain=label) for label, found in self.comparisons.items()]
        whole = pd.concat(frames, ignore_index=True)
        return whole[["domain", *(name for name in whole.columns if name != "domain")]]

    def summary(self, width: int | None = 80) -> str:
        """Return the medians of all domains as text, the best of each first.

        Args:
            width: width of the terminal in characters.
        """
        lines = ["medians; better/worse: than how many others (Mann-Whitney, Holm, p < 0.05)"]
        for label in self.comparisons:
            lines += ["", self.about(label), *format_table(self._cells(label), width)]
            notes = [f"{name}: - ({reason})" for name, reason in self.refused.get(label, {}).items()]
            lines += [_wrap(note, width) for note in notes]
        if self.left_out:
            notes = [f"left out: {label} ({reason})" for label, reason in self.left_out.items()]
            lines += ["", *(_wrap(note, width) for note in notes)]
        return "\n".join(lines)

    def about(self, label: str) -> str:
        """Return one line about a domain and its runs."""
        found = self.comparisons[label]
        numbers = sorted({len(results) for results in found.results.values()})
        runs = " to ".join(map(str, dict.fromkeys([numbers[0], numbers[-1]])))
        tasks = len(next(iter(found.results.values()))[0])
        missing = f"; missing: {counted(sum(found.missing.values()), 'run')}" if found.missing else ""
        return f"{label}: {counted(tasks, 'task')}, {runs} x {counted(found.budget, 'evaluation')}{missing}"

    def _cells(self, label: str) -> list[list[str]]:
        rows = [["algorithm", "mean", "area", "to 99 %", "seconds", "better/worse"]]
        for name, row in self.table().loc[label].iterrows():
            reached = row["evaluations_to_99_median"]
            rows.append(
                [
                    str(name),
                    f"{row['mean_all_median']:.5g}",
                    f"{row['area_median']:.5g}",
                    "never" if np.isinf(reached) else "-" if np.isnan(reached) else f"{reached:,.0f}",
                    format_seconds(row["seconds_median"]),
                    f"{row['better']:.0f}/{row['worse']:.0f}",
                ]
            )
        return rows

    def save(self, folder: str | os.PathLike[str], *, formulas: bool = False) -> Path:
        """Write the page, its tables and its figures to a folder; the runs are not written.

        The files are `bench.md`, `bench.csv` (one row per run), `tests.csv` (one row per pair), `curves.csv`, and one
        figure per domain.

        Args:
            folder: path of the folder.
            formulas: as for `Comparison.save`.
        """
        from taskelites.experiments.benchmark.page import page_text

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tables = {"bench": self.replicates(), "tests": self.tests(), "curves": self.curve_table()}
        for name, frame in tables.items():
            write_csv(folder / f"{name}.csv", frame, formulas=formulas, float_format="%.7g")
        for label, found in self.comparisons.items():
            save_figure(found.plot()[0].figure, folder / file_name(label), ("png",), dpi=100)
        write_text(folder / "bench.md", page_text(self))
        return folder

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Bench":
        """Read a benchmark that `te.bench(..., out=folder)` wrote, finished or not.

        Raises:
            FileNotFoundError: if there is no benchmark, or it has no finished run.
            StorageError: if a file is damaged or has another format.
        """
        plan = read_bench_plan(folder)
        found = comparisons_in(Path(folder), plan["domains"])
        if not found:
            raise MissingFileError(f"the benchmark in {str(folder)!r} has no finished run")
        left_out = plan["left_out"] | {label: "no run is finished" for label in plan["domains"] if label not in found}
        return cls(comparisons=found, refused=plan["domains"], left_out=left_out, made=plan["made"])


def _wrap(text: str, width: int | None) -> str:
    return text if width is None else fill(text, width, subsequent_indent="  ")


def _log_spaced_curves(found: Comparison) -> "pd.DataFrame":
    """Return the curves at points that are evenly spaced on a logarithmic axis."""
    import pandas as pd

    parts = []
    for _, curve in found.curve_table().groupby("algorithm", sort=False):
        points = curve["evaluations"].to_numpy()
        wanted = np.geomspace(points[0], points[-1], _POINTS)
        # Rounding may put the last wanted point above the last logged one.
        parts.append(curve.iloc[np.unique(np.minimum(np.searchsorted(points, wanted), len(points) - 1))])
    return pd.concat(parts, ignore_index=True)


def read_bench_plan(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the plan of the benchmark in a folder: `domains` (with their refused algorithms), `left_out`, `made`.

    Raises:
        FileNotFoundError: if there is none.
        StorageError: if the file is damaged or has another format.
    """
    path = Path(folder) / "bench.json"
    if not path.is_file():
        raise MissingFileError(f"there is no benchmark in {str(folder)!r}")
    what = "no benchmark"
    remedy = (
        "the comparisons next to it are intact: delete it, move them to a new folder, and run the same again into that"
    )
    document = read_json(path, expected=FORMAT, newest=FORMAT_VERSION, what=what, remedy=remedy)
    with reading(path, what, remedy):
        domains, left_out, made = dict(document["domains"]), dict(document["left_out"]), list(document["made"])
        texts = [*left_out.values(), *made, *(why for reasons in domains.values() for why in reasons.values())]
        if not all(isinstance(text, str) for text in texts):
            raise InvalidTypeError("its reasons and lines must be texts")
    return {"domains": domains, "left_out": left_out, "made": made}


def write_bench_plan(out: Path, domains: Mapping[str, Any], left_out: Mapping[str, str], made: Sequence[str]) -> None:
    """Write the plan of a benchmark."""
    out.mkdir(parents=True, exist_ok=True)
    document = {"format": FORMAT, "version": FORMAT_VERSION, "made": list(made)}
    document |= {"domains": dict(domains), "left_out": dict(left_out)}
    write_json(out / "bench.json", document)


def comparisons_in(folder: Path, labels: Iterable[str]) -> dict[str, Comparison]:
    """Load the comparisons of a benchmark that have a finished run."""
    found = {}
    for label in labels:
        try:
            found[label] = Comparison.load(folder / file_name(label))
        except FileNotFoundError:
            continue
    return found


def format_seconds(number: float) -> str:
    """Format a time with three digits, or without decimals from 1000 on.

    Example:
        >>> format_seconds(0.01234), format_seconds(1172.4)
        ('0.0123', '1,172')
    """
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"
