"""How far the texts of a picture stand out of it, so that the page leaves room for them.

The page sets them in a font of its own: a letter is taken as a little more than half as wide as it is high.
"""

import math
from collections.abc import Sequence
from typing import Any

# Left, top, right, bottom in points of print, from the upper left corner of the picture.
Extent = tuple[float, float, float, float]

_LETTER = 0.55
_TITLE, _SMALL = 10, 9
_NEAR = 0.25
# Room comes in steps, so that pictures stay alike.
_STEP = 24


def margins(extents: Sequence[Extent], size: Sequence[float]) -> list[int]:
    """Room that texts need beside a picture: left, top, right, bottom, in points of print.

    Example:
        >>> margins([(-10.0, 5.0, 50.0, 20.0), (80.0, 0.0, 130.0, 10.0)], (100, 100))
        [24, 0, 48, 0]
    """
    if not extents:
        return [0, 0, 0, 0]
    left, top, right, bottom = zip(*extents, strict=True)
    beyond = (-min(left), -min(top), max(right) - size[0], max(bottom) - size[1])
    return [_STEP * max(0, math.ceil(each / _STEP)) for each in beyond]


def is_beside(x: float, y: float) -> bool:
    """Whether a text at a place, in shares of the picture, is in it or near: one far outside was not to be seen.

    Example:
        >>> is_beside(1.1, 0.5), is_beside(30.0, 0.5), is_beside(float("nan"), 0.5)
        (True, False, False)
    """
    return -_NEAR <= x <= 1 + _NEAR and -_NEAR <= y <= 1 + _NEAR


def text_extent(
    box: Sequence[float], size: Sequence[float], text: str, at: Sequence[float], style: dict[str, Any]
) -> list[Extent]:
    """Where a text at a place in shares of the axes is; nothing where it is far from the picture.

    Example:
        >>> text_extent((0, 0, 1, 1), (100, 100), "0123456789", (1.0, 0.5), {"size": 10, "ha": "left", "va": "top"})
        [(100.0, 50.0, 155.0, 62.0)]
    """
    x = size[0] * (box[0] + box[2] * float(at[0]))
    y = size[1] * (1 - box[1] - box[3] * float(at[1]))
    if not text.strip() or not is_beside(x / size[0], y / size[1]):
        return []
    lines = text.split("\n")
    wide, tall = _LETTER * style["size"] * max(map(len, lines)), 1.2 * style["size"] * len(lines)
    left = x - wide * {"left": 0.0, "center": 0.5, "right": 1.0}.get(style["ha"], 0.0)
    top = y - tall * {"top": 0.0, "center": 0.5}.get(style["va"], 1.0)
    return [(left, top, left + wide, top + tall)]


def panel_extents(panel: dict[str, Any], size: Sequence[float], title: str) -> list[Extent]:
    """Where the title of a panel and the texts at its own ticks are.

    Example:
        >>> panel_extents({"box": (0, 0, 1, 0.5), "yticks": [[0.0, "a name"]]}, (100, 100), "")
        [(-34.7, 94.6, -5.0, 105.4)]
    """
    box = panel["box"]
    found = text_extent(box, size, title, (0.5, 1 + 6 / size[1] / box[3]), _style(_TITLE, "center", "bottom"))
    for place, text in panel.get("xticks", []):
        found += text_extent(box, size, text, (place, -2 / size[1] / box[3]), _style(_SMALL, "center", "top"))
    for place, text in panel.get("yticks", []):
        found += text_extent(box, size, text, (-5 / size[0] / box[2], place), _style(_SMALL, "right", "center"))
    return [(round(a, 1), round(b, 1), round(c, 1), round(d, 1)) for a, b, c, d in found]


def _style(size: float, ha: str, va: str) -> dict[str, Any]:
    return {"size": size, "ha": ha, "va": va}
