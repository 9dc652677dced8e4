"""Helpers that plots share: axes and colour bars."""

from typing import Any

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError


def axes_or_new(ax: Any, size: tuple[float, float] = (6.4, 4.4)) -> Any:
    """Return the given matplotlib axes, or new ones.

    Args:
        ax: matplotlib axes, or None.
        size: width and height of a new figure, in inches.
    """
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    if ax is None:
        return plt.figure(figsize=size, layout="constrained").add_subplot()
    if not isinstance(ax, Axes):
        raise InvalidTypeError(f"ax must be matplotlib axes or None, not {type(ax).__name__}")
    return ax


def check_pair(ax: Any) -> np.ndarray:
    """Return a pair of matplotlib axes as an array `(2,)`, as made by `plt.subplots`.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> import matplotlib.pyplot as plt
        >>> check_pair(plt.subplots(2, 1)[1]).shape
        (2,)
    """
    from matplotlib.axes import Axes

    panels = np.ravel(np.asarray(ax, dtype=object))
    if len(panels) != 2 or not all(isinstance(panel, Axes) for panel in panels):
        what = type(ax).__name__ if isinstance(ax, Axes) else f"{len(panels)} of {type(ax).__name__}"
        raise InvalidValueError(f"ax must be a pair of matplotlib axes, such as plt.subplots(1, 2)[1], not {what}")
    return panels


def check_cbar(cbar: Any) -> None:
    """Raise, before anything is drawn, unless `cbar` is "auto", None or matplotlib axes, as in pyribs."""
    from matplotlib.axes import Axes

    if not (cbar is None or isinstance(cbar, Axes) or (isinstance(cbar, str) and cbar == "auto")):
        raise InvalidValueError(
            f"cbar must be 'auto', None for no colour bar, or matplotlib axes to draw it on, not {cbar!r}"
        )


def add_cbar(drawn: Any, ax: Any, cbar: Any, kwargs: dict[str, Any] | None, **defaults: Any) -> Any:
    """Draw a colour bar and return it, or return None if `cbar` is None.

    Args:
        drawn: a matplotlib mappable.
        ax: axes beside which to draw the colour bar, or a list of axes of one figure.
        cbar: "auto", None, or axes to draw the colour bar on.
        kwargs: user options for `Figure.colorbar`; they override the defaults.
        defaults: default options for `Figure.colorbar`.
    """
    if cbar is None:
        return None
    options = defaults | (kwargs or {})
    if not isinstance(cbar, str):
        # matplotlib rejects the options for placement when the axes of the colour bar are given.
        placed = {name: value for name, value in options.items() if name not in ("pad", "aspect", "shrink", "fraction")}
        return cbar.figure.colorbar(drawn, cax=cbar, **placed)
    first = ax[0] if isinstance(ax, list) else ax
    return first.figure.colorbar(drawn, ax=ax, **options)
