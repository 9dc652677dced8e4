"""The contents of the page of one run."""

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from taskelites import metrics
from taskelites.result import Result
from taskelites.show.history import bandit_sizes, bandit_table
from taskelites.show.report.blob import Blob
from taskelites.show.report.pictures import Pictures
from taskelites.show.report.tasks import (
    Room,
    put_plane,
    put_solutions,
    put_tasks,
    put_values,
    shown_tasks,
)

_MEASURES = {"mean fitness": "mean", "median": "median", "best": "highest", "worst": "lowest"}
_CURVES = ("evaluations", "mean", "median", "q05", "q95", "coverage")
# A share of the run: a batch has one size, so that shorter windows show stripes.
_BANDIT_WINDOW = 0.05
# Of the room that is left, where solutions are drawn as well.
_SOLUTIONS_SHARE = 0.75
_SETTING_LENGTH = 2_000
_MESSAGE_LENGTH = 500
_MOST_FAILURES = 50


def run_contents(
    result: Result,
    blob: Blob,
    *,
    domain: Any = None,
    command: str | None = None,
    failures: list[Any] | None = None,
    drawing_time: float = 0.0,
    tell: Callable[[int], None] = lambda drawn: None,
) -> dict[str, Any]:
    """What the page of a run is told.

    Args:
        result: of the run.
        blob: gets the arrays.
        domain: whose `draw` shows solutions.
        command: that makes the run again.
        failures: of evaluations, as `te.failures` gives them.
        drawing_time: seconds that `draw` may take for all tasks together.
        tell: told how many are drawn.
    """
    shown = shown_tasks(result)
    room = Room(len(shown))
    about: dict[str, Any] = {
        "kind": "run",
        "name": str(result.settings.get("problem", "result")),
        "algorithm": str(result.settings.get("algorithm", {}).get("name", "")),
        "tiles": tiles(result),
        "tasks": put_tasks(result, shown, blob),
        "values": put_values(result, shown, blob),
        "plane": put_plane(result, shown, blob),
        "curves": put_curves(result, blob),
        "bandit": _put_bandit(result, blob),
        "failures": _failures(result, failures),
        "settings": settings_rows(result.settings),
        "again": again(result, command),
        "samples": getattr(result, "samples", 0),
    }
    drawn = domain is not None and getattr(domain, "draw", None) is not None and drawing_time > 0
    left = room.left(blob, about)
    # However long solutions are, some of them can be seen.
    about["solutions"] = put_solutions(result, shown, blob, round(_SOLUTIONS_SHARE * left) if drawn else left)
    if drawn:
        pictures = Pictures(shown)
        _draw(pictures, result, domain, shown, drawing_time, room.left(blob, about), tell)
        about["pictures"] = pictures.put(blob)
        about["undrawn"] = {
            "solved": int(result.solved[shown].sum()),
            "trouble": pictures.trouble[:_MESSAGE_LENGTH],
            "full": pictures.full,
        }
    return about


def _draw(
    pictures: Pictures, result: Result, domain: Any, shown: np.ndarray, seconds: float, room: int, tell: Any
) -> None:
    """Let the domain draw: all at once where it can, or one after the other, the most asked for first."""
    solved = np.flatnonzero(result.solved[shown])
    if len(solved) == 0:
        return
    by_fitness = solved[np.argsort(result.fitness[shown[solved]], kind="stable")]
    first = [by_fitness[-1], by_fitness[0], by_fitness[(len(by_fitness) - 1) // 2]]
    order = dict.fromkeys([*first, *np.random.default_rng(0).permutation(solved)])
    many = getattr(domain.draw, "many", None)
    if many is not None:

        def pick(rows: np.ndarray) -> tuple[np.ndarray, Any]:
            return result.solutions[shown[rows]], domain.tasks.pick(shown[rows])

        pictures.draw_many(many, np.array(list(order)), pick, most_bytes=room)
        return

    def rows_to_draw() -> Iterator[tuple[int, np.ndarray, Any]]:
        for row in order:
            yield int(row), result.solutions[shown[row]], domain.tasks.pick(shown[[row]])[0]

    pictures.draw(domain.draw, rows_to_draw(), seconds=seconds, most_bytes=room, tell=tell)


def tiles(result: Result) -> list[list[str]]:
    """The numbers that a person wants first: name, value."""
    numbers = result.to_row()
    found = [
        ["tasks solved", f"{int(result.solved.sum()):,} of {len(result):,}"],
        *([name, _number(numbers[measure])] for name, measure in _MEASURES.items()),
    ]
    if result.optimum is not None and result.solved.all():
        found.append(["mean gap to the optimum", f"{result.gap:.3g}"])
    corrected = getattr(result, "corrected", None)
    if corrected is not None:
        found.append([f"corrected mean ({result.samples} samples)", f"{metrics.summary(corrected)['mean']:.5g}"])
    found.append(["evaluations", f"{result.evaluations:,}"])
    seconds = result.history.get("seconds", np.empty(0))
    if len(seconds):
        found.append(["time", duration(float(seconds[-1]))])
    if result.failed:
        found.append(["failed evaluations", f"{result.failed:,}"])
    return found


def _number(value: float) -> str:
    return "none" if math.isnan(value) else f"{value + 0.0:.5g}"  # nothing added, -0 becomes 0


def duration(seconds: float) -> str:
    """A time as a person says it.

    Example:
        >>> duration(4.321), duration(3700), duration(200_000)
        ('4.3 s', '1 h 2 min', '55 h 33 min')
    """
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def put_curves(result: Result, blob: Blob) -> dict[str, Any] | None:
    """The history over evaluations."""
    if not all(len(result.history.get(name, ())) for name in _CURVES):
        return None
    return {name: blob.add(result.history[name], "f8") for name in _CURVES}


def _put_bandit(result: Result, blob: Blob) -> dict[str, Any] | None:
    if len(bandit_sizes(result.history)) < 2 or not len(result.history["evaluations"]):  # one size is no choice
        return None
    evaluations, sizes, shares, rates = bandit_table(result.history, window=_BANDIT_WINDOW)
    return {
        "sizes": [str(size) for size in sizes],
        "evaluations": blob.add(evaluations, "f8"),
        "shares": blob.add(shares.T, "f8"),
        "rates": blob.add(rates.T, "f8"),
    }


def _failures(result: Result, failures: list[Any] | None) -> dict[str, Any] | None:
    if not (result.failed or result.infeasible or result.retried):
        return None
    examples = [
        [str(each.id), f"{each.evaluation:,}", str(each.task), each.kind, str(each.message)[:_MESSAGE_LENGTH]]
        for each in (failures or [])[:_MOST_FAILURES]
    ]
    counts = [[kind, number] for kind, number in result.failures.items() if number]
    counts += [["infeasible (-inf)", result.infeasible]] if result.infeasible else []
    counts += [["made again (retried)", result.retried]] if result.retried else []
    return {"counts": counts, "examples": examples, "kept": len(failures or [])}


def settings_rows(settings: dict[str, Any], above: str = "") -> list[list[str]]:
    """Settings as rows of a name and a value, those of dicts with their names joined by a dot.

    Example:
        >>> settings_rows({"seed": 0, "algorithm": {"name": "random"}})
        [['seed', '0'], ['algorithm.name', 'random']]
    """
    rows = []
    for name, value in settings.items():
        full = f"{above}.{name}" if above else str(name)
        if isinstance(value, dict) and value:
            rows += settings_rows(value, full)
        elif value not in (None, {}):
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            rows.append([full, text if len(text) <= _SETTING_LENGTH else f"{text[:_SETTING_LENGTH]}..."])
    return rows


def again(result: Result, command: str | None) -> dict[str, str]:
    """How to make the run again: the command, or the call in Python."""
    if command is not None:
        return {"kind": "command", "text": command}
    settings = result.settings
    if "algorithm" not in settings:
        return {"kind": "none", "text": ""}
    given = {"bounds": settings.get("bounds"), "dim": settings.get("dim"), "call": settings.get("call")}
    given |= {"evaluations": settings.get("evaluations", result.evaluations)}
    given |= {"batch_size": settings.get("batch_size"), "seed": settings.get("seed")}
    given |= {"algorithm": settings["algorithm"].get("name")}
    listed = "".join(f"    {name}={value!r},\n" for name, value in given.items() if value is not None)
    return {"kind": "python", "text": f"result = te.solve(\n    fitness,\n    tasks,\n{listed})"}
