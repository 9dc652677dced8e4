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

from taskelites.problem.sketch import Sketch
from taskelites.show.report.blob import Blob
from taskelites.show.report.corners import stepped, within_reach
from taskelites.show.report.drawn import BOX, SIZE, DrawingError, Picture, read_drawing
from taskelites.show.report.margins import margins, panel_extents

# After so many errors without a single picture, `draw` is given up.
_PATIENCE = 20
# Of so many tasks the page says why they have no picture; of the others, that they have none.
_MOST_REASONS = 500
_REASON_LENGTH = 200


class Pictures:
    """The drawings of some tasks, put into a page.

    Args:
        ids: the numbers of the tasks that the page shows.

    Attributes:
        trouble: what kept tasks from being drawn, in words that are true of each of them; "" if nothing did.
        failed: why the tasks that were tried and not drawn were not, by their place among `ids`. A solved task with
            neither a picture nor a reason was not tried.
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
        self.failed: dict[int, str] = {}
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
        shares = [
            (np.broadcast_to(stroke.points, (number, *stroke.points.shape[-2:])) - low) / span
            for stroke in sketch.strokes
        ]
        # Strokes with gaps, and such that leave the axes far behind, have parts of their own in each picture.
        whole = np.ones(number, bool)
        for each in shares:
            whole &= within_reach(each)
        plain = _numbers_of_all([each[whole] for each in shares], int(whole.sum()))
        rows = iter(plain)
        limits = sketch.limits.astype(np.float32)
        for row, task in enumerate(tasks):
            own = next(rows) if whole[row] else _numbers_of_one([each[row] for each in shares], sketch)
            self._keep(int(task), shape, own, limits[row], [sketch.titles[row]])

    def draw_many(
        self, many: Callable[..., Any], rows: np.ndarray, pick: Callable[[np.ndarray], Any], *, most_bytes: int
    ) -> bool:
        """Let `draw` draw all of them at once, or as many as there is room for.

        Where that fails, `trouble` says why, and `draw` can still draw one after the other.

        Args:
            many: of the domain's `draw`.
            rows: the tasks to draw, the most asked for first.
            pick: gives solutions and tasks of some of them.
            most_bytes: how much room.

        Returns:
            whether there are pictures.
        """
        try:
            fit = max(1, most_bytes // _size_of(_sketch(many, pick(rows[:1]), 1)))
            self.add_sketch(rows[:fit], _sketch(many, pick(rows[:fit]), min(fit, len(rows))))
        except DrawingError as error:
            self.trouble = str(error)
            return False
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's function, which may raise anything
            self.trouble = f"draw.many raised {type(error).__name__}: {error}"
            return False
        self.full = fit < len(rows)
        return True

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
        room, first, drawn = most_bytes, "", 0
        for number, solution, task in rows:
            self.full = room <= 0
            given_up = len(self.failed) >= _PATIENCE and not drawn
            if time.monotonic() > end or self.full or given_up:
                break
            try:
                picture = read_drawing(show, solution, task)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's function, which may raise anything
                first = first or _reason(error, self._ids[number])[: 2 * _REASON_LENGTH]
                short = _reason(error)[:_REASON_LENGTH] if len(self.failed) < _MOST_REASONS else "draw failed"
                self.failed[number] = short
                room -= len(json.dumps(short)) + 12
                continue
            drawn += 1
            room -= self.add(number, picture)
            tell(self.drawn)
        self.trouble = "; ".join(filter(None, [self.trouble, first + self._counted(drawn)]))

    def _counted(self, drawn: int) -> str:
        if len(self.failed) < 2:
            return ""
        if not drawn:
            return f" ({len(self.failed)} tasks were tried, and none could be drawn)"
        return f" ({len(self.failed):,} of the {drawn + len(self.failed):,} tasks tried could not be drawn)"

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


def _reason(error: BaseException, task: int | None = None) -> str:
    if isinstance(error, DrawingError):
        where = "" if task is None else f" (task {task})"
        return f"{error}{where}" + (f": {type(error.__cause__).__name__}: {error.__cause__}" if error.__cause__ else "")
    where = "" if task is None else f" on task {task}"
    return f"draw raised {type(error).__name__}{where}: {error}"


def _sketch(many: Callable[..., Any], arguments: tuple[Any, Any], number: int) -> Sketch:
    """What `many` returns, if it is what it should be."""
    sketch = many(*arguments)
    if not isinstance(sketch, Sketch):
        raise DrawingError(f"draw.many must return a te.show.Sketch, not {type(sketch).__name__}")
    if len(sketch.titles) != number:
        raise DrawingError(f"draw.many must return {number} pictures, one a solution, not {len(sketch.titles)}")
    return sketch


def _numbers_of_all(shares: list[np.ndarray], number: int) -> np.ndarray:
    """Of pictures without gaps: each stroke is one part, with as many corners in all of them."""
    columns = [np.empty((number, 0), np.int64)]
    for each in shares:
        corners = stepped(each.reshape(-1, 2), "points")
        flat = corners[0].reshape(number, -1) if corners else np.empty((number, 0), np.int64)
        columns += [np.full((number, 2), [1, each.shape[1]]), flat]
    return np.concatenate(columns, axis=1).astype(np.int16)


def _numbers_of_one(shares: list[np.ndarray], sketch: Sketch) -> np.ndarray:
    numbers: list[int] = []
    for each, stroke in zip(shares, sketch.strokes, strict=True):
        parts = stepped(each, "line" if stroke.width else "points")
        numbers.append(len(parts))
        for part in parts:
            numbers += [len(part), *part.ravel().tolist()]
    return np.array(numbers, np.int16)


def _shape_of(sketch: Sketch) -> dict[str, Any]:
    from matplotlib.colors import to_hex

    marks = [
        {
            "kind": "line",
            "colour": to_hex(stroke.colour, keep_alpha=True),
            "width": stroke.width,
            "marker": stroke.marker,
            "size": stroke.size,
            "label": stroke.label,
        }
        for stroke in sketch.strokes
    ]
    panel = {"box": list(BOX), "frame": True, "equal": sketch.equal, "labels": list(sketch.labels), "marks": marks}
    shape = {"size": SIZE, "panels": [panel]}
    longest = max(sketch.titles, key=len, default="")
    room = margins(panel_extents(panel, SIZE, longest), SIZE)
    return shape | ({"room": room} if any(room) else {})


def _size_of(sketch: Sketch) -> int:
    """About how many bytes each picture of it takes."""
    corners = sum(stroke.points.shape[-2] for stroke in sketch.strokes)
    return 4 * len(sketch.strokes) + 4 * corners + len(json.dumps(list(sketch.titles[:1]))) + 32
