"""What plots share: axes to draw on, and the colour bar beside them."""

from typing import Any

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError


def axes_or_new(ax: Any, size: tuple[float, float] = (6.4, 4.4)) -> Any:
    """The matplotlib axes that were given, or new ones on a figure of `size` inches."""
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    if ax is None:
        return plt.figure(figsize=size, layout="constrained").add_subplot()
    if not isinstance(ax, Axes):
        raise InvalidTypeError(f"ax must be matplotlib axes, not {type(ax).__name__}")
    return ax


def given_pair(ax: Any) -> np.ndarray:
    """Two matplotlib axes that were given, as an array, which is what `plt.subplots` makes.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> import matplotlib.pyplot as plt
        >>> given_pair(plt.subplots(2, 1)[1]).shape
        (2,)
    """
    from matplotlib.axes import Axes

    panels = np.ravel(np.asarray(ax, dtype=object))
    if len(panels) != 2 or not all(isinstance(panel, Axes) for panel in panels):
        what = type(ax).__name__ if isinstance(ax, Axes) else f"{len(panels)} of {type(ax).__name__}"
        raise InvalidValueError(f"ax must be a pair of matplotlib axes, such as plt.subplots(1, 2)[1], not {what}")
    return panels


def check_cbar(cbar: Any) -> None:
    """Refuse a `cbar` that is none of what pyribs takes, before anything is drawn."""
    from matplotlib.axes import Axes

    if not (cbar is None or isinstance(cbar, Axes) or (isinstance(cbar, str) and cbar == "auto")):
        raise InvalidValueError(
            f"cbar must be 'auto', None for no colour bar, or matplotlib axes to draw it on, not {cbar!r}"
        )


def add_cbar(drawn: Any, ax: Any, cbar: Any, kwargs: dict[str, Any] | None, **defaults: Any) -> Any:
    """Draw the colour bar of what was drawn, if one is wanted, and return it.

    Args:
        drawn: a matplotlib mappable.
        ax: axes beside which it stands, or several of one figure.
        cbar: "auto", None, or axes that become the colour bar.
        kwargs: of the user, for `Figure.colorbar`; they go before the defaults.
        defaults: for `Figure.colorbar`.
    """
    if cbar is None:
        return None
    options = defaults | (kwargs or {})
    if not isinstance(cbar, str):
        # What says where a bar stands beside its plot has no meaning on axes that stand already.
        placed = {name: value for name, value in options.items() if name not in ("pad", "aspect", "shrink", "fraction")}
        return cbar.figure.colorbar(drawn, cax=cbar, **placed)
    first = ax[0] if isinstance(ax, list) else ax
    return first.figure.colorbar(drawn, ax=ax, **options)
