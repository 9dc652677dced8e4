"""Many rows per call: `ahead` batches asked from one state, and replicates evaluated together."""

import re
import signal
import warnings
from dataclasses import fields, replace

import jax
import numpy as np
import pytest
from spheres import sphere

import taskelites as te
from taskelites.algorithms import Evaluation
from taskelites.cli import main
from taskelites.core import random
from taskelites.core.pytree import record
from taskelites.search.stepper import Stepper, host_precision

TASKS = np.linspace(0, 1, 60)[:, None]
BATCH = 16
STATED = {"bounds": (0, 1), "dim": 2, "batch_size": BATCH, "seed": 3}


def solve(fitness=sphere, evaluations=600, **options):
    settings = {"call": "batch", "algorithm": "mt-map-elites"} | STATED | options
    return te.solve(fitness, TASKS, evaluations=evaluations, **settings)


def assert_same(one, other, *, history=True):
    for name in ("solutions", "fitness", "task_evaluations", "last_improved"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), name
    assert (one.evaluations, one.failed, one.failures) == (other.evaluations, other.failed, other.failures)
    if history:
        assert list(one.history) == list(other.history)
        for name in one.history.keys() - {"seconds"}:
            assert np.array_equal(one.history[name], other.history[name], equal_nan=True), name


class StopAt:
    """A callback that presses Ctrl-C after a number of evaluations of one replicate."""

    def __init__(self, evaluations, replicate=0):
        self.evaluations, self.replicate = evaluations, replicate

    def __call__(self, row):
        if row["replicate"] == self.replicate and row["evaluations"] >= self.evaluations:
            signal.raise_signal(signal.SIGINT)
            self.evaluations = float("inf")


class Counted:
    """A fitness that records the number of rows of each call."""

    def __init__(self, fitness=sphere):
        self.fitness, self.calls = fitness, []

    def __getstate__(self):
        return vars(self) | {"calls": []}  # otherwise a resumed run warns that the fitness has changed

    def __call__(self, solutions, tasks):
        self.calls.append(len(solutions))
        return self.fitness(solutions, tasks)


# Rounds of several batches.


THOROUGH = [pytest.param(name, marks=pytest.mark.thorough) for name in ("auto", "monet")]


@pytest.mark.parametrize("algorithm", ["mt-map-elites", "random", *THOROUGH])
def test_several_open_asks_equal_solve(algorithm):
    optimizer = te.Optimizer(TASKS, algorithm=algorithm, ahead=4, **STATED)
    known = np.full((5, 2), 0.25)
    while optimizer.evaluations < 640:
        asked = [optimizer.ask() for _ in range(4)]
        assert [len(each) for each in asked] == [BATCH] * 4
        for each in asked:
            optimizer.tell(each, sphere(each.solutions, each.tasks))
    by_hand, solved = optimizer.result(), solve(evaluations=640, algorithm=algorithm, ahead=4)
    assert_same(by_hand, solved, history=False)
    assert by_hand.settings["ahead"] == solved.settings["ahead"] == 4
    if algorithm != "random":  # it ignores the fitness
        assert not np.array_equal(solved.solutions, solve(evaluations=640, algorithm=algorithm).solutions)
    begun = te.Optimizer(TASKS, algorithm=algorithm, ahead=4, initial=known, **STATED)
    assert len(begun.ask()) == 5
    with pytest.raises(RuntimeError, match="all 4 batches of ahead=4 are open"):
        begun.ask()


@pytest.mark.thorough
def test_all_batches_of_round_are_asked_before_first_is_told():
    rounds, ahead = 5, 3
    optimizer = te.Optimizer(TASKS, algorithm="mt-map-elites", ahead=ahead, **STATED)
    with host_precision():
        core = optimizer._stepper.core
        # The core is an argument, since JAX may round arithmetic with constants differently.
        init, ask, tell = (jax.jit(method) for method in (type(core).init, type(core).ask, type(core).tell))
        state = init(core, jax.random.key(3, impl=random.IMPLEMENTATION))
        for _ in range(rounds):
            batches = []
            for _ in range(ahead):
                candidates, state = ask(core, state)
                batches.append(candidates)
            for candidates in batches:
                fitness = sphere(candidates.solutions, candidates.tasks)
                told = Evaluation(fitness=fitness, told=np.ones(BATCH, bool))
                state, _ = tell(core, state, candidates, told)
    solved = solve(evaluations=rounds * ahead * BATCH, ahead=ahead)
    found = np.isfinite(state.archive.fitness)
    assert np.array_equal(np.where(found, state.archive.fitness, np.nan), solved.fitness, equal_nan=True)
    assert np.array_equal(np.asarray(state.archive.solutions)[found], solved.solutions[found])
    assert np.array_equal(np.asarray(state.archive.last_improved), solved.last_improved)


@pytest.mark.parametrize("algorithm", ["cma-es", "map-elites-all"])
def test_algorithms_that_learn_from_whole_steps_ignore_ahead(algorithm):
    once, often = (solve(evaluations=2000, algorithm=algorithm, ahead=ahead) for ahead in (1, 4))
    assert_same(once, often)
    assert often.settings["ahead"] == 1


def test_batches_must_be_told_in_order_and_once():
    optimizer = te.Optimizer(TASKS, algorithm="mt-map-elites", ahead=2, **STATED)
    first, second = optimizer.ask(), optimizer.ask(at_most=10)
    rest = optimizer.ask()
    assert (len(second), len(rest)) == (10, 6)
    with pytest.raises(
        RuntimeError, match=r"^all 2 batches of ahead=2 are open: tell\(\) the fitness of their 32 candidates "
    ):
        optimizer.ask()
    wrong = r"^candidates must be the return value of the first ask\(\) not told yet, and each is told once$"
    with pytest.raises(ValueError, match=wrong):
        optimizer.tell(second, np.zeros(10))
    optimizer.tell(first, np.zeros(16))
    with pytest.raises(ValueError, match=wrong):
        optimizer.tell(first, np.zeros(16))
    with pytest.raises(ValueError, match=r"fitness must have shape \(10,\)"):
        optimizer.tell(second, np.zeros(9))
    optimizer.tell(second, np.zeros(10))
    with pytest.raises(RuntimeError, match=r"tell\(\) the fitness of their 6 candidates"):
        optimizer.ask()
    optimizer.tell(rest, np.zeros(6))
    assert len(optimizer.ask()) == BATCH
    assert optimizer.evaluations == 32


def test_round_is_copied_to_host_once(monkeypatch):
    optimizer = te.Optimizer(TASKS, algorithm="mt-map-elites", ahead=8, **STATED)
    fetched = []
    on_host = Stepper.on_host
    monkeypatch.setattr(Stepper, "on_host", lambda self, whole: fetched.append(1) or on_host(self, whole))
    asked = [optimizer.ask() for _ in range(8)]
    assert len(fetched) == 1
    assert len({each.solutions.tobytes() for each in asked}) == 8


@pytest.mark.parametrize("algorithm", ["mt-map-elites", pytest.param("auto", marks=pytest.mark.slow)])
def test_budget_that_ends_inside_round_can_be_raised(algorithm, tmp_path):
    cut = solve(evaluations=600, algorithm=algorithm, ahead=4, out=tmp_path / "run")  # 600 = 9 rounds + 24 rows
    assert cut.task_evaluations.sum() == 600
    raised = solve(evaluations=1000, algorithm=algorithm, ahead=4, out=tmp_path / "run", resume=True)
    assert_same(raised, solve(evaluations=1000, algorithm=algorithm, ahead=4), history=False)


class Counting:
    """`random`, with a state that counts the batches told."""

    name = "toy-counting"

    def bind(self, problem, batch_size=64):
        core = te.algorithms.RandomSampling().bind(problem, batch_size)

        class Core(type(core)):
            def ask(self, state):
                return super().ask(state)[0], state

            def tell(self, state, candidates, evaluation):
                state, info = super().tell(state, candidates, evaluation)
                return replace(state, step=state.step + 1), info

        values = {item.name: getattr(core, item.name) for item in fields(core) if item.name != "_class"}
        return record(Core)(**values)


def test_state_inside_round_does_not_count_batches_without_results():
    """After 24 of the 64 rows of a round, two of its four batches have results."""
    optimizer = te.Optimizer(TASKS, algorithm=Counting(), ahead=4, **STATED)
    asked = optimizer.ask()
    optimizer.tell(asked, np.zeros(16))
    asked = optimizer.ask(at_most=8)
    optimizer.tell(asked, np.zeros(8))
    assert int(optimizer._stepper.state_now().step) == 2


class Stopping:
    """A fitness of one solution that presses Ctrl-C at a given call."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def __getstate__(self):
        return vars(self) | {"calls": 0}

    def __call__(self, solution, task):
        self.calls += 1
        if self.calls == self.at:
            signal.raise_signal(signal.SIGINT)
        return float(sphere(solution[None], task[None])[0])


@pytest.mark.parametrize("at", [100, 408])
def test_run_interrupted_inside_round_resumes_bit_for_bit(at, tmp_path):
    options = {"evaluations": 900, "ahead": 4, "checkpoint_every": 100}
    each = Stopping(at)
    with pytest.raises(te.Interrupted):
        solve(each, call="each", out=tmp_path / "run", **options)
    assert te.load(tmp_path / "run").evaluations == at
    resumed = solve(each, call="each", out=tmp_path / "run", resume=True, **options)
    assert_same(resumed, solve(Stopping(None), call="each", **options))


def test_resume_rejects_different_ahead(tmp_path):
    with pytest.raises(te.Interrupted):
        solve(ahead=2, out=tmp_path / "run", callback=StopAt(200))
    with pytest.raises(ValueError, match="holds a run with ahead 2, and this one has 1"):
        solve(out=tmp_path / "run", resume=True)


@pytest.mark.thorough
def test_comparison_rejects_different_ahead_and_keeps_its_own(tmp_path):
    options = {"bounds": (0, 1), "dim": 2, "call": "batch", "replicates": 2, "batch_size": 16, "out": tmp_path / "two"}
    found = te.compare(sphere, TASKS, algorithms=["random"], evaluations=320, ahead=4, **options)
    assert found.settings["ahead"] == 4
    with pytest.raises(ValueError, match=r"holds a comparison with ahead 4, and this one has 1"):
        te.compare(sphere, TASKS, algorithms=["random"], evaluations=320, **options)
    added = te.compare(sphere, TASKS, algorithms=["mt-map-elites"], add=True, **options)
    one = added.results["mt-map-elites"][0]
    assert_same(one, solve(evaluations=320, ahead=4, seed=0))


# Replicates evaluated together.


def domain(fitness, rows_per_call=4 * BATCH, **more):
    options = {"name": "sphere", "tasks": TASKS, "bounds": (0, 1), "dim": 2, "call": "batch"} | more
    return te.Domain(fitness=fitness, rows_per_call=rows_per_call, **options)


def in_step(fitness=sphere, evaluations=600, rows_per_call=4 * BATCH, **options):
    settings = {"algorithm": "mt-map-elites", "batch_size": BATCH, "seed": 3, "replicates": 4} | options
    return te.solve(domain(fitness, rows_per_call), evaluations=evaluations, **settings)


def assert_same_as_alone(results, fitness=sphere, **options):
    with warnings.catch_warnings(action="ignore"):
        for i, result in enumerate(results):
            assert_same(result, solve(fitness, seed=3 + i, **options))
            assert result.settings["seed"] == 3 + i


def test_replicates_are_evaluated_in_one_call():
    counted = Counted()
    assert_same_as_alone(in_step(counted))
    assert counted.calls == [64] * 37 + [32]


@pytest.mark.parametrize(
    ("rows_per_call", "ahead", "calls"),
    [
        (2 * BATCH, 1, [32] * 20),  # two groups of two replicates
        (3 * BATCH, 1, [48] * 10 + [16] * 10),  # a group of three replicates, and a group of one
        (1, 1, [1] * 640),
        (8 * BATCH, 2, [128] * 5),
        (1000, 2, [128] * 5),  # all replicates
        (2 * BATCH, 2, [32] * 20),  # a round of one replicate fills a call
    ],
)
def test_rows_per_call_sets_number_of_runs_evaluated_together(rows_per_call, ahead, calls):
    counted = Counted()
    results = in_step(counted, evaluations=160, rows_per_call=rows_per_call, ahead=ahead)
    assert counted.calls == calls
    assert_same_as_alone(results, evaluations=160, ahead=ahead)


def test_single_run_uses_rows_per_call():
    counted = Counted()
    result = in_step(counted, evaluations=640, replicates=None, ahead=4, rows_per_call=32)
    assert counted.calls == [32] * 20
    assert_same(result, solve(evaluations=640, ahead=4))


def test_replicates_run_one_after_another_without_rows_per_call_or_with_workers(tmp_path):
    counted = Counted()
    in_step(counted, evaluations=160, rows_per_call=None)
    assert counted.calls == [BATCH] * 40
    rows = []
    results = in_step(evaluations=160, replicates=2, workers=1, callback=lambda row: rows.append(row["replicate"]))
    assert rows == sorted(rows)
    assert_same_as_alone(results, evaluations=160)


def test_rows_per_call_of_domain_like_object_is_used():
    class Mine:
        fitness, tasks, bounds, dim, call = Counted(), TASKS, (0, 1), 2, "batch"
        rows_per_call = 64

    te.solve(Mine(), evaluations=160, algorithm="random", batch_size=BATCH, replicates=4)
    assert Mine.fitness.calls == [64] * 10


@pytest.mark.thorough
def test_replicates_with_objects_and_behaviours_are_evaluated_together():
    names = [f"{i / 60:.3f}" for i in range(60)]

    def fitness(solutions, several):
        assert isinstance(several, list)
        places = np.array([[float(name)] for name in several])
        return sphere(solutions, places), solutions[:, :1]

    tasks = te.Tasks(names, descriptors=[[float(name)] for name in names])
    stated = {"tasks": tasks, "behaviour": [(0, 1)]}
    options = {"evaluations": 320, "algorithm": te.algorithms.MultiTaskMultiBehaviour(), "batch_size": BATCH}
    counted = Counted(fitness)
    together = te.solve(domain(counted, 48, **stated), replicates=3, **options)
    assert counted.calls == [48] * 20
    for i, result in enumerate(together):
        assert_same(result, te.solve(domain(fitness, None, **stated), seed=i, **options))


def test_each_replicate_stops_when_it_reaches_target():
    counted = Counted()
    results = in_step(counted, evaluations=20_000, target=-0.3)
    assert len({result.evaluations for result in results}) > 1
    assert sum(counted.calls) == sum(result.evaluations for result in results)
    assert_same_as_alone(results, evaluations=20_000, target=-0.3)


def picky(solutions, tasks):
    """Return NaN for a few solutions, and raise an error for a few others."""
    if (solutions[:, 0] > 0.98).any():
        raise ValueError("too large")
    return np.where(solutions[:, 1] > 0.97, np.nan, sphere(solutions, tasks))


def test_failures_are_counted_per_replicate(tmp_path):
    with pytest.warns(te.errors.FitnessWarning, match="evaluations failed"):
        results = in_step(picky, out=tmp_path / "run")
    assert all({"nan", "raised"} <= set(result.failures) for result in results)
    assert_same_as_alone(results, picky)
    with warnings.catch_warnings(action="ignore"):
        solve(picky, seed=5, out=tmp_path / "alone")
    one, other = ((tmp_path / name / "failures.jsonl").read_text() for name in ("run/replicate-2", "alone"))
    assert re.sub(r'"traceback": .*', "", one) == re.sub(r'"traceback": .*', "", other)


@pytest.mark.filterwarnings("ignore:more than half of the last:taskelites.errors.FitnessWarning")
def test_failed_rows_of_one_replicate_do_not_affect_others():
    def fitness(solutions, tasks):
        values = sphere(solutions, tasks)
        values[16:32] = np.nan
        return values

    with pytest.warns(te.errors.FitnessWarning, match=r"160 of 480 evaluations failed \(nan 160\)"):
        results = in_step(fitness, evaluations=160, replicates=3, rows_per_call=48)
    assert [result.failed for result in results] == [0, 160, 0]
    assert_same(results[0], solve(evaluations=160, seed=3))
    assert_same(results[2], solve(evaluations=160, seed=5))


@pytest.mark.parametrize(("at", "replicate"), [(16, 0), (300, 2), (600, 3)])
def test_interrupted_replicates_resume_bit_for_bit(at, replicate, tmp_path):
    options = {"out": tmp_path / "run", "ahead": 2, "rows_per_call": 64}
    counted = Counted()
    with pytest.raises(te.Interrupted, match=r"interrupted after [\d,]+ evaluations; the results so far are in"):
        in_step(counted, callback=StopAt(at, replicate), **options)
    resumed = in_step(counted, resume=True, **options)
    assert_same_as_alone(resumed, ahead=2)
    assert sum(counted.calls) == 2400  # no row is evaluated twice
    for i, result in enumerate(resumed):
        folder = tmp_path / "run" / f"replicate-{i}"
        assert_same(te.load(folder), result)
        rows = (folder / "metrics.csv").read_text().splitlines()[1:]
        assert [int(row.split(",")[0]) for row in rows] == result.history["evaluations"].tolist()
    raised = in_step(counted, evaluations=700, resume=True, **options)
    for i, result in enumerate(raised):
        assert_same(result, solve(evaluations=700, ahead=2, seed=3 + i), history=False)


def test_interruption_between_calls_of_round_loses_nothing(tmp_path):
    def stop(solutions, tasks):
        if len(counted.calls) == 5:
            signal.raise_signal(signal.SIGINT)
        return sphere(solutions, tasks)

    counted = Counted(stop)
    # A round of 32 rows is larger than a call: calls of 24 and 8.
    options = {"evaluations": 160, "rows_per_call": 24, "ahead": 2, "replicates": 2, "out": tmp_path / "run"}
    with pytest.raises(te.Interrupted, match=r"interrupted after 88 evaluations"):
        in_step(counted, **options)
    assert_same_as_alone(in_step(counted, resume=True, **options), evaluations=160, ahead=2)
    assert counted.calls[:5] == [24, 8, 24, 8, 24]
    assert sum(counted.calls) == 320


@pytest.mark.thorough
def test_replicates_at_different_positions_resume_together(tmp_path):
    """With a worker, replicates run one after another: one was finished and one had begun."""
    counted = Counted()
    options = {"out": tmp_path / "run", "replicates": 4}
    with pytest.raises(te.Interrupted):
        in_step(counted, workers=1, callback=StopAt(300, 1), **options)
    assert_same_as_alone(in_step(counted, resume=True, **options))
    assert counted.calls[0] == 48
    assert 1200 <= sum(counted.calls) < 1800 - 250


def test_power_cut_between_checkpoints_of_replicates_loses_nothing(tmp_path):
    options = {"out": tmp_path / "run", "checkpoint_every": 100}
    with pytest.raises(te.Interrupted):
        in_step(callback=StopAt(450), **options)
    assert {len(list((tmp_path / "run" / f"replicate-{i}" / "checkpoints").iterdir())) for i in range(4)} == {2}
    for i in (1, 3):
        sorted((tmp_path / "run" / f"replicate-{i}" / "checkpoints").iterdir())[-1].unlink()
    assert_same_as_alone(in_step(resume=True, **options))


def test_error_stops_all_replicates_and_keeps_their_results(tmp_path):
    mended = tmp_path / "mended"

    def fitness(solutions, tasks):
        if sum(counted.calls) > 16 * 64 and not mended.exists() and tasks[-1, 0] > 0.1:
            raise ZeroDivisionError("out of luck")
        return sphere(solutions, tasks)

    counted = Counted(fitness)
    options = {"out": tmp_path / "run", "on_error": "raise"}
    with pytest.raises(
        te.FitnessError, match=r"ZeroDivisionError: out of luck.*; the results so far are in "
    ) as caught:
        in_step(counted, **options)
    told = [result.evaluations for result in caught.value.result]
    assert all(256 <= number < 272 for number in told)
    mended.touch()
    assert_same_as_alone(in_step(counted, resume=True, **options))


def test_replicates_stop_if_first_20_evaluations_fail(tmp_path):
    def fitness(solutions, tasks):
        raise RuntimeError("no simulator")

    with pytest.raises(te.FitnessError, match=r"all 20 evaluations failed; the first: .*no simulator") as caught:
        in_step(fitness)
    assert caught.value.result[0].evaluations == 20


def test_comparison_evaluates_replicates_together(tmp_path):
    counted = Counted()
    options = {"algorithms": ["mt-map-elites"], "evaluations": 320, "batch_size": BATCH, "seed": 3}
    options |= {"out": tmp_path / "two"}
    te.compare(domain(counted, 32), replicates=2, **options)
    assert counted.calls == [32] * 20
    counted.calls.clear()
    found = te.compare(domain(counted, 32), replicates=4, **options)
    assert counted.calls == [32] * 20  # only the missing replicates
    assert_same_as_alone(found.results["mt-map-elites"], evaluations=320)


def test_interrupted_comparison_resumes_its_replicates_together(tmp_path):
    counted = Counted()

    def fitness(solutions, tasks):
        if len(counted.calls) == 13:
            signal.raise_signal(signal.SIGINT)
        return counted(solutions, tasks)

    options = {"algorithms": ["mt-map-elites"], "evaluations": 320, "batch_size": BATCH, "seed": 3, "replicates": 3}
    with pytest.raises(te.Interrupted, match=r"interrupted after 0 of 3 runs"):
        te.compare(domain(fitness, 48), out=tmp_path / "three", **options)
    found = te.compare(domain(fitness, 48), out=tmp_path / "three", **options)
    assert sum(counted.calls) == 960
    assert_same_as_alone(found.results["mt-map-elites"], evaluations=320)


def test_progress_counts_evaluations_of_all_replicates(capsys):
    in_step(evaluations=640, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("sphere: 64 of 2,560 evaluations, coverage ")
    assert lines[-1].startswith("sphere: 2,560 of 2,560 evaluations")


# Invalid arguments, the command, and analyses.


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (lambda: solve(ahead=0), ValueError, "ahead must be a whole number of at least 1 and at most 65,536, not 0"),
        (lambda: solve(ahead="2"), TypeError, "ahead must be a whole number of at least 1 and at most 65,536, not '2'"),
        (lambda: te.Optimizer(TASKS, bounds=(0, 1), dim=2, ahead=2.5), TypeError, "ahead must be a whole number"),
        (
            lambda: te.compare(sphere, TASKS, algorithms=["random"], evaluations=64, ahead=0, call="batch", **BOX),
            ValueError,
            "ahead must be a whole number of at least 1",
        ),
        (
            lambda: solve(lambda x, t: x[0], call="jax", ahead=2),
            ValueError,
            "ahead is for Python functions; leave it out. With call='jax' the whole run is one compiled program",
        ),
        (
            lambda: solve(mode="async", workers=1, ahead=2),
            ValueError,
            "ahead=2 asks for whole batches, but mode='async' asks for candidates whenever a worker is free; leave one "
            "of them out",
        ),
        (lambda: domain(sphere, 0), ValueError, "rows_per_call must be a whole number of at least 1, not 0"),
        (lambda: domain(sphere, "many"), TypeError, "rows_per_call must be a whole number of at least 1, not 'many'"),
        (
            lambda: domain(sphere, 64, call="each"),
            ValueError,
            "rows_per_call is for call='batch', and this fitness has call='each'; leave it out",
        ),
    ],
)
def test_invalid_argument_raises_its_message(mistake, error, message):
    with pytest.raises(error, match="^" + re.escape(message)):
        mistake()


BOX = {"bounds": (0, 1), "dim": 2}


def test_command_checks_ahead(tmp_path, capsys):
    out = str(tmp_path / "run")
    common = ["--tasks", "50", "--evaluations", "300", "--quiet", "--no-report"]
    assert main(["run", "archery", "--algorithm", "random", "--ahead", "2", "--out", out, *common]) == 2
    assert "ahead is for Python functions" in capsys.readouterr().err
    assert main(["run", "archery", "--ahead", "0", "--out", out, *common]) == 2
    assert "--ahead must be a whole number of at least 1" in capsys.readouterr().err


def test_analyses_use_rows_per_call_of_domain():
    counted = Counted()
    result = in_step(counted, replicates=1)[0]
    counted.calls.clear()
    again = te.reevaluate(result, domain(counted, 7), samples=1, progress=False)
    assert set(counted.calls[:-1]) == {7}
    assert sum(counted.calls) == result.solved.sum()
    np.testing.assert_array_equal(again.corrected, result.fitness)
