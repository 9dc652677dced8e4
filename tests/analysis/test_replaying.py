"""Failed evaluations of runs started in Python are replayed in this process, in a new one, or by the command."""

import sys
import textwrap
import warnings

import numpy as np
import pytest

import taskelites as te
from taskelites.cli import main

TASKS = te.tasks.grid((5,), [0], [1])


def failing(solution, task):
    if solution[0] > 0.3:
        raise RuntimeError(f"fell over on {task[0]:g}")
    return float(solution[0])


def begun(fitness, tasks=TASKS, out="run", **options):
    given = {"bounds": (0, 1), "dim": 1, "evaluations": 20, "algorithm": "random"} | options
    with warnings.catch_warnings(action="ignore"):
        te.solve(fitness, tasks, out=out, **given)
    return te.analysis.failures(out)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.parametrize("here", [True, False])
def test_replay_repeats_failure_of_run_started_in_python(here):
    failure = begun(failing)[1]
    found = te.analysis.replay("run", 2, failing, here=here)
    assert found.failure.id == failure.id
    assert found.kind == "raised"
    assert found.message == failure.message
    assert str(found) == f"raised: {failure.message}"
    assert "RuntimeError: fell over on" in found.traceback
    assert np.isnan(found.fitness)


def test_replay_passes_same_arguments_and_may_succeed():
    failure = begun(failing)[0]
    seen = []

    def mended(solution, task):
        seen.append((solution.tolist(), task.tolist()))
        return 4.5

    found = te.analysis.replay("run", 1, mended, here=True)
    assert seen == [(failure.solution.tolist(), failure.descriptors)]
    assert TASKS.descriptors[failure.task].tolist() == failure.descriptors
    assert (found.kind, found.fitness) == ("", 4.5)
    assert str(found).startswith("fitness returned 4.5, after ")


def test_replay_calls_fitness_as_in_run():
    def batch(solutions, tasks):
        assert solutions.shape[1:] == (1,)
        return np.where(solutions[:, 0] > 0.3, np.nan, solutions[:, 0])

    begun(batch, call="batch")
    assert te.analysis.replay("run", 1, batch, here=True).kind == "nan"
    begun(failing, out="mean", samples=3)
    assert str(te.analysis.replay("mean", 1, lambda x, t: 2.0, here=True)).startswith("the mean of 3 samples is 2.0")
    begun(failing, out="two", replicates=2)
    assert te.analysis.replay("two/replicate-1", 1, failing, here=True).kind == "raised"
    begun(lambda x, t, made: failing(x, t), out="made", setup=lambda: "made")
    repeated = te.analysis.replay("made", 1, lambda x, t, made: len(made), setup=lambda: "made", here=True)
    assert repeated.fitness == 4


def test_replay_needs_tasks_that_are_objects():
    tasks = te.Tasks([{"at": i} for i in range(5)])

    def fitness(solution, task):
        return float("nan") if solution[0] > 0.3 else task["at"]

    begun(fitness, tasks)
    with pytest.raises(TypeError, match="tasks must be given, since those of this run are objects"):
        te.analysis.replay("run", 1, fitness)
    assert te.analysis.replay("run", 1, fitness, tasks, here=True).kind == "nan"
    domain = te.Domain(name="objects", fitness=fitness, tasks=tasks, bounds=(0, 1), dim=1)
    assert te.analysis.replay("run", 1, domain, here=True).kind == "nan"
    number = next(each.id for each in te.analysis.failures("run") if each.task > 0)
    with pytest.raises(ValueError, match="tasks has only 1 task; give those of the run"):
        te.analysis.replay("run", number, fitness, te.Tasks([{"at": 0}]))


def test_invalid_arguments_are_rejected():
    begun(failing)
    with pytest.raises(ValueError, match="has no failure 99: it has 1 to"):
        te.analysis.replay("run", 99, failing)
    with pytest.raises(FileNotFoundError, match="there is no run folder 'nowhere'"):
        te.analysis.replay("nowhere", 1, failing)
    with pytest.raises(ValueError, match="replay needs a Python fitness"):
        te.analysis.replay("run", 1, te.domain("arm", tasks=5))
    with pytest.raises(TypeError, match="fitness must be a function"):
        te.analysis.replay("run", 1, 3)


def test_command_replays_failure_of_run_started_in_python(tmp_path, capsys):
    begun(failing, dim=40)
    (tmp_path / "longer.py").write_text(
        textwrap.dedent("""
            import taskelites as te

            def failing(solution, task):
                raise RuntimeError(f"fell over on {task[0]:g}")

            domain = te.Domain(name="long", fitness=failing, tasks=[[0.0]], bounds=(0, 1), dim=40)
        """)
    )
    capsys.readouterr()
    assert main(["replay", "run", "1"]) == 2
    assert capsys.readouterr().err == (
        "taskelites: error: the run in 'run' was started in Python, so the command line does not know its fitness; "
        "give its domain with --domain module:name or --domain file.py:name, or call "
        "te.analysis.replay('run', 1, fitness) in Python\n"
    )
    assert main(["replay", "run", "1", "--here", "--domain", "longer.py:domain"]) == 0
    first, then, now = capsys.readouterr().out.splitlines()
    failure = te.analysis.failures("run")[0]
    shown = ", ".join(f"{value:.6g}" for value in failure.solution[:12])
    assert first.endswith(
        f"solution [{shown}, ...] of 40 numbers; in Python, te.analysis.failures('run') has all of them"
    )
    assert then.removeprefix("then: ").partition(" (")[0] == now.removeprefix("now:  ").partition(" (")[0]
    sys.modules.pop("longer")


def test_invalid_lines_in_failures_file_are_skipped(tmp_path):
    failure = begun(failing)[0]
    with open("run/failures.jsonl", "a") as file:
        file.write('{"id": "x"}\n[]\n3\n')
        file.write('{"id": 90, "evaluation": "1", "kind": 3, "message": "", "task": 0, "descriptors": [0], ')
        file.write('"solution": [[1]], "tries": 1, "traceback": ""}\n')
    assert te.analysis.failures("run")[0].id == failure.id
    assert all(each.id < 90 for each in te.analysis.failures("run"))
