import io
import signal
import threading

import pytest

from taskelites.process import Interruption
from taskelites.runs import Progress, RunFolder
from taskelites.runs import progress as progress_module


def test_run_folder_must_be_new_or_empty(tmp_path):
    assert RunFolder(tmp_path / "a" / "b").path.is_dir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileExistsError, match="which is not empty"):
        RunFolder(tmp_path / "file")
    with pytest.raises(OSError, match=r"could not make the run folder '.*file/below': Not a directory"):
        RunFolder(tmp_path / "file" / "below")


def test_run_folders_created_in_same_second_have_different_names(tmp_path):
    paths = {RunFolder.under(tmp_path, "arm").path for _ in range(5)}
    assert len(paths) == 5
    assert all(path.is_dir() for path in paths)


def numbers():
    return {"coverage": 0.5, "mean": -1.25}


def test_progress_lines_are_first_then_every_ten_seconds_then_last(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: clock[0])
    text = io.StringIO()
    with Progress(1000, "arm", text) as progress:
        for evaluations, now in ((100, 107.0), (200, 108.0), (300, 117.5), (400, 118.0), (1000, 119.0)):
            clock[0] = now
            progress.update(evaluations, numbers)
    assert text.getvalue().splitlines() == [
        "arm: 100 of 1,000 evaluations, coverage 50 %, mean -1.25",
        "arm: 300 of 1,000 evaluations, coverage 50 %, mean -1.25, 19 per second, 00:36 left",
        "arm: 1,000 of 1,000 evaluations, coverage 50 %, mean -1.25, 75 per second, 00:00 left",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_bar_shows_compiling_and_ends_with_newline():
    terminal = Terminal()
    with Progress(1000, "arm", terminal) as progress:
        assert "arm   0%" in terminal.getvalue()
        assert terminal.getvalue().endswith(", compiling]")
        progress.begin()
        assert "compiling" not in terminal.getvalue().split("\r")[-1]
        progress.update(1000, numbers)
    last = terminal.getvalue().split("\r")[-1]
    assert "1,000/1,000" in last
    assert last.endswith("coverage 50 %, mean -1.25]\n")


def test_progress_numbers_are_computed_only_when_shown(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: clock[0])
    asked = []
    progress = Progress(10**6, "x", io.StringIO())
    for evaluations in range(1, 1000):
        progress.update(evaluations, lambda: asked.append(1) or numbers())
    assert len(asked) == 1


def test_interruption_ignores_custom_handlers_and_other_threads():
    def mine(*_):
        pass

    before = signal.signal(signal.SIGINT, mine)
    try:
        with Interruption():
            assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)
    seen = []

    def elsewhere():
        with Interruption() as interruption:
            seen.append(interruption.noted)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [False]
