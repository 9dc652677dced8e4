"""What a domain's `draw` shows, as lines and letters small enough to keep thousands of them.

`draw` draws on matplotlib axes; what is on them afterwards is read back as polygons, in shares of the axes. Pictures of
one domain are alike, so that how they look (colours, widths, labels) is kept once, and of each its numbers and texts.
A picture that holds something else than lines, patches and texts is kept as pixels.
"""

import base64
import io
import itertools
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taskelites.show.report.blob import Blob
from taskelites.sketch import Sketch

# In inches; the page scales it.
_WIDTH, _HEIGHT = 4.4, 4.0
# Steps of a coordinate along a side of the axes; three sides more fit into 16 bits on either end.
_STEPS = 8192
_MOST_STEPS = 32_767
# From so many corners on, a line is drawn with as few as look the same.
_MANY_CORNERS = 64
_MARKERS = "os*^vDx+.d"
# After so many errors one after another, `draw` is given up.
_PATIENCE = 3


@dataclass
class Picture:
    """One drawing.

    Attributes:
        shape: how it looks, as JSON.
        numbers: of each mark how many corners it has, and those, in steps.
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
        return 2 * len(self.numbers) + 4 * len(self.limits) + sum(map(len, self.texts)) + 8


class Pictures:
    """The drawings of some tasks, put into a page.

    Example:
        >>> import taskelites as te
        >>> arm = te.domain("arm", tasks=300)
        >>> result = te.solve(arm, evaluations=2000)
        >>> found = Pictures(len(result))
        >>> found.add_sketch([4, 7], arm.draw.many(result.solutions[[4, 7]], arm.tasks.descriptors[[4, 7]]))
        >>> found.drawn
        2
    """

    def __init__(self, tasks: int) -> None:
        self._of = np.full(tasks, -1, np.int64)
        self._shapes: dict[str, int] = {}
        self._pictures: list[tuple[int, np.ndarray, np.ndarray, list[str]]] = []
        self.trouble = ""

    @property
    def drawn(self) -> int:
        """How many tasks have a picture."""
        return len(self._pictures)

    def add(self, task: int, picture: Picture) -> None:
        """Keep the picture of a task."""
        self._keep(
            task,
            self._shape(picture.shape),
            np.array(picture.numbers, np.int16),
            np.array(picture.limits, np.float32),
            picture.texts,
        )

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
        columns = []
        for stroke in sketch.strokes:
            points = np.broadcast_to(stroke.points, (number, *stroke.points.shape[-2:]))
            steps = _steps((points - low) / span).reshape(number, -1)
            columns += [np.full((number, 1), points.shape[1]), steps]
        numbers = np.concatenate(columns, axis=1).astype(np.int16)
        limits = sketch.limits.astype(np.float32)
        for row, task in enumerate(tasks):
            self._keep(int(task), shape, numbers[row], limits[row], [sketch.titles[row]])

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
        room, failed = most_bytes, 0
        for number, solution, task in rows:
            if time.monotonic() > end or room <= 0 or failed >= _PATIENCE:
                return
            try:
                picture = _drawn(show, solution, task)
            except Exception as error:  # noqa: BLE001 - the user's function, which may raise anything
                self.trouble = self.trouble or f"draw raised {type(error).__name__} on task {number}: {error}"
                failed += 1
                continue
            failed = 0
            room -= picture.size
            self.add(number, picture)
            tell(self.drawn)

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


def _steps(shares: np.ndarray) -> np.ndarray:
    finite = np.nan_to_num(shares * _STEPS, nan=0.0, posinf=_MOST_STEPS, neginf=-_MOST_STEPS)
    return np.clip(np.rint(finite), -_MOST_STEPS, _MOST_STEPS).astype(np.int64)


def _shape_of(sketch: Sketch) -> dict[str, Any]:
    from matplotlib.colors import to_hex

    marks = [
        {
            "kind": "line",
            "colour": to_hex(stroke.colour),
            "width": stroke.width,
            "marker": stroke.marker,
            "size": stroke.size,
            "label": stroke.label,
        }
        for stroke in sketch.strokes
    ]
    # Beside it there is room for numbers and labels.
    box = [0.16, 0.13, 0.8, 0.72]
    panel = {"box": box, "frame": True, "equal": sketch.equal, "labels": list(sketch.labels), "marks": marks}
    return {"size": [72 * _WIDTH, 72 * _HEIGHT], "panels": [panel]}


class _OtherArtistError(Exception):
    """There is something on the axes that is no line, patch or text."""


def _drawn(show: Callable[..., Any], solution: np.ndarray, task: Any) -> Picture:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=72)
    ax = figure.add_axes((0.16, 0.13, 0.8, 0.72))
    show(solution, task, ax=ax)
    picture = Picture({"size": [72 * _WIDTH, 72 * _HEIGHT], "panels": []})
    try:
        for panel in _with_insets(figure.axes):
            picture.shape["panels"].append(_read_panel(panel, picture))
    except _OtherArtistError:
        pixels = io.BytesIO()
        figure.savefig(pixels, format="png", dpi=90)
        text = base64.b64encode(pixels.getvalue()).decode("ascii")
        return Picture({"size": [72 * _WIDTH, 72 * _HEIGHT], "pixels": True}, texts=[text])
    return picture


def _with_insets(axes: Iterable[Any]) -> list[Any]:
    found = []
    for ax in axes:
        found += [ax, *_with_insets(ax.child_axes)]
    return found


def _read_panel(ax: Any, picture: Picture) -> dict[str, Any]:
    """What is on one of the axes."""
    if ax.images or ax.tables or ax.artists:
        raise _OtherArtistError
    locator = ax.get_axes_locator()
    ax.apply_aspect(locator(ax, None) if locator else None)
    place = ax.get_position()
    picture.limits += [*ax.get_xlim(), *ax.get_ylim()]
    picture.texts.append(ax.get_title() or ax.get_title(loc="left"))
    panel: dict[str, Any] = {
        "box": [round(float(share), 4) for share in (place.x0, place.y0, place.width, place.height)],
        "frame": bool(ax.axison),
        "labels": [ax.get_xlabel(), ax.get_ylabel()],
        "marks": [],
    }
    for name, axis in (("xticks", ax.xaxis), ("yticks", ax.yaxis)):
        if ax.axison and (ticks := _own_ticks(ax, axis)) is not None:
            panel[name] = ticks
    legend = ax.get_legend() is not None
    every = [*ax.collections, *ax.patches, *ax.lines, *ax.texts]
    for artist in sorted((each for each in every if each.get_visible()), key=lambda each: each.get_zorder()):
        for style, corners in _marks(artist, ax, picture):
            label = artist.get_label() if legend else ""
            panel["marks"].append(style | ({"label": label} if label and not label.startswith("_") else {}))
            legend = legend and style.get("kind") != "text"
            picture.numbers += [len(corners), *_steps(corners).ravel().tolist()]
    return panel


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
            found.append([round(float(share), 4), text])
    return found


def _marks(artist: Any, ax: Any, picture: Picture) -> list[tuple[dict[str, Any], np.ndarray]]:
    """The marks of an artist: how each looks, and its corners in shares of the axes."""
    from matplotlib.collections import Collection, PathCollection
    from matplotlib.colors import to_hex
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

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
        return [(style, shares(corners)) for corners in _polygons(path)]
    if isinstance(artist, Text):
        picture.texts.append(artist.get_text())
        style = {"kind": "text", "colour": colour(artist.get_color()), "size": artist.get_fontsize()}
        style |= {"ha": artist.get_horizontalalignment(), "va": artist.get_verticalalignment()}
        return [(style, shares(artist.get_transform().transform([artist.get_position()])))]
    if isinstance(artist, PathCollection):
        return _scattered(artist, shares)
    if isinstance(artist, Collection):
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


def _scattered(artist: Any, shares: Any) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Points of a scatter plot, those of one colour and size together."""
    from matplotlib.colors import to_hex

    points = shares(artist.get_offset_transform().transform(np.ma.filled(artist.get_offsets(), np.nan)))
    artist.update_scalarmappable()
    colours = [to_hex(colour, keep_alpha=True) for colour in artist.get_facecolors()] or ["#00000000"]
    sizes = np.sqrt(artist.get_sizes()).round(1).tolist() or [6.0]
    groups: dict[tuple[str, float], list[np.ndarray]] = {}
    for i, point in enumerate(points):
        if np.isfinite(point).all():
            groups.setdefault((colours[i % len(colours)], sizes[i % len(sizes)]), []).append(point)
    return [
        ({"kind": "line", "colour": colour, "width": 0, "marker": "o", "size": size}, np.array(own))
        for (colour, size), own in groups.items()
    ]


def _collected(artist: Any, shares: Any) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Lines or areas of a collection."""
    from matplotlib.colors import to_hex

    artist.update_scalarmappable()
    faces, edges, widths = artist.get_facecolors(), artist.get_edgecolors(), artist.get_linewidths()
    found = []
    for i, path in enumerate(artist.get_paths()):
        style: dict[str, Any] = {"kind": "area" if len(faces) else "line"}
        style["fill"] = to_hex(faces[i % len(faces)], keep_alpha=True) if len(faces) else "none"
        style["colour"] = to_hex(edges[i % len(edges)], keep_alpha=True) if len(edges) else "none"
        style["width"] = float(widths[i % len(widths)]) if len(edges) and len(widths) else 0.0
        placed = artist.get_transform().transform_path(path)
        found += [(style, shares(corners)) for corners in _polygons(placed)]
    return found
