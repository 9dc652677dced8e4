"""Parts of the pages about experiments: machine and date, tables in Markdown, the table of claims."""

import math
import os
import platform
from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING

import numpy as np

from taskelites.experiments.comparison.comparison import Comparison
from taskelites.experiments.paper.claims import Claim, M
from taskelites.experiments.statistics import quartiles

if TYPE_CHECKING:
    import pandas as pd


def machine() -> str:
    """Return a short description of this machine."""
    import jax

    kind = jax.devices()[0].device_kind
    cores = f"{os.cpu_count()} CPU cores ({platform.machine()})"
    return cores if jax.default_backend() == "cpu" else f"one {kind} ({cores})"


def provenance(command: str) -> str:
    """Return date, command and machine in one sentence."""
    return f"Made on {date.today().isoformat()} with `{command}` on {machine()}"


def markdown(frame: "pd.DataFrame") -> list[str]:
    """Return a table in Markdown as lines.

    Example:
        >>> import pandas as pd
        >>> markdown(pd.DataFrame({"a": [1], "b": ["x"]}))
        ['| a | b |', '| --- | --- |', '| 1 | x |']
    """
    rows = [list(frame.columns), ["---"] * len(frame.columns), *frame.astype(str).to_numpy().tolist()]
    return [f"| {' | '.join(map(str, row))} |" for row in rows]


def claim_table(claims: Iterable[Claim[M]], data: M) -> list[str]:
    """Return a table in Markdown: each claim with its criterion, our figures and the outcome."""
    lines = ["| the paper says | taken to hold if | our figures | |", "|---|---|---|---|"]
    for claim in claims:
        outcome, figures = claim.check(data)
        lines.append(f"| {claim.text} | {claim.criterion} | {figures} | **{outcome}** |")
    return lines


def pair_table(comparison: Comparison, labels: Iterable[str]) -> "pd.DataFrame":
    """Return the tests between these algorithms, corrected for the number of their pairs."""
    chosen = Comparison(results={label: comparison.results[label] for label in labels}, settings=comparison.settings)
    tests = chosen.tests()
    return tests.assign(
        p=[f"{value:.2g}" for value in tests["p"]],
        p_holm=[f"{value:.2g}" for value in tests["p_holm"]],
        a12=[f"{value:.3f}" for value in tests["a12"]],
    ).rename(columns={"p_holm": "p (Holm)", "a12": "A12"})


def format_quartiles(values: np.ndarray, digits: str) -> str:
    """Format the median and the quartiles of values.

    Example:
        >>> format_quartiles(np.array([1.0, 2.0, 3.0]), ".1f")
        '2.0 (1.5 to 2.5)'
    """
    low, middle, high = quartiles(values)
    if math.isinf(middle):
        return "never"
    return f"{middle:{digits}} ({low:{digits}} to {'never' if math.isinf(high) else f'{high:{digits}}'})"


def logging_interval(comparison: Comparison, label: str) -> int:
    """Return the median number of evaluations between two logged points of an algorithm's first run."""
    return int(np.median(np.diff(comparison.results[label][0].history["evaluations"], prepend=0)))
