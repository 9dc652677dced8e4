"""The pictures of a `Sketch` as the page stores them: points as 16-bit integers, and the look of each stroke once."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskelites.problem.sketch import Sketch
from taskelites.show.report.blob import Blob

# Points are stored relative to the centre of the axes, in steps of which 2048 are one side of the axes: 0.15 pixels on
# the page. `assets/picture.js` uses the same numbers.
_STEPS = 2048
# In sides of the axes, a little less than 16 bits hold.
_REACH = 15.9
# Both coordinates of a point that is not finite.
_GAP = -32_768


@dataclass(frozen=True)
class SketchData:
    """The pictures of a sketch, ready for the page.

    Attributes:
        look: what all pictures have in common: strokes, axis labels, aspect.
        points: `(n, m, 2)` of int16: the points of all strokes, one stroke after the other.
        limits: `(n, 4)` of float32: left, right, bottom, top.
        titles: one per picture.

    Example:
        >>> from taskelites.problem.sketch import Stroke
        >>> line = Stroke(points=np.array([[[0.0, 0.0], [1.0, 2.0]]]), colour="red")
        >>> data = SketchData.of(Sketch(strokes=[line], limits=np.array([[0.0, 2.0, 0.0, 2.0]]), titles=["up"]))
        >>> data.points.tolist(), data.look["strokes"][0]["colour"]
        ([[[-1024, -1024], [0, 1024]]], '#ff0000ff')
    """

    look: dict[str, Any]
    points: np.ndarray
    limits: np.ndarray
    titles: list[str]

    @classmethod
    def of(cls, sketch: Sketch) -> "SketchData":
        """Convert a sketch."""
        parts = [_quantised(stroke.points, sketch.limits) for stroke in sketch.strokes]
        return cls(
            look={
                "strokes": [_look(stroke) for stroke in sketch.strokes],
                "labels": list(sketch.labels),
                "equal": bool(sketch.equal),
            },
            points=np.concatenate([np.empty((len(sketch.titles), 0, 2), np.int16), *parts], axis=1),
            limits=sketch.limits.astype(np.float32),
            titles=[str(title) for title in sketch.titles],
        )

    @property
    def bytes_per_picture(self) -> int:
        """Approximate number of bytes that one picture takes."""
        return 4 * self.points.shape[1] + 4 * self.limits.shape[1] + len(json.dumps(self.titles[:1])) + 4

    def put(self, blob: Blob) -> dict[str, Any]:
        """Add the arrays to the blob and return the JSON that refers to them."""
        arrays = {"points": blob.add(self.points, "i2"), "limits": blob.add(self.limits, "f4")}
        return self.look | arrays | {"titles": self.titles}


def _look(stroke: Any) -> dict[str, Any]:
    from matplotlib.colors import to_hex

    return {
        "colour": to_hex(stroke.colour, keep_alpha=True),
        "width": stroke.width,
        "marker": stroke.marker,
        "size": stroke.size,
        "label": stroke.label,
        "points": stroke.points.shape[-2],
    }


def _quantised(points: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return the points of one stroke as steps from the centre of the axes, `(n, m, 2)` of int16.

    A point farther than 15.9 sides from the centre moves towards it, so that a line to it almost keeps its direction.

    Example:
        >>> points = np.array([[0.5, 0.5], [np.nan, 0.0], [1000.0, 500.5]])
        >>> _quantised(points, np.array([[0.0, 1.0, 0.0, 1.0]])).tolist()
        [[[0, 0], [-32768, -32768], [32563, 16290]]]
    """
    low, high = limits[:, None, ::2], limits[:, None, 1::2]
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers that become gaps
        offset = (points - low) / (high - low) - 0.5
    gap = ~np.isfinite(offset).all(axis=-1)
    offset[gap] = 0.0
    farthest = np.abs(offset).max(axis=-1, keepdims=True)
    steps = np.rint(offset * (_STEPS * _REACH / np.maximum(farthest, _REACH))).astype(np.int16)
    steps[gap] = _GAP
    return steps
