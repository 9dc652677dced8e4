"""A drawing of many solutions at once, as arrays: what a report shows of thousands of tasks without drawing each.

A domain's `draw(solution, task, ax=None)` takes a millisecond or more of matplotlib a picture. One that also has a
method `many(solutions, tasks) -> Sketch` states the lines of all of them together; `Sketch.onto` draws a single one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError

MARKERS = ("", "o", "s", "*")


def _as_numbers(values: Any, name: str) -> np.ndarray:
    try:
        found = np.asarray(values)
    except ValueError as error:
        raise InvalidValueError(f"{name} must be an array of numbers, but its rows differ in length") from error
    if found.dtype.kind not in "biuf":
        raise InvalidTypeError(f"{name} must be an array of numbers, not of {found.dtype}")
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Stroke:
    """One line, or row of markers, in each of n pictures.

    Args:
        points: `(n, m, 2)`, in the units of the axes; `(m, 2)` where it is the same in all of them. A line has a gap
            at NaN.
        colour: as matplotlib names it.
        width: of the line, in points of print; 0 draws none.
        marker: "", "o", "s" or "*".
        size: of the markers, in points of print.
        label: for the legend; "" leaves it out.

    Example:
        >>> import numpy as np
        >>> Stroke(points=np.zeros((2, 3, 2)), colour="black", marker="o").points.shape
        (2, 3, 2)
    """

    points: np.ndarray
    colour: str
    width: float = 1.5
    marker: str = ""
    size: float = 6.0
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", _as_numbers(self.points, "points"))
        shape = self.points.shape
        if len(shape) not in (2, 3) or shape[-1] != 2:
            raise InvalidValueError(f"points must have shape (n, m, 2), or (m, 2) for the same in all, not {shape}")
        if self.marker not in MARKERS:
            raise InvalidValueError(f"marker must be one of {MARKERS}, not {self.marker!r}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Sketch:
    """n pictures that differ in their numbers only.

    Args:
        strokes: from the lowest to the uppermost.
        limits: `(n, 4)`, of the axes: left, right, bottom, top.
        titles: one a picture.
        labels: of the two axes.
        equal: whether a unit is as long in both directions.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> import matplotlib.pyplot as plt, numpy as np
        >>> line = Stroke(points=np.array([[[0, 0], [1, 1]], [[0, 1], [1, 0]]]), colour="black")
        >>> sketch = Sketch(strokes=[line], limits=np.tile([0, 1, 0, 1], (2, 1)), titles=["up", "down"])
        >>> ax = sketch.onto(plt.figure().add_subplot(), 1)
        >>> ax.lines[0].get_ydata().tolist(), ax.get_title()
        ([1, 0], 'down')
    """

    strokes: Sequence[Stroke]
    limits: np.ndarray
    titles: Sequence[str]
    labels: tuple[str, str] = ("", "")
    equal: bool = True

    def __post_init__(self) -> None:
        number = len(self.titles)
        object.__setattr__(self, "limits", _as_numbers(self.limits, "limits"))
        if np.shape(self.limits) != (number, 4):
            raise InvalidValueError(
                f"limits must have shape ({number}, 4), one row a title, not {np.shape(self.limits)}"
            )
        apart = (self.limits[:, 0] != self.limits[:, 1]) & (self.limits[:, 2] != self.limits[:, 3])
        if len(wrong := np.flatnonzero(~(apart & np.isfinite(self.limits).all(axis=1)))):
            row = self.limits[wrong[0]].tolist()
            raise InvalidValueError(
                f"limits must be finite, with left != right and bottom != top, but limits[{wrong[0]}] is {row}; "
                "give the axes some room around what is drawn"
            )
        for i, stroke in enumerate(self.strokes):
            if np.ndim(stroke.points) == 3 and len(stroke.points) != number:
                raise InvalidValueError(
                    f"strokes[{i}] must be of {number} pictures, one a title, not of {len(stroke.points)}"
                )

    def onto(self, ax: Any, number: int = 0) -> Any:
        """Draw one of the pictures on matplotlib axes, which are returned."""
        for stroke in self.strokes:
            points = stroke.points if stroke.points.ndim == 2 else stroke.points[number]
            ax.plot(
                *points.T,
                color=stroke.colour,
                linestyle="-" if stroke.width else "none",
                linewidth=stroke.width,
                marker=stroke.marker,
                markersize=stroke.size,
                label=stroke.label or None,
            )
        left, right, bottom, top = self.limits[number]
        ax.set(xlim=(left, right), ylim=(bottom, top), xlabel=self.labels[0], ylabel=self.labels[1])
        ax.set_aspect("equal" if self.equal else "auto")
        ax.set_title(self.titles[number], fontsize=9)
        if any(stroke.label for stroke in self.strokes):
            ax.legend(loc="lower right", fontsize=8)
        return ax


class Drawing:
    """What draws one solution by drawing many: a domain's `draw` that has only `many` to write.

    Example:
        >>> import numpy as np
        >>> class Dots(Drawing):
        ...     def many(self, solutions, tasks):
        ...         stroke = Stroke(points=solutions[:, None, :], colour="black", width=0, marker="o")
        ...         return Sketch(strokes=[stroke], limits=np.array([[0, 1, 0, 1]]), titles=["a dot"])
        >>> Dots()([0.5, 0.5], [1.0]).get_title()
        'a dot'
    """

    # Of the figure that is made where no axes are given, in inches.
    size: ClassVar[tuple[float, float]] = (4, 4)

    def many(self, solutions: np.ndarray, tasks: np.ndarray) -> Sketch:
        """Draw many at once: `solutions (n, dim)`, `tasks (n, k)`."""
        raise NotImplementedError

    def __call__(self, solution: Any, task: Any, ax: Any = None) -> Any:
        """Draw one solution of one task; returns the axes."""
        import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.figure(figsize=self.size, layout="constrained").add_subplot()
        return self.many(np.asarray(solution)[None], np.asarray(task)[None]).onto(ax)
