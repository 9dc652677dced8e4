"""The tasks of a result on a page: positions on the map, values and solutions."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from taskelites.problem.tasks import Tasks
from taskelites.results.result import Result
from taskelites.show.projection import cells, frame, half_a_cell, place
from taskelites.show.report.blob import Blob
from taskelites.show.report.page import as_json

# Of more tasks a page has a random sample.
MOST_TASKS = 100_000
# The cells of more tasks would be a few pixels wide, so they are points.
_MOST_CELLS = 20_000
_NEIGHBOURS = 6
# A distance function of the user is called for every pair of tasks, so only for up to this number of tasks.
_MOST_TASKS_FOR_CALLS = 300
# Share of the page; if all descriptors would take more, only the first are stored.
_DESCRIPTORS_SHARE = 0.4
_LABEL_LENGTH = 200
_LABELS_LENGTH = 2_000_000
# Letters of the page's script and style, rounded up.
_FRAME = 150_000
# Vertices of cells and rounded solutions are stored as 16-bit integers.
_STEPS = 65_535


def shown_tasks(result: Result) -> np.ndarray:
    """Return the numbers of the tasks on the page: all, or a random sample.

    Example:
        >>> import taskelites as te
        >>> shown_tasks(te.solve(te.domain("arm", tasks=200), evaluations=500)).shape
        (200,)
    """
    number = len(result)
    if number <= MOST_TASKS:
        return np.arange(number)
    return np.sort(np.random.default_rng(0).choice(number, MOST_TASKS, replace=False))


@dataclass(frozen=True)
class Room:
    """The size limit of a page.

    Args:
        tasks: number of tasks on the page.

    Example:
        >>> Room(5000).total, Room(100_000).total
        (5700000, 24000000)
    """

    tasks: int

    @property
    def total(self) -> int:
        """Size limit of the file in bytes."""
        return round(5.7e6 + (24e6 - 5.7e6) * max(0, min(1, (self.tasks - 5_000) / 95_000)))

    def left(self, blob: Blob, about: dict[str, Any]) -> int:
        """Return the number of bytes that still fit into the blob; as base64, three bytes take four letters.

        Args:
            blob: the arrays so far.
            about: the JSON so far.
        """
        return max(0, (self.total - _FRAME - len(as_json(about))) * 3 // 4 - blob.size)


def put_tasks(result: Result, shown: np.ndarray, blob: Blob) -> dict[str, Any]:
    """Return the page's JSON for the tasks."""
    tasks = result.tasks
    about: dict[str, Any] = {"number": len(shown), "all": len(result), "names": []}
    if len(shown) < len(result):
        about["ids"] = blob.add(shown, "u4")
    if tasks.objects is not None:
        about["labels"] = _labels([str(tasks.objects[i]) for i in shown])
    if tasks.descriptors is not None:
        about |= _put_descriptors(tasks, shown, blob)
    about["distance"] = tasks.distance is not None  # not the Euclidean one of the descriptors
    nearest = _neighbours(result, shown)
    if nearest is not None:
        about["neighbours"] = blob.add(nearest, "i4")
    return about


def _put_descriptors(tasks: Tasks, shown: np.ndarray, blob: Blob) -> dict[str, Any]:
    """Return the descriptors, cut or rounded to fit, and the widths that distances divide them by."""
    assert tasks.descriptors is not None
    room = round(_DESCRIPTORS_SHARE * Room(len(shown)).total * 3 / 4)
    kind = "f8" if len(shown) * tasks.dim * 8 <= room / 4 else "f4"
    kept = min(tasks.dim, max(2, room // (len(shown) * int(kind[1]))))
    spread = np.ptp(tasks.descriptors, axis=0) if tasks.scale else np.ones(tasks.dim)
    return {
        "names": list(tasks.names[:kept]),
        "dim": tasks.dim,
        "widths": np.where(spread > 0, spread, 1.0)[:kept].tolist(),
        "descriptors": blob.add(tasks.descriptors[shown, :kept], kind),
    }


def _labels(texts: list[str]) -> list[str]:
    """Return the texts of objects, long ones cut so that all of them fit."""

    def cut(length: int) -> list[str]:
        return [text if len(text) <= length else f"{text[:length]}..." for text in texts]

    found = cut(_LABEL_LENGTH)
    # A letter beyond ASCII takes up to 12 letters of JSON.
    size = len(as_json(found))
    return found if size <= _LABELS_LENGTH else cut(max(8, _LABEL_LENGTH * _LABELS_LENGTH // size))


def _neighbours(result: Result, shown: np.ndarray) -> np.ndarray | None:
    """Return the nearest other tasks per task, padded with -1; None if the page computes them from descriptors."""
    tasks = result.tasks
    if tasks.distance is None or len(shown) < len(result):
        return None
    if isinstance(tasks.distance, np.ndarray) and "neighbours" not in vars(tasks):
        order = np.stack([np.argsort(row, kind="stable")[: _NEIGHBOURS + 1] for row in tasks.distance])
    elif "neighbours" in vars(tasks) or len(tasks) <= _MOST_TASKS_FOR_CALLS:
        order = tasks.neighbours[:, : _NEIGHBOURS + 1].astype(np.int64)
    else:
        return None
    own = order == np.arange(len(order))[:, None]
    own[~own.any(axis=1), -1] = True
    order = order[~own].reshape(len(order), -1)
    return np.pad(order, ((0, 0), (0, _NEIGHBOURS - order.shape[1])), constant_values=-1)


def put_values(result: Result, shown: np.ndarray, blob: Blob) -> list[dict[str, Any]]:
    """Return the values that the map can be coloured by."""

    def value(key: str, label: str, numbers: Any, kind: str = "f8", **more: Any) -> dict[str, Any]:
        return {"key": key, "label": label, "numbers": blob.add(np.asarray(numbers)[shown], kind), **more}

    fitness = np.where(result.solved, result.fitness, np.nan)
    found = [value("fitness", "fitness", fitness)]
    if result.optimum is not None:
        gap = result.optimum - fitness
        found.append(value("gap", "gap to the optimum", gap, log=True, reverse=True))
    if result.corrected is not None:
        found.append(
            value("corrected", "corrected fitness", np.where(np.isfinite(result.corrected), result.corrected, np.nan))
        )
        found.append(value("deviation", "deviation of the samples", result.deviation))
    found.append(value("evaluations", "evaluations on the task", result.task_evaluations, "u4", whole=True))
    improved = np.where(result.solved, result.last_improved, np.nan)
    found.append(value("improved", "evaluation of the last improvement", improved, "f8", whole=True))
    return found


def put_plane(result: Result, shown: np.ndarray, blob: Blob) -> dict[str, Any]:
    """Return the positions of the tasks on the map, and their cells if there are few enough."""
    tasks = result.tasks
    if tasks.descriptors is None:
        columns = int(np.ceil(np.sqrt(len(shown))))
        points = np.stack([np.arange(len(shown)) % columns, -(np.arange(len(shown)) // columns)], axis=1) + 0.0
        labels, tiled, kind = ("in the order of their numbers", ""), False, "order"
    elif tasks.dim == 1:
        points = np.column_stack([tasks.descriptors[shown, 0], np.zeros(len(shown))])
        labels, tiled, kind = (tasks.names[0], ""), False, "line"
    else:
        plane = place(tasks, result.fitness, "fitness", None)
        points, labels, tiled = plane.points[shown], plane.labels, plane.tiled and len(shown) <= _MOST_CELLS
        kind = "descriptors" if tasks.dim == 2 else "components"
    low, high = frame(points, half_a_cell(points) if tiled else 0.05)
    if kind == "order":  # a tile is one unit wide
        low, high = points.min(axis=0) - 0.55, points.max(axis=0) + 0.55
    about: dict[str, Any] = {
        "kind": kind,
        "labels": list(labels),
        # Relative to the map: 32 bits could not distinguish two times in seconds since 1970.
        "points": blob.add((points - low) / (high - low), "f4"),
        "low": low.tolist(),
        "high": high.tolist(),
    }
    if tiled:
        polygons = cells(points)
        starts = np.concatenate([[0], np.cumsum([len(polygon) for polygon in polygons])])
        vertices = (np.concatenate(polygons) - low) / (high - low)
        about["cellStart"] = blob.add(starts, "u4")
        about["cells"] = blob.add(np.clip(np.rint(vertices * _STEPS), 0, _STEPS), "u2")
    return about


def put_solutions(result: Result, shown: np.ndarray, blob: Blob, room: int) -> dict[str, Any]:
    """Return the solutions as exactly as fits: unchanged, in 32 bits, in 16 bits, or only the first dimensions."""
    solutions = result.solutions[shown]
    number, dim = solutions.shape
    lower, upper = result.bounds.T
    own = "f8" if solutions.dtype.itemsize == 8 else "f4"
    kind = next((kind for kind in (own, "f4", "u2") if number * dim * int(kind[1]) <= room), "u2")
    if number * dim * int(kind[1]) > room:
        dim = max(1, room // (2 * number))
        solutions, lower, upper = solutions[:, :dim], lower[:dim], upper[:dim]
    about = {"dim": result.solutions.shape[1], "exact": kind == own and dim == result.solutions.shape[1]}
    about |= {"lower": lower.tolist(), "upper": upper.tolist()}
    if kind == "u2":
        # The last step is for unsolved tasks.
        shares = (solutions - lower) / np.where(upper > lower, upper - lower, 1.0)
        steps = np.rint(np.clip(np.nan_to_num(shares), 0, 1) * (_STEPS - 1))
        solutions = np.where(np.isnan(shares), _STEPS, steps)
    return about | {"numbers": blob.add(solutions, kind)}
