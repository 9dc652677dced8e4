"""What is on matplotlib axes, artist by artist, as marks: how each looks, and its corners.

What would not look the same on a page is refused.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

# From so many corners on, a line is drawn with as few as look the same.
_MANY_CORNERS = 64
# Cells of a collection; more take more room than pixels do.
_MOST_PATHS = 2_500
_MARKERS = "os*^vDx+.d"
_POWER = re.compile(r"\$\\mathdefault\{(?:([\d.]+)\\times)?([-\u2212]?\d+)\^\{(-?\d+)\}\}\$")
_RAISED = str.maketrans("0123456789-", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b")


class OtherArtistError(Exception):
    """There is something in the picture that lines and letters can't show as it is."""


def plain(text: str) -> str:
    r"""A text as a page can show it: powers of ten with raised numbers, other formulas not at all.

    Example:
        >>> plain(r"$\mathdefault{10^{-2}}$"), plain(r"5 \$")
        ('10⁻²', '5 $')
    """
    from matplotlib.cbook import is_math_text

    if power := _POWER.fullmatch(text):
        times = f"{power[1]}\u00d7" if power[1] else ""
        return f"{times}{power[2]}{power[3].translate(_RAISED)}"
    if is_math_text(text):
        raise OtherArtistError
    return text.replace(r"\$", "$")


def marks(artist: Any, ax: Any, texts: list[str]) -> list[tuple[dict[str, Any], np.ndarray]]:
    """The marks of an artist: how each looks, and its corners in shares of the axes.

    Args:
        artist: a line, patch, text or collection.
        ax: the axes that it is on.
        texts: gets what a text says.

    Raises:
        OtherArtistError: if it is something else, or would not look the same.

    Example:
        >>> from matplotlib.figure import Figure
        >>> ax = Figure().add_subplot()
        >>> _ = ax.set(xlim=(0, 4), ylim=(0, 4))
        >>> [(style, corners)] = marks(*ax.plot([0, 1], [0, 2], color="red"), ax, [])
        >>> style["colour"], corners.round(6).tolist()
        ('#ff0000ff', [[0.0, 0.0], [0.25, 0.5]])
    """
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
            raise OtherArtistError
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
            raise OtherArtistError
        texts.append(plain(artist.get_text()))
        style = {"kind": "text", "colour": colour(artist.get_color()), "size": artist.get_fontsize()}
        style |= {"ha": artist.get_horizontalalignment(), "va": artist.get_verticalalignment()}
        return [(style, shares(artist.get_transform().transform([artist.get_position()])))]
    if isinstance(artist, PathCollection):
        return _scattered(artist, shares)
    if isinstance(artist, Collection) and not isinstance(artist, ContourSet):
        return _collected(artist, shares)
    raise OtherArtistError


def _rgb(value: Any) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(value)


def _seen(colour: Any) -> bool:
    from matplotlib.colors import to_rgba

    return to_rgba(colour)[3] > 0


def is_white(colour: Any) -> bool:
    """Whether a ground of this colour looks like the page's.

    Example:
        >>> is_white("white"), is_white("none"), is_white("black")
        (True, True, False)
    """
    from matplotlib.colors import to_rgba

    return not _seen(colour) or to_rgba(colour)[:3] == (1, 1, 1)


def _dash(style: Any) -> str:
    short = {"dashed": "--", "dotted": ":", "dashdot": "-."}.get(style, style)
    if short not in ("--", ":", "-."):
        raise OtherArtistError
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
            raise OtherArtistError
        style |= {"marker": marker, "size": line.get_markersize(), "fill": colour(line.get_markerfacecolor())}
        if (edge := colour(line.get_markeredgecolor())) != style["colour"]:
            style["edge"] = edge
    return style


def _line_corners(line: Any) -> list[np.ndarray]:
    if line.get_drawstyle() != "default":  # steps
        raise OtherArtistError
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
        raise OtherArtistError
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
    raise OtherArtistError


def _collected(artist: Any, shares: Any) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Lines or areas of a collection."""
    from matplotlib.colors import to_hex

    # Marks that are drawn again at many places (arrows of a field), and fields of thousands of cells.
    if np.any(artist.get_offsets()) or len(artist.get_paths()) > _MOST_PATHS:
        raise OtherArtistError
    if artist.get_hatch() or any(dashes is not None for _, dashes in artist.get_linestyle()):
        raise OtherArtistError
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
