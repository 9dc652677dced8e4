"""Export of results: tables in CSV, Parquet and NumPy files, and pyribs archives."""

import csv
import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from taskelites.errors import (
    ExistingFileError,
    InvalidTypeError,
    InvalidValueError,
    MissingFileError,
    MissingPackageError,
    TaskWarning,
    one_of,
)
from taskelites.results.result import Result
from taskelites.storage import MALFORMED, write_arrays, write_whole

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("csv", "parquet", "npz")
_SOLUTION = re.compile(r"solution_\d+")
# Spreadsheets take a text that begins with one of these for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def one_table(runs: Sequence[tuple[Mapping[str, Any], Result]]) -> "pd.DataFrame":
    """Return one table with the rows of several runs.

    Args:
        runs: for each run, its leading columns, such as `{"replicate": 3}`, and its result.

    Example:
        >>> import taskelites as te
        >>> runs = te.solve(te.domain("arm", tasks=200), evaluations=1000, replicates=2)
        >>> table = one_table([({"replicate": i}, result) for i, result in enumerate(runs)])
        >>> len(table), list(table.columns[:4])
        (400, ['replicate', 'task_id', 'alpha_max', 'length'])
    """
    import pandas as pd

    frames = []
    for before, result in runs:
        frame = result.to_dataframe()
        for place, (name, value) in enumerate(before.items()):
            frame.insert(place, name, value)
        frames.append(frame)
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


def format_of(path: Path | None, given: str | None) -> str:
    """Return the export format for a path and an explicit format; "csv" if both are None.

    Raises:
        ValueError: if the file extension is unknown or contradicts the format.

    Example:
        >>> format_of(Path("tasks.parquet"), None)
        'parquet'
    """
    if path is None:
        return "csv" if given is None else one_of("--format", given, FORMATS)
    ending = path.suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise InvalidValueError(f"--out must end in .csv, .parquet or .npz, not {path.name!r}")
    if given is not None and given != ending:
        raise InvalidValueError(f"--out ends in .{ending}, but --format is {given}; leave one of them out")
    return ending


def check_target(path: Path, kind: str) -> bool:
    """Check that an export can be written, and return whether it replaces an earlier export.

    Args:
        path: the file to write.
        kind: one of `FORMATS`.

    Raises:
        FileNotFoundError: if the parent folder does not exist.
        FileExistsError: if the path exists and is not an earlier export.
        ImportError: if the format needs a package that is not installed.

    Example:
        >>> check_target(Path("tasks.csv"), "csv")
        False
    """
    if kind == "parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise MissingPackageError("Parquet needs the package pyarrow: pip install 'taskelites[parquet]'") from None
    if not path.parent.is_dir():
        raise MissingFileError(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
    if not path.exists():
        return False
    if not path.is_file() or not _is_export(path, kind):
        raise ExistingFileError(
            f"{str(path)!r} exists and is not an earlier export, so it is not overwritten; choose another file"
        )
    return True


def _is_export(path: Path, kind: str) -> bool:
    """Return whether a file has the columns that `write_table` writes."""
    names: list[str] = []
    if kind == "csv":
        # Column names may contain commas, quotes and newlines.
        with path.open(encoding="utf-8", errors="replace", newline="") as file, suppress(csv.Error):
            names = next(csv.reader(file), [])
    elif kind == "npz":
        with suppress(*MALFORMED), zipfile.ZipFile(path) as file:
            names = [name.removesuffix(".npy") for name in file.namelist()]
    else:
        import pyarrow
        import pyarrow.parquet

        with suppress(pyarrow.ArrowInvalid):
            names = pyarrow.parquet.read_schema(path).names
    return {"task_id", "fitness", "last_improved"} <= set(names)


def write_table(path: Path, frame: "pd.DataFrame", descriptors: Sequence[str], *, formulas: bool = False) -> None:
    """Write a table atomically, in the format given by the file extension.

    A `.npz` file has one array per column, except for the solutions, which are one array `solutions (rows, dim)`, and
    the descriptors, which are `descriptors (rows, k)` with their names in `descriptor_names (k,)`. It can be read
    without pickle.

    Args:
        path: file ending in `.csv`, `.parquet` or `.npz`.
        frame: table from `one_table`.
        descriptors: names of the descriptors, which are columns of the table.
        formulas: for CSV, see `no_formulas`.

    Example:
        >>> import tempfile, numpy as np, taskelites as te
        >>> result = te.solve(te.domain("arm", tasks=200), evaluations=1000)
        >>> path = Path(tempfile.mkdtemp()) / "tasks.npz"
        >>> write_table(path, one_table([({}, result)]), result.tasks.names)
        >>> np.load(path)["solutions"].shape
        (200, 10)
    """
    kind = format_of(path, None)
    if kind == "npz":
        write_arrays(path, _arrays(frame, descriptors))
    elif kind == "csv":
        write_csv(path, frame, formulas=formulas)
    else:
        write_whole(path, lambda file: frame.to_parquet(file, engine="pyarrow", index=False))


def write_csv(path: Path, frame: "pd.DataFrame", *, formulas: bool = False, float_format: str | None = None) -> None:
    """Write a table as CSV, atomically.

    Args:
        path: the file.
        frame: the table.
        formulas: see `no_formulas`.
        float_format: as for `DataFrame.to_csv`.
    """
    shown = frame if formulas else no_formulas(frame)
    texts = [column for _, column in frame.items() if column.dtype.kind == "O"]
    # Else a carriage return would begin a row: the csv module quotes none that is no part of the line terminator.
    unquoted = any("\r" in text for column in [frame.columns, *texts] for text in column if isinstance(text, str))
    options: dict[str, Any] = {"errors": "backslashreplace", "float_format": float_format}
    options["quoting"] = csv.QUOTE_NONNUMERIC if unquoted else csv.QUOTE_MINIMAL

    def write(file: BinaryIO) -> None:
        shown.to_csv(file, index=False, mode="wb", lineterminator="\n", **options)

    write_whole(path, write)


def no_formulas(frame: "pd.DataFrame") -> "pd.DataFrame":
    r"""Return a table in which no text or column name is a formula for a spreadsheet.

    A text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return gets an apostrophe in front, which
    spreadsheets do not show. `formulas=True` of the functions that write CSV leaves texts as they are. Numbers never
    change.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"task": ["=1+1", "plain"], "fitness": [-1.0, 2.0]})
        >>> print(no_formulas(table).to_csv(index=False))
        task,fitness
        '=1+1,-1.0
        plain,2.0
    """

    def changed(value: Any) -> Any:
        return no_formula(value) if isinstance(value, str) else value

    whole = frame.copy(deep=False)
    for place, (_, column) in enumerate(frame.items()):
        if column.dtype.kind == "O":
            whole.isetitem(place, column.map(changed).to_numpy())
    whole.columns = [changed(name) for name in frame.columns]
    return whole


def no_formula(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula.

    Example:
        >>> no_formula("=1+1"), no_formula("load")
        ("'=1+1", 'load')
    """
    return f"'{text}" if text.startswith(_FORMULA) else text


def _arrays(frame: "pd.DataFrame", descriptors: Sequence[str]) -> dict[str, np.ndarray]:
    solutions = [name for name in frame.columns if _SOLUTION.fullmatch(name)]
    single = [name for name in frame.columns if name not in {*descriptors, *solutions}]
    arrays: dict[str, np.ndarray] = {name: frame[name].to_numpy() for name in single}
    # Arrays of objects would need pickle.
    arrays = {name: column if column.dtype.kind in "biuf" else column.astype(str) for name, column in arrays.items()}
    arrays["solutions"] = frame[solutions].to_numpy()
    if descriptors:
        arrays |= {"descriptors": frame[list(descriptors)].to_numpy(), "descriptor_names": np.array(descriptors)}
    return arrays


def to_pyribs(result: Result, **kwargs: Any) -> Any:
    """Return a `ribs.archives.CVTArchive` with one cell per task; see `Result.to_pyribs`."""
    descriptors = result.tasks.descriptors
    if descriptors is None:
        raise InvalidValueError(
            "to_pyribs needs descriptors for the centroids of the archive, but these tasks have none; give "
            "te.Tasks(objects, descriptors=...)"
        )
    taken = {"solution_dim", "centroids"} & set(kwargs)
    if taken:
        raise InvalidTypeError(f"to_pyribs takes {taken.pop()} from the result; leave it out")
    try:
        from ribs.archives import CVTArchive
    except ImportError:
        raise MissingPackageError(
            "to_pyribs needs the package ribs, 0.9 or newer: pip install 'taskelites[pyribs]'"
        ) from None
    options = {"ranges": _ranges(descriptors)} | kwargs
    archive = CVTArchive(solution_dim=result.solutions.shape[1], centroids=descriptors, **options)
    solved = np.flatnonzero(result.solved)
    if len(solved) == 0:
        return archive
    archive.add(result.solutions[solved], result.fitness[solved], descriptors[solved])
    elsewhere = int((archive.index_of(descriptors[solved]) != solved).sum())
    if elsewhere:
        warnings.warn(
            f"{elsewhere} of {len(result)} tasks share their descriptors with another task. pyribs finds cells by "
            "descriptors, so the archive has only the best elite of these tasks",
            TaskWarning,
            stacklevel=3,
        )
    return archive


def _ranges(descriptors: np.ndarray) -> list[tuple[float, float]]:
    """Return the range of each descriptor, extended by half a cell on each side so that plots show whole cells."""
    number, dim = descriptors.shape
    low, high = descriptors.min(axis=0), descriptors.max(axis=0)
    margin = np.where(high > low, (high - low) * 0.5 / max(number ** (1 / dim), 2.0), 0.5)
    return [(float(a), float(b)) for a, b in zip(low - margin, high + margin, strict=True)]
