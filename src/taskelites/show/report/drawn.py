"""A drawing on matplotlib axes, read back as lines and letters.

What is on the axes becomes polygons, in shares of the axes. A drawing with anything that would not look the same
(images, formulas, arrows, thousands of marks) is kept as pixels.
"""

import base64
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from taskelites.show.report.corners import stepped
from taskelites.show.report.margins import Extent, is_beside, margins, panel_extents, text_extent
from taskelites.show.report.marks import OtherArtistError, is_white, marks, plain

# In inches; the page scales it.
_WIDTH, _HEIGHT = 4.4, 4.0
# In points of print, as the page has it.
SIZE = [72 * _WIDTH, 72 * _HEIGHT]
# Of the axes in the picture: beside them there is room for numbers and labels.
BOX = (0.16, 0.13, 0.8, 0.72)
# More take more room than pixels do.
_MOST_MARKS = 200
_MOST_NUMBERS = 20_000


@dataclass
class Picture:
    """One drawing.

    Attributes:
        shape: how it looks, as JSON.
        numbers: of each mark how many parts it has, and of each part how many corners, and those, in steps.
        limits: of the axes of each panel: left, right, bottom, top.
        texts: in the order in which the marks use them.
    """

    shape: dict[str, Any]
    numbers: list[int] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return 2 * len(self.numbers) + 4 * len(self.limits) + len(json.dumps(self.texts)) + 8


class DrawingError(Exception):
    """There is no picture, and why, in words for the page."""


def read_drawing(show: Callable[..., Any], solution: np.ndarray, task: Any) -> Picture:
    """What a domain's `draw` shows of a solution.

    Example:
        >>> read_drawing(lambda solution, task, ax: ax.plot([0, 1], solution), [0.2, 0.8], None).shape["panels"][0][
        ...     "box"
        ... ]
        [0.16, 0.13, 0.8, 0.72]
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=72)
    ax = figure.add_axes(BOX)
    with _own_figures_closed():
        show(solution, task, ax=ax)
    if _is_empty(figure):
        raise DrawingError("draw put nothing on ax, the axes it is given")
    try:
        return _read_figure(figure)
    except Exception:  # noqa: BLE001 - artists of any library may be there; what can't be read is shown as pixels
        pass
    try:
        return _pixels(figure)
    except Exception as error:  # whatever matplotlib raises: it is told on the page, with its cause
        raise DrawingError("matplotlib could not show what draw put on ax") from error


@contextmanager
def _own_figures_closed() -> Iterator[None]:
    """Close what `draw` opened through pyplot: nobody looks at it, and it would stay in memory."""

    def opened() -> set[int]:
        pyplot = sys.modules.get("matplotlib.pyplot")
        return set(pyplot.get_fignums()) if pyplot else set()

    before = opened()
    try:
        yield
    finally:
        for number in opened() - before:
            sys.modules["matplotlib.pyplot"].close(number)


def _is_empty(figure: Any) -> bool:
    """Whether there is neither a mark nor a title."""
    own = (figure.texts, figure.lines, figure.patches, figure.images, figure.legends, figure.artists, figure.subfigs)
    return (
        len(figure.axes) < 2
        and not any(own)
        and not any(
            [*ax.collections, *ax.patches, *ax.lines, *ax.texts, *ax.images, *ax.tables, *ax.artists, *ax.child_axes]
            or any(ax.get_title(loc=side) for side in ("left", "center", "right"))
            for ax in figure.axes
        )
    )


def _read_figure(figure: Any) -> Picture:
    if figure.texts or figure.lines or figure.patches or figure.images or figure.legends or figure.subfigs:
        raise OtherArtistError
    picture = Picture({"size": SIZE, "panels": []})
    extents: list[Extent] = []
    for panel in _with_insets(figure.axes):
        picture.shape["panels"].append(_read_panel(panel, picture, extents))
    if any(room := margins(extents, SIZE)):
        if max(room) > SIZE[0]:  # so long that everything else would be tiny
            raise OtherArtistError
        picture.shape["room"] = room
    return picture


def _pixels(figure: Any) -> Picture:
    """The figure as an image, with what stands out of it (labels of twin axes, a legend beside the axes)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

    figure.set_dpi(90)
    width, height = figure.get_size_inches()
    # Of annotations, which point at something, matplotlib itself leaves out those outside.
    for text in (text for ax in figure.axes for text in ax.texts if not isinstance(text, Annotation)):
        share = figure.transFigure.inverted().transform(text.get_transform().transform(text.get_unitless_position()))
        if not is_beside(*share):
            text.set_visible(False)
    # One size for most pictures, unlike matplotlib's "tight", so that they do not jump; and that lays out once more.
    canvas: Any = FigureCanvasAgg(figure)
    tight = figure.get_tightbbox(canvas.get_renderer()).padded(0.05)
    whole = Bbox([[0, 0], [width, height]])
    if np.isfinite(tight.extents).all():
        most = Bbox([[-width, -height], [2 * width, 2 * height]])
        whole = Bbox.union([whole, Bbox.intersection(tight, most) or whole])
    pixels = io.BytesIO()
    figure.savefig(pixels, format="png", dpi=90, bbox_inches=whole)
    encoded = base64.b64encode(pixels.getvalue()).decode("ascii")
    size = [round(72 * float(side), 1) for side in (whole.width, whole.height)]
    return Picture({"size": size, "pixels": True}, texts=[encoded])


def _with_insets(axes: Iterable[Any]) -> list[Any]:
    found = []
    for ax in axes:
        if ax.get_visible():
            found += [ax, *_with_insets(ax.child_axes)]
    return found


def _read_panel(ax: Any, picture: Picture, extents: list[Extent]) -> dict[str, Any]:
    """What is on one of the axes; how far its texts go is added to `extents`."""
    turned = ax.xaxis.get_ticks_position() == "top" or ax.yaxis.get_ticks_position() == "right"
    if ax.images or ax.tables or ax.artists or ax.name != "rectilinear" or (ax.axison and turned):
        raise OtherArtistError
    if ax.axison and not is_white(ax.get_facecolor()):
        raise OtherArtistError
    locator = ax.get_axes_locator()
    ax.apply_aspect(locator(ax, None) if locator else None)
    place = ax.get_position()
    picture.limits += [*ax.get_xlim(), *ax.get_ylim()]
    title = plain(ax.get_title() or ax.get_title(loc="left") or ax.get_title(loc="right"))
    picture.texts.append(title)
    panel: dict[str, Any] = {
        "box": [round(float(share), 4) for share in (place.x0, place.y0, place.width, place.height)],
        "frame": bool(ax.axison),
        "labels": [plain(ax.get_xlabel()), plain(ax.get_ylabel())],
        "marks": [],
    }
    for name, axis in (("xticks", ax.xaxis), ("yticks", ax.yaxis)):
        if ax.axison and (ticks := _own_ticks(ax, axis)) is not None:
            panel[name] = ticks
    every = [each for each in (*ax.collections, *ax.patches, *ax.lines, *ax.texts) if each.get_visible()]
    legend = ax.get_legend() is not None
    if legend:
        _check_legend(ax.get_legend(), every)
    for artist in sorted(every, key=lambda each: each.get_zorder()):
        label = str(artist.get_label()) if legend else ""
        for style, parts in _alike(marks(artist, ax, picture.texts)):
            named = label and not label.startswith("_") and style["kind"] != "text"
            panel["marks"].append(style | ({"label": plain(label)} if named else {}))
            label = ""  # of an artist that looks different in parts, one stands in the legend
            pieces = [piece for corners in parts for piece in stepped(corners, _kind(style))]
            picture.numbers.append(len(pieces))
            for piece in pieces:
                picture.numbers += [len(piece), *piece.ravel().tolist()]
            if style["kind"] == "text":
                extents += text_extent(panel["box"], SIZE, picture.texts[-1], parts[0][0], style)
    extents += panel_extents(panel, SIZE, title)
    if len(panel["marks"]) > _MOST_MARKS or len(picture.numbers) > _MOST_NUMBERS:
        raise OtherArtistError
    return panel


def _kind(style: dict[str, Any]) -> Literal["line", "area", "points"]:
    if style["kind"] == "area":
        return "area"
    return "line" if style.get("width") else "points"


def _check_legend(legend: Any, artists: list[Any]) -> None:
    """The page makes its own legend, from the labels of what is drawn; one with other keys is kept as it is."""
    labels = [str(each.get_label()) for each in artists]
    named = sorted(label for label in labels if label and not label.startswith("_"))
    if named != sorted(text.get_text() for text in legend.get_texts()) or legend.get_title().get_text():
        raise OtherArtistError


def _alike(every: list[tuple[dict[str, Any], np.ndarray]]) -> list[tuple[dict[str, Any], list[np.ndarray]]]:
    """Marks behind each other that look the same, together: however many they are, the pictures stay alike."""
    found: list[tuple[dict[str, Any], list[np.ndarray]]] = []
    for style, corners in every:
        if found and found[-1][0] == style and style["kind"] != "text":
            found[-1][1].append(corners)
        else:
            found.append((style, [corners]))
    return found


def _own_ticks(ax: Any, axis: Any) -> list[list[Any]] | None:
    """Places, in shares of the axis, and texts; None where plain numbers stand at round places."""
    from matplotlib.ticker import AutoLocator, ScalarFormatter

    if not axis.get_visible():
        return []
    usual = isinstance(axis.get_major_formatter(), ScalarFormatter) and axis.get_scale() == "linear"
    if usual and isinstance(axis.get_major_locator(), AutoLocator):
        return None
    across = axis is ax.xaxis
    # A list, where names stand at the ticks.
    places = np.asarray(axis.get_ticklocs(), np.float64)
    texts = axis.get_major_formatter().format_ticks(places)
    if axis.get_major_formatter().get_offset() or any(each.get_rotation() for each in axis.get_ticklabels()):
        raise OtherArtistError
    corner = [ax.get_xlim()[0], ax.get_ylim()[0]]
    found = []
    for place, text in zip(places.tolist(), texts, strict=True):
        point = [place, corner[1]] if across else [corner[0], place]
        share = ax.transAxes.inverted().transform(ax.transData.transform(point))[0 if across else 1]
        if -1e-6 <= share <= 1 + 1e-6:
            found.append([round(float(share), 4), plain(text)])
    return found
