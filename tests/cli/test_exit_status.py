"""The exit status and the printed reasons of commands in which evaluations failed."""

import sys

import numpy as np
import pytest

import taskelites as te
from taskelites.cli import main

DOMAIN = """
import numpy as np
import taskelites as te

class Fails:
    def __init__(self, every):
        self.every = every
        self.calls = 0

    def __call__(self, solution, task):
        self.calls += 1
        if self.calls % self.every:
            raise OSError("no display")
        return -float(np.abs(solution - task).sum())

    def __getstate__(self):
        return {}  # otherwise a resumed run warns that the fitness has changed

def make(every=10) -> te.Domain:
    tasks = np.linspace(0, 1, 200)[:, None]
    return te.Domain(name="simulator", fitness=Fails(every), tasks=tasks, bounds=(0, 1), dim=2)
"""
pytestmark = pytest.mark.filterwarnings("always::taskelites.errors.FitnessWarning")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "failing.py").write_text(DOMAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "failing", raising=False)  # the previous test imported it from another folder
    return tmp_path


def command(*arguments):
    return main([str(argument) for argument in arguments])


def test_mostly_failing_run_prints_reasons_and_returns_1(capsys):
    assert command("run", "failing:make", "--evaluations", 400, "--out", "out", "--no-report") == 1
    printed = capsys.readouterr()
    head, row = [line for line in printed.out.splitlines() if line.startswith(("failed  kind", "   360"))]
    assert head.split() == ["failed", "kind", "where", "reason"]
    assert row.split() == ["360", "raised", "failing.py:13", "OSError:", "no", "display"]
    assert "taskelites: warning: more than half of the last " in printed.err
    assert printed.err.splitlines()[-1] == (
        "taskelites: error: 360 of 400 evaluations failed, more than half; correct the fitness, or accept it with "
        "--allow-failures"
    )
    assert te.load("out").failed == 360


def test_allow_failures_returns_0_and_is_kept_when_resuming(capsys):
    options = ["--evaluations", 400, "--out", "out", "--no-report", "--allow-failures"]
    assert command("run", "failing:make", *options) == 0
    assert "error" not in capsys.readouterr().err
    assert command("resume", "out", "--trust", "--evaluations", 500) == 0  # --allow-failures is stored with the run
    assert "OSError: no display" in capsys.readouterr().out


def test_resumed_run_counts_failures_of_whole_run(capsys):
    assert command("run", "failing:make", "--evaluations", 200, "--out", "out", "--no-report") == 1
    capsys.readouterr()
    assert command("resume", "out", "--trust", "--evaluations", 400) == 1
    printed = capsys.readouterr()
    assert "   360  raised" in printed.out
    assert "360 of 400 evaluations failed" in printed.err
    assert command("resume", "out", "--trust", "--evaluations", 400) == 1  # the run is already complete
    assert command("resume", "out", "--trust", "--evaluations", 400, "--allow-failures") == 0


def test_mostly_failing_comparison_returns_1(capsys):
    options = ["--algorithms", "auto,random", "--replicates", 2, "--evaluations", 200, "--out", "out", "--no-report"]
    assert command("compare", "failing:make", *options) == 1
    printed = capsys.readouterr()
    assert "   720  raised" in printed.out
    assert "720 of 800 evaluations failed, more than half" in printed.err
    assert command("compare", "failing:make", *options, "--allow-failures") == 0


def test_run_with_half_of_evaluations_failed_returns_0(capsys):
    options = ["--set", "every=2", "--evaluations", 200, "--out", "out", "--no-report"]
    assert command("run", "failing:make", *options) == 0
    printed = capsys.readouterr()
    assert "   100  raised" in printed.out
    assert np.isfinite(te.load("out").fitness).any()
