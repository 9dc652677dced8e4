import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import warnings

import numpy as np
import pytest

import taskelites as te
from taskelites.cli import main

DOMAIN = """
import numpy as np
import taskelites as te

def make(tasks=300, dim=2, offset=0.0) -> te.Domain:
    return te.Domain(
        name="my shift",
        fitness=lambda x, t: -np.abs(x - t[:, :1] - offset).sum(axis=1),
        tasks=te.tasks.grid((tasks,), [0], [1]) if isinstance(tasks, int) else tasks,
        bounds=(0, 1),
        dim=dim,
        call="batch",
    )

ready = make()
nothing = 3

def not_a_domain() -> te.Domain:
    return 3

def raises() -> te.Domain:
    raise KeyError("lost")

def dies_late() -> te.Domain:
    def fitness(x, t, calls=[]):
        calls.append(1)
        return x[:, 0] if len(calls) == 1 else 1 / 0
    return te.Domain(name="late", fitness=fitness, tasks=[[i] for i in range(50)], bounds=(0, 1), dim=2, call="batch")

def broken() -> te.Domain:
    def fitness(x, t):
        return 1 / 0
    return te.Domain(name="broken", fitness=fitness, tasks=[[0.0]] * 300, bounds=(0, 1), dim=2)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(DOMAIN)
    (tmp_path / "bad.py").write_text("undefined")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    return tmp_path


def run(*arguments):
    return main([str(argument) for argument in arguments])


def test_run_prints_summary_and_saves_to_new_folder(folder, capsys):
    assert run("run", "arm", "--tasks", 300, "--evaluations", "2e4", "--seed", 3) == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert lines[0] == "arm: 300 tasks, 20,000 evaluations, auto, seed 3"
    names = [line.split()[0] for line in lines[1:]]
    assert names == ["evaluations", "coverage", "mean", "median", "best", "worst", "gap", "time", "saved", "report"]
    assert "to the optimum" in output.out
    saved = lines[-2].split()[1]
    assert lines[-1].split()[1] == f"{saved}/report.html"
    assert re.fullmatch(r"runs/\d{4}-\d\d-\d\d-\d{6}-arm", saved)
    result = te.load(saved)
    same = te.solve(te.domain("arm", tasks=300), evaluations=20_000, seed=3, algorithm="auto")
    assert np.array_equal(result.solutions, same.solutions)
    assert json.loads((folder / saved / "settings.json").read_text())["seed"] == 3
    assert (folder / saved / "metrics.csv").read_text().startswith("evaluations,seconds,coverage,mean,")
    assert "20,000 of 20,000 evaluations" in output.err


@pytest.mark.thorough
def test_consecutive_runs_get_distinct_folders(folder):
    for _ in range(3):
        assert run("run", "mine:ready", "--evaluations", 64, "--quiet") == 0
    assert len(list((folder / "runs").iterdir())) == 3


@pytest.mark.thorough
def test_run_never_overwrites_existing_folder(folder, capsys):
    assert run("run", "mine:ready", "--evaluations", 64, "--out", "here") == 0
    before = sorted((path.name, path.stat().st_mtime_ns) for path in (folder / "here").iterdir())
    assert run("run", "mine:ready", "--evaluations", 64, "--out", "here") == 2
    assert sorted((path.name, path.stat().st_mtime_ns) for path in (folder / "here").iterdir()) == before
    assert (
        "out is 'here', which is not empty; a run never overwrites files: name a new folder" in capsys.readouterr().err
    )


def test_set_passes_algorithm_settings_and_domain_options(folder):
    (folder / "own.csv").write_text("load\n" + "\n".join(str(i / 300) for i in range(300)))
    arguments = (
        "--algorithm",
        "mt-map-elites",
        "--set",
        "tournament=[1,5]",
        "--set",
        "variation=sbx",
        "--set",
        "offset=0.25",
        "--tasks",
        "own.csv",
        "--set",
        "replacement=false",
    )
    assert run("run", "mine:make", "--evaluations", 500, "--dim", 3, "--out", "out", "--quiet", *arguments) == 0
    result = te.load("out")
    assert result.settings["algorithm"]["tournament"] == [1, 5]
    assert result.settings["algorithm"]["variation"] == {"type": "SBX", "eta": 10.0}
    assert result.settings["algorithm"]["replacement"] is False
    assert result.solutions.shape == (300, 3)
    assert result.tasks.names == ("load",)
    assert result.settings["options"]["offset"] == 0.25
    assert result.settings["options"]["dim"] == 3


def test_replicates_are_printed_as_table(folder, capsys):
    assert run("run", "arm", "--tasks", 300, "--evaluations", 2000, "--replicates", 2, "--seed", 7, "--out", "two") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "arm: 300 tasks, 2,000 evaluations, auto, 2 runs with seeds 7 to 8"
    assert lines[1].split() == ["seed", "coverage", "mean", "median", "best", "worst", "gap"]
    assert [line.split()[0] for line in lines[2:4]] == ["7", "8"]
    assert sorted(os.listdir(folder / "two")) == [
        ".lock",
        "replicate-0",
        "replicate-1",
        "report.html",
        "run.json",
        "run.log",
    ]


OWN_ALGORITHM = """
from dataclasses import dataclass
from typing import ClassVar

import taskelites as te


@dataclass(frozen=True, kw_only=True)
class Narrow:
    name: ClassVar[str] = "narrow"
    uses_distance: ClassVar[bool] = True
    size: int = 7

    def bind(self, problem, batch_size=64):
        return te.MultiTaskMapElites(tournament=self.size).bind(problem, batch_size)


ready = Narrow(size=9)
"""


@pytest.mark.thorough
def test_compare_prints_table_and_tests_and_can_add_algorithms(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    (folder / "algo.py").write_text(OWN_ALGORITHM)
    algorithms = "mt-map-elites, mt-map-elites(tournament=[1,5], variation=sbx),random,own = algo:Narrow(size=3)"
    options = ("--replicates", 2, "--evaluations", "1e3", "--batch-size", 16, "--seed", 4)
    assert run("compare", "mine:make", "--tasks", 210, "--algorithms", algorithms, *options) == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert lines[0] == "median (interquartile range) of 2 runs of 1,000 evaluations"
    assert lines[2].split()[:5] == ["algorithm", "mean", "over", "all", "tasks"]
    labels = ["mt-map-elites", "mt-map-elites(tournament=(1, 5), variation=SBX(eta=10.0))", "random", "own"]
    assert [line.startswith(label + "  ") for line, label in zip(lines[3:7], labels, strict=True)] == [True] * 4
    assert len([line for line in lines if line.startswith(tuple(labels))]) == 4 + 6
    saved = re.fullmatch(r"saved in (runs/\S+-compare-my-shift): figure, tables, tests, runs", lines[-2]).group(1)
    assert lines[-1].split() == ["report", f"{saved}/report.html"]
    assert te.Comparison.load(saved).labels == labels
    alone = te.solve(
        __import__("mine").make(tasks=210), evaluations=1000, batch_size=16, seed=5, algorithm="mt-map-elites"
    )
    assert np.array_equal(te.Comparison.load(saved).results["mt-map-elites"][1].fitness, alone.fitness, equal_nan=True)
    assert "random: 2,000 of 2,000 evaluations" in output.err
    # --add takes the budget, replicates and seed from the folder, so they are not repeated here.
    added = ("--algorithms", "algo:ready", "--out", saved, "--add", "--quiet")
    assert run("compare", "mine:make", "--tasks", 210, *added) == 0
    assert te.Comparison.load(saved).table()["runs"].tolist() == [2] * 5
    assert run("compare", "mine:make", *added) == 2
    assert "holds a comparison with options {'tasks': 210}, and this one has {}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("algorithms", "message"),
    [
        (
            "random,cma",
            "--algorithms must be one of 'auto', 'cma-es', 'map-elites-all', 'map-elites-random', 'monet', 'mt-map-elites', 'mtmb-map-elites', 'pt-map-elites', 'random', not 'cma'; did you mean 'cma-es'?",
        ),
        ("random(size=3)", "random takes no settings; leave out 'size'"),
        (
            "cma-es(popsize=3)",
            "a setting of cma-es must be one of 'max_std', 'penalty', 'population', 'sigma0', 'x0', not 'popsize'",
        ),
        ("cma-es(3)", "an algorithm must be NAME or NAME(SETTING=VALUE, ...), not 'cma-es(3)'"),
        ("cma-es(sigma0=", "an algorithm must be NAME or NAME(SETTING=VALUE, ...), not 'cma-es(sigma0='"),
        (
            "mine:nothing",
            "mine:nothing must be an algorithm (settings with `bind` and a `name`, or their class), or a function annotated with `-> te.algorithms.Settings`, not int",
        ),
        ("nowhere:Mine", "there is no module 'nowhere' in the current folder or among the installed packages"),
        ("cma-es(**{1: 2})", "an algorithm must be NAME or NAME(SETTING=VALUE, ...), not 'cma-es(**{1: 2})'"),
        (
            "random,random",
            "--algorithms must have distinct labels, not 'random' twice; set another label with LABEL=NAME",
        ),
        (",", "--algorithms must name at least one algorithm; `taskelites list` shows them"),
    ],
)
def test_invalid_algorithms_give_one_line_error(folder, capsys, algorithms, message):
    assert run("compare", "mine:ready", "--algorithms", algorithms, "--evaluations", 100) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (folder / "runs").exists() or not list((folder / "runs").iterdir())


def test_add_requires_out(folder, capsys):
    assert run("compare", "mine:ready", "--algorithms", "random", "--add") == 2
    assert "--add needs --out FOLDER, the folder of the comparison to add the algorithms to" in capsys.readouterr().err


@pytest.mark.thorough
def test_run_accepts_user_defined_algorithm_and_inline_settings(folder):
    (folder / "algo.py").write_text(OWN_ALGORITHM)
    options = ("--evaluations", 500, "--quiet", "--out")
    assert run("run", "mine:ready", "--algorithm", "algo:Narrow", "--set", "size=5", *options, "a") == 0
    assert te.load("a").settings["algorithm"] == {"name": "narrow", "type": "Narrow", "size": 5}
    assert run("run", "mine:ready", "--algorithm", "cma-es(population=7)", *options, "b") == 0
    assert te.load("b").settings["algorithm"]["population"] == 7


@pytest.mark.thorough
def test_warning_is_one_line_and_late_error_names_folder(folder, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert run("run", "mine:dies_late", "--evaluations", 1000, "--out", "late", "--on-error", "raise") == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("taskelites: warning: 50 tasks are few for many-task search")
    assert lines[-1].startswith("taskelites: error: fitness raised ZeroDivisionError: division by zero (mine.py, line ")
    assert lines[-1].endswith("; the results so far are in 'late'")
    assert te.load("late").evaluations == 64
    assert run("run", "mine:not_a_domain", "--out", "never") == 2
    assert not (folder / "never").exists()


def test_list_prints_one_line_per_domain_and_algorithm(capsys):
    assert run("list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("  arm ") for line in lines)
    assert any(line.startswith("  mt-map-elites ") for line in lines)
    assert all(len(line) <= 120 for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["arn"], "DOMAIN must be one of 'archery', 'arm', 'cartpole', 'hexapod', 'postures', 'valleys', not 'arn'; did you mean 'arm'?"),
        (["mymodule"], "DOMAIN must be a name shown by `taskelites list`, or module:name or file.py:name of your own domain, not 'mymodule'"),
        (["arm", "--algorithm", "mt-map"], "--algorithm must be one of 'auto', 'cma-es', 'map-elites-all', 'map-elites-random', 'monet', 'mt-map-elites', 'mtmb-map-elites', 'pt-map-elites', 'random', not 'mt-map'; did you mean 'mt-map-elites'?"),
        (["arm", "--set", "tournament"], "--set must have the form NAME=VALUE, not 'tournament'"),
        (["arm", "--algorithm", "mt-map-elites", "--set", "tournament=0"], "tournament must be a whole number of at least 1 and at most 2,147,483,647, not 0"),
        (["arm", "--tasks", "many"], "--tasks must be a number or a .csv or .npy file, not 'many'"),
        (["arm", "--tasks", "none.csv"], "there is no task file 'none.csv'"),
        (["arm", "--evaluations", "0"], "--evaluations must be a whole number of at least 1 and at most 2,147,483,647, not 0"),
        (["arm", "--set", "tournament=5"], "with --algorithm auto, --set must be one of 'dim', 'form', 'numbers', 'rules', 'seed', 'target', 'tasks', 'ways', not 'tournament'; did you mean 'target'?"),
        (["arm", "--algorithm", "mt-map-elites", "--set", "replacement=maybe"], "replacement must be True or False, not 'maybe'"),
        (["bad:domain"], "module 'bad' cannot be imported: NameError: name 'undefined' is not defined"),
        (["mine:raises"], "mine:raises raised KeyError: 'lost'"),
        (["nowhere:domain"], "there is no module 'nowhere' in the current folder or among the installed packages"),
        (["mine:redy"], "the name after mine: must be one of 'broken', 'dies_late', 'make', 'not_a_domain', 'nothing', 'np', 'raises', 'ready', 'te', not 'redy'; did you mean 'ready'?"),
        (["mine:nothing"], "mine:nothing must be a te.Domain, or a function annotated with `-> te.Domain`, not int"),
        (["mine:not_a_domain"], "mine:not_a_domain must return a te.Domain, but it returned int"),
        (["mine:ready", "--dim", "3"], "mine:ready is a te.Domain, which takes no options, but dim was given; leave it out, or name a function that returns a domain"),
    ],
)  # fmt: skip
def test_invalid_arguments_give_one_line_error_and_status_2(folder, capsys, arguments, message):
    assert run("run", *arguments) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"taskelites: error: {message}"
    assert not (folder / "runs").exists() or not list((folder / "runs").iterdir())


def test_failing_fitness_gives_one_line_error_with_file_and_line(folder, capsys):
    assert run("run", "mine:broken") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(
        "taskelites: error: all 20 evaluations failed; the first: fitness raised ZeroDivisionError: division by zero (mine.py, line 32) [task "
    )
    assert run("run", "mine:broken", "--traceback") == 1
    assert "Traceback" in capsys.readouterr().err


def test_unexpected_error_shows_traceback_and_version(folder, capsys, monkeypatch):
    def wrong(*_, **__):
        raise KeyError("lost")

    monkeypatch.setattr("taskelites.cli.run_command.solve", wrong)
    assert run("run", "mine:ready", "--evaluations", 64) == 70
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert "KeyError: 'lost'" in error
    assert error.splitlines()[-1].startswith(
        "taskelites: unexpected error. If the last lines above are in your own files"
    )
    assert te.__version__ in error


@pytest.mark.parametrize("text", ["1.5", "many", "1e999", "nan", ""])
def test_invalid_number_of_evaluations_is_rejected(text, capsys):
    with pytest.raises(SystemExit) as stop:
        run("run", "arm", "--evaluations", text)
    assert stop.value.code == 2
    assert f"expected a whole number such as 1000 or 1e6, not {text!r}" in capsys.readouterr().err


def test_help_and_version_are_printed_with_status_0(capsys):
    for arguments, expected in (["--help"], "taskelites run arm"), (["--version"], "taskelites 0."):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 0
        assert expected in capsys.readouterr().out


@pytest.mark.parametrize("columns", [pytest.param(120, marks=pytest.mark.slow), 80, 0])
def test_terminal_shows_progress_bar_and_ctrl_c_saves_results(folder, columns):
    """Use a real terminal and a real signal: the status is 130 and the results so far are saved."""
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 40 if columns else 0, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "taskelites", "run", "mine:ready", "--evaluations", "1e8", "--out", "cut"],
        stdout=secondary, stderr=secondary, stdin=secondary,
    )  # fmt: skip
    os.close(secondary)
    shown = b""
    deadline = time.monotonic() + 60
    while b"coverage 100 %" not in shown and time.monotonic() < deadline:
        if select.select([primary], [], [], 1.0)[0]:
            shown += os.read(primary, 4096)
    process.send_signal(signal.SIGINT)
    try:
        while chunk := os.read(primary, 4096):
            shown += chunk
    except OSError:
        pass  # the terminal closes when the process exits
    os.close(primary)
    assert process.wait() == 130
    text = shown.decode()
    assert re.search(r"my shift +\d+%\|.*/100,000,000 \[.* left, .*/s, coverage .* %, mean -", text)
    assert re.search(r"taskelites: interrupted after [\d,]+ evaluations; the results so far are in 'cut'", text)
    assert te.load("cut").evaluations > 64
