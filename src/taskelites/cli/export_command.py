"""`taskelites export`."""

import argparse
from pathlib import Path

from tqdm import tqdm

from taskelites.cli.find_run import runs_in
from taskelites.errors import MissingFileError, counted
from taskelites.results.export import check_target, format_of, one_table, write_table
from taskelites.results.result import load


def export(options: argparse.Namespace) -> int:
    """Write the elites of a run, its replicates or a comparison as one table; return the exit status."""
    source = Path(options.run)
    out = None if options.out is None else Path(options.out)
    kind = format_of(out, options.format)
    runs = list(runs_in(source))
    if not runs:
        raise MissingFileError(
            f"the comparison in {options.run!r} has no finished run; run the same command again to finish it"
        )
    if out is None:
        out = (source if source.is_dir() else source.parent) / f"tasks.{kind}"
    replaced = check_target(out, kind)
    hide_progress = True if options.quiet or len(runs) == 1 else None
    found = [(before, load(path)) for before, path in tqdm(runs, desc="reading", unit=" runs", disable=hide_progress)]
    frame = one_table(found)
    write_table(out, frame, found[0][1].tasks.names, formulas=options.formulas)
    what = f"{counted(len(frame), 'row')}, {counted(len(frame.columns), 'column')}" + (
        f", {len(found)} runs" if len(found) > 1 else ""
    )
    print(f"{'replaced' if replaced else 'saved':<12} {out} ({what})")
    return 0
