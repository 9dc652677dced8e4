"""What a person sees of a run: in a terminal, a notebook and a file."""

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
    """A pseudo terminal that keeps what was written to it."""

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
    """What is left on each line, when a carriage return begins it anew."""
    return [line.split("\r")[-1].rstrip() for line in text.split("\n")]


def test_failures_are_counted_in_the_bar_and_a_newline_ends_it(terminal):
    with Progress(1000, "arm", terminal.file) as progress:
        progress.begin()
        progress.update(500, numbers)
    text = terminal.read() + "evaluations  500"
    bar, after = seen(text)
    assert bar.endswith(", 12 failed, coverage 50 %, mean -1.25]")
    assert after == "evaluations  500"


def test_failures_are_counted_in_lines():
    text = io.StringIO()
    with Progress(1000, "arm", text) as progress:
        progress.update(500, numbers)
        progress.update(1000, lambda: numbers() | {"failed": 0})
    first, last = text.getvalue().splitlines()
    assert first == "arm: 500 of 1,000 evaluations, 12 failed, coverage 50 %, mean -1.25"
    assert "failed" not in last


def test_a_bar_without_any_evaluation_ends_with_a_newline(terminal):
    with Progress(1000, "arm", terminal.file):
        pass
    assert terminal.read().endswith(", compiling]\n")


def test_earlier_evaluations_are_shown_while_it_compiles(terminal):
    with Progress(1000, "arm", terminal.file) as progress:
        progress.skip_to(600)
        shown = terminal.read().split("\r")[-1]
        assert "60%" in shown
        assert "600/1,000" in shown
        assert shown.endswith("compiling]")


def test_skipped_evaluations_are_not_in_the_rate_of_lines(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: clock[0])
    text = io.StringIO()
    progress = Progress(1000, "arm", text)
    progress.update(100, numbers)
    progress.skip_to(900)
    clock[0] += 10
    progress.update(1000, numbers)
    assert "10 per second" in text.getvalue()


def test_a_resumed_run_shows_from_the_start_what_was_done(terminal, tmp_path, monkeypatch):
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


def test_a_warning_stands_on_a_line_of_its_own(terminal):
    with Progress(1000, "arm", terminal.file) as progress:
        progress.update(500, numbers)
        with progress.paused():
            print("taskelites: warning: careful", file=terminal.file)
        progress.update(1000, numbers)
    assert seen(terminal.read())[0] == "taskelites: warning: careful"


def test_a_terminal_that_goes_away_ends_no_run():
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


def test_a_notebook_gets_the_widget_of_tqdm(notebook, monkeypatch, capsys):
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


def test_other_processes_are_no_notebook(monkeypatch):
    assert not in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: None))
    assert not in_notebook()
    shell = types.SimpleNamespace(config={"TerminalIPythonApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert not in_notebook()
