"""The pictures of solutions on a page: vectors from a `Sketch`, or one PNG per task from matplotlib."""

import base64
import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from taskelites.problem.sketch import Sketch
from taskelites.show.report.blob import Blob
from taskelites.show.report.pixels import DrawingError, render_drawing
from taskelites.show.report.sketch_data import SketchData

# Give up a `draw` that fails this often without a single picture.
_PATIENCE = 20
# The page gives the reason for this number of tasks that could not be drawn, cut to this length.
_MOST_REASONS = 500
_REASON_LENGTH = 200


class Pictures:
    """Draw tasks within a budget, and put the pictures into a page.

    Args:
        ids: numbers of the tasks on the page. Other arguments named `rows` are positions in it.

    Attributes:
        trouble: why tasks could not be drawn, as one text for all of them; "" if there was no error.
        failed: the reason per row that was tried and could not be drawn.
        full: whether `most_bytes` was too small for all tasks.

    Example:
        >>> import numpy as np, taskelites as te
        >>> arm = te.domain("arm", tasks=300)
        >>> result = te.solve(arm, evaluations=2000)
        >>> pick = lambda rows: (result.solutions[rows], arm.tasks.descriptors[rows])
        >>> pictures = Pictures(np.arange(len(result)))
        >>> pictures.draw_many(arm.draw.many, np.array([4, 7]), pick, most_bytes=10_000), pictures.drawn
        (True, 2)
    """

    def __init__(self, ids: np.ndarray) -> None:
        self._ids = ids
        self._rows: list[int] = []
        self._sketch: SketchData | None = None
        self._images: list[str] = []
        self.trouble = ""
        self.failed: dict[int, str] = {}
        self.full = False

    @property
    def drawn(self) -> int:
        """Number of tasks with a picture."""
        return len(self._rows)

    def draw_many(
        self, many: Callable[..., Any], rows: np.ndarray, pick: Callable[[np.ndarray], Any], *, most_bytes: int
    ) -> bool:
        """Draw tasks as vectors with one call of `many`.

        Args:
            many: the method of the domain's `draw` that returns a `Sketch`.
            rows: the tasks to draw, the most important first.
            pick: returns the solutions and tasks of some rows.
            most_bytes: draw only the first rows, as many as fit.

        Returns:
            Whether there are pictures. If not, `trouble` says why.
        """
        try:
            one = SketchData.of(_checked_sketch(many, pick(rows[:1]), 1))
            chosen = rows[: max(1, most_bytes // one.bytes_per_picture)]
            self._sketch = SketchData.of(_checked_sketch(many, pick(chosen), len(chosen)))
        except DrawingError as error:
            self.trouble = str(error)
            return False
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's function, which may raise anything
            self.trouble = f"draw.many raised {type(error).__name__}: {error}"
            return False
        self._rows = chosen.tolist()
        self.full = len(chosen) < len(rows)
        return True

    def draw(
        self,
        draw: Callable[..., Any],
        rows: Iterable[tuple[int, np.ndarray, Any]],
        *,
        seconds: float,
        most_bytes: int,
        tell: Callable[[int], object] = lambda drawn: None,
    ) -> None:
        """Draw one task after the other as a PNG, until the time or the bytes are used up.

        Args:
            draw: the domain's `draw`.
            rows: row, solution and task.
            seconds: time limit for all of them together.
            most_bytes: size limit for all of them together.
            tell: called with the number of tasks drawn after each picture.
        """
        end = time.monotonic() + seconds
        first = ""
        for row, solution, task in rows:
            given_up = len(self.failed) >= _PATIENCE and not self._images
            if time.monotonic() > end or given_up:
                break
            image = reason = ""
            try:
                image = base64.b64encode(render_drawing(draw, solution, task)).decode("ascii")
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's function, which may raise anything
                first = first or _reason(error, self._ids[row])[: 2 * _REASON_LENGTH]
                reason = _reason(error)[:_REASON_LENGTH] if len(self.failed) < _MOST_REASONS else "draw failed"
            most_bytes -= _size(image or reason)
            self.full = most_bytes < 0
            if self.full:
                break
            if image:
                self._rows.append(row)
                self._images.append(image)
                tell(self.drawn)
            else:
                self.failed[row] = reason
        self.trouble = "; ".join(filter(None, [self.trouble, first + self._counted()]))

    def _counted(self) -> str:
        """How many of the tasks that were tried failed, if several did."""
        failed = len(self.failed)
        if failed < 2:
            return ""
        if not self._images:
            return f" ({failed} tasks were tried, and none could be drawn)"
        return f" ({failed:,} of the {self.drawn + failed:,} tasks tried could not be drawn)"

    def put(self, blob: Blob) -> dict[str, Any] | None:
        """Add the arrays to the blob and return the JSON that refers to them; None without pictures."""
        if not self._rows:
            return None
        rows = blob.add(np.array(self._rows), "u4")
        if self._sketch is not None:
            return {"rows": rows, "sketch": self._sketch.put(blob)}
        return {"rows": rows, "images": self._images}


def _size(text: str) -> int:
    """Bytes that an entry of the page's JSON takes, in the unit of `Blob.size`: three per four letters."""
    return (len(json.dumps(text)) + 12) * 3 // 4


def _checked_sketch(many: Callable[..., Any], arguments: tuple[Any, Any], number: int) -> Sketch:
    sketch = many(*arguments)
    if not isinstance(sketch, Sketch):
        raise DrawingError(f"draw.many must return a te.show.Sketch, not {type(sketch).__name__}")
    if len(sketch.titles) != number:
        raise DrawingError(f"draw.many must return {number} pictures, one per solution, not {len(sketch.titles)}")
    return sketch


def _reason(error: BaseException, task: int | None = None) -> str:
    if isinstance(error, DrawingError):
        where = "" if task is None else f" (task {task})"
        return f"{error}{where}" + (f": {type(error.__cause__).__name__}: {error.__cause__}" if error.__cause__ else "")
    where = "" if task is None else f" on task {task}"
    return f"draw raised {type(error).__name__}{where}: {error}"
