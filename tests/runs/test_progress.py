"""The progress display in a terminal, a notebook and a file."""

import io
import os
import pty
import select
import sys
import types
from contextlib import suppress

import numpy as np
import pytest
import tqdm.auto
from spheres import sphere

import taskelites as te
from taskelites.process import in_notebook, shows_progress
from taskelites.runs import Progress
from taskelites.runs import progress as progress_module


def numbers():
    return {"coverage": 0.5, "mean": -1.25, "failed": 12}


class Terminal:
    """A pseudo-terminal whose output can be read."""

    def __init__(self):
        self.ours, theirs = pty.openpty()
        self.file = os.fdopen(theirs, "w")

    def read(self):
        self.file.flush()
        text = b""
        while select.select([self.ours], [], [], 0.2)[0]:
            text += os.read(self.ours, 4096)
        return text.decode().replace("\r\n", "\n")


@pytest.fixture
def terminal():
    made = Terminal()
    yield made
    os.close(made.ours)
    made.file.close()


def seen(text):
    """Return the visible text of each line, given that a carriage return overwrites the line."""
    return [line.split("\r")[-1].rstrip() for line in text.split("\n")]


def test_bar_shows_failures_and_ends_with_newline(terminal):
    with Progress(1000, "arm", terminal.file) as progress:
        progress.begin()
        progress.update(500, numbers)
    text = terminal.read() + "evaluations  500"
    bar, after = seen(text)
    assert bar.endswith(", 12 failed, coverage 50 %, mean -1.25]")
    assert after == "evaluations  500"


def test_lines_show_failures():
    text = io.StringIO()
    with Progress(1000, "arm", text) as progress:
        progress.update(500, numbers)
        progress.update(1000, lambda: numbers() | {"failed": 0})
    first, last = text.getvalue().splitlines()
    assert first == "arm: 500 of 1,000 evaluations, 12 failed, coverage 50 %, mean -1.25"
    assert "failed" not in last


def test_bar_without_evaluations_ends_with_newline(terminal):
    with Progress(1000, "arm", terminal.file):
        pass
    assert terminal.read().endswith(", compiling]\n")


def test_bar_shows_skipped_evaluations_while_compiling(terminal):
    with Progress(1000, "arm", terminal.file) as progress:
        progress.skip_to(600)
        shown = terminal.read().split("\r")[-1]
        assert "60%" in shown
        assert "600/1,000" in shown
        assert shown.endswith("compiling]")


def test_rate_excludes_skipped_evaluations(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: clock[0])
    text = io.StringIO()
    progress = Progress(1000, "arm", text)
    progress.update(100, numbers)
    progress.skip_to(900)
    clock[0] += 10
    progress.update(1000, numbers)
    assert "10 per second" in text.getvalue()


def test_bar_of_resumed_run_starts_at_finished_evaluations(terminal, tmp_path, monkeypatch):
    options = {"bounds": (0, 1), "dim": 2, "call": "batch", "out": tmp_path / "run", "resume": True}
    tasks = np.linspace(0, 1, 200)[:, None]
    te.solve(sphere, tasks, evaluations=1000, **options)
    monkeypatch.setattr(sys, "stderr", terminal.file)
    te.solve(sphere, tasks, evaluations=2000, **options)
    frames = [frame for frame in terminal.read().split("\r") if "/2,000" in frame]
    after = [frame for frame in frames if " 0/2,000" not in frame]
    assert " 1,000/2,000" in after[0]
    assert "compiling]" in after[0]
    assert " 2,000/2,000" in frames[-1]
    assert frames[-1].endswith("]\n")


def test_warning_is_printed_on_its_own_line(terminal):
    with Progress(1000, "arm", terminal.file) as progress:
        progress.update(500, numbers)
        with progress.paused():
            print("taskelites: warning: careful", file=terminal.file)
        progress.update(1000, numbers)
    assert seen(terminal.read())[0] == "taskelites: warning: careful"


def test_closed_terminal_does_not_stop_run():
    ours, theirs = pty.openpty()
    file = os.fdopen(theirs, "w")
    with Progress(1000, "arm", file) as progress:
        progress.update(500, numbers)
        os.close(ours)
        progress.update(900, numbers)
        progress.note("still here")
        progress.update(1000, numbers)
    with suppress(OSError):
        file.close()
    closed = io.StringIO()
    progress = Progress(1000, "arm", closed)
    closed.close()
    progress.note("still here")
    progress.update(1000, numbers)


@pytest.fixture
def notebook(monkeypatch):
    """Pretend that this process is the kernel of a notebook."""
    shell = types.SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))


def test_notebook_uses_tqdm_widget(notebook, monkeypatch, capsys):
    made = []

    class Widget(tqdm.auto.tqdm):
        def __init__(self, *arguments, **options):
            made.append(options["total"])
            super().__init__(*arguments, **options)

    monkeypatch.setattr(tqdm.auto, "tqdm", Widget)
    assert in_notebook()
    assert shows_progress(None)
    with Progress(1000, "arm") as progress:
        progress.update(1000, numbers)
    assert made == [1000]
    assert "12 failed" in capsys.readouterr().err


def test_in_notebook_is_false_outside_notebooks(monkeypatch):
    assert not in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: None))
    assert not in_notebook()
    shell = types.SimpleNamespace(config={"TerminalIPythonApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert not in_notebook()
