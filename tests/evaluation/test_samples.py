"""`samples=`: the mean of several calls of a noisy fitness, alone or in batches, in this process or in workers."""

import json
import threading
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest

import taskelites as te
from taskelites.cli import main
from taskelites.evaluation import Caller
from taskelites.experiments.comparison import comparison

TASKS = np.linspace(0, 1, 5)[:, None]


def quiet(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return te.solve(*args, **kwargs)


def in_turn(*values):
    """Return a fitness that ignores its arguments and returns these values one after the other."""
    left = iter(values)
    return lambda *_: next(left)


def one(fitness, samples, call="each"):
    rows = 1 if call == "each" else 2
    return Caller(fitness, call, samples=samples)(np.zeros((rows, 1)), np.zeros((rows, 1)))


def test_fitness_is_mean_of_samples():
    assert one(in_turn(1.0, 2.0, 6.0), 3)[0].tolist() == [3.0]
    rows = [np.array([1.0, 10.0]), np.array([3.0, 30.0])]
    assert one(in_turn(*rows), 2, "batch")[0].tolist() == [2.0, 20.0]


@pytest.mark.parametrize("call", ["each", "batch"])
def test_samples_do_not_change_result_of_deterministic_fitness(call):
    def fitness(x, t):
        return -np.abs(x - t).sum(-1) / 3

    once, often = (
        quiet(fitness, TASKS, bounds=(0, 1), dim=2, call=call, evaluations=300, samples=number) for number in (1, 7)
    )
    assert np.array_equal(once.fitness, often.fitness, equal_nan=True)
    assert (once.settings["samples"], often.settings["samples"]) == (1, 7)
    assert often.evaluations == 300


@pytest.mark.parametrize(("bad", "kind"), [(np.nan, "nan"), (np.inf, "nan"), (-np.inf, None)])
def test_first_non_finite_sample_becomes_fitness(bad, kind):
    made = []

    def fitness(x, t):
        made.append(1)
        return bad if len(made) == 2 else 1.0

    fitness_found = one(fitness, 5)[0]
    assert np.array_equal(fitness_found, [bad], equal_nan=True)
    assert len(made) == 2  # the remaining three calls are skipped
    batch = one(in_turn(np.array([1.0, 4.0]), np.array([bad, 6.0]), np.array([np.inf, 8.0])), 3, "batch")[0]
    assert np.array_equal(batch, [bad, 6.0], equal_nan=True)
    if kind is None:
        result = quiet(lambda x, t: bad, TASKS, bounds=(0, 1), dim=1, evaluations=5, samples=2)
        assert (result.failed, result.infeasible) == (0, 5)


def test_error_message_names_failed_sample():
    def fitness(x, t):
        fitness.calls += 1
        return 1 / (fitness.calls % 3)

    fitness.calls = 0
    _, _, [(row, kind, message, trace)], *_ = one(fitness, 5)
    assert (row, kind) == (0, "raised")
    assert message.startswith("fitness raised ZeroDivisionError: division by zero (test_samples.py, line ")
    assert message.endswith(" (sample 3 of 5)")
    assert "ZeroDivisionError" in trace
    _, _, [(row, kind, message, _)], *_ = one(in_turn(np.zeros(2), np.zeros(3)), 2, "batch")
    assert (row, kind) == (-1, "nonsense")
    assert message.endswith("(sample 2 of 2)")


def test_fitness_may_modify_its_arguments():
    def fitness(x, t):
        x += 1
        t += 1
        return float(x[0] + t[0])

    assert one(fitness, 4)[0].tolist() == [2.0]


def test_behaviour_is_mean_of_samples():
    caller = Caller(in_turn((1.0, [0.0, 1.0]), (2.0, [1.0, 1.0])), "each", 2, samples=2)
    fitness, behaviour, troubles, *_ = caller(np.zeros((1, 1)), np.zeros((1, 1)))
    assert (fitness.tolist(), behaviour.tolist(), troubles) == ([1.5], [[0.5, 1.0]], [])


def test_evaluation_halted_between_samples_is_dropped():
    stop = threading.Event()
    made = []

    def fitness(x, t):
        made.append(1)
        if len(made) == 5:
            stop.set()
        return 1.0

    caller = Caller(fitness, "each", samples=3)
    assert caller(np.zeros((4, 1)), np.zeros((4, 1)), halt=stop.is_set)[0].tolist() == [1.0]
    assert len(made) == 5
    whole = Caller(lambda x, t: np.ones(4), "batch", samples=3)
    assert whole(np.zeros((4, 1)), np.zeros((4, 1)), halt=stop.is_set)[0].tolist() == []


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_workers_average_samples_and_timeout_applies_per_call(mode):
    def fitness(x, t):
        import time

        time.sleep(0.02)
        return 1.0

    result = quiet(fitness, TASKS, bounds=(0, 1), dim=1, evaluations=2, samples=60, workers=2, timeout=1.0, mode=mode)
    assert result.failed == 0  # although an evaluation takes longer than the timeout
    assert result.summary().startswith("evaluations  2, each the mean of 60 samples\n")


def test_resume_needs_same_number_of_samples(tmp_path):
    def solve(**options):
        return quiet(lambda x, t: float(x[0]), TASKS, bounds=(0, 1), dim=1, out=tmp_path / "run", **options)

    solve(evaluations=20, samples=3)
    plan = json.loads((tmp_path / "run/run.json").read_text())
    assert plan["plan"]["samples"] == 3
    with pytest.raises(ValueError, match=r"holds a run with samples 3, and this one has 1"):
        solve(evaluations=30, resume=True)
    assert solve(evaluations=30, samples=3, resume=True).settings["samples"] == 3


def test_resume_cannot_add_samples_to_run_without_them(tmp_path):
    options = {"bounds": (0, 1), "dim": 1, "out": tmp_path / "run"}
    quiet(lambda x, t: float(x[0]), TASKS, evaluations=20, **options)
    with pytest.raises(ValueError, match=r"holds a run with samples 1, and this one has 2"):
        quiet(lambda x, t: float(x[0]), TASKS, evaluations=30, samples=2, resume=True, **options)


def test_invalid_samples_are_rejected(small_arm):
    with pytest.raises(ValueError, match=r"samples=3 is for Python functions with noise; a JAX"):
        te.solve(small_arm, evaluations=100, samples=3)
    with pytest.raises(ValueError, match=r"samples must be a whole number of at least 1"):
        te.solve(lambda x, t: 0.0, TASKS, bounds=(0, 1), dim=1, evaluations=10, samples=0)


@pytest.mark.filterwarnings("ignore::taskelites.errors.FitnessWarning")
def test_command_runs_resumes_and_replays_with_samples(tmp_path, monkeypatch, capsys):
    (tmp_path / "noisy_module.py").write_text(
        "import taskelites as te\n"
        "import pathlib\n"
        "def fitness(solution, task):\n"
        "    file = pathlib.Path('calls.txt')\n"
        "    number = len(file.read_text()) if file.exists() else 0\n"
        "    file.write_text('x' * (number + 1))\n"
        "    return float('nan') if number == 4 else float(number)\n"
        "domain = te.Domain(name='noisy', fitness=fitness, tasks=te.tasks.grid((5,), [0], [1]), bounds=(0, 1), dim=1)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    command = ["run", "noisy_module:domain", "--evaluations", "3", "--samples", "3", "--out", "run", "--quiet"]
    assert main(command) == 0
    # Samples 0, 1 and 2, then 3 and a failure, then 5, 6 and 7.
    assert len((tmp_path / "calls.txt").read_text()) == 3 + 2 + 3
    assert sorted(te.load("run").fitness[te.load("run").solved].tolist())[-1] == 6.0
    assert "evaluations  3, each the mean of 3 samples" in capsys.readouterr().out
    assert main(["replay", "run", "1", "--here", "--domain", "noisy_module:domain"]) == 0
    assert "now:  the mean of 3 samples is 9.0, after" in capsys.readouterr().out
    assert main(["resume", "run", "--domain", "noisy_module:domain", "--evaluations", "4", "--quiet"]) == 0
    assert len((tmp_path / "calls.txt").read_text()) == 8 + 3 + 3


def test_comparison_keeps_number_of_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "save_figure", lambda figure, path: plt.close(figure))

    def compare(**options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return te.compare(
                lambda x, t: float(x[0]), TASKS, bounds=(0, 1), dim=1, replicates=1, out=tmp_path / "c", **options
            )

    compare(algorithms=["random"], evaluations=20, samples=2)
    with pytest.raises(ValueError, match=r"holds a comparison with samples 2, and this one has 1"):
        compare(algorithms=["random"], evaluations=20)
    found = compare(algorithms={"again": "random"}, add=True)
    assert [group[0].settings["samples"] for group in found.results.values()] == [2, 2]
