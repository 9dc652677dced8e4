"""Test that a stopped run can be resumed, with the same result as an uninterrupted run."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
from spheres import sphere, sphere_each

import taskelites as te
from taskelites.evaluation import Dispatcher
from taskelites.search.stepper import Stepper

TASKS = np.linspace(0, 1, 60)[:, None]


class Traced:
    """A JAX fitness whose instances are equal, so that runs share compiled programs; it may raise on the host."""

    def __init__(self, problem=None, after=0):
        self.problem, self.left = problem, after

    def __call__(self, solution, task):
        def host(value):
            self.left -= 1
            if self.problem is not None and self.left < 0:
                raise self.problem
            return value

        value = -abs(solution - task[0]).sum()
        return jax.pure_callback(host, jax.ShapeDtypeStruct((), value.dtype), value, vmap_method="sequential")

    def __eq__(self, other):
        return isinstance(other, Traced)

    def __hash__(self):
        return 11

    def __getstate__(self):
        return {}


def plain(solution, task):
    return -abs(solution - task[0]).sum()


LOOPS = {
    "batch": {"fitness": sphere, "call": "batch"},
    "async": {"fitness": sphere_each, "call": "each", "mode": "async", "executor": ThreadPoolExecutor(1)},
    "jax": {"fitness": plain, "call": "jax"},
    "in step": {"fitness": sphere, "call": "batch", "replicates": 2},
    "cma-es": {"fitness": sphere, "call": "batch", "algorithm": "cma-es"},
}


def loops(*names):
    """Parametrize a test with the named loops; `make test` runs only the first."""
    first, *others = names
    return pytest.mark.parametrize(
        "loop", [first, *(pytest.param(name, marks=pytest.mark.thorough) for name in others)]
    )


every_loop = loops(*LOOPS)


def solve(loop="batch", **options):
    options = {"bounds": (0, 1), "dim": 2, "batch_size": 16, "evaluations": 1500} | LOOPS[loop] | options
    fitness = options.pop("fitness")
    if loop == "in step":
        given = {name: options.pop(name) for name in ("bounds", "dim", "call")}
        domain = te.Domain(name="sphere", fitness=fitness, tasks=TASKS, rows_per_call=32, **given)
        return te.solve(domain, **options)
    return te.solve(fitness, TASKS, **options)


def assert_same(one, other):
    for a, b in zip(*(found if isinstance(found, list) else [found] for found in (one, other)), strict=True):
        for name in ("solutions", "fitness", "task_evaluations", "last_improved"):
            assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True), name
        assert (a.evaluations, a.failures, a.failure_reasons) == (b.evaluations, b.failures, b.failure_reasons)
        for name in b.history.keys() - {"seconds"}:
            assert np.array_equal(a.history[name], b.history[name], equal_nan=True), name


def first(found):
    return found[0] if isinstance(found, list) else found


@every_loop
def test_callback_error_is_reported_once_and_run_continues(loop, tmp_path):
    rows = []

    def logs_nowhere(row):
        raise OSError("the tracking server is gone")

    with pytest.warns(
        te.errors.CallbackWarning, match="callback raised OSError: the tracking server is gone"
    ) as caught:
        found = solve(loop, out=tmp_path / "run", callback=[logs_nowhere, rows.append])
    [warning] = [each for each in caught if each.category is te.errors.CallbackWarning]
    assert warning.filename == __file__
    assert len(rows) == sum(len(each.history["mean"]) for each in (found if isinstance(found, list) else [found]))
    log = (tmp_path / "run" / "run.log").read_text()
    assert log.count("the tracking server is gone (test_ways_out.py, line ") == 1
    assert f"callbacks raised {len(rows)} exceptions" in log
    if loop != "async":
        assert_same(found, solve(loop))


@pytest.mark.parametrize("problem", [te.errors.StopRun("it is good enough"), KeyboardInterrupt(), SystemExit(3)])
@every_loop
def test_run_stopped_by_callback_can_be_resumed(loop, problem, tmp_path):
    def stops(row):
        if row["evaluations"] > 400:
            raise problem

    with pytest.raises(type(problem)) as caught:
        solve(loop, out=tmp_path / "run", callback=stops)
    assert caught.value is problem
    assert 400 < first(problem.result).evaluations < 1500
    resumed = solve(loop, out=tmp_path / "run", resume=True)
    if loop != "async":
        assert_same(resumed, solve(loop))
    assert "continues after" in (tmp_path / "run" / "run.log").read_text()


def test_run_stopped_by_callback_at_first_row_can_be_resumed(tmp_path):
    def stops(row):
        raise te.errors.StopRun("not today")

    with pytest.raises(te.errors.StopRun, match="not today"):
        solve(out=tmp_path / "run", callback=stops)
    assert_same(solve(out=tmp_path / "run", resume=True), solve())


def test_callback_error_stops_run_if_warnings_are_errors(tmp_path):
    def breaks(row):
        raise RuntimeError("mine")

    with warnings.catch_warnings():
        warnings.simplefilter("error", te.errors.CallbackWarning)
        with pytest.raises(RuntimeError, match="mine"):
            solve(out=tmp_path / "run", callback=breaks)
    assert_same(solve(out=tmp_path / "run", resume=True), solve())


class Unusual(BaseException):
    pass


class Breaks:
    """A fitness function that raises once, at call number `at`."""

    def __init__(self, fitness, problem, at):
        self.fitness, self.problem, self.at = fitness, problem, at

    def __call__(self, solutions, tasks):
        self.at -= 1
        if self.at == 0:
            raise self.problem
        return self.fitness(solutions, tasks)

    def __getstate__(self):
        return {}  # otherwise a resumed run warns that the fitness has changed


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), Unusual("left")])
@loops("batch", "in step", "cma-es")
def test_run_stopped_by_base_exception_in_fitness_can_be_resumed(loop, problem, tmp_path):
    fitness = Breaks(sphere, problem, at=4 if loop == "cma-es" else 25)
    with pytest.raises(type(problem)) as caught:
        solve(loop, fitness=fitness, out=tmp_path / "run")
    assert first(caught.value.result).evaluations >= 200
    assert list((tmp_path / "run").rglob("checkpoint-*.npz"))
    assert_same(solve(loop, fitness=fitness, out=tmp_path / "run", resume=True), solve(loop))


@pytest.mark.thorough
def test_run_stopped_by_host_error_in_jax_fitness_can_be_resumed(tmp_path):
    fitness = Traced(RuntimeError("the simulator is gone"), after=400)
    with pytest.raises(te.FitnessError, match="fitness failed inside the compiled program") as caught:
        solve("jax", fitness=fitness, out=tmp_path / "run")
    assert caught.value.result.evaluations >= 200
    fitness.problem = None
    assert_same(solve("jax", fitness=fitness, out=tmp_path / "run", resume=True), solve("jax", fitness=Traced()))


@loops("batch", "async", "in step")
def test_run_stopped_by_lost_connection_can_be_resumed(loop, tmp_path, monkeypatch):
    arrived, left = Dispatcher.arrived, [6]

    def breaks(dispatcher, wait):
        left[0] -= 1
        if left[0] == 0:
            raise EOFError("connection lost")
        return arrived(dispatcher, wait)

    monkeypatch.setattr(Dispatcher, "arrived", breaks)
    with pytest.raises(EOFError, match="connection lost"):
        solve(loop, out=tmp_path / "run")
    resumed = solve(loop, out=tmp_path / "run", resume=True)
    if loop != "async":
        assert_same(resumed, solve(loop))


def test_interrupted_update_is_not_saved_and_run_restarts(tmp_path, monkeypatch):
    accept, left = Stepper.accept, [20]

    def torn(stepper, fitness, behaviour):
        left[0] -= 1
        if left[0] == 0:
            stepper.evaluations += len(fitness)
            raise KeyboardInterrupt
        accept(stepper, fitness, behaviour)

    monkeypatch.setattr(Stepper, "accept", torn)
    with pytest.raises(KeyboardInterrupt):
        solve(out=tmp_path / "run")
    assert not list((tmp_path / "run").rglob("*.npz"))
    assert_same(solve(out=tmp_path / "run", resume=True), solve())


def test_comparison_stopped_by_exception_can_be_resumed(tmp_path):
    fitness = Breaks(sphere, Unusual("left"), 30)

    def compare(out=None):
        options = {"bounds": (0, 1), "dim": 2, "call": "batch", "evaluations": 1500, "replicates": 2, "batch_size": 16}
        return te.compare(fitness, TASKS, algorithms=["auto"], out=out, **options)

    with pytest.raises(Unusual):
        compare(tmp_path / "several")
    assert list((tmp_path / "several").rglob("checkpoint-*.npz"))
    found, straight = compare(tmp_path / "several"), compare()
    assert_same(found.results["auto"], straight.results["auto"])


def test_failed_plot_keeps_runs_of_comparison(tmp_path, monkeypatch):
    def compare():
        options = {"bounds": (0, 1), "dim": 2, "call": "batch", "evaluations": 640, "replicates": 1, "batch_size": 16}
        return te.compare(fitness, TASKS, algorithms=["auto"], out=tmp_path / "several", **options)

    fitness = Breaks(sphere, AssertionError, 0)
    with monkeypatch.context() as broken:
        broken.setattr(te.Comparison, "plot", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            compare()
    calls = fitness.at
    assert compare().results["auto"][0].evaluations == 640
    assert fitness.at == calls  # the run was loaded, not repeated
