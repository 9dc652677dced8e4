"""Corners of lines and areas as whole numbers of 16 bits.

What lies farther away than these reach is cut off where it leaves, not moved: a line keeps its direction.
"""

from typing import Any, Literal

import numpy as np

# Of a coordinate along a side of the axes; three sides more fit into 16 bits on either end.
_STEPS = 8192
# A little less than 16 bits hold: matplotlib cuts one unit farther out.
_REACH = 32_700


def stepped(shares: np.ndarray, kind: Literal["line", "area", "points"]) -> list[np.ndarray]:
    """Corners, in shares of the axes, as whole numbers: the parts of them that can be told.

    A line has a gap where a number is not finite, as in matplotlib.

    Args:
        shares: `(m, 2)`.
        kind: of a "line" and of an "area", what is far away is cut off; of "points", it is left out.

    Example:
        >>> import numpy as np
        >>> [part.tolist() for part in stepped(np.array([[0, 0], [0.5, 1], [np.nan, 0], [1, 1]]), "line")]
        [[[0, 0], [4096, 8192]], [[8192, 8192]]]
    """
    corners = np.asarray(shares, np.float64) * _STEPS
    near = held(corners)
    if near.all():
        return [np.rint(corners).astype(np.int64)] if len(corners) else []
    if kind == "points":
        return stepped(shares[near], kind)
    return [np.rint(part).astype(np.int64) for part in _cut(corners, kind) if len(part)]


def within_reach(shares: np.ndarray) -> np.ndarray:
    """Of corners `(..., m, 2)` in shares of the axes, whether all of them can be told as they are.

    Example:
        >>> import numpy as np
        >>> within_reach(np.array([[[0.0, 1.0]], [[0.0, 99.0]], [[np.nan, 0.0]]])).tolist()
        [True, False, False]
    """
    return np.asarray(held(shares * _STEPS).all(axis=-1))


def held(corners: np.ndarray) -> np.ndarray:
    """Of each corner, in steps, whether 16 bits hold it.

    Example:
        >>> import numpy as np
        >>> held(np.array([[0.0, 1.0], [40_000.0, 0.0]])).tolist()
        [True, False]
    """
    return np.asarray((np.abs(corners) <= _REACH).all(axis=-1))


def _cut(corners: np.ndarray, kind: str) -> list[np.ndarray]:
    from matplotlib.path import Path
    from matplotlib.transforms import Bbox

    if kind == "area":
        whole = corners[np.isfinite(corners).all(axis=1)]
        if len(whole) < 3:
            return []
        inside: Any = Path(whole).clip_to_bbox(Bbox([[-_REACH, -_REACH], [_REACH, _REACH]]))
        return [np.asarray(part) for part in inside.to_polygons()]
    found = []
    finite = np.isfinite(corners).all(axis=1)
    for run in np.split(np.arange(len(corners)), np.flatnonzero(np.diff(finite)) + 1):
        if not finite[run[0]]:
            continue
        if held(corners[run]).all():
            found.append(corners[run])
        elif len(run) > 1:
            cut: Any = Path(corners[run]).cleaned(clip=(-_REACH, -_REACH, _REACH, _REACH))
            found += [np.asarray(part) for part in cut.to_polygons(closed_only=False)]
    return found
