"""Builds the HTML file from contents, script and style.

All text from a user (names, labels, messages) is JSON without `<`, so it can't end the element that holds it, and
becomes text nodes on the page, never markup. A content security policy allows the page's own script and style by their
hashes, and no request at all.
"""

import base64
import hashlib
import html
import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from taskelites.show.comparison_plots import COLOURS
from taskelites.show.report.blob import Blob

_SCRIPTS = ("data.js", "charts.js", "map.js", "genomes.js", "picture.js", "task.js", "comparison.js", "page.js")
_TITLE_LENGTH = 200

# Distinguishes a report from any other HTML file.
_MARK = '<meta name="generator" content="taskelites report">'
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{mark}
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript><p>This report needs JavaScript, which is switched off in this browser.</p></noscript>
<main id="page"></main>
<script type="application/json" id="about">{about}</script>
<script type="text/plain" id="numbers">{numbers}</script>
<script>{script}</script>
</body>
</html>
"""


def render(title: str, about: dict[str, Any], blob: Blob) -> str:
    """Return the page as text.

    Args:
        title: title of the browser window.
        about: the contents as plain values; NaN is allowed.
        blob: the arrays that `about` refers to.

    Example:
        >>> page = render("</title><script>", {"name": "</script><script>alert(1)"}, Blob())
        >>> "</title><script>" in page, "</script><script>alert" in page, "alert(1)" in page
        (False, False, True)
    """
    assets = files("taskelites.show.report") / "assets"
    style = (assets / "page.css").read_text(encoding="utf-8")
    parts = "\n".join((assets / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{parts}\n}})();'
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    short = _whole_letters(title if len(title) <= _TITLE_LENGTH else f"{title[:_TITLE_LENGTH]}...")
    return _PAGE.format(
        mark=_MARK,
        policy=policy,
        title=html.escape(short),
        style=style,
        about=as_json(about | {"palette": _palette(), "colours": COLOURS}),
        numbers=blob.encoded(),
        script=script,
    )


def _palette() -> str:
    """Return the 256 colours of viridis, which the colour-blind can tell apart, as six hexadecimal digits each."""
    from matplotlib import colormaps

    return str(colormaps["viridis"](range(256), bytes=True)[:, :3].tobytes().hex())


def is_report(path: Path) -> bool:
    """Return whether a file is a report, which a new report may replace.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "page.html"
        >>> _ = path.write_text(render("a page", {}, Blob()))
        >>> is_report(path)
        True
    """
    with path.open("rb") as file:
        return _MARK.encode() in file.read(1000)


def as_json(value: Any) -> str:
    """Return JSON for a `<script>` element: without `<`, and with null for NaN and infinity.

    Example:
        >>> as_json({"a": float("nan")}), "<" in as_json("<!--")
        ('{"a": null}', False)
    """
    text = json.dumps(_known(value), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _known(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_whole_letters(str(key)): _known(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_known(entry) for entry in value]
    return _whole_letters(value) if isinstance(value, str) else value


def _whole_letters(text: str) -> str:
    """Replace lone surrogates, which UTF-8 can't encode."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
