"""Local workers give the same result for any number of them, and every failure of a simulator is counted."""

import os
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from spheres import sphere, sphere_each

import taskelites as te
from taskelites.evaluation import Caller
from taskelites.evaluation.dispatcher import Dispatcher
from taskelites.evaluation.engines.automatic import AutomaticEngine
from taskelites.evaluation.engines.inline import InlineEngine, Work
from taskelites.evaluation.engines.workers import Workers, cores
from taskelites.evaluation.options import EvaluationOptions

TASKS = np.linspace(0, 1, 250)[:, None]
PROBLEM = {"bounds": (0, 1), "dim": 2, "evaluations": 700, "seed": 3}


def matrix(solutions, tasks):
    """Return matrix products, whose rounding depends on the number of rows."""
    weights = np.linspace(-1, 1, 2 * 300).reshape(2, 300)
    return np.tanh(solutions @ weights + tasks) @ np.linspace(-1, 1, 300)


def assert_same(one, other):
    assert np.array_equal(one.solutions, other.solutions, equal_nan=True)
    assert np.array_equal(one.fitness, other.fitness, equal_nan=True)
    for name in one.history.keys() - {"seconds"}:
        assert np.array_equal(one.history[name], other.history[name], equal_nan=True), name


@pytest.mark.parametrize(("fitness", "call"), [(sphere_each, "each"), (sphere, "batch"), (matrix, "batch")])
def test_result_does_not_depend_on_number_of_workers(fitness, call):
    one, two, four = (te.solve(fitness, TASKS, call=call, workers=number, **PROBLEM) for number in (1, 2, 4))
    assert_same(one, two)
    assert_same(one, four)
    if fitness is not matrix:
        assert_same(one, te.solve(fitness, TASKS, call=call, **PROBLEM))


@pytest.mark.thorough
@pytest.mark.parametrize("algorithm", ["cma-es", "map-elites-all"])
def test_long_steps_give_same_result_with_workers(algorithm):
    few = te.Tasks(descriptors=TASKS[::10])
    alone, together = (
        te.solve(sphere, few, call="batch", algorithm=algorithm, workers=number, **PROBLEM) for number in (None, 3)
    )
    assert_same(alone, together)


def test_lambdas_closures_and_objects_are_sent_to_workers():
    class Level:
        def __init__(self, height):
            self.height = height

    levels = te.Tasks([Level(i / 250) for i in range(250)], descriptors=TASKS)
    offset = 0.125
    alone, together = (
        te.solve(lambda x, level: -abs(x[0] - level.height - offset), levels, workers=number, **PROBLEM)
        for number in (None, 2)
    )
    assert_same(alone, together)


def test_replicates_and_initial_solutions_work_with_workers():
    alone, together = (
        te.solve(sphere_each, TASKS, workers=number, replicates=2, initial=[[0.5, 0.5], [0.1, 0.2]], **PROBLEM)
        for number in (None, 2)
    )
    for one, other in zip(alone, together, strict=True):
        assert_same(one, other)


def test_setup_makes_last_argument_once_per_worker(tmp_path):
    def setup():
        (tmp_path / f"{os.getpid()}-{time.time_ns()}").touch()
        return {"pid": os.getpid()}

    def fitness(solution, task, simulator):
        assert simulator["pid"] == os.getpid()
        return sphere_each(solution, task)

    assert_same(te.solve(fitness, TASKS, setup=setup, workers=2, **PROBLEM), te.solve(sphere_each, TASKS, **PROBLEM))
    made = [path.name.partition("-")[0] for path in tmp_path.iterdir()]
    assert len(made) == len(set(made))
    assert 1 <= len(made) <= 2  # the run may end before the second worker has started
    assert str(os.getpid()) not in made
    assert_same(te.solve(fitness, TASKS, setup=setup, **PROBLEM), te.solve(sphere_each, TASKS, **PROBLEM))
    assert len(list(tmp_path.iterdir())) == len(made) + 1


def test_domain_may_define_setup():
    domain = te.Domain(
        name="sim", fitness=lambda x, t, scale: scale * x[0], tasks=TASKS, bounds=(0, 1), dim=2, setup=lambda: 3.0
    )
    assert 2 < np.nanmax(te.solve(domain, evaluations=300, workers=1).fitness) <= 3


def test_workers_are_not_forked_and_have_one_thread_and_own_session():
    def tells(solution, task):
        with open(f"/proc/{os.getppid()}/stat") as file:  # the parent is the supervisor
            parent = int(file.read().rpartition(")")[2].split()[1])
        return [parent, os.environ["OMP_NUM_THREADS"], "jax" in sys.modules, os.getsid(0) == os.getpid()]

    workers = Workers(Caller(tells, "each"), 1)
    workers.submit(Work(np.arange(1), np.zeros((1, 1)), [0]))
    [(_, answer)] = workers.collect(60)
    workers.close()
    assert f"[{os.getpid()}, '1', False, True]" in answer.failures[0].message


SCRIPT = """
import numpy as np
import taskelites as te

print("top of the script")
scale = 2.0

class Task:
    def __init__(self, value):
        self.value = value

def fitness(solution, task):
    return -scale * abs(solution[0] - task.value)

tasks = te.Tasks([Task(i / 250) for i in range(250)], descriptors=np.linspace(0, 1, 250)[:, None])
print(te.solve(fitness, tasks, bounds=(0, 1), dim=1, evaluations=300, workers=2).evaluations)
"""


@pytest.mark.thorough
def test_script_needs_no_main_guard(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "top of the script\n300\n"


# Failing simulators.


def make_flaky():
    """Return a closure, which is pickled by value, so that restarted workers do not import this module."""

    def flaky(solution, task):
        """Fail in a twentieth of the evaluations, in every possible way."""
        chance = np.abs(np.sin(1e4 * solution[0]) * 1e4) % 1.0
        if chance < 0.006:
            os.kill(os.getpid(), 11)
        if chance < 0.008:
            time.sleep(1000)
        if chance < 0.011:
            os._exit(3)
        if chance < 0.018:
            return np.zeros(2**60).sum()
        if chance < 0.026:

            class LocalError(Exception):  # which can't be pickled
                def __init__(self):
                    self.lock = threading.Lock()

                def __str__(self):
                    raise RuntimeError("no text either")

            raise LocalError
        if chance < 0.034:
            return float("nan")
        if chance < 0.042:
            return "a string"
        if chance < 0.05:
            return [1.0, 2.0]
        return -abs(solution[0] - task[0])

    return flaky


flaky = make_flaky()


def expected_kinds(solutions):
    # NumPy's sine rounds differently for arrays than for single values.
    chance = [np.abs(np.sin(1e4 * solution) * 1e4) % 1.0 for solution in solutions]
    edges = [0, 0.006, 0.008, 0.011, 0.026, 0.034, 0.05]
    died, hung, left, raised, nan, nonsense = np.histogram(chance, edges)[0]
    return {"died": died + left, "timeout": hung, "raised": raised, "nan": nan, "nonsense": nonsense}


def solve_flaky(out, evaluations, **options):
    with pytest.warns(te.errors.FitnessWarning, match="evaluations failed"):
        return te.solve(
            flaky, TASKS, bounds=(0, 1), dim=2, evaluations=evaluations, workers=3, timeout=3, out=out, **options
        )


def assert_accounted_for(result, evaluations, out):
    assert result.evaluations == result.task_evaluations.sum() == evaluations
    assert result.failed == sum(result.failures.values())
    kept = te.analysis.failures(out)
    assert [failure.id for failure in kept] == list(range(1, len(kept) + 1))
    assert len({failure.evaluation for failure in kept}) == len(kept)
    for failure in kept:
        assert expected_kinds(failure.solution[:1])[failure.kind] == 1, failure
    return kept


@pytest.mark.thorough
@pytest.mark.parametrize("evaluations", [400, pytest.param(20_000, marks=pytest.mark.slow)])
def test_every_evaluation_is_accounted_for(evaluations, tmp_path):
    """Each candidate always fails in the same way, so the expected counts are known."""
    solutions = np.random.default_rng(1).random((evaluations, 2))
    result = solve_flaky(tmp_path / "run", evaluations, initial=solutions)
    kept = assert_accounted_for(result, evaluations, tmp_path / "run")
    assert result.failures == {kind: number for kind, number in expected_kinds(solutions[:, 0]).items() if number}
    assert result.retried == result.failures["died"]
    for failure in kept:
        assert np.array_equal(failure.solution, solutions[failure.evaluation - 1])
    assert any("LocalError: (no message available)" in failure.message for failure in kept)


@pytest.mark.parametrize("evaluations", [400, pytest.param(20_000, marks=pytest.mark.slow)])
def test_every_evaluation_is_accounted_for_in_async_mode(evaluations, tmp_path):
    result = solve_flaky(tmp_path / "run", evaluations, mode="async", seed=2)
    kept = assert_accounted_for(result, evaluations, tmp_path / "run")
    assert {failure.kind for failure in kept} >= {"died", "raised", "nonsense"}
    assert result.retried == result.failures["died"]


@pytest.mark.thorough
def test_failures_do_not_depend_on_number_of_workers():
    def picky(solution, task):
        if solution[0] > 0.95:
            os._exit(1)
        if solution[1] > 0.9:
            raise ValueError("no")
        return -abs(solution[0] - task[0])

    problem = PROBLEM | {"evaluations": 150}
    with warnings.catch_warnings(action="ignore"):
        one, three = (te.solve(picky, TASKS, workers=number, **problem) for number in (1, 3))
    assert_same(one, three)
    assert one.failures == three.failures
    assert one.failures["died"] > 0


def test_exception_in_batch_fails_only_responsible_row():
    def picky(solutions, tasks):
        if (solutions[:, 0] > 0.9).any():
            raise ValueError("one of them is too large")
        return sphere(solutions, tasks)

    with warnings.catch_warnings(action="ignore"):
        here, there = (te.solve(picky, TASKS, call="batch", workers=number, **PROBLEM) for number in (None, 2))
    assert_same(here, there)
    assert here.failures == there.failures
    assert 0 < here.failed < 200
    assert np.nanmax(here.solutions[:, 0]) <= 0.9


def test_wrong_shape_of_batch_result_fails_all_rows():
    """The rows are not evaluated one by one, since a wrong function may then seem to work."""
    calls = []

    def odd(solutions, tasks):
        calls.append(len(solutions))
        return sphere(solutions, tasks) if len(calls) % 5 else np.array([1.0])

    with pytest.warns(te.errors.FitnessWarning, match="nonsense"):
        result = te.solve(odd, TASKS, call="batch", **PROBLEM)
    assert set(calls) == {64, 60}
    assert result.failures == {"nonsense": 128}


def test_retries_recover_evaluations_that_fail_once(tmp_path):
    def sometimes(solution, task):
        mark = tmp_path / f"{solution[0]:.17f}"
        if not mark.exists():
            mark.touch()
            raise OSError("busy")
        return sphere_each(solution, task)

    for number in (None, 2):
        options = {"on_error": "retry", "workers": number, "algorithm": "random"}  # random search repeats no solution
        result = te.solve(sometimes, TASKS, bounds=(0, 1), dim=2, evaluations=150, **options)
        assert result.failed == 0
        assert result.retried == 150
        for mark in tmp_path.iterdir():
            mark.unlink()
    plain = te.solve(sphere_each, TASKS, bounds=(0, 1), dim=2, evaluations=150, algorithm="random")
    assert np.array_equal(result.solutions, plain.solutions, equal_nan=True)


def test_retries_are_limited():
    calls = []

    def never(solution, task):
        calls.append(1)
        if solution[0] > 0.5:
            raise OSError("busy")
        return 0.0

    with pytest.warns(te.errors.FitnessWarning, match="raised"):
        result = te.solve(never, TASKS, on_error="retry", retries=3, bounds=(0, 1), dim=1, evaluations=100)
    assert result.evaluations == 100
    assert result.retried == 3 * result.failed
    assert len(calls) == 100 + result.retried


def test_evaluation_of_killed_worker_is_retried():
    def slow(solution, task):
        time.sleep(0.002)
        return sphere_each(solution, task)

    killed = []

    def kill(row):
        if row["evaluations"] > 200 and not killed:
            listed = subprocess.run(
                ["ps", "-ww", "--ppid", str(os.getpid()), "-o", "pid=,args="],
                capture_output=True,
                text=True,
                check=True,
            )
            pids = [int(line.split()[0]) for line in listed.stdout.splitlines() if "worker_process.py" in line]
            os.kill(pids[0], 9)
            killed.append(pids[0])

    result = te.solve(slow, TASKS, workers=2, callback=kill, **PROBLEM)
    assert killed
    assert result.failed == 0
    assert result.retried <= 1
    assert_same(result, te.solve(sphere_each, TASKS, **PROBLEM))


def test_run_ends_with_cause_if_workers_keep_dying():
    with pytest.raises(te.FitnessError, match=r"workers keep dying: .* the last was killed by SIGSEGV"):
        te.solve(lambda x, t: os.kill(os.getpid(), 11), TASKS, workers=2, **PROBLEM)


def test_exception_in_setup_ends_run():
    def setup():
        raise FileNotFoundError("no model.xml")

    for number in (None, 2):
        with pytest.raises(te.FitnessError, match=r"FileNotFoundError: no model\.xml"):
            te.solve(lambda x, t, simulator: 0.0, TASKS, setup=setup, workers=number, **PROBLEM)


def test_error_for_unpicklable_fitness_suggests_setup():
    lock = threading.Lock()
    with pytest.raises(te.FitnessError, match=r"fitness can't be sent to workers: .*create everything else in setup"):
        te.solve(lambda x, t: float(lock.locked()), TASKS, workers=1, **PROBLEM)


@pytest.mark.filterwarnings("ignore:more than half of the last:taskelites.errors.FitnessWarning")
def test_run_ends_early_if_all_evaluations_fail():
    calls = []

    def broken(solution, task):
        calls.append(1)
        raise KeyError("typo")

    with pytest.raises(
        te.FitnessError, match=r"^all 20 evaluations failed; the first: fitness raised KeyError: 'typo'"
    ):
        te.solve(broken, TASKS, bounds=(0, 1), dim=2, evaluations=100_000)
    assert len(calls) < 2000
    with pytest.raises(te.FitnessError, match="all 10,000 evaluations failed; the first: fitness returned nan"):
        te.solve(lambda x, t: float("nan"), TASKS, bounds=(0, 1), dim=2, evaluations=100_000)


@pytest.mark.filterwarnings("ignore:more than half of the last:taskelites.errors.FitnessWarning")
def test_run_ends_after_long_streak_of_failures():
    calls = []

    def licence_runs_out(solution, task):
        calls.append(1)
        if len(calls) > 500:
            raise OSError("no licence")
        return sphere_each(solution, task)

    with pytest.raises(te.FitnessError, match=r"the last 1,0\d\d evaluations all failed; the last one: .*no licence"):
        te.solve(licence_runs_out, TASKS, bounds=(0, 1), dim=2, evaluations=100_000)


@pytest.mark.thorough
def test_frequent_crashes_do_not_end_run():
    """Half of the candidates crash their process, each at its first attempt and at its retry."""

    def crashy(solution, task):
        if solution[0] > 0.5:
            os._exit(7)
        return -abs(solution[0] - task[0])

    with warnings.catch_warnings(action="ignore"):
        one, two = (te.solve(crashy, TASKS, workers=number, **PROBLEM | {"evaluations": 60}) for number in (1, 2))
    assert_same(one, two)
    assert one.failures["died"] > 15


@pytest.mark.thorough
def test_failures_in_large_batch_do_not_end_run():
    with pytest.warns(te.errors.FitnessWarning, match="raised"):
        result = te.solve(
            lambda x, t: 1 / int(x[0] > 0.5), TASKS, bounds=(0, 1), dim=1, evaluations=8192, batch_size=4096
        )
    assert result.failed > 1500


@pytest.mark.thorough
def test_fast_fitness_never_times_out():
    """The run reads the row in progress from shared memory while the worker writes it."""
    result = te.solve(lambda x, t: 0.0, TASKS, bounds=(0, 1), dim=1, evaluations=30_000, workers=2, timeout=60)
    assert result.failed == 0


def test_worker_crash_is_detected_if_its_child_survives():
    def leaves_a_child(solution, task):
        if solution[0] > 0.97:
            subprocess.Popen(["sleep", "60"])
            os._exit(1)
        return 0.0

    with warnings.catch_warnings(action="ignore"):
        result = te.solve(leaves_a_child, TASKS, workers=2, **PROBLEM | {"evaluations": 64})
    assert result.failures["died"] > 0


def test_exit_or_exception_in_fork_counts_as_failure():
    def leaves(solution, task):
        if solution[0] > 0.9:
            sys.exit("enough")
        if solution[0] > 0.8 and os.fork() == 0:
            raise RuntimeError("in the child")
        return sphere_each(solution, task)

    with pytest.warns(te.errors.FitnessWarning, match=r"\(raised \d+\)"):
        result = te.solve(leaves, TASKS, workers=2, **PROBLEM | {"evaluations": 200})
    assert result.evaluations == 200
    with pytest.warns(te.errors.FitnessWarning, match="raised"):
        te.solve(lambda x, t: sys.exit(3) if x[0] > 0.5 else 0.0, TASKS, **PROBLEM)


def test_modified_arguments_do_not_affect_result_or_retries():
    def greedy(solution, task):
        solution *= 0.5
        if solution[0] > 0.4:
            raise ValueError("too large")
        return sphere_each(solution, task)

    with warnings.catch_warnings(action="ignore"):
        here, there = (te.solve(greedy, TASKS, on_error="retry", workers=number, **PROBLEM) for number in (None, 2))
    assert_same(here, there)
    assert here.retried == there.retried == 2 * here.failed > 0


@pytest.mark.parametrize("text", ["caf\udce9", "a\u2028b", "two\nlines", "x" * 100_000])
def test_error_message_with_any_text_is_saved(text, tmp_path):
    def fails(solution, task):
        if solution[0] > 0.5:
            raise ValueError(text)
        return 0.0

    with pytest.warns(te.errors.FitnessWarning, match="raised"):
        result = te.solve(fails, TASKS, bounds=(0, 1), dim=1, evaluations=64, out=tmp_path / "run")
    kept = te.analysis.failures(tmp_path / "run")
    assert len(kept) == result.failed
    assert all(len(failure.message) < 700 and "\n" not in failure.message for failure in kept)


def test_error_for_unpicklable_tasks_gives_reason():
    locks = te.Tasks([threading.Lock() for _ in range(250)], descriptors=TASKS)
    with pytest.raises(te.FitnessError, match=r"^tasks can't be sent to workers: TypeError: cannot pickle"):
        te.solve(lambda x, lock: 0.0, locks, workers=1, **PROBLEM)


def test_exception_in_callback_leaves_no_workers():
    def alive():
        listed = subprocess.run(
            ["ps", "-ww", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True
        )
        return [line for line in listed.stdout.splitlines() if "worker_process.py" in line]

    def raises(row):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        te.solve(sphere_each, TASKS, workers=2, callback=raises, **PROBLEM)
    assert alive() == []


# workers="auto"


class Slept:
    """A fitness that takes the given number of seconds."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __call__(self, solution, task):
        if self.seconds:
            time.sleep(self.seconds)
        return 0.0


def tried_out(seconds, left, rows=6400):
    notes = []
    caller = Caller(Slept(seconds), "each")
    auto = AutomaticEngine(InlineEngine(caller, lambda: False), lambda: Workers(caller, 4), lambda: left, notes.append)
    dispatcher = Dispatcher(auto, chunk=None)
    solutions, tasks = np.random.default_rng(0).random((64, 2)), TASKS[:64]
    found = 0
    while found < rows and not auto.decision:  # one step after the other, as in a run
        found += sum(map(len, dispatcher.stream(solutions, tasks, offset=0, behaviour_dim=0, halt=lambda: False)))
    assert found % 64 == 0
    auto.close()
    return auto, notes


def test_auto_uses_workers_if_they_are_faster():
    auto, notes = tried_out(0.01, left=10**6)
    assert auto.slots == 4
    assert notes[-1].startswith("workers='auto' uses 4 workers: measured ")


def test_auto_uses_no_workers_for_short_run():
    auto, notes = tried_out(0.001, left=100, rows=640)
    assert auto.slots == 1
    assert notes == []


@pytest.mark.thorough
def test_auto_stops_workers_if_they_are_slower(monkeypatch):
    monkeypatch.setattr("taskelites.evaluation.engines.automatic._TRIAL_SECONDS", 0.02)
    auto, notes = tried_out(0.0, left=10**9, rows=10**7)
    assert auto.slots == 1
    assert notes[-1].startswith("workers='auto' uses this process: measured ")


def test_auto_uses_no_workers_for_unpicklable_fitness(monkeypatch):
    monkeypatch.setattr("taskelites.evaluation.engines.automatic._TRIAL_SECONDS", 0.0)
    monkeypatch.setattr("taskelites.evaluation.engines.automatic._MIN_SECONDS_LEFT", 0.0)
    lock = threading.Lock()
    assert te.solve(lambda x, t: float(lock.locked()), TASKS, workers="auto", **PROBLEM).evaluations == 700


def test_auto_gives_same_result_as_workers():
    assert_same(te.solve(matrix, TASKS, call="batch", workers="auto", **PROBLEM),
                te.solve(matrix, TASKS, call="batch", workers=2, **PROBLEM))  # fmt: skip


def test_warns_if_workers_slow_run_down(monkeypatch):
    monkeypatch.setattr("taskelites.search.sync_loop._SLOW_SECONDS", 0.01)
    with pytest.warns(
        te.errors.FitnessWarning, match=r"workers make this run slower: [\d,]+ evaluations took .* workers='auto'"
    ):
        te.solve(lambda x, t: 0.0, TASKS, workers=1, bounds=(0, 1), dim=2, evaluations=10_000)


def test_chunk_size_depends_only_on_batch_size():
    sizes = {size: EvaluationOptions(workers=2).chunk("batch", size) for size in (1, 8, 9, 64, 128, 4096)}
    assert sizes == {1: 1, 8: 1, 9: 2, 64: 8, 128: 16, 4096: 64}
    assert EvaluationOptions().chunk("batch", 64) == 4096
    assert EvaluationOptions(workers=2).chunk("each", 64) is None
    assert cores() >= 1
