"""Signals: the first one is recorded, and a closed terminal does not end a run before it is saved."""

import os
import pty
import signal
import subprocess
import sys

import pytest

from taskelites.process import Interruption


@pytest.fixture
def usual_hangup():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_hangup_is_recorded_and_second_hangup_is_harmless(usual_hangup):
    with Interruption() as interruption:
        for _ in range(2):
            assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL  # the default would end the tests
            os.kill(os.getpid(), signal.SIGHUP)
            assert interruption.signal == signal.SIGHUP
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_ignored_hangup_stays_ignored(usual_hangup):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not interruption.noted
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


CLOSED = """
import fcntl, pathlib, sys, termios, time
from taskelites.process import Interruption

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
with Interruption() as interruption:
    print("ready", flush=True)
    while not interruption.noted:
        time.sleep(0.01)
    print("to a terminal that was closed", file=sys.stderr, flush=True)
    pathlib.Path(sys.argv[1]).write_text(interruption.signal.name)
"""


def test_run_is_saved_after_its_terminal_is_closed(tmp_path):
    terminal, inside = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-c", CLOSED, tmp_path / "saved"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        **dict.fromkeys(("stdin", "stdout", "stderr"), inside),
        start_new_session=True,
    )
    os.close(inside)
    assert b"ready" in os.read(terminal, 1000)
    os.close(terminal)
    assert run.wait(timeout=60) == 0
    assert (tmp_path / "saved").read_text() == "SIGHUP"
