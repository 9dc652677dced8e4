"""The failed evaluations at the end of a command: why they failed, and the exit status."""

import argparse
import shutil
import sys
from collections.abc import Iterable

from taskelites.results.failure_reasons import reason_table
from taskelites.results.result import Result


def add_allow_failures(parser: argparse.ArgumentParser) -> None:
    """Add the option --allow-failures."""
    parser.add_argument(
        "--allow-failures",
        action="store_true",
        help="exit with status 0 even if more than half of all evaluations failed",
    )


def print_reasons(results: Iterable[Result]) -> None:
    """Print why evaluations failed, if any did."""
    reasons = [reason for result in results for reason in result.failure_reasons]
    if reasons:
        print(f"\n{reason_table(reasons, shutil.get_terminal_size((120, 24)).columns)}", flush=True)


def exit_status(results: Iterable[Result], *, allow_failures: bool) -> int:
    """Return 1, and print why, if more than half of all evaluations failed and this is not allowed; else 0."""
    counts = [(result.failed, result.evaluations) for result in results]
    failed, made = (sum(column) for column in zip(*counts, strict=True))
    if allow_failures or 2 * failed <= made:
        return 0
    print(
        f"taskelites: error: {failed:,} of {made:,} evaluations failed, more than half; correct the fitness, or accept "
        "it with --allow-failures",
        file=sys.stderr,
    )
    return 1
