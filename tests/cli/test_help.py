"""Run the examples in the help of every command, with small budgets."""

import argparse
import re
import shlex
import shutil
import sys
import textwrap
import warnings

import pytest

from taskelites.cli import main, parser
from taskelites.cli.experiment_commands import EXPERIMENTS
from taskelites.cli.values import parse_setting

OWN = """
    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np
    import taskelites as te

    def fitness(solution, task):
        return -abs(float(solution[0]) - task[0])

    def film(solution, task, *, width, height, fps):
        return [np.full((height, width, 3), 10 * i, np.uint8) for i in range(3)]

    common = dict(fitness=fitness, tasks=te.tasks.grid((60,), [0], [1]), bounds=(0, 1), dim=2)
    mydomain = te.Domain(name="mydomain", **common)
    mysimulator = te.Domain(name="mysimulator", film=film, **common)
    mine = mydomain

    @dataclass(frozen=True, kw_only=True)
    class myalgorithm(te.algorithms.RandomSampling):
        name: ClassVar[str] = "mine"
        rate: float = 0.5
"""
# Appended to each example, since the last of two equal options counts.
FEW = "--evaluations 128 --replicates 1 --quiet"
SMALLER = {
    "run": "--evaluations 64 --quiet --workers 1",
    "run arm": "--tasks 200 --evaluations 128 --quiet",
    "resume": "--evaluations 128 --workers 1 --quiet",
    "report": "--quiet",
    "watch": "--fps 2 --size 64x48 --quiet",
    "export": "--quiet",
    "compare": FEW,
    "compare arm": f"--tasks 200 {FEW}",
    "bench": f"--algorithms random --domains arm --tasks 200 {FEW}",
    "reproduce arm": f"--tasks 200 {FEW}",
    "reproduce hexapod": "--replicates 1 --tasks 20 --evaluations 64 --set single_replicates=1 --set "
    "single_evaluations=28 --quiet",
}


def commands():
    """Return the parsers of all commands, by name."""
    [action] = [each for each in parser()._actions if isinstance(each, argparse._SubParsersAction)]
    return action.choices


def examples(text):
    return [line.strip() for line in (text or "").splitlines() if line.strip().startswith("taskelites ")]


def quoted_values():
    """Yield the command, option and value of each example in the help of an option."""
    for name, command in commands().items():
        for action in command._actions:
            for value in re.findall(r"'([^']+)'", action.help or ""):
                yield pytest.param(name, action.option_strings[-1], value, id=f"{name} {action.option_strings[-1]}")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mymodule.py").write_text(textwrap.dedent(OWN))
    (tmp_path / "path" / "to").mkdir(parents=True)
    shutil.copy(tmp_path / "mymodule.py", tmp_path / "path" / "to")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    yield tmp_path
    sys.modules.pop("mymodule", None)


def run_example(line):
    words = shlex.split(line)[1:]
    more = SMALLER.get(" ".join(words[:2])) or SMALLER[words[0]]
    path = list(sys.path)
    with warnings.catch_warnings(action="ignore"):
        assert main([*words, *shlex.split(more)]) == 0, line
    sys.modules.pop("mymodule", None)  # a new process would import it again
    sys.path[:] = path


@pytest.mark.thorough
def test_examples_in_main_help_run(folder):
    lines = examples(parser().epilog)
    assert {line.split()[1] for line in lines} == set(commands()) - {"list", "replay"}
    for line in lines:
        if line.split()[1] != "reproduce":
            run_example(line)


@pytest.mark.slow  # test_reproduce and test_reproduce_hexapod run small versions of both experiments
def test_reproduce_examples_in_main_help_run(folder):
    for line in examples(parser().epilog):
        if line.split()[1] == "reproduce":
            run_example(line)


@pytest.mark.thorough
def test_examples_in_help_of_each_command_run(folder):
    found = [line for command in commands().values() for line in examples(command.epilog)]
    assert found
    run_example("taskelites run mymodule:mydomain --out runs/my-run")
    run_example("taskelites compare mymodule:mydomain --algorithms random --out runs/my-comparison")
    for line in found:
        run_example(line)


@pytest.mark.thorough
@pytest.mark.parametrize(("command", "option", "value"), list(quoted_values()))
def test_example_in_help_of_option_runs(folder, command, option, value):
    given = ["mymodule:mydomain"] if command == "compare" else ["--algorithms", "random"]
    with warnings.catch_warnings(action="ignore"):
        assert main([command, *given, option, value, *shlex.split(FEW)]) == 0


def test_settings_named_in_help_of_reproduce_exist():
    [action] = [each for each in commands()["reproduce"]._actions if each.dest == "set"]
    settings = [parse_setting(word.rstrip(";"))[0] for word in action.help.split() if "=" in word]
    assert settings == ["target", "threads"]
    for name, make in zip(settings, (EXPERIMENTS["arm"][0], EXPERIMENTS["hexapod"][0]), strict=True):
        assert name in make.__code__.co_varnames[: make.__code__.co_argcount + make.__code__.co_kwonlyargcount]
