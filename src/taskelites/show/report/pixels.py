"""One matplotlib drawing as a small PNG image."""

import io
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

# 360 x 320 pixels, the width of the task's panel on the page.
_INCHES = (4.5, 4.0)
_DPI = 80
# Enough for smooth edges of lines and a colour map; more make the file larger without a visible difference.
_COLOURS = 64
# A text this far outside still shows, as a share of the picture's side.
_NEAR = 0.25


class DrawingError(Exception):
    """A drawing that can't be shown; the message is shown on the page."""


def render_drawing(draw: Callable[..., Any], solution: np.ndarray, task: Any) -> bytes:
    """Return what a domain's `draw` puts on new axes, as a PNG.

    Args:
        draw: called as `draw(solution, task, ax=ax)`.
        solution: of one task.
        task: its descriptors or object.

    Raises:
        DrawingError: if the axes stay empty, or matplotlib can't render them.

    Example:
        >>> render_drawing(lambda solution, task, ax: ax.plot(solution), np.array([0.2, 0.8]), None)[1:4]
        b'PNG'
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # The constrained layout fits long labels, second axes and legends beside the axes into the figure.
    figure = Figure(figsize=_INCHES, dpi=_DPI, layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    before = _artists(figure)
    with _pyplot_figures_closed():
        draw(solution, task, ax=ax)
    if _artists(figure) == before and not _has_title(figure):
        raise DrawingError("draw put nothing on ax, the axes it is given")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # letters that the font lacks, labels too long for the layout
            _fit_texts(figure)
            canvas.draw()
        return _as_png(np.asarray(canvas.buffer_rgba())[..., :3])
    except Exception as error:  # matplotlib may raise anything; the page names the cause
        raise DrawingError("matplotlib could not show what draw put on ax") from error


def _artists(figure: Any) -> int:
    return sum(len(parent.get_children()) for parent in (figure, *figure.axes))


def _has_title(figure: Any) -> bool:
    return any(ax.get_title(loc=side) for ax in figure.axes for side in ("left", "center", "right"))


def _fit_texts(figure: Any) -> None:
    """Wrap long titles, and hide texts far outside of the picture, for which the layout would shrink the axes."""
    from matplotlib.text import Annotation

    for ax in figure.axes:
        ax.title.set_wrap(True)
        for text in ax.texts:
            x, y = text.get_transform().transform(text.get_unitless_position()) / figure.bbox.size
            near = -_NEAR <= x <= 1 + _NEAR and -_NEAR <= y <= 1 + _NEAR
            if not (near or isinstance(text, Annotation)):  # matplotlib hides far annotations itself
                text.set_visible(False)


def _as_png(pixels: np.ndarray) -> bytes:
    from PIL import Image

    # Maximum coverage keeps the colour of a small marker on a large image, which the median cut would lose.
    method = Image.Quantize.MAXCOVERAGE
    image = Image.fromarray(pixels).quantize(_COLOURS, method=method, dither=Image.Dither.NONE)
    file = io.BytesIO()
    image.save(file, format="png")
    return file.getvalue()


@contextmanager
def _pyplot_figures_closed() -> Iterator[None]:
    """Close figures that `draw` opens through pyplot, which would otherwise stay in memory."""

    def opened() -> set[int]:
        pyplot = sys.modules.get("matplotlib.pyplot")
        return set(pyplot.get_fignums()) if pyplot else set()

    before = opened()
    try:
        yield
    finally:
        for number in opened() - before:
            sys.modules["matplotlib.pyplot"].close(number)
