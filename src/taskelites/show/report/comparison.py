"""The contents of the page of a comparison."""

from typing import Any

import numpy as np

from taskelites.errors import counted
from taskelites.experiments import Comparison
from taskelites.show.comparison_plots import colour_of
from taskelites.show.report.blob import Blob
from taskelites.show.report.run import settings_rows
from taskelites.show.report.tasks import put_plane, put_tasks, shown_tasks


def comparison_contents(comparison: Comparison, blob: Blob, *, command: str | None = None) -> dict[str, Any]:
    """Return the page's JSON for a comparison.

    Args:
        comparison: what `te.compare` returns.
        blob: receives the arrays.
        command: the command that repeats the comparison.
    """
    labels = comparison.labels
    first = comparison.typical(labels[0])
    shown = shown_tasks(first)
    runs = sorted({len(results) for results in comparison.results.values()})
    number = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    settings = comparison.settings
    return {
        "kind": "comparison",
        "name": str(settings.get("problem", first.settings.get("problem", "comparison"))),
        "algorithm": labels[0] if len(labels) == 1 else f"comparison of {len(labels)} algorithms",
        "tiles": [
            ["tasks", f"{len(first):,}"],
            *([["algorithms", f"{len(labels)}"]] if len(labels) > 1 else []),
            ["runs per algorithm", number],
            ["evaluations per run", f"{comparison.budget:,}"],
        ],
        "labels": labels,
        "styles": [list(colour_of(i)) for i in range(len(labels))],
        "missing": [f"{counted(lacking, 'run')} of {label}" for label, lacking in comparison.missing.items()],
        "measures": _measures(comparison, blob),
        "table": comparison.cells(),
        "tableNote": comparison.note_on_99(),
        "tests": comparison.test_cells(),
        "testsNote": comparison.note_on_p(),
        "tasks": put_tasks(first, shown, blob),
        "plane": put_plane(first, shown, blob),
        "maps": _maps(comparison, shown, blob),
        "settings": settings_rows(settings),
        "again": {"kind": "command" if command else "none", "text": command or ""},
    }


def _measures(comparison: Comparison, blob: Blob) -> list[dict[str, Any]]:
    """Return curves and final values of the mean over all tasks, and of the gap if the optimum is known."""
    found = [
        {"key": "mean_all", "label": "mean fitness over all tasks", "log": False, "series": _series(comparison, blob)}
    ]
    if comparison.optimum is not None:
        best = float(comparison.optimum.mean())
        series = _series(comparison, blob, lambda values: np.maximum(best - values, 1e-9))
        found.insert(0, {"key": "gap", "label": "mean gap to the optimum", "log": True, "series": series})
    return found


def _series(comparison: Comparison, blob: Blob, transform: Any = lambda values: values) -> list[dict[str, Any]]:
    found = []
    for label in comparison.labels:
        evaluations, values = comparison.curves(label)
        values = transform(values)
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
        found.append(
            {
                "x": blob.add(evaluations, "f8"),
                "low": blob.add(low, "f8"),
                "middle": blob.add(middle, "f8"),
                "high": blob.add(high, "f8"),
                "finals": blob.add(values[:, -1], "f8"),
            }
        )
    return found


def _maps(comparison: Comparison, shown: np.ndarray, blob: Blob) -> list[dict[str, Any]]:
    """Return the maps of the typical run of each algorithm."""
    found = []
    for label in comparison.labels:
        result = comparison.typical(label)
        fitness = np.where(result.solved, result.fitness, np.nan)[shown]
        about = {"label": label, "seed": result.settings.get("seed"), "fitness": blob.add(fitness, "f4")}
        if comparison.optimum is not None:
            about["gap"] = blob.add(comparison.optimum[shown] - fitness, "f4")
        found.append(about)
    return found
