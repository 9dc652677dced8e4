"""A drawing on matplotlib axes, read back as lines and letters.

What is on the axes becomes polygons, in shares of the axes. A drawing with anything that would not look the same
(images, formulas, arrows, thousands of marks) is kept as pixels.
"""

import base64
import io
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# In inches; the page scales it.
_WIDTH, _HEIGHT = 4.4, 4.0
# In points of print, as the page has it.
SIZE = [72 * _WIDTH, 72 * _HEIGHT]
# Of the axes in the picture: beside them there is room for numbers and labels.
BOX = (0.16, 0.13, 0.8, 0.72)
# Steps of a coordinate along a side of the axes; three sides more fit into 16 bits on either end.
_STEPS = 8192
_MOST_STEPS = 32_767
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


def steps(shares: np.ndarray) -> np.ndarray:
    """Shares of the axes as whole numbers of 16 bits.

    Example:
        >>> import numpy as np
        >>> steps(np.array([0.0, 0.5, 1.0, 99.0, np.nan])).tolist()
        [0, 4096, 8192, 32767, 0]
    """
    finite = np.nan_to_num(shares * _STEPS, nan=0.0, posinf=_MOST_STEPS, neginf=-_MOST_STEPS)
    return np.clip(np.rint(finite), -_MOST_STEPS, _MOST_STEPS).astype(np.int64)


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
    show(solution, task, ax=ax)
    picture = Picture({"size": SIZE, "panels": []})
    try:
        if figure.texts or figure.lines or figure.patches or figure.images or figure.legends or figure.subfigs:
            raise _OtherArtistError
        for panel in _with_insets(figure.axes):
            picture.shape["panels"].append(_read_panel(panel, picture))
    except _OtherArtistError:
        pixels = io.BytesIO()
        figure.savefig(pixels, format="png", dpi=90)
        text = base64.b64encode(pixels.getvalue()).decode("ascii")
        return Picture({"size": SIZE, "pixels": True}, texts=[text])
    return picture


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


def _read_panel(ax: Any, picture: Picture) -> dict[str, Any]:
    """What is on one of the axes."""
    turned = ax.xaxis.get_ticks_position() == "top" or ax.yaxis.get_ticks_position() == "right"
    if ax.images or ax.tables or ax.artists or ax.name != "rectilinear" or (ax.axison and turned):
        raise _OtherArtistError
    locator = ax.get_axes_locator()
    ax.apply_aspect(locator(ax, None) if locator else None)
    place = ax.get_position()
    picture.limits += [*ax.get_xlim(), *ax.get_ylim()]
    picture.texts.append(_plain(ax.get_title() or ax.get_title(loc="left") or ax.get_title(loc="right")))
    panel: dict[str, Any] = {
        "box": [round(float(share), 4) for share in (place.x0, place.y0, place.width, place.height)],
        "frame": bool(ax.axison),
        "labels": [_plain(ax.get_xlabel()), _plain(ax.get_ylabel())],
        "marks": [],
    }
    for name, axis in (("xticks", ax.xaxis), ("yticks", ax.yaxis)):
        if ax.axison and (ticks := _own_ticks(ax, axis)) is not None:
            panel[name] = ticks
    legend = ax.get_legend() is not None
    every = [*ax.collections, *ax.patches, *ax.lines, *ax.texts]
    for artist in sorted((each for each in every if each.get_visible()), key=lambda each: each.get_zorder()):
        label = str(artist.get_label()) if legend else ""
        for style, parts in _alike(_marks(artist, ax, picture)):
            named = label and not label.startswith("_") and style["kind"] != "text"
            panel["marks"].append(style | ({"label": _plain(label)} if named else {}))
            label = ""  # of an artist that looks different in parts, one stands in the legend
            picture.numbers.append(len(parts))
            for corners in parts:
                picture.numbers += [len(corners), *steps(corners).ravel().tolist()]
    if len(panel["marks"]) > _MOST_MARKS or len(picture.numbers) > _MOST_NUMBERS:
        raise _OtherArtistError
    return panel


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
    from matplotlib.ticker import ScalarFormatter

    if isinstance(axis.get_major_formatter(), ScalarFormatter) and axis.get_scale() == "linear":
        return None
    across = axis is ax.xaxis
    places = axis.get_ticklocs()
    texts = axis.get_major_formatter().format_ticks(places)
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
        path = artist.get_transform().transform_path(artist.get_path())
        style = {"kind": "area", "width": artist.get_linewidth() if _seen(artist.get_edgecolor()) else 0}
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


def _line_style(line: Any, colour: Callable[[Any], str]) -> dict[str, Any]:
    marker = str(line.get_marker())
    plain = marker in ("None", "none", "", " ")
    drawn = line.get_linestyle() not in ("None", "none", "", " ")
    style = {"kind": "line", "colour": colour(line.get_color()), "width": line.get_linewidth() if drawn else 0}
    if line.get_linestyle() in ("--", ":", "-."):
        style["dash"] = line.get_linestyle()
    if not plain:
        style |= {"marker": marker if marker in _MARKERS else "o", "size": line.get_markersize()}
        style |= {"fill": colour(line.get_markerfacecolor())}
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
    return [np.asarray(corners)[:_MOST_STEPS] for corners in cleaned.to_polygons(closed_only=False)]


def _area(path: Any) -> list[np.ndarray]:
    """The polygon of an area; one with holes is more than that."""
    found = _polygons(path)
    if len(found) > 1:
        raise _OtherArtistError
    return found


def _scattered(artist: Any, shares: Any) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Points of a scatter plot, those of one colour and size together."""
    from matplotlib.colors import to_hex

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
        ({"kind": "line", "colour": edge, "fill": face, "width": 0, "marker": "o", "size": size}, np.array(own))
        for (face, edge, size), own in groups.items()
    ]


def _collected(artist: Any, shares: Any) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Lines or areas of a collection."""
    from matplotlib.colors import to_hex

    # Marks that are drawn again at many places (arrows of a field), and fields of thousands of cells.
    if np.any(artist.get_offsets()) or len(artist.get_paths()) > _MOST_NUMBERS // 8:
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
