"""Resumed runs, which find what an uninterrupted run finds."""

import functools
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

import jax
import numpy as np
import pytest
from spheres import Traced, sphere, sphere_each

import taskelites as te
from taskelites.cli import main
from taskelites.runs import RunFolder

TASKS = np.linspace(0, 1, 60)[:, None]
FUNCTIONS = {"each": sphere_each, "batch": sphere}
ALGORITHMS = ["mt-map-elites", "map-elites-random", "map-elites-all", "cma-es", "random"]


FUNCTIONS["jax"] = Traced()


def run(call="batch", evaluations=1500, **options):
    settings = {"bounds": (0, 1), "dim": 2, "call": call, "seed": 3, "batch_size": 16} | options
    return te.solve(FUNCTIONS[call], TASKS, evaluations=evaluations, **settings)


def assert_same(one, other):
    for name in ("solutions", "fitness", "task_evaluations", "last_improved"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), name
    assert (one.evaluations, one.failed, one.failures) == (other.evaluations, other.failed, other.failures)
    assert list(one.history) == list(other.history)
    for name in one.history.keys() - {"seconds"}:
        assert np.array_equal(one.history[name], other.history[name], equal_nan=True), name


class StopAt:
    """A callback that presses Ctrl-C after a number of evaluations."""

    def __init__(self, evaluations):
        self.evaluations = evaluations

    def __call__(self, row):
        if row["evaluations"] >= self.evaluations:
            signal.raise_signal(signal.SIGINT)
            self.evaluations = float("inf")


def interrupted(out, at, **options):
    with pytest.raises(te.Interrupted):
        run(out=out, callback=StopAt(at), **options)


# `make test-slow` runs all pairs: those marked as slow take long to compile and differ little from the others.
PAIRS = [(algorithm, call) for algorithm in ALGORITHMS for call in FUNCTIONS]
QUICK = {*((algorithm, "batch") for algorithm in ALGORITHMS), ("mt-map-elites", "jax")}
QUICK -= {("map-elites-random", "batch")}


@pytest.mark.parametrize(
    ("algorithm", "call"), [pytest.param(*pair, marks=[] if pair in QUICK else pytest.mark.slow) for pair in PAIRS]
)
def test_resumed_run_equals_uninterrupted_run_bit_for_bit(algorithm, call, tmp_path):
    interrupted(tmp_path / "run", 500, algorithm=algorithm, call=call)
    kept = te.load(tmp_path / "run")
    assert 500 <= kept.evaluations < 1500
    resumed = run(algorithm=algorithm, call=call, out=tmp_path / "run", resume=True)
    assert_same(resumed, run(algorithm=algorithm, call=call))
    assert_same(te.load(tmp_path / "run"), resumed)
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert [int(row.split(",")[0]) for row in rows[1:]] == resumed.history["evaluations"].tolist()


@pytest.mark.parametrize(
    ("algorithm", "call"), [pytest.param(*pair, marks=[] if pair in QUICK else pytest.mark.slow) for pair in PAIRS]
)
def test_run_with_raised_budget_equals_longer_run(algorithm, call, tmp_path):
    run(algorithm=algorithm, call=call, evaluations=777, out=tmp_path / "run")
    resumed = run(algorithm=algorithm, call=call, evaluations=1501, out=tmp_path / "run", resume=True)
    straight = run(algorithm=algorithm, call=call, evaluations=1501)
    assert resumed.evaluations == 1501
    assert np.array_equal(resumed.solutions, straight.solutions, equal_nan=True)
    assert np.array_equal(resumed.last_improved, straight.last_improved)
    with pytest.raises(
        ValueError,
        match=r"evaluations must be at least 1,501, the budget of the run in .*, not 900; a budget can only be raised",
    ):
        run(algorithm=algorithm, call=call, evaluations=900, out=tmp_path / "run", resume=True)


@pytest.mark.thorough
def test_budget_smaller_than_number_of_initial_solutions_can_be_raised(tmp_path):
    known = np.random.default_rng(0).random((100, 2))
    for call in FUNCTIONS:
        out = tmp_path / call
        run(call=call, initial=known, evaluations=40, out=out)
        resumed = run(call=call, initial=known, evaluations=700, out=out, resume=True)
        straight = run(call=call, initial=known, evaluations=700)
        assert np.array_equal(resumed.solutions, straight.solutions, equal_nan=True)


@pytest.mark.thorough
@pytest.mark.parametrize("call", ["batch", "jax"])
def test_each_replicate_resumes_where_it_stopped(call, tmp_path):
    class StopSecond(StopAt):
        def __call__(self, row):
            if row["replicate"] == 1:
                super().__call__(row)

    with pytest.raises(te.Interrupted):
        run(call=call, replicates=3, out=tmp_path / "run", callback=StopSecond(500))
    before = (tmp_path / "run" / "replicate-0" / "result.npz").stat().st_mtime_ns
    resumed = run(call=call, replicates=3, out=tmp_path / "run", resume=True)
    for one, other in zip(resumed, run(call=call, replicates=3), strict=True):
        assert_same(one, other)
    assert (tmp_path / "run" / "replicate-0" / "result.npz").stat().st_mtime_ns == before
    raised = run(call=call, replicates=3, evaluations=1600, out=tmp_path / "run", resume=True)
    straight = run(call=call, replicates=3, evaluations=1600)
    for one, other in zip(raised, straight, strict=True):
        assert np.array_equal(one.solutions, other.solutions, equal_nan=True)


@pytest.mark.thorough
def test_replicates_in_one_program_resume_from_last_common_checkpoint(tmp_path, monkeypatch):
    """On an accelerator, one program runs all replicates. A power cut hits between the checkpoints of two of them."""
    straight = run(call="jax", replicates=3)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    options = {"call": "jax", "replicates": 3, "out": tmp_path / "run"}
    with pytest.raises(te.Interrupted):
        run(callback=StopAt(500), checkpoint_every=100, **options)
    newest = sorted((tmp_path / "run" / "replicate-2" / "checkpoints").iterdir())[-1]
    newest.unlink()
    for one, other in zip(run(resume=True, **options), straight, strict=True):
        assert_same(one, other)


@pytest.mark.thorough
def test_resumed_run_reaches_target_at_same_evaluation(tmp_path):
    for call in FUNCTIONS:
        straight = run(call=call, target=-0.3, evaluations=20_000)
        assert 400 < straight.evaluations < 20_000
        out = tmp_path / call
        interrupted(out, 300, call=call, target=-0.3, evaluations=20_000)
        assert_same(run(call=call, target=-0.3, evaluations=20_000, out=out, resume=True), straight)
        assert_same(run(call=call, target=-0.3, evaluations=20_000, out=out, resume=True), straight)


def test_failures_are_counted_once_in_run_that_is_interrupted_repeatedly(tmp_path):
    def picky(solution, task):
        if solution[0] > 0.8:
            raise ValueError("too large")
        return float("nan") if solution[1] > 0.9 else sphere_each(solution, task)

    problem = {"bounds": (0, 1), "dim": 2, "evaluations": 600, "batch_size": 16}
    with warnings.catch_warnings(action="ignore"):
        straight = te.solve(picky, TASKS, out=tmp_path / "straight", **problem)
        for at in (100, 200, 350):
            with pytest.raises(te.Interrupted):
                te.solve(picky, TASKS, out=tmp_path / "run", resume=True, callback=StopAt(at), **problem)
        resumed = te.solve(picky, TASKS, out=tmp_path / "run", resume=True, **problem)
    assert_same(resumed, straight)
    one, other = ((tmp_path / name / "failures.jsonl").read_text() for name in ("run", "straight"))
    assert one == other


def test_resumed_run_may_have_another_number_of_workers(tmp_path):
    straight = run(call="each", evaluations=600)
    out = tmp_path / "run"
    interrupted(out, 200, call="each", evaluations=600, workers=2)
    interrupted(out, 400, call="each", evaluations=600, workers=1, resume=True)
    assert_same(run(call="each", evaluations=600, out=out, resume=True), straight)


@pytest.mark.thorough
def test_async_run_resumes_with_its_pending_evaluations(tmp_path):
    out = tmp_path / "run"
    options = {"call": "each", "evaluations": 600, "workers": 2, "mode": "async"}
    interrupted(out, 200, **options)
    kept = te.load(out)
    assert 200 <= kept.evaluations < 600
    resumed = run(out=out, resume=True, **options)
    assert resumed.evaluations == resumed.task_evaluations.sum() == 600
    assert (np.nan_to_num(resumed.fitness, nan=-9) >= np.nan_to_num(kept.fitness, nan=-9)).all()
    with pytest.raises(ValueError, match="holds a run with mode 'async', and this one has 'sync'"):
        run(out=out, resume=True, call="each", evaluations=600)


def test_async_run_that_stops_among_initial_solutions_resumes(tmp_path):
    known = np.random.default_rng(0).random((100, 2))
    options = {"call": "each", "initial": known, "workers": 2, "mode": "async", "out": tmp_path / "run", "resume": True}
    run(evaluations=50, **options)
    assert run(evaluations=300, **options).task_evaluations.sum() == 300


def test_refused_budget_leaves_run_unchanged(tmp_path):
    run(out=tmp_path / "run", evaluations=700)
    with pytest.raises(ValueError, match="a budget can only be raised"):
        run(out=tmp_path / "run", evaluations=500, resume=True)
    assert run(out=tmp_path / "run", evaluations=700, resume=True).evaluations == 700


@pytest.mark.thorough
def test_fitness_may_change_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "else").mkdir()

    def wanders(solutions, tasks):
        os.chdir(tmp_path / "else")
        return sphere(solutions, tasks)

    te.solve(wanders, TASKS, bounds=(0, 1), dim=2, call="batch", evaluations=500, out="run", checkpoint_every=64)
    assert te.load(tmp_path / "run").evaluations == 500


@pytest.mark.thorough
def test_resumed_finished_run_returns_same_tasks_object(tmp_path):
    tasks = te.Tasks([("level", i) for i in range(60)], descriptors=TASKS)
    options = {"bounds": (0, 1), "dim": 1, "evaluations": 100, "out": tmp_path / "run", "resume": True}
    for _ in range(2):
        assert te.solve(lambda x, t: -abs(x[0] - t[1]), tasks, **options).tasks is tasks


# Power cuts and damaged files.


@pytest.mark.thorough
@pytest.mark.parametrize("call", ["batch", "jax"])
def test_power_cut_between_any_two_writes_loses_nothing(call, tmp_path, monkeypatch):
    """A copy of the folder, taken before each sync, rename or deletion, is what a power cut leaves behind."""
    straight = run(call=call, evaluations=800)
    out, copies = tmp_path / "run", []

    def copying(function):
        def copied(*arguments):
            if out.is_dir():
                copies.append(tmp_path / f"copy-{len(copies)}")
                shutil.copytree(out, copies[-1], ignore=shutil.ignore_patterns(".lock"))
            return function(*arguments)

        return copied

    with monkeypatch.context() as patch:
        for name in ("fsync", "replace", "unlink"):
            patch.setattr(os, name, copying(getattr(os, name)))
        run(call=call, evaluations=800, out=out, checkpoint_every=64)
    assert len(copies) > 50
    for copy in [*copies[:8], *copies[8:-8:5], *copies[-8:]]:
        assert_same(run(call=call, evaluations=800, out=copy, resume=True), straight)


def test_damaged_checkpoint_is_skipped_and_logged(tmp_path):
    out = tmp_path / "run"
    interrupted(out, 900, checkpoint_every=100)
    files = sorted((out / "checkpoints").iterdir())
    assert len(files) == 2
    data = bytearray(files[-1].read_bytes())
    data[len(data) // 2] ^= 1
    files[-1].write_bytes(data)
    assert_same(run(out=out, resume=True), run())
    assert "is damaged (its bytes do not match the checksum in its name)" in (out / "run.log").read_text()


def test_run_without_usable_checkpoint_starts_from_beginning(tmp_path):
    out = tmp_path / "run"
    interrupted(out, 900, checkpoint_every=100)
    for file in (out / "checkpoints").iterdir():
        file.write_bytes(b"")
    with pytest.raises(ValueError, match="has a result but no usable checkpoint"):
        run(out=out, resume=True)
    (out / "result.npz").unlink()  # a killed run has no result
    assert_same(run(out=out, resume=True), run())
    assert "begins again, since there is no checkpoint" in (out / "run.log").read_text()


def test_damaged_result_is_replaced_on_resume(tmp_path):
    out = tmp_path / "run"
    run(out=out)
    (out / "result.npz").write_bytes(b"nothing")
    assert_same(run(out=out, resume=True), run())


# Full disks.


def test_full_disk_stops_run_and_keeps_last_checkpoint(tmp_path, monkeypatch):
    out, written = tmp_path / "run", []
    sync = os.fsync

    def full(descriptor):
        written.append(descriptor)
        if len(written) > 30:
            raise OSError(28, "No space left on device")
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            OSError, match=r"No space left on device.*the last checkpoint, at [\d,]+ evaluations, is intact in"
        ):
            run(out=out, checkpoint_every=64)
    assert_same(run(out=out, resume=True), run())


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount a small file system")
    yield place
    subprocess.run(["umount", place], check=True)


def test_run_on_disk_that_fills_up_resumes_without_loss(small_disk, tmp_path):
    out = small_disk / "run"

    def fill(row):
        (small_disk / f"{row['evaluations']}").write_bytes(bytes(20_000))

    with pytest.raises(OSError, match="No space left on device"):
        run(out=out, checkpoint_every=64, callback=fill)
    for file in small_disk.iterdir():
        if file.is_file():
            file.unlink()
    assert list((out / "checkpoints").glob("*.npz"))
    assert_same(run(out=out, resume=True), run())


# Refused runs, warnings, and checkpoint intervals.


def test_resume_rejects_different_arguments(tmp_path):
    out = tmp_path / "run"
    interrupted(out, 500)
    for options, what in (
        ({"seed": 4}, "seed 3, and this one has 4"),
        ({"algorithm": "random"}, "algorithm {.*auto.*}, and this one has {.*random.*}"),
        ({"batch_size": 32}, "batch_size 16, and this one has 32"),
        ({"ahead": 2}, "ahead 1, and this one has 2"),
        ({"replicates": 2}, "replicates None, and this one has 2"),
        ({"bounds": (0, 2)}, "bounds"),
        ({"call": "each"}, "problem|call"),
        ({"initial": [[0.5, 0.5]]}, "initial None"),
        ({"target": 0.0}, "target None"),
    ):
        with pytest.raises(ValueError, match=rf"run' holds a run with .*{what}"):
            run(out=out, resume=True, **options)
    with pytest.raises(ValueError, match=r"resume=True continues the run in a folder: give out= as well"):
        run(resume=True)
    with pytest.raises(FileExistsError, match="a run never overwrites files"):
        run(out=out)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match="it contains no run to resume"):
        run(out=tmp_path / "other", resume=True)
    (out / "run.json").write_text("{")
    with pytest.raises(te.StorageError, match=r"run.json' is damaged or not of a taskelites run"):
        run(out=out, resume=True)


def test_resume_without_existing_run_starts_new_run(tmp_path):
    assert_same(run(out=tmp_path / "new", resume=True), run())


@pytest.mark.thorough
def test_changed_code_and_changed_versions_warn(tmp_path):
    def first(solutions, tasks):
        return sphere(solutions, tasks)

    def second(solutions, tasks):
        return 2 * sphere(solutions, tasks)

    second.__name__ = "first"
    problem = {"bounds": (0, 1), "dim": 2, "call": "batch"}
    te.solve(first, TASKS, evaluations=300, out=tmp_path / "run", **problem)
    folder = RunFolder(tmp_path / "run", resume=True)
    folder.known["plan"]["versions"]["numpy"] = "1.0"
    folder.write_plan(folder.known)
    with pytest.warns(UserWarning, match="other versions|code of the fitness") as caught:
        te.solve(second, TASKS, evaluations=400, out=tmp_path / "run", resume=True, **problem)
    assert sum(item.category is UserWarning for item in caught) == 2


def in_a_closure(table):
    return lambda solutions, tasks: sphere(solutions, tasks) + table.sum()


def in_an_argument(table):
    return functools.partial(lambda solutions, tasks, table: sphere(solutions, tasks) + table.sum(), table=table)


class InAnAttribute:
    def __init__(self, table):
        self.table = table

    def __call__(self, solutions, tasks):
        return sphere(solutions, tasks) + self.table.sum()


@pytest.mark.thorough
@pytest.mark.parametrize("made", [in_a_closure, in_an_argument, InAnAttribute])
def test_changed_values_in_fitness_warn(tmp_path, made):
    problem = {"bounds": (0, 1), "dim": 2, "call": "batch", "out": tmp_path / "run", "resume": True}
    te.solve(made(np.zeros(3)), TASKS, evaluations=100, **problem)
    te.solve(made(np.zeros(3)), TASKS, evaluations=200, **problem)  # no warning here: pytest would raise it
    with pytest.warns(UserWarning, match="the code of the fitness has changed .*, or a value in it"):
        te.solve(made(np.ones(3)), TASKS, evaluations=300, **problem)


def test_second_run_in_same_folder_is_refused(tmp_path):
    out, refused = tmp_path / "run", []

    def again(row):
        if not refused:
            with pytest.raises(te.errors.RunInUseError, match="is in use by"):
                run(out=out, resume=True)
            refused.append(row)

    run(out=out, callback=again)
    assert refused
    run(out=out, resume=True, evaluations=1600)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "not 0"),
        ("soon", "not 'soon'"),
        ("-3s", "not '-3s'"),
        (2.5, "not 2.5"),
        ("nan", "not 'nan'"),
        (True, "not T"),
    ],
)
def test_invalid_checkpoint_every_raises_error(value, message, tmp_path):
    expected = rf"checkpoint_every must be a number of evaluations, or a time such as .*, {message}"
    with pytest.raises((ValueError, TypeError), match=expected):
        run(out=tmp_path / "run", checkpoint_every=value)
    assert not (tmp_path / "run").exists()


def test_checkpoints_are_saved_at_requested_interval(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(
        "taskelites.runs.checkpoint.Checkpoints.save", lambda self, position, *_: saved.append(position) or Path()
    )
    run(out=tmp_path / "by-count", checkpoint_every=400)
    assert saved == [400, 800, 1200, 1500]
    saved.clear()
    run(out=tmp_path / "by-time", checkpoint_every="1e-9s")
    assert len(saved) > 50
    saved.clear()
    run(out=tmp_path / "seldom")
    assert saved == [1500]


# The command, killed by signals.

SIMULATOR = """
import time
import numpy as np
import taskelites as te

def fitness(solution, task):
    time.sleep(0.0005)
    if solution[0] > 0.97:
        raise RuntimeError("fell over")
    return -float(np.abs(solution - task[0]).sum())

domain = te.Domain(name="sim", fitness=fitness, tasks=te.tasks.grid((60,), [0], [1]), bounds=(0, 1), dim=3)
"""


@pytest.fixture
def simulator(tmp_path, monkeypatch):
    (tmp_path / "sim.py").write_text(SIMULATOR)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(*arguments, cwd=None):
    command = [sys.executable, "-m", "taskelites", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for(path, process, seconds=60):
    for _ in range(int(seconds / 0.01)):
        if path.exists() or process.poll() is not None:
            return
        time.sleep(0.01)
    raise TimeoutError(path)


def workers_of(pid):
    listed = subprocess.run(["ps", "-wweo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [int(own) for own, parent, args in rows if int(parent) == pid and "worker_process.py" in args]


# Each process compiles the algorithm again, and the default one takes twice as long to compile.
RUN = ("run", "sim:domain", "--algorithm", "mt-map-elites")


def alive(pids):
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, -9, marks=pytest.mark.slow),
    ],
)
def test_signals_end_workers_and_lose_nothing(number, status, simulator):
    process = start(*RUN, "--evaluations", 5000, "--out", "run", "--workers", 2, "--checkpoint-every", 200)
    wait_for(simulator / "run" / "checkpoints", process)
    workers = workers_of(process.pid)
    assert len(workers) == 2, process.poll() is not None and process.communicate()
    os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == status, errors
    for _ in range(200):
        if not alive(workers):
            break
        time.sleep(0.01)
    assert alive(workers) == []
    if status > 0:
        assert "taskelites: interrupted after" in errors
        assert errors.rstrip().endswith(
            "; the results so far are in 'run'; `taskelites resume run --domain sim:domain` continues it"
        )
    with warnings.catch_warnings(action="ignore"):
        assert main(["resume", "run", "--trust", "--quiet", "--workers", "1"]) == 0
        assert main([*RUN, "--evaluations", "5000", "--out", "straight", "--quiet"]) == 0
        assert_same(te.load("run"), te.load("straight"))
        assert main(["resume", "run", "--trust", "--quiet", "--evaluations", "5500"]) == 0
        assert main(["resume", "run", "--trust", "--quiet"]) == 0  # with the last budget
    assert te.load("run").evaluations == 5500


def kill_again_and_again(folder, kills, command, out):
    """Run a command to its end after killing it at random moments; return the number of kills.

    A kill hits the run, its process group, or one of its workers, if it has any.
    """
    chance = np.random.default_rng(1)
    killed = 0
    while True:
        begun = (folder / out / "run.json").exists()
        arguments = ("resume", out, "--trust") if begun else (*command, "--out", out)
        process = start(*arguments, "--checkpoint-every", "0.02s", "--quiet", "--no-report", cwd=folder)
        while killed < kills and process.poll() is None:
            wait_for(folder / out / "run.json", process)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=chance.uniform(0, 6.0 if begun else 3.0))
                break
            killed += 1
            supervisors = workers_of(process.pid)
            below = supervisors + [worker for pid in supervisors for worker in workers_of(pid)]
            if below and chance.random() < 1 / 3:
                with suppress(ProcessLookupError):
                    os.kill(int(chance.choice(below)), signal.SIGKILL)
                continue
            kill = os.killpg if chance.random() < 0.5 else os.kill
            kill(process.pid, signal.SIGKILL)
            break
        _, errors = process.communicate(timeout=600)
        if process.returncode == 0:
            return killed
        assert process.returncode == -9, errors


def test_killed_run_equals_uninterrupted_run(simulator):
    kill_again_and_again(simulator, 1, (*RUN, "--evaluations", 4000), "run")
    with warnings.catch_warnings(action="ignore"):
        assert main([*RUN, "--evaluations", "4000", "--out", "straight", "--quiet"]) == 0
    assert_same(te.load("run"), te.load("straight"))


def processes_in(folder):
    """Return the IDs of all other processes whose working directory is the folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (place / "cwd").resolve(strict=True) == folder.resolve() and int(place.name) != os.getpid():
                found.append(int(place.name))
    return found


# A retry repeats the evaluation of a killed worker.
WITH_WORKERS = ("--workers", 2, "--on-error", "retry", "--retries", 100)
OFTEN_KILLED = {
    "each": (*RUN, "--evaluations", 60_000),
    "workers": (*RUN, *WITH_WORKERS, "--evaluations", 60_000),
    "replicates": (*RUN, *WITH_WORKERS, "--evaluations", 30_000, "--replicates", 2),
    "cma-es": ("run", "sim:domain", "--algorithm", "cma-es", *WITH_WORKERS, "--evaluations", 60_000),
    "jax": ("run", "arm", "--tasks", 500, "--algorithm", "mt-map-elites", "--evaluations", "8e7"),
    "async": (*RUN, *WITH_WORKERS, "--mode", "async", "--evaluations", 60_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", OFTEN_KILLED)
def test_run_killed_seventeen_times_loses_nothing(case, simulator):
    command = OFTEN_KILLED[case]
    assert kill_again_and_again(simulator, 17, command, "run") == 17
    assert processes_in(simulator) == []
    parts = ["."] if "--replicates" not in command else ["replicate-0", "replicate-1"]
    if case == "async":  # asynchronous runs are not reproducible
        found = te.load("run")
        assert found.task_evaluations.sum() == found.evaluations == 60_000
        return
    process = start(*command, "--quiet", "--no-report", "--out", "straight", cwd=simulator)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    for part in parts:
        assert_same(te.load(Path("run", part)), te.load(Path("straight", part)))


def test_command_names_runs_that_cannot_be_resumed(simulator, capsys):
    run(out="python")
    for arguments, message in (
        (["resume", "nowhere"], "there is no run folder 'nowhere'"),
        (["resume", "."], "'.' is not a run folder: it has no run.json"),
        (
            ["resume", "python"],
            "the run in 'python' was started in Python, so the command line does not know its fitness; in its program, "
            "te.solve(..., out=..., resume=True) with the same arguments resumes it, and te.analysis.failures lists "
            "failed evaluations",
        ),
        (["replay", "python", "1"], "run 'python' has no failure 1: it has none"),
    ):
        assert main(arguments) == 2
        assert capsys.readouterr().err.splitlines()[-1] == f"taskelites: error: {message}"


def test_replay_reproduces_failure(simulator, capsys):
    with warnings.catch_warnings(action="ignore"):
        assert main([*RUN, "--evaluations", "300", "--out", "run", "--quiet"]) == 0
    os.chdir("/")
    failure = te.analysis.failures(simulator / "run")[0]
    capsys.readouterr()
    for more in ([], ["--here"]):
        assert main(["replay", str(simulator / "run"), "1", "--trust", *more]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith(f"failure 1: evaluation {failure.evaluation}, task {failure.task}, solution [0.9")
        assert lines[1:] == [
            "then: raised: fitness raised RuntimeError: fell over (sim.py, line 9)",
            "now:  raised: fitness raised RuntimeError: fell over (sim.py, line 9)",
        ]
    assert main(["replay", str(simulator / "run"), "99999"]) == 2


def test_run_folder_creates_folder_of_replicate(tmp_path):
    assert RunFolder.part(tmp_path / "replicate-0").path.is_dir()


CALLS_LEFT = []  # global, so that it is not part of the fitness


def fails_at_the_end(solutions, tasks):
    CALLS_LEFT.pop()
    return sphere(solutions, tasks)


def test_budget_can_be_raised_if_it_adds_history_point_already_passed(tmp_path):
    problem = {"bounds": (0, 1), "dim": 2, "call": "batch", "algorithm": "random", "batch_size": 1}
    CALLS_LEFT[:] = [0] * 9
    with pytest.raises(te.FitnessError):  # with points at 1, 2, 4, 5, 10, ... evaluations
        te.solve(fails_at_the_end, TASKS, evaluations=1000, out=tmp_path / "run", on_error="raise", **problem)
    CALLS_LEFT[:] = [0] * 2000
    longer = te.solve(fails_at_the_end, TASKS, evaluations=2000, out=tmp_path / "run", resume=True, **problem)
    assert longer.evaluations == 2000  # with points at 1, 2, 4, 8, 10, 20, ...
