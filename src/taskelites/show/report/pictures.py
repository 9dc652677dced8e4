"""What a domain's `draw` shows, small enough to keep thousands of them.

Pictures of one domain are alike, so that how they look (colours, widths, labels) is kept once, and of each its numbers
and texts.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from taskelites.show.report.blob import Blob
from taskelites.show.report.drawn import BOX, SIZE, Picture, read_drawing, steps
from taskelites.sketch import Sketch

# After so many errors one after another, `draw` is given up.
_PATIENCE = 3


class Pictures:
    """The drawings of some tasks, put into a page.

    Args:
        ids: the numbers of the tasks that the page shows.

    Attributes:
        trouble: what `draw` raised first, or "".
        full: whether there was no room for all of them.

    Example:
        >>> import numpy as np, taskelites as te
        >>> arm = te.domain("arm", tasks=300)
        >>> result = te.solve(arm, evaluations=2000)
        >>> found = Pictures(np.arange(len(result)))
        >>> found.add_sketch([4, 7], arm.draw.many(result.solutions[[4, 7]], arm.tasks.descriptors[[4, 7]]))
        >>> found.drawn
        2
    """

    def __init__(self, ids: np.ndarray) -> None:
        self._ids = ids
        self._of = np.full(len(ids), -1, np.int64)
        self._shapes: dict[str, int] = {}
        self._pictures: list[tuple[int, np.ndarray, np.ndarray, list[str]]] = []
        self.trouble = ""
        self.full = False

    @property
    def drawn(self) -> int:
        """How many tasks have a picture."""
        return len(self._pictures)

    def add(self, task: int, picture: Picture) -> int:
        """Keep the picture of a task; returns about how many bytes that took."""
        before = len(self._shapes)
        shape = self._shape(picture.shape)
        numbers, limits = np.array(picture.numbers, np.int16), np.array(picture.limits, np.float32)
        self._keep(task, shape, numbers, limits, picture.texts)
        return picture.size + (len(json.dumps(picture.shape)) if len(self._shapes) > before else 0)

    def _shape(self, shape: dict[str, Any]) -> int:
        return self._shapes.setdefault(json.dumps(shape), len(self._shapes))

    def _keep(self, task: int, shape: int, numbers: np.ndarray, limits: np.ndarray, texts: list[str]) -> None:
        self._of[task] = len(self._pictures)
        self._pictures.append((shape, numbers, limits, texts))

    def add_sketch(self, tasks: Iterable[int], sketch: Sketch) -> None:
        """Keep pictures that were drawn all at once."""
        shape = self._shape(_shape_of(sketch))
        number = len(sketch.titles)
        low, span = sketch.limits[:, None, ::2], np.diff(sketch.limits.reshape(number, 2, 2))[:, None, :, 0]
        columns = []
        for stroke in sketch.strokes:
            points = np.broadcast_to(stroke.points, (number, *stroke.points.shape[-2:]))
            corners = steps((points - low) / span).reshape(number, -1)
            columns += [np.full((number, 2), [1, points.shape[1]]), corners]
        numbers = np.concatenate(columns, axis=1).astype(np.int16)
        limits = sketch.limits.astype(np.float32)
        for row, task in enumerate(tasks):
            self._keep(int(task), shape, numbers[row], limits[row], [sketch.titles[row]])

    def draw_many(
        self, many: Callable[..., Any], rows: np.ndarray, pick: Callable[[np.ndarray], Any], *, most_bytes: int
    ) -> None:
        """Let `draw` draw all of them at once, or as many as there is room for.

        Args:
            many: of the domain's `draw`.
            rows: the tasks to draw, the most asked for first.
            pick: gives solutions and tasks of some of them.
            most_bytes: how much room.
        """
        try:
            fit = max(1, most_bytes // _size_of(many(*pick(rows[:1]))))
            self.full = fit < len(rows)
            self.add_sketch(rows[:fit], many(*pick(rows[:fit])))
        except Exception as error:  # noqa: BLE001 - the user's function, which may raise anything
            self.trouble = f"draw.many raised {type(error).__name__}: {error}"

    def draw(
        self,
        show: Callable[..., Any],
        rows: Iterable[tuple[int, np.ndarray, Any]],
        *,
        seconds: float,
        most_bytes: int,
        tell: Callable[[int], None] = lambda drawn: None,
    ) -> None:
        """Let `draw` draw one task after another, until time or room is up.

        Args:
            show: the domain's `draw`.
            rows: number, solution and task of each.
            seconds: how long.
            most_bytes: how much room.
            tell: told how many are drawn.
        """
        end = time.monotonic() + seconds
        room, failed = most_bytes, 0
        for number, solution, task in rows:
            self.full = room <= 0
            if time.monotonic() > end or self.full or failed >= _PATIENCE:
                return
            try:
                picture = read_drawing(show, solution, task)
            except Exception as error:  # noqa: BLE001 - the user's function, which may raise anything
                where = f"task {self._ids[number]}"
                self.trouble = self.trouble or f"draw raised {type(error).__name__} on {where}: {error}"
                failed += 1
                continue
            failed = 0
            room -= self.add(number, picture)
            tell(self.drawn)

    def put(self, blob: Blob) -> dict[str, Any] | None:
        """What the page is told of them."""
        if not self._pictures:
            return None
        shapes, numbers, limits, texts = zip(*self._pictures, strict=True)

        def starts(parts: Iterable[np.ndarray]) -> np.ndarray:
            return np.array([0, *itertools.accumulate(map(len, parts))])

        return {
            "of": blob.add(self._of, "i4"),
            "shape": blob.add(np.array(shapes), "u4"),
            "shapes": [json.loads(shape) for shape in self._shapes],
            "start": blob.add(starts(numbers), "u4"),
            "numbers": blob.add(np.concatenate(numbers), "i2"),
            "limitStart": blob.add(starts(limits), "u4"),
            "limits": blob.add(np.concatenate(limits), "f4"),
            "texts": list(texts),
        }


def _shape_of(sketch: Sketch) -> dict[str, Any]:
    from matplotlib.colors import to_hex

    marks = [
        {
            "kind": "line",
            "colour": to_hex(stroke.colour),
            "width": stroke.width,
            "marker": stroke.marker,
            "size": stroke.size,
            "label": stroke.label,
        }
        for stroke in sketch.strokes
    ]
    panel = {"box": list(BOX), "frame": True, "equal": sketch.equal, "labels": list(sketch.labels), "marks": marks}
    return {"size": SIZE, "panels": [panel]}


def _size_of(sketch: Sketch) -> int:
    """About how many bytes each picture of it takes."""
    corners = sum(stroke.points.shape[-2] for stroke in sketch.strokes)
    return 4 * len(sketch.strokes) + 4 * corners + len(json.dumps(list(sketch.titles[:1]))) + 32
