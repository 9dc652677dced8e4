"""`taskelites export`."""

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from taskelites.experiments.comparison import read_settings, run_folders, runs_of
from taskelites.export import check_target, format_of, one_table, write_table
from taskelites.result import load
from taskelites.runs import read_plan


def export(options: argparse.Namespace) -> int:
    """Write the elites of a run, of replicates or of a comparison as one table."""
    source = Path(options.run)
    out = None if options.out is None else Path(options.out)
    kind = format_of(out, options.format)
    runs = list(_runs(source))
    if not runs:
        raise FileNotFoundError(f"the comparison in {options.run!r} holds no finished run")
    if out is None:
        out = (source if source.is_dir() else source.parent) / f"tasks.{kind}"
    replaced = check_target(out, kind)
    shown = True if options.quiet or len(runs) == 1 else None
    found = [(before, load(path)) for before, path in tqdm(runs, desc="reading", unit=" runs", disable=shown)]
    frame = one_table(found)
    write_table(out, frame, found[0][1].tasks.names)
    what = f"{len(frame):,} rows, {len(frame.columns)} columns" + (f", {len(found)} runs" if len(found) > 1 else "")
    print(f"{'replaced' if replaced else 'saved':<12} {out} ({what})")
    return 0


def _runs(source: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """The results below a path, and what tells each of them from the others."""
    if not source.exists():
        raise FileNotFoundError(f"there is no run {str(source)!r}")
    if (source / "comparison.json").is_file():
        settings = read_settings(source)
        for label in settings["algorithms"]:
            place = runs_of(source, label)
            _warn_of_missing(f"{label}: ", len(run_folders(place)), settings["replicates"])
            for path in run_folders(place):
                yield {"algorithm": label, "replicate": _number(path)}, path
        return
    replicates = [] if (source / "result.npz").is_file() or source.is_file() else run_folders(source)
    if replicates:
        _warn_of_missing("", len(replicates), len(list(source.glob("replicate-*"))))
        for path in replicates:
            yield {"replicate": _number(path)}, path
        return
    if source.is_dir() and not (source / "result.npz").is_file() and read_plan(source) is not None:
        raise FileNotFoundError(
            f"the run in {str(source)!r} has no result yet; it gets one when it ends or is stopped with Ctrl-C, and "
            "`taskelites resume` goes on with it"
        )
    yield {}, source


def _number(path: Path) -> int:
    return int(path.name.removeprefix("replicate-"))


def _warn_of_missing(whose: str, there: int, wanted: int) -> None:
    if there < wanted:
        warnings.warn(f"{whose}{there} of {wanted} runs have a result; the others are left out", stacklevel=3)
