"""Drawings of many solutions at once, as arrays, with which a report shows thousands of tasks.

A domain's `draw(solution, task, ax=None)` spends a millisecond or more in matplotlib per picture. A `draw` that also
has a method `many(solutions, tasks) -> Sketch` returns the lines of all pictures at once. `Sketch.onto` draws one of
them.
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
        raise InvalidValueError(
            f"{name} must be an array of numbers, but its rows differ in length; make them equally long"
        ) from error
    if found.dtype.kind not in "biuf":
        raise InvalidTypeError(f"{name} must be an array of numbers, not of {found.dtype}")
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Stroke:
    """One line or series of markers in each of n pictures.

    Args:
        points: points in the units of the axes, shape `(n, m, 2)`, or `(m, 2)` if they are the same in all pictures.
            NaN interrupts the line.
        colour: a matplotlib colour.
        width: line width in typographic points; 0 draws no line.
        marker: "", "o", "s" or "*".
        size: marker size in typographic points.
        label: legend label; "" for none.

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
            raise InvalidValueError(
                f"points must have shape (n, m, 2), or (m, 2) if they are the same in all pictures, not {shape}"
            )
        if self.marker not in MARKERS:
            raise InvalidValueError(f"marker must be one of {MARKERS}, not {self.marker!r}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Sketch:
    """n pictures with the same strokes, whose points, axis limits and titles may differ.

    Args:
        strokes: the strokes, in drawing order.
        limits: axis limits left, right, bottom and top, shape `(n, 4)`.
        titles: one title per picture.
        labels: labels of the x axis and the y axis.
        equal: whether both axes have the same scale.

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
                f"limits must have shape ({number}, 4), one row per title, not {np.shape(self.limits)}"
            )
        apart = (self.limits[:, 0] != self.limits[:, 1]) & (self.limits[:, 2] != self.limits[:, 3])
        if len(wrong := np.flatnonzero(~(apart & np.isfinite(self.limits).all(axis=1)))):
            row = self.limits[wrong[0]].tolist()
            raise InvalidValueError(
                f"limits must be finite, with left != right and bottom != top, but limits[{wrong[0]}] is {row}; "
                "leave a margin around the drawing"
            )
        for i, stroke in enumerate(self.strokes):
            if np.ndim(stroke.points) == 3 and len(stroke.points) != number:
                raise InvalidValueError(
                    f"strokes[{i}] must have points for {number} pictures, one per title, not for {len(stroke.points)}"
                )

    def onto(self, ax: Any, number: int = 0) -> Any:
        """Draw one of the pictures on matplotlib axes and return the axes.

        Args:
            ax: the axes.
            number: index of the picture.
        """
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
    """Base class of a domain's `draw`: subclasses implement `many`, and get the drawing of one solution from it.

    Example:
        >>> import numpy as np
        >>> class Dots(Drawing):
        ...     def many(self, solutions, tasks):
        ...         stroke = Stroke(points=solutions[:, None, :], colour="black", width=0, marker="o")
        ...         return Sketch(strokes=[stroke], limits=np.array([[0, 1, 0, 1]]), titles=["a dot"])
        >>> Dots()([0.5, 0.5], [1.0]).get_title()
        'a dot'
    """

    # Figure size in inches, if no axes are given.
    size: ClassVar[tuple[float, float]] = (4, 4)

    def many(self, solutions: np.ndarray, tasks: np.ndarray) -> Sketch:
        """Return the drawings of many solutions.

        Args:
            solutions: shape `(n, dim)`.
            tasks: descriptors of the tasks, shape `(n, k)`.
        """
        raise NotImplementedError

    def __call__(self, solution: Any, task: Any, ax: Any = None) -> Any:
        """Draw one solution of one task, on the given axes or on a new figure, and return the axes."""
        import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.figure(figsize=self.size, layout="constrained").add_subplot()
        return self.many(np.asarray(solution)[None], np.asarray(task)[None]).onto(ax)
