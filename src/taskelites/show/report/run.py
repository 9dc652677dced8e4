"""The contents of the page of one run."""

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from taskelites.algorithms import ALGORITHMS, about_algorithm
from taskelites.analysis.evaluate import tasks_of
from taskelites.core import metrics
from taskelites.errors import InvalidTypeError, counted
from taskelites.problem.problem import CALLS, is_domain
from taskelites.problem.tasks import Tasks
from taskelites.results.result import Result
from taskelites.show.history import bandit_arms, bandit_table, bandit_title
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

# Public paths of the classes in settings.
_MODULE_OF = {each.__name__: "te.algorithms." for each in ALGORITHMS.values()}
_MODULE_OF |= dict.fromkeys(("Auto", "MultiTaskMapElites"), "te.")
_MODULE_OF |= dict.fromkeys(("IsoLine", "SBX", "Gaussian", "Polynomial"), "te.variation.")
_MEASURES = {"mean fitness": "mean", "median": "median", "best": "highest", "worst": "lowest"}
_CURVES = ("evaluations", "mean", "median", "q05", "q95", "coverage")
# Share of the run. All candidates of a batch have one tournament size, so shorter windows show stripes.
_BANDIT_WINDOW = 0.05
# Of the bytes left, if there are drawings, too.
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
    tell: Callable[[int], object] = lambda drawn: None,
) -> dict[str, Any]:
    """Return the page's JSON for a run.

    Args:
        result: the result of the run.
        blob: receives the arrays.
        domain: the domain whose `draw` shows solutions.
        command: the command that repeats the run.
        failures: failed evaluations, as `te.analysis.failures` returns them.
        drawing_time: time limit of `draw` in seconds, for all tasks together.
        tell: called with the number of tasks drawn so far.
    """
    tasks = None if domain is None else _tasks(domain, result)
    shown = shown_tasks(result)
    room = Room(len(shown))
    about: dict[str, Any] = {
        "kind": "run",
        "name": str(result.settings.get("problem", "result")),
        "algorithm": _algorithm(result),
        "notice": "" if result.solved.any() else _no_elites(result),
        "tiles": tiles(result),
        "tasks": put_tasks(result, shown, blob),
        "values": put_values(result, shown, blob),
        "plane": put_plane(result, shown, blob),
        "curves": put_curves(result, blob),
        "bandit": _put_bandit(result, blob),
        "failures": _failures(result, failures),
        "settings": settings_rows(result.settings),
        "again": again(result, command),
        "samples": result.samples,
    }
    draw = getattr(domain, "draw", None) if drawing_time > 0 else None
    left = room.left(blob, about)
    # Long solutions leave a share for drawings.
    about["solutions"] = put_solutions(result, shown, blob, round(_SOLUTIONS_SHARE * left) if draw else left)
    if draw is not None and tasks is not None:
        pictures = Pictures(shown)
        _draw(pictures, result, draw, tasks, shown, drawing_time, room.left(blob, about), tell)
        about["pictures"] = pictures.put(blob)
        about["undrawn"] = {
            "solved": int(result.solved[shown].sum()),
            "trouble": pictures.trouble[:_MESSAGE_LENGTH],
            "full": pictures.full,
            "failed": pictures.failed,
        }
    return about


def _tasks(domain: Any, result: Result) -> Tasks:
    """Return the domain's tasks, after checking that the result has the same."""
    if not is_domain(domain):
        raise InvalidTypeError(
            f"domain must be a domain, such as te.domain or te.Domain make, not {type(domain).__name__}"
        )
    return tasks_of(domain, result, "domain")


def _algorithm(result: Result) -> str:
    name, seed = result.settings.get("algorithm", {}).get("name", ""), result.settings.get("seed")
    return f"{name}" if seed is None else f"{name}, seed {seed}"


def _no_elites(result: Result) -> str:
    ways = [f"{result.failed:,} failed"] * bool(result.failed)
    ways += [f"{result.infeasible:,} were infeasible"] * bool(result.infeasible)
    return f"No task is solved: of {result.evaluations:,} evaluations, {' and '.join(ways) or 'none gave a number'}."


def _draw(
    pictures: Pictures,
    result: Result,
    draw: Any,
    tasks: Tasks,
    shown: np.ndarray,
    seconds: float,
    room: int,
    tell: Any,
) -> None:
    """Draw all tasks with one call of `draw.many`, or one after the other: best, worst and median first."""
    solved = np.flatnonzero(result.solved[shown])
    if len(solved) == 0:
        return
    by_fitness = solved[np.argsort(result.fitness[shown[solved]], kind="stable")]
    first = [by_fitness[-1], by_fitness[0], by_fitness[(len(by_fitness) - 1) // 2]]
    order = dict.fromkeys([*first, *np.random.default_rng(0).permutation(solved)])
    many = getattr(draw, "many", None)
    if many is not None:

        def pick(rows: np.ndarray) -> tuple[np.ndarray, Any]:
            return result.solutions[shown[rows]], tasks.pick(shown[rows])

        if pictures.draw_many(many, np.array(list(order)), pick, most_bytes=room):
            return

    def rows_to_draw() -> Iterator[tuple[int, np.ndarray, Any]]:
        for row in order:
            yield int(row), result.solutions[shown[row]], tasks.pick(shown[[row]])[0]

    pictures.draw(draw, rows_to_draw(), seconds=seconds, most_bytes=room, tell=tell)


def tiles(result: Result) -> list[list[str]]:
    """Return the most important numbers as pairs of name and value."""
    numbers = result.to_row()
    found = [
        ["tasks solved", f"{int(result.solved.sum()):,} of {len(result):,}"],
        *([name, _number(numbers[measure])] for name, measure in _MEASURES.items()),
    ]
    if result.optimum is not None and result.solved.all():
        found.append(["mean gap to the optimum", f"{result.gap:.3g}"])
    if result.corrected is not None:
        mean = metrics.summary(result.corrected)["mean"]
        found.append([f"corrected mean ({counted(result.samples, 'sample')})", _number(mean)])
    found.append(["evaluations", f"{result.evaluations:,}"])
    seconds = result.history.get("seconds", np.empty(0))
    if len(seconds):
        found.append(["search time", duration(float(seconds[-1]))])
    for name, number in (("failed evaluations", result.failed), ("infeasible", result.infeasible)):
        if number:
            found.append([name, f"{number:,}"])
    return found


def _number(value: float) -> str:
    return "none" if math.isnan(value) else f"{value + 0.0:.5g}"  # adding 0 turns -0 into 0


def duration(seconds: float) -> str:
    """Return a duration as text.

    Example:
        >>> duration(4.321), duration(3700), duration(200_000)
        ('4.3 s', '1 h 2 min', '55 h 33 min')
    """
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def put_curves(result: Result, blob: Blob) -> dict[str, Any] | None:
    """Return the curves over evaluations; None if the history lacks one."""
    if not all(len(result.history.get(name, ())) for name in _CURVES):
        return None
    return {name: blob.add(result.history[name], "f8") for name in _CURVES}


def _put_bandit(result: Result, blob: Blob) -> dict[str, Any] | None:
    if len(bandit_arms(result.history)) < 2 or not len(
        result.history["evaluations"]
    ):  # with one arm there is no choice
        return None
    evaluations, arms, shares, rates = bandit_table(result.history, window=_BANDIT_WINDOW)
    return {
        "title": bandit_title(arms).capitalize(),
        "names": [f"size {arm}" if arm.isdigit() else str(arm) for arm in arms],
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
    counts += [["retried", result.retried]] if result.retried else []
    counts += [["setup called again", result.rebuilt]] if result.rebuilt else []
    return {"counts": counts, "examples": examples, "all": result.failed}


def settings_rows(settings: dict[str, Any], above: str = "") -> list[list[str]]:
    """Return settings as rows of name and value; names of nested dicts are joined by a dot.

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
    """Return how to repeat the run: the command, or the call in Python."""
    if command is not None:
        return {"kind": "command", "text": command}
    settings = result.settings
    if "algorithm" not in settings or settings.get("call") not in CALLS:  # a hand-made result, or the user's own loop
        return {"kind": "none", "text": ""}
    given = {"bounds": settings.get("bounds"), "dim": settings.get("dim"), "call": settings.get("call")}
    given |= {"evaluations": settings.get("evaluations", result.evaluations)}
    given |= {"batch_size": settings.get("batch_size"), "seed": settings.get("seed")}
    given |= {"ahead": ahead if (ahead := settings.get("ahead", 1)) > 1 else None}
    given |= {"samples": samples if (samples := settings.get("samples", 1)) > 1 else None}
    listed = "".join(f"    {name}={value!r},\n" for name, value in given.items() if value is not None)
    listed += f"    algorithm={_call(settings['algorithm'])},\n"
    return {"kind": "python", "text": f"result = te.solve(\n    fitness,\n    tasks,\n{listed})"}


def _call(value: Any) -> str:
    """Return the Python expression for settings stored as plain values; default settings become a name.

    Example:
        >>> from taskelites.algorithms import about_algorithm
        >>> from taskelites.algorithms import MultiTaskMapElites
        >>> _call(about_algorithm(MultiTaskMapElites())), _call(about_algorithm(MultiTaskMapElites(tournament=50)))
        ("'mt-map-elites'", 'te.MultiTaskMapElites(tournament=(50,))')
        >>> _call(about_algorithm(ALGORITHMS["monet"](ties=True)))
        'te.algorithms.Monet(ties=True)'
    """
    if not isinstance(value, dict) or "type" not in value:
        return repr(tuple(value) if isinstance(value, list) else value)
    given = {name: each for name, each in value.items() if name not in ("type", "name")}
    ours = ALGORITHMS.get(str(value.get("name")))
    if ours is not None and ours.__name__ == value["type"]:
        usual = about_algorithm(ours())
        given = {name: each for name, each in given.items() if each != usual.get(name)}
        if not given:
            return repr(value["name"])
    listed = ", ".join(f"{name}={_call(each)}" for name, each in given.items())
    return f"{_MODULE_OF.get(value['type'], '')}{value['type']}({listed})"
