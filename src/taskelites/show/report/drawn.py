"""A drawing on matplotlib axes, read back as lines and letters.

What is on the axes becomes polygons, in shares of the axes. A drawing with anything that would not look the same
(images, formulas, arrows, thousands of marks) is kept as pixels.
"""

import base64
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from taskelites.show.report.corners import stepped
from taskelites.show.report.margins import Extent, is_beside, margins, panel_extents, text_extent

# In inches; the page scales it.
_WIDTH, _HEIGHT = 4.4, 4.0
# In points of print, as the page has it.
SIZE = [72 * _WIDTH, 72 * _HEIGHT]
# Of the axes in the picture: beside them there is room for numbers and labels.
BOX = (0.16, 0.13, 0.8, 0.72)
# From so many corners on, a line is drawn with as few as look the same.
_MANY_CORNERS = 64
# More take more room than pixels do.
_MOST_MARKS = 200
_MOST_NUMBERS = 20_000
_MARKERS = "os*^vDx+.d"
_POWER = re.compile(r"\$\\mathdefault\{(?:([\d.]+)\\times)?([-\u2212]?\d+)\^\{(-?\d+)\}\}\$")
_RAISED = str.maketrans("0123456789-", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b")


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
    """There is no picture; `cause`, where another error stands behind it, is named on the page."""


class _OtherArtistError(Exception):
    """There is something in the picture that lines and letters can't show as it is."""


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
    except Exception as error:
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
        raise _OtherArtistError
    picture = Picture({"size": SIZE, "panels": []})
    extents: list[Extent] = []
    for panel in _with_insets(figure.axes):
        picture.shape["panels"].append(_read_panel(panel, picture, extents))
    if any(room := margins(extents, SIZE)):
        if max(room) > SIZE[0]:  # so long that everything else would be tiny
            raise _OtherArtistError
        picture.shape["room"] = room
    return picture


def _pixels(figure: Any) -> Picture:
    """The figure as an image, with what stands out of it (labels of twin axes, a legend beside the axes)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox

    figure.set_dpi(90)
    width, height = figure.get_size_inches()
    for text in (text for ax in figure.axes for text in ax.texts):
        share = figure.transFigure.inverted().transform(text.get_transform().transform(text.get_unitless_position()))
        if not is_beside(*share):
            text.set_visible(False)
    # One size for most pictures, unlike matplotlib's "tight", so that they do not jump; and that lays out once more.
    tight = figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer()).padded(0.05)
    whole = Bbox([[0, 0], [width, height]])
    if np.isfinite(tight.extents).all():
        most = Bbox([[-width, -height], [2 * width, 2 * height]])
        whole = Bbox.union([whole, Bbox.intersection(tight, most) or whole])
    pixels = io.BytesIO()
    figure.savefig(pixels, format="png", dpi=90, bbox_inches=whole)
    text = base64.b64encode(pixels.getvalue()).decode("ascii")
    size = [round(72 * float(side), 1) for side in (whole.width, whole.height)]
    return Picture({"size": size, "pixels": True}, texts=[text])


def _with_insets(axes: Iterable[Any]) -> list[Any]:
    found = []
    for ax in axes:
        if ax.get_visible():
            found += [ax, *_with_insets(ax.child_axes)]
    return found


def _plain(text: str) -> str:
    """A text as a page can show it: powers of ten with raised numbers, other formulas not at all."""
    from matplotlib.cbook import is_math_text

    if power := _POWER.fullmatch(text):
        times = f"{power[1]}\u00d7" if power[1] else ""
        return f"{times}{power[2]}{power[3].translate(_RAISED)}"
    if is_math_text(text):
        raise _OtherArtistError
    return text.replace(r"\$", "$")


def _read_panel(ax: Any, picture: Picture, extents: list[Extent]) -> dict[str, Any]:
    """What is on one of the axes; how far its texts go is added to `extents`."""
    turned = ax.xaxis.get_ticks_position() == "top" or ax.yaxis.get_ticks_position() == "right"
    if ax.images or ax.tables or ax.artists or ax.name != "rectilinear" or (ax.axison and turned):
        raise _OtherArtistError
    if ax.axison and not _is_white(ax.get_facecolor()):
        raise _OtherArtistError
    locator = ax.get_axes_locator()
    ax.apply_aspect(locator(ax, None) if locator else None)
    place = ax.get_position()
    picture.limits += [*ax.get_xlim(), *ax.get_ylim()]
    title = _plain(ax.get_title() or ax.get_title(loc="left") or ax.get_title(loc="right"))
    picture.texts.append(title)
    panel: dict[str, Any] = {
        "box": [round(float(share), 4) for share in (place.x0, place.y0, place.width, place.height)],
        "frame": bool(ax.axison),
        "labels": [_plain(ax.get_xlabel()), _plain(ax.get_ylabel())],
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
        for style, parts in _alike(_marks(artist, ax, picture)):
            named = label and not label.startswith("_") and style["kind"] != "text"
            panel["marks"].append(style | ({"label": _plain(label)} if named else {}))
            label = ""  # of an artist that looks different in parts, one stands in the legend
            pieces = [piece for corners in parts for piece in stepped(corners, _kind(style))]
            picture.numbers.append(len(pieces))
            for piece in pieces:
                picture.numbers += [len(piece), *piece.ravel().tolist()]
            if style["kind"] == "text":
                extents += text_extent(panel["box"], SIZE, picture.texts[-1], parts[0][0], style)
    extents += panel_extents(panel, SIZE, title)
    if len(panel["marks"]) > _MOST_MARKS or len(picture.numbers) > _MOST_NUMBERS:
        raise _OtherArtistError
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
        raise _OtherArtistError


def _alike(marks: list[tuple[dict[str, Any], np.ndarray]]) -> list[tuple[dict[str, Any], list[np.ndarray]]]:
    """Marks behind each other that look the same, together: however many they are, the pictures stay alike."""
    found: list[tuple[dict[str, Any], list[np.ndarray]]] = []
    for style, corners in marks:
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
    plain = isinstance(axis.get_major_formatter(), ScalarFormatter) and axis.get_scale() == "linear"
    if plain and isinstance(axis.get_major_locator(), AutoLocator):
        return None
    across = axis is ax.xaxis
    # A list, where names stand at the ticks.
    places = np.asarray(axis.get_ticklocs(), np.float64)
    texts = axis.get_major_formatter().format_ticks(places)
    if axis.get_major_formatter().get_offset() or any(each.get_rotation() for each in axis.get_ticklabels()):
        raise _OtherArtistError
    corner = [ax.get_xlim()[0], ax.get_ylim()[0]]
    found = []
    for place, text in zip(places.tolist(), texts, strict=True):
        point = [place, corner[1]] if across else [corner[0], place]
        share = ax.transAxes.inverted().transform(ax.transData.transform(point))[0 if across else 1]
        if -1e-6 <= share <= 1 + 1e-6:
            found.append([round(float(share), 4), _plain(text)])
    return found


def _marks(artist: Any, ax: Any, picture: Picture) -> list[tuple[dict[str, Any], np.ndarray]]:
    """The marks of an artist: how each looks, and its corners in shares of the axes."""
    from matplotlib.collections import Collection, PathCollection
    from matplotlib.colors import to_hex
    from matplotlib.contour import ContourSet
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Annotation, Text

    shares = ax.transAxes.inverted().transform

    def colour(value: Any) -> str:
        given = artist.get_alpha()
        return str(to_hex(value if given is None else (*_rgb(value), float(given)), keep_alpha=True))

    if isinstance(artist, Line2D):
        return [(_line_style(artist, colour), shares(corners)) for corners in _line_corners(artist)]
    if isinstance(artist, Patch):
        if artist.get_hatch():
            raise _OtherArtistError
        path = artist.get_transform().transform_path(artist.get_path())
        style = {"kind": "area", "width": artist.get_linewidth() if _seen(artist.get_edgecolor()) else 0}
        if artist.get_linestyle() not in ("-", "solid"):
            style["dash"] = _dash(artist.get_linestyle())
        style |= {"fill": colour(artist.get_facecolor()) if artist.get_fill() else "none"}
        style |= {"colour": colour(artist.get_edgecolor())}
        return [(style, shares(corners)) for corners in _area(path)]
    if isinstance(artist, Text):
        # An arrow, a box around it, and letters that do not lie straight are more than a text.
        if isinstance(artist, Annotation) or artist.get_rotation() or artist.get_bbox_patch():
            raise _OtherArtistError
        picture.texts.append(_plain(artist.get_text()))
        style = {"kind": "text", "colour": colour(artist.get_color()), "size": artist.get_fontsize()}
        style |= {"ha": artist.get_horizontalalignment(), "va": artist.get_verticalalignment()}
        return [(style, shares(artist.get_transform().transform([artist.get_position()])))]
    if isinstance(artist, PathCollection):
        return _scattered(artist, shares)
    if isinstance(artist, Collection) and not isinstance(artist, ContourSet):
        return _collected(artist, shares)
    raise _OtherArtistError


def _rgb(value: Any) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(value)


def _seen(colour: Any) -> bool:
    from matplotlib.colors import to_rgba

    return to_rgba(colour)[3] > 0


def _is_white(colour: Any) -> bool:
    from matplotlib.colors import to_rgba

    return not _seen(colour) or to_rgba(colour)[:3] == (1, 1, 1)


def _dash(style: Any) -> str:
    short = {"dashed": "--", "dotted": ":", "dashdot": "-."}.get(style, style)
    if short not in ("--", ":", "-."):
        raise _OtherArtistError
    return str(short)


def _line_style(line: Any, colour: Callable[[Any], str]) -> dict[str, Any]:
    marker = str(line.get_marker())
    plain = marker in ("None", "none", "", " ")
    drawn = line.get_linestyle() not in ("None", "none", "", " ")
    style = {"kind": "line", "colour": colour(line.get_color()), "width": line.get_linewidth() if drawn else 0}
    if line.get_linestyle() in ("--", ":", "-."):
        style["dash"] = line.get_linestyle()
    if not plain:
        # Half-filled ones, and every third, are more than the page draws.
        if marker not in _MARKERS or line.get_fillstyle() not in ("full", "none") or line.get_markevery() is not None:
            raise _OtherArtistError
        style |= {"marker": marker, "size": line.get_markersize(), "fill": colour(line.get_markerfacecolor())}
        if (edge := colour(line.get_markeredgecolor())) != style["colour"]:
            style["edge"] = edge
    return style


def _line_corners(line: Any) -> list[np.ndarray]:
    if line.get_drawstyle() != "default":  # steps
        raise _OtherArtistError
    path = line.get_transform().transform_path(line.get_path())
    if len(path.vertices) == 0:
        return [np.empty((0, 2))]  # it may be there for the legend
    alone = line.get_linestyle() in ("None", "none", "", " ")
    if alone or len(path.vertices) < 2:
        return [path.vertices[np.isfinite(path.vertices).all(axis=1)]]
    return _polygons(path)


def _polygons(path: Any) -> list[np.ndarray]:
    cleaned = path.cleaned(simplify=len(path.vertices) > _MANY_CORNERS, remove_nans=True)
    return [np.asarray(corners) for corners in cleaned.to_polygons(closed_only=False)]


def _area(path: Any) -> list[np.ndarray]:
    """The polygon of an area; one with holes is more than that."""
    found = _polygons(path)
    if len(found) > 1:
        raise _OtherArtistError
    return found


def _scattered(artist: Any, shares: Any) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Points of a scatter plot, those of one colour and size together."""
    from matplotlib.colors import to_hex

    marker = _marker_of(artist)
    points = shares(artist.get_offset_transform().transform(np.ma.filled(artist.get_offsets(), np.nan)))
    artist.update_scalarmappable()
    faces = [to_hex(colour, keep_alpha=True) for colour in artist.get_facecolors()] or ["none"]
    edges = [to_hex(colour, keep_alpha=True) for colour in artist.get_edgecolors()] or faces
    sizes = np.sqrt(artist.get_sizes()).round(1).tolist() or [6.0]
    groups: dict[tuple[str, str, float], list[np.ndarray]] = {}
    for i, point in enumerate(points):
        if np.isfinite(point).all():
            look = (faces[i % len(faces)], edges[i % len(edges)], sizes[i % len(sizes)])
            groups.setdefault(look, []).append(point)
    return [
        ({"kind": "line", "colour": edge, "fill": face, "width": 0, "marker": marker, "size": size}, np.array(own))
        for (face, edge, size), own in groups.items()
    ]


def _marker_of(artist: Any) -> str:
    """Of a scatter plot, by its outline."""
    from matplotlib.markers import MarkerStyle

    paths = artist.get_paths()
    if len(paths) == 1 and not artist.get_hatch():
        for name in _MARKERS:
            style = MarkerStyle(name)
            outline = np.asarray(style.get_path().transformed(style.get_transform()).vertices)
            if outline.shape == paths[0].vertices.shape and np.allclose(outline, paths[0].vertices):
                return name
    raise _OtherArtistError


def _collected(artist: Any, shares: Any) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Lines or areas of a collection."""
    from matplotlib.colors import to_hex

    # Marks that are drawn again at many places (arrows of a field), and fields of thousands of cells.
    if np.any(artist.get_offsets()) or len(artist.get_paths()) > _MOST_NUMBERS // 8:
        raise _OtherArtistError
    if artist.get_hatch() or any(dashes is not None for _, dashes in artist.get_linestyle()):
        raise _OtherArtistError
    artist.update_scalarmappable()
    faces, edges, widths = artist.get_facecolors(), artist.get_edgecolors(), artist.get_linewidths()
    found = []
    for i, path in enumerate(artist.get_paths()):
        style: dict[str, Any] = {"kind": "area" if len(faces) else "line"}
        style["fill"] = to_hex(faces[i % len(faces)], keep_alpha=True) if len(faces) else "none"
        style["colour"] = to_hex(edges[i % len(edges)], keep_alpha=True) if len(edges) else "none"
        style["width"] = float(widths[i % len(widths)]) if len(edges) and len(widths) else 0.0
        placed = artist.get_transform().transform_path(path)
        found += [(style, shares(corners)) for corners in (_area if len(faces) else _polygons)(placed)]
    return found
