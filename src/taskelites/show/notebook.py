"""HTML for notebooks: a small table and a curve, without style sheets, scripts or links.

Text inherits the colour of the page, so that it is readable in light and dark themes.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from taskelites.results.result import Result

_WIDTH, _HEIGHT = 220, 90
# One point per two pixels; more would not be visible.
_MAX_POINTS = 110
# Style sheets and quirks mode give tables their own colour, so the style says to inherit it.
_TABLE = "border-collapse:collapse;border:none;color:inherit;font-size:inherit;margin:0"
_CELL = "padding:0.1em 0.9em 0.1em 0;text-align:left;vertical-align:top;border:none;background:none"


def result_html(result: Result) -> str:
    """Return the summary of a result as HTML, with a curve of the mean fitness if the result has a history.

    Example:
        >>> import taskelites as te
        >>> result = te.solve(te.domain("arm", tasks=300), evaluations=10_000)
        >>> "<td" in result_html(result), "<svg" in result_html(result)
        (True, True)
    """
    settings = result.settings
    algorithm = settings.get("algorithm")
    name = algorithm.get("name") if isinstance(algorithm, dict) else None
    parts = [(" of ", name), (" on ", settings.get("problem")), (", seed ", settings.get("seed"))]
    heading = "Result" + "".join(f"{before}{text}" for before, text in parts if text is not None)
    body = table_html([[name, value] for name, value in result.summary_rows()])
    curve = _curve_svg(result)
    return (
        f"<div><div><strong>{escape(heading)}</strong></div>"
        f'<div style="display:flex;flex-wrap:wrap;gap:1.5em;align-items:center">{body}{curve}</div></div>'
    )


def table_html(rows: Sequence[Sequence[Any]], *, heading: bool = False) -> str:
    """Return rows as an HTML table, with all text escaped.

    Args:
        rows: cells by row; the first column holds row headers.
        heading: whether the first row holds column headers.

    Example:
        >>> print(table_html([["mean", "<b>"]]).count("&lt;b&gt;"))
        1
    """
    lines = []
    for number, row in enumerate(rows):
        kinds = ["th" if place == 0 or (heading and number == 0) else "td" for place in range(len(row))]
        cells = (f'<{kind} style="{_CELL}">{escape(str(cell))}</{kind}>' for kind, cell in zip(kinds, row, strict=True))
        lines.append(f'<tr style="background:none">{"".join(cells)}</tr>')
    return f'<table style="{_TABLE}">{"".join(lines)}</table>'


def _curve_svg(result: Result) -> str:
    """Return an SVG of the mean and the 5 % to 95 % band over evaluations, or "" with fewer than two logged points."""
    history = result.history
    names = ("evaluations", "mean", "q05", "q95")
    if not all(name in history for name in names):
        return ""
    columns = np.stack([np.asarray(history[name], dtype=float) for name in names])
    columns = columns[:, np.isfinite(columns).all(axis=0) & (columns[0] > 0)]
    if columns.shape[1] < 2:
        return ""
    chosen = np.unique(np.linspace(0, columns.shape[1] - 1, _MAX_POINTS).round().astype(int))
    evaluations, mean, low, high = columns[:, chosen]
    across = np.log(evaluations)
    x = _WIDTH * (across - across[0]) / max(across[-1] - across[0], 1e-12)
    bottom, top = low.min(), high.max()
    height = top - bottom if top > bottom else 1.0

    def points(x: np.ndarray, values: np.ndarray) -> str:
        y = _HEIGHT * (1 - (values - bottom) / height)
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))

    band = points(np.concatenate([x, x[::-1]]), np.concatenate([low, high[::-1]]))
    title = f"mean fitness over evaluations (logarithmic), and 5 to 95 % of tasks: {bottom:.4g} to {top:.4g}"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 -2 {_WIDTH} {_HEIGHT + 4}" role="img">'
        f"<title>{escape(title)}</title>"
        f'<polygon points="{band}" fill="currentColor" fill-opacity="0.15"/>'
        f'<polyline points="{points(x, mean)}" fill="none" stroke="currentColor" stroke-width="1.8"/></svg>'
    )
