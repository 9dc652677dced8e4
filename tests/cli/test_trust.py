"""A run folder is data: no command runs code named in it, unless the user names that code or trusts the folder."""

import json
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

import taskelites as te
from taskelites.cli import main
from taskelites.cli.run_request import RunRequest
from taskelites.runs import RunFolder

TASKS = te.tasks.grid((5,), [0], [1])
OWN = """
    import pathlib
    import taskelites as te

    def fitness(solution, task):
        if solution[0] > 0.5:
            raise RuntimeError("fell over")
        return -abs(float(solution[0]) - task[0])

    def draw(solution, task, ax=None):
        ax.plot(solution)

    def make(tasks=5, shift=0.0) -> te.Domain:
        pathlib.Path("made.txt").write_text(repr((tasks, shift)))
        points = te.tasks.grid((tasks,), [0], [1])
        return te.Domain(name="mine", fitness=fitness, draw=draw, tasks=points, bounds=(0, 1), dim=1)

    domain = make()

    class Search(te.algorithms.RandomSampling):
        name = "search"

    def unchecked(path="touched"):
        pathlib.Path(path).write_text("called")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "owned.py").write_text(textwrap.dedent(OWN))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "owned", raising=False)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    yield tmp_path
    sys.modules.pop("owned", None)


def command(*arguments):
    with warnings.catch_warnings(action="ignore"):
        return main([str(argument) for argument in arguments])


def last_error(capsys):
    return capsys.readouterr().err.splitlines()[-1]


# Folders that try to run code

ATTACKS = {
    "algorithm": {
        "domain": "arm",
        "algorithm": "subprocess:Popen",
        "set": ["args=touch stolen", "shell=True"],
        "tasks": "5",
    },
    "inline": {"domain": "arm", "algorithm": "subprocess:Popen(args='touch stolen', shell=True)", "set": []},
    "domain": {"domain": "subprocess:Popen", "set": ["args=touch stolen", "shell=True"]},
    "function": {"domain": "os:system", "set": ["command=touch stolen"]},
    "module": {"domain": "planted:domain", "set": []},
    "file": {"domain": "planted.py:domain", "set": []},
    "ray": {"domain": "arm", "set": [], "ray": "ray://198.51.100.7:10001"},
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A run in which some evaluations fail."""
    path = tmp_path_factory.mktemp("honest") / "run"

    def fails(solution, task):
        return float("nan") if solution[0] > 0.5 else solution[0]

    with warnings.catch_warnings(action="ignore"):
        te.solve(fails, TASKS, bounds=(0, 1), dim=1, evaluations=20, algorithm="random", out=path)
    return path


@pytest.fixture(params=ATTACKS)
def trap(request, honest, folder):
    """A run folder from a stranger: its request names code to run, and it contains Python modules."""
    place = folder / "trap"
    place.mkdir()
    for name in ("result.npz", "failures.jsonl", "settings.json"):
        (place / name).write_bytes((honest / name).read_bytes())
    plan = json.loads((honest / "run.json").read_text())["plan"]
    asked = RunRequest(**{"evaluations": 20, "folder": ".", **ATTACKS[request.param]}).plain()
    RunFolder.part(place).write_plan({"request": asked, "plan": plan})
    for name in ("planted", "sitecustomize"):
        (place / f"{name}.py").write_text("open('stolen', 'w').close()")
    return place


@pytest.fixture
def calls(monkeypatch):
    """Replace `Popen` and `system` with stand-ins and return the list of their calls."""
    called = []
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: called.append("Popen"))
    monkeypatch.setattr(os, "system", lambda *_, **__: called.append("system"))
    return called


@pytest.mark.parametrize("arguments", [["report", "."], ["watch", "."], ["replay", ".", "1"], ["resume", "."]])
def test_no_command_runs_code_named_in_folder(trap, calls, arguments, monkeypatch, capsys):
    monkeypatch.chdir(trap)
    before = list(sys.path)
    known = set(sys.modules)
    status = command(*arguments)
    said = capsys.readouterr().err
    assert calls == []
    assert not (trap / "stolen").exists()
    assert "planted" not in set(sys.modules) - known
    assert sys.path == before
    if arguments[0] == "report":
        assert status == 0
        assert "the report has no drawings of the solutions" in said
    else:
        assert status == 2, said
    assert "Traceback" not in said


def test_built_in_domain_is_drawn_without_running_algorithm_named_in_folder(folder, calls, capsys):
    arm = te.domain("arm", tasks=5)
    with warnings.catch_warnings(action="ignore"):
        te.solve(arm, evaluations=20, algorithm="random", out="run")
    plan = json.loads(Path("run/run.json").read_text())["plan"]
    asked = RunRequest(**{"evaluations": 20, "folder": ".", **ATTACKS["algorithm"]}).plain()
    RunFolder.part(folder / "run").write_plan({"request": asked, "plan": plan})
    capsys.readouterr()
    assert command("report", "run", "--quiet") == 0
    assert capsys.readouterr().err == ""
    assert command("watch", "run") == 0
    assert command("resume", "run") == 2
    assert "would import 'subprocess:Popen' from '.' and run it with" in last_error(capsys)
    assert calls == []


def test_export_and_python_functions_run_no_code_named_in_folder(trap, calls, monkeypatch):
    monkeypatch.chdir(trap)
    before = list(sys.path)
    assert command("export", ".") == 0
    assert len(te.load(".")) == 5
    assert te.analysis.failures(".")
    te.show.report(te.load("."), "page.html", failures=te.analysis.failures("."))
    assert te.analysis.replay(".", 1, lambda x, t: float(x[0] - t[0]), here=True).kind == ""
    options = {"bounds": (0, 1), "dim": 1, "evaluations": 30, "algorithm": "random", "out": ".", "resume": True}
    with warnings.catch_warnings(action="ignore"), pytest.raises(ValueError, match="name a new folder"):
        te.solve(lambda x, t: x[0], TASKS, **options)
    assert calls == []
    assert not (trap / "stolen").exists()
    assert "planted" not in sys.modules
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("subprocess:Popen", "subprocess:Popen must be a te.Domain, or a function annotated with `-> te.Domain`, not the class Popen"),
        ("subprocess:run", "subprocess:run is not annotated as returning a te.Domain, so it is not called; if it does return one, write `def run(...) -> te.Domain:`"),
        ("os:getcwd", "os:getcwd must be a te.Domain, or a function annotated with `-> te.Domain`, not builtin_function_or_method"),
        ("owned:unchecked", "owned:unchecked is not annotated as returning a te.Domain, so it is not called; if it does return one, write `def unchecked(...) -> te.Domain:`"),
    ],
)  # fmt: skip
def test_name_that_is_not_a_domain_is_not_called(folder, honest, capsys, name, message):
    for arguments in (
        ["run", name],
        ["compare", name, "--algorithms", "random"],
        ["bench", "--domains", name],
        ["report", honest, "--domain", name],
        ["watch", honest, "--domain", name],
        ["replay", honest, "1", "--domain", name],
    ):
        assert command(*arguments) == 2
        assert last_error(capsys) == f"taskelites: error: {message}"
    assert not (folder / "touched").exists()


@pytest.mark.parametrize(
    "name", ["subprocess:Popen", "subprocess:Popen(args='touch touched', shell=True)", "os:system"]
)
def test_name_that_is_not_an_algorithm_is_not_called(folder, capsys, name):
    for arguments in (
        ["run", "arm", "--algorithm", name, "--set", "args=touch touched", "--set", "shell=True"],
        ["compare", "arm", "--algorithms", name],
        ["bench", "--domains", "arm", "--algorithms", name],
    ):
        assert command(*arguments) == 2
        assert "must be an algorithm (settings with `bind` and a `name`, or their class), or a function" in last_error(
            capsys
        )
    assert not (folder / "touched").exists()


# Code that the user names or trusts

OPTIONS = ["--evaluations", "40", "--quiet", "--no-report"]


@pytest.fixture
def run(folder):
    """A run with the user's own domain and algorithm, whose module is neither loaded nor on `sys.path`."""
    assert (
        command("run", "owned:make", "--algorithm", "owned:Search", "--set", "shift=1.5", "--out", "run", *OPTIONS) == 0
    )
    (folder / "made.txt").unlink()
    sys.modules.pop("owned")
    sys.path.remove(str(folder))
    return folder / "run"


def test_error_states_code_to_run_and_suggests_domain_option_or_trust(run, capsys):
    assert command("resume", run) == 2
    assert last_error(capsys) == (
        f"taskelites: error: a run folder may come from anyone, so nothing that {str(run)!r} names is run unasked. This "
        f"command would import 'owned:make' and 'owned:Search' from {str(run.parent)!r} and run them with --set shift=1.5. "
        "If that is yours, name it: --domain owned:make --algorithm owned:Search (looked for in the current folder). If "
        "you trust the folder, add --trust"
    )
    assert command("watch", run) == 2
    assert "would import 'owned:make' from" in last_error(capsys)
    assert command("report", run, "--quiet") == 0
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("taskelites: warning: the report has no drawings of the solutions: a run folder may ")
    assert said[0].endswith("If you trust the folder, add --trust")
    assert not (run.parent / "made.txt").exists()


def test_commands_run_code_named_by_user(run, capsys):
    named = ["--domain", "owned:make"]
    assert command("report", run, *named, "--quiet") == 0
    assert capsys.readouterr().err == ""
    assert (run.parent / "made.txt").read_text() == "(5, 1.5)"
    assert command("watch", run, *named, "--out", run.parent / "still.png") == 0
    assert command("replay", run, "1", *named, "--here") == 0
    assert "now:  raised: fitness raised RuntimeError: fell over" in capsys.readouterr().out
    assert command("resume", run, *named, "--algorithm", "owned:Search", "--evaluations", "60", "--quiet") == 0
    assert te.load(run).evaluations == 60


def test_commands_run_code_named_in_trusted_folder(run, tmp_path_factory, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    for arguments in (["report"], ["resume", "--evaluations", "60"]):
        assert command(arguments[0], run, "--trust", "--quiet", *arguments[1:]) == 0
    assert capsys.readouterr().err == ""
    assert te.load(run).evaluations == 60
    assert command("replay", run, "1", "--trust", "--here") == 0
    assert command("report", run, "--trust", "--domain", "owned:make") == 2
    assert "--trust takes everything from the run folder, so it cannot be combined with --domain" in last_error(capsys)


def test_built_in_domain_needs_no_trust_and_finds_task_file(folder, tmp_path_factory, monkeypatch):
    (folder / "own.csv").write_text("load,wind\n" + "\n".join(f"{i / 300},0.5" for i in range(300)))
    assert command("run", "arm", "--tasks", "own.csv", "--algorithm", "random", "--out", "run", *OPTIONS) == 0
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert command("resume", folder / "run", "--evaluations", "60", "--quiet") == 0
    assert command("resume", folder / "run", "--evaluations", "80", "--quiet") == 0
    assert te.load(folder / "run").evaluations == 80


def test_words_for_resume_name_user_domain_and_algorithm(folder):
    asked = RunRequest(domain="owned:make", algorithm="owned:Search", set=[], evaluations=5, folder="/")
    assert asked.words_for_resume() == ["--domain", "owned:make", "--algorithm", "owned:Search"]
    assert RunRequest(domain="arm", set=[], evaluations=5, folder="/").words_for_resume() == []


# File paths instead of module names


def test_domain_and_algorithm_are_found_by_file_path(folder, monkeypatch, capsys):
    (folder / "sims" / "pack").mkdir(parents=True)
    (folder / "owned.py").rename(folder / "sims" / "owned.py")
    (folder / "sims" / "pack" / "__init__.py").write_text("")
    (folder / "sims" / "pack" / "inner.py").write_text("from .other import domain")
    (folder / "sims" / "pack" / "other.py").write_text("from owned import domain")
    search = ["--algorithm", "./sims/owned.py:Search"]
    assert command("run", "sims/owned.py:domain", *search, "--out", "run", "--workers", "1", *OPTIONS) == 0
    assert te.load("run").settings["algorithm"]["name"] == "search"
    assert command("replay", "run", "1", "--domain", "sims/owned.py:domain") == 0
    assert "now:  raised: fitness raised RuntimeError: fell over (owned.py, line " in capsys.readouterr().out
    monkeypatch.chdir(folder / "sims")
    assert command("run", "pack/inner.py:domain", "--algorithm", "random", "--out", "inner", *OPTIONS) == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sims/gone.py:domain", "there is no file 'sims/gone.py'"),
        ("./owned:domain", "there is no file './owned'; did you mean './owned.py'?"),
        ("owned.py", "DOMAIN must be a name shown by `taskelites list`, or module:name or file.py:name of your own domain, not 'owned.py'; name a domain in the file, such as owned.py:domain"),
        ("owned.py:domian", "the name after owned.py: must be one of 'Search', 'domain', 'draw', 'fitness', 'make', 'pathlib', 'te', 'unchecked', not 'domian'; did you mean 'domain'?"),
        ("json.py:domain", "'json.py' cannot be imported, since another module is called 'json'; rename the file"),
        ("a.b.py:domain", "'a.b.py' cannot be imported; give it a name that ends in .py and has no other dot"),
    ],
)  # fmt: skip
def test_invalid_path_gives_one_line_error(folder, capsys, name, message):
    for file in ("json.py", "a.b.py"):
        Path(file).write_text("domain = 3")
    assert command("run", name) == 2
    assert last_error(capsys) == f"taskelites: error: {message}"


# Damaged requests


@pytest.mark.parametrize(
    "wrong",
    [{"set": "args"}, {"set": [3]}, {"domain": None}, {"tasks": 5}, {"evaluations": True}, {"tasks": "a\0b"}, {"x": 1}],
)
def test_error_for_damaged_request_names_file(folder, wrong, capsys):
    asked = RunRequest(domain="arm", set=[], evaluations=20, folder=".").plain() | wrong
    RunFolder("run").write_plan({"request": asked, "plan": {}})
    assert command("resume", "run") == 1
    assert "run.json' has an invalid request (" in last_error(capsys)


def test_request_cannot_send_escape_codes_to_terminal(folder, capsys):
    asked = RunRequest(domain="a:\x1b[2J", set=["b=\x1b[2J"], evaluations=20, folder=".").plain()
    RunFolder("run").write_plan({"request": asked, "plan": {}})
    assert command("resume", "run") == 2
    assert "\x1b" not in capsys.readouterr().err


def test_deeply_nested_setting_is_kept_as_text(folder):
    from taskelites.cli.values import parse_setting

    for text in ("(" * 100_000, "-" * 100_000 + "1"):
        assert parse_setting(f"a={text}") == ("a", text)
