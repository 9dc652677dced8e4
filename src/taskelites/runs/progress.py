"""The progress of a run: a bar in a terminal or a notebook, plain lines elsewhere."""

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from tqdm import tqdm

from taskelites.process import in_notebook

_BAR = "{desc} {percentage:3.0f}%|{bar}| {n:,}/{total:,} [{remaining} left, {rate_noinv_fmt}{postfix}]"
_BAR_SECONDS = 0.1
_LINE_SECONDS = 10.0


class Progress:
    """Shows evaluations, rate, coverage, mean fitness, failed evaluations and time left.

    A stream that breaks, such as a terminal that was closed, does not end the run.

    Args:
        total: evaluations of the whole run.
        label: name of the run.
        file: the stream to write to, stderr by default. A terminal shows a bar, and a notebook tqdm's widget; other
            streams get a line at the start and one every ten seconds.

    Example:
        >>> import io
        >>> text = io.StringIO()
        >>> with Progress(1000, "arm", text) as progress:
        ...     progress.update(1000, lambda: {"coverage": 1.0, "mean": -0.5})
        >>> "arm: 1,000 of 1,000 evaluations" in text.getvalue()
        True
    """

    def __init__(self, total: int, label: str, file: TextIO | None = None) -> None:
        self._total = total
        self._label = label
        self._file = file if file is not None else sys.stderr
        # The rate is measured from the first report, since the time before it is start-up.
        self._first: tuple[float, int] | None = None
        self._last = 0.0
        self._done = 0
        self._shown = -1
        self._bar = None
        bar = _bar_class(self._file)
        if bar is not None:
            self._bar = bar(
                total=total,
                desc=label[:20],
                unit="",
                unit_scale=True,
                file=self._file,
                mininterval=0,
                **_width(self._file),
                bar_format=_BAR,
            )
            self._bar.set_postfix_str("compiling")

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def skip_to(self, evaluations: int) -> None:
        """Show this number of evaluations, of which those that were not shown before were made by an earlier run."""
        if self._first is not None:
            then, first = self._first
            self._first = then, first + evaluations - self._done
        if self._bar is not None and evaluations != self._done:
            self._bar.initial += evaluations - self._done
            self._bar.n = evaluations
            self._bar.refresh()
        self._done = evaluations

    def begin(self) -> None:
        """Show that the evaluations begin; until then, the search is being compiled."""
        if self._bar is not None and self._first is None:
            self._bar.set_postfix_str("")

    def note(self, text: str) -> None:
        """Print a message without disturbing the bar."""
        line = f"{self._label}: {text}"
        if self._bar is not None:
            with suppress(OSError, ValueError):
                self._bar.write(line, file=self._file)
        else:
            self._print(line)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Remove the bar while something else is printed."""
        if self._bar is None:
            yield
            return
        with self._bar.external_write_mode(file=self._file):
            yield

    def update(self, evaluations: int, numbers: Callable[[], Mapping[str, float] | str]) -> None:
        """Show the number of evaluations and what `numbers` returns, which is called only if something is shown."""
        now = time.monotonic()
        self._done = evaluations
        wait = _BAR_SECONDS if self._bar is not None else _LINE_SECONDS
        due = self._first is None or now - self._last >= wait or evaluations >= self._total
        if not due or evaluations == self._shown:
            return
        self._last, self._shown = now, evaluations
        shown = numbers()
        found = shown if isinstance(shown, str) else _numbers_text(shown)
        if self._bar is not None:
            if self._first is None:
                self._first = (now, evaluations)
                # Without the second, tqdm takes the bar for one that was never shown, and leaves out its newline.
                self._bar.start_t = self._bar.last_print_t = time.time()
                self._bar.initial = evaluations
            self._bar.n = evaluations
            self._bar.set_postfix_str(found, refresh=True)
            return
        line = f"{self._label}: {evaluations:,} of {self._total:,} evaluations{', ' if found else ''}{found}"
        if self._first is None:
            self._first = (now, evaluations)
        else:
            rate = (evaluations - self._first[1]) / max(now - self._first[0], 1e-9)
            left = tqdm.format_interval((self._total - evaluations) / rate) if rate else "?"
            line += f", {_rate(rate)}, {left} left"
        self._print(line)

    def _print(self, line: str) -> None:
        with suppress(OSError, ValueError):  # ValueError: the stream is closed
            print(line, file=self._file, flush=True)


def _bar_class(file: TextIO) -> Any:
    """Return tqdm's class for a terminal or a notebook; None for other streams."""
    if file.isatty():
        return tqdm
    if file is not sys.stderr or not in_notebook():
        return None
    with warnings.catch_warnings(action="ignore"):  # without ipywidgets, the bar is text, which needs no warning
        from tqdm.auto import tqdm as bar

    return bar


def _numbers_text(numbers: Mapping[str, float]) -> str:
    """Return failed evaluations, coverage and mean, in this order, since a narrow terminal cuts the end."""
    failed = numbers.get("failed", 0)
    text = f"coverage {100 * numbers['coverage']:.4g} %, mean {numbers['mean']:.5g}"
    return f"{failed:,} failed, {text}" if failed else text


def _width(file: TextIO) -> dict[str, Any]:
    """Return tqdm's arguments for the width; it would show no bar in a terminal that reports no size."""
    try:
        known = os.get_terminal_size(file.fileno()).columns > 0
    except (OSError, ValueError):
        known = False
    return {"dynamic_ncols": True} if known else {"ncols": 80, "nrows": 24}


def _rate(rate: float) -> str:
    return f"{rate:,.0f} per second" if rate >= 10 else f"{rate:.2g} per second"
