"""`solve` and `Optimizer`: reproducibility, and all arguments except the settings of the algorithm."""

import gc
import hashlib
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from spheres import sphere, sphere_each

import taskelites as te
from taskelites import compile_cache
from taskelites.evaluation import JaxFitness
from taskelites.search.history import Recorder
from taskelites.search.jax_loop import JaxLoop, programs_of
from taskelites.search.job import make_job
from taskelites.search.loop import Control

TASKS = np.linspace(0, 1, 250)[:, None]


def exact(solution, task):
    """Return a fitness that NumPy and JAX round alike, since it has only differences and a sum of two terms."""
    return -(abs(solution[0] - task[0]) + abs(solution[1] - task[0]))


def exact_batch(solutions, tasks):
    return np.array([exact(solution, task) for solution, task in zip(solutions, tasks, strict=True)])


FUNCTIONS = {"each": exact, "batch": exact_batch, "jax": exact}


def run(call="batch", **options):
    options = {"evaluations": 2000, "seed": 4} | options
    return te.solve(FUNCTIONS[call], TASKS, bounds=(0, 1), dim=2, call=call, **options)


def assert_same(a, b):
    assert np.array_equal(a.solutions, b.solutions, equal_nan=True)
    assert np.array_equal(a.fitness, b.fitness, equal_nan=True)
    assert np.array_equal(a.task_evaluations, b.task_evaluations)
    assert np.array_equal(a.last_improved, b.last_improved)
    for name in set(a.history) - {"seconds"}:
        assert np.array_equal(a.history[name], b.history[name], equal_nan=True), name


# Compiled programs.


@pytest.mark.thorough
def test_compile_cache_is_cleared_before_limit_of_memory_mappings(tmp_path, monkeypatch):
    cleared = []
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(True))
    monkeypatch.setattr(compile_cache, "_MOST_MAPPINGS", tmp_path / "most")
    compile_cache.clear_full_compile_cache()  # the limit is unknown
    (tmp_path / "most").write_text("1000000000\n")
    compile_cache.clear_full_compile_cache()
    assert not cleared
    (tmp_path / "most").write_text("20\n")
    for start in (lambda: run("jax"), lambda: te.Optimizer(TASKS, bounds=(0, 1), dim=2)):
        start()
        assert cleared
        cleared.clear()


def test_equal_fitness_objects_share_programs_and_unused_programs_are_freed():
    value = te.domain("arm", tasks=50).fitness
    first = programs_of(JaxFitness.made_of(value, 0))
    assert programs_of(JaxFitness.made_of(value, 0)) is first
    gone = weakref.ref(programs_of(JaxFitness.made_of(exact, 0)))
    for _ in range(8):
        programs_of(JaxFitness.made_of(exact, 0))
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("call", FUNCTIONS)
def test_run_compiles_at_most_six_programs(call):
    jax.clear_caches()
    compiled = []

    def note(event, seconds, **about):
        if event.endswith("backend_compile_duration"):
            compiled.append(about.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(note)
    run(call, algorithm="auto", evaluations=700)
    found = list(compiled)
    assert 3 <= len(found) <= 6, found


# Reproducibility.


@pytest.mark.parametrize("call", FUNCTIONS)
def test_same_seed_gives_same_bits_and_other_seed_does_not(call):
    first = run(call)
    assert_same(first, run(call))
    assert not np.array_equal(first.solutions, run(call, seed=5).solutions, equal_nan=True)


@pytest.mark.parametrize("call", ["batch", *(pytest.param(call, marks=pytest.mark.slow) for call in ("each", "jax"))])
def test_result_is_bit_identical_in_another_process(call):
    script = f"""
        import hashlib, sys
        sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
        from test_search import run
        print(hashlib.sha256(run({call!r}).solutions.tobytes()).hexdigest())
    """
    other = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={"PYTHONHASHSEED": "1", "PATH": "", "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == hashlib.sha256(run(call).solutions.tobytes()).hexdigest()


def test_each_and_batch_agree_bit_for_bit():
    assert_same(run("each"), run("batch"))


@pytest.mark.thorough
def test_64_bit_jax_agrees_with_batch_bit_for_bit():
    with jax.enable_x64(True):
        compiled = run("jax")
    assert compiled.settings["bits"] == 64
    assert_same(compiled, run("batch"))


def test_jax_run_uses_precision_of_user():
    assert run("jax").settings["bits"] == 32
    assert run("jax").solutions.dtype == np.float32
    assert run("batch").solutions.dtype == np.float64
    assert jnp.zeros(1).dtype == jnp.float32  # the user's precision is unchanged


@pytest.mark.parametrize("call", FUNCTIONS)
def test_replicates_equal_runs_with_consecutive_seeds(call):
    results = run(call, replicates=3)
    assert len(results) == 3
    for i, result in enumerate(results):
        assert_same(result, run(call, seed=4 + i))
        assert result.settings["seed"] == 4 + i


@pytest.mark.thorough
def test_replicates_in_one_program_equal_runs_with_consecutive_seeds():
    """On an accelerator, one program runs all replicates."""
    job = make_job(exact, TASKS, bounds=(0, 1), dim=2, call="jax", algorithm="mt-map-elites", evaluations=2000)
    together = JaxLoop(job, [Recorder(job, seed) for seed in (4, 5, 6)], Control())
    together.run()
    for i, result in enumerate(together.results()):
        assert_same(result, run("jax", seed=4 + i, algorithm="mt-map-elites"))


def test_one_replicate_returns_list_of_one_result():
    (only,) = run(replicates=1)
    assert_same(only, run())


# Ask and tell.


def test_ask_and_tell_equals_solve():
    optimizer = te.Optimizer(TASKS, bounds=(0, 1), dim=2, seed=4)
    while optimizer.evaluations < 2000:
        candidates = optimizer.ask(at_most=2000 - optimizer.evaluations)
        optimizer.tell(candidates, exact_batch(candidates.solutions, candidates.tasks))
    by_hand, solved = optimizer.result(), run("batch")
    assert np.array_equal(by_hand.solutions, solved.solutions, equal_nan=True)
    assert by_hand.evaluations == 2000


def test_fitness_may_modify_its_solutions():
    def vandal(solutions, tasks):
        values = exact_batch(solutions, tasks)
        solutions[:] = 99.0
        return values

    assert_same(te.solve(vandal, TASKS, bounds=(0, 1), dim=2, call="batch", evaluations=2000, seed=4), run("batch"))


# Results and history.


@pytest.mark.parametrize("call", FUNCTIONS)
def test_result_arrays_are_consistent(call):
    result = run(call)
    assert np.allclose(exact_batch(result.solutions, TASKS)[result.solved], result.fitness[result.solved], atol=1e-6)
    assert np.isnan(result.fitness[~result.solved]).all()
    assert np.isnan(result.solutions[~result.solved]).all()
    assert result.task_evaluations.sum() == result.evaluations == 2000
    assert (result.last_improved[result.solved] > 0).all()
    assert (result.last_improved[~result.solved] == 0).all()
    assert result.last_improved.max() <= 2000


def test_history_has_one_row_per_logged_point():
    history = run(evaluations=100_000, algorithm="mt-map-elites").history
    assert history["evaluations"][0] == 64
    assert history["evaluations"][-1] == 100_000
    assert 200 <= len(history["evaluations"]) <= 240
    assert (np.diff(history["evaluations"]) > 0).all()
    assert (np.diff(history["coverage"]) >= 0).all()
    assert history["tried_1"][-1] + history["tried_500"][-1] > 0
    assert len({len(column) for column in history.values()}) == 1


def test_callback_receives_every_history_row():
    rows = []
    result = run(callback=rows.append)
    assert [row["evaluations"] for row in rows] == result.history["evaluations"].tolist()
    assert {row["replicate"] for row in rows} == {0}


def test_failures_are_counted_and_reported_once():
    def sometimes(solutions, tasks):
        values = exact_batch(solutions, tasks)
        values[::8] = np.nan
        values[1::8] = -np.inf
        return values

    with pytest.warns(te.errors.FitnessWarning, match=r"250 of 2,000 evaluations failed \(nan 250\)") as caught:
        result = te.solve(sometimes, TASKS, bounds=(0, 1), dim=2, call="batch", evaluations=2000)
    assert len(caught) == 1
    assert (result.failed, result.infeasible) == (250, 250)
    assert np.isfinite(result.fitness[result.solved]).all()


def test_run_without_solved_task_warns():
    with pytest.warns(te.errors.FitnessWarning, match="no task was solved"):
        result = te.solve(lambda x, t: float("-inf"), TASKS, bounds=(0, 1), dim=2, evaluations=70)
    assert result.coverage == 0
    assert result.infeasible == 70


# initial=


@pytest.mark.thorough
@pytest.mark.parametrize("call", FUNCTIONS)
@pytest.mark.parametrize("budget", [3, 5, 20, 69, 500])
def test_initial_solutions_are_evaluated_first(call, budget):
    known = np.repeat(TASKS[[10, 20, 30, 40, 50]], 2, axis=1)
    result = run(call, initial=(known, [10, 20, 30, 40, 50]), evaluations=budget)
    assert result.evaluations == budget
    for number in [10, 20, 30, 40, 50][:budget]:
        assert result.fitness[number] > -1e-6
        assert result.last_improved[number] <= 5


@pytest.mark.thorough
def test_initial_solutions_without_tasks_are_evaluated_on_random_tasks():
    known = np.full((100, 2), 0.5)
    result = run(initial=known, evaluations=100)
    assert result.solved.sum() > 60
    assert (result.solutions[result.solved] == 0.5).all()
    compiled = run("jax", initial=known, evaluations=100)
    assert np.array_equal(compiled.task_evaluations, result.task_evaluations)
    again = run(initial=known, evaluations=100, seed=9)
    assert not np.array_equal(result.task_evaluations, again.task_evaluations)


# target=


@pytest.mark.thorough
@pytest.mark.parametrize("target", [-0.2, np.full(250, -0.2), te.Target(-0.1, share=0.5)])
def test_target_stops_batch_and_jax_at_same_step(target):
    with jax.enable_x64(True):
        compiled = run("jax", target=target, evaluations=200_000)
    batch = run("batch", target=target, evaluations=200_000)
    assert batch.evaluations == compiled.evaluations < 200_000
    assert np.array_equal(compiled.solutions, batch.solutions)
    share = target.share if isinstance(target, te.Target) else 1.0
    level = target.fitness if isinstance(target, te.Target) else target
    assert (batch.fitness >= level).mean() >= share


@pytest.mark.thorough
def test_unreachable_target_uses_whole_budget():
    assert run(target=1.0).evaluations == 2000
    assert run("jax", target=1.0, evaluations=2001).evaluations == 2001


@pytest.mark.thorough
def test_each_replicate_stops_when_it_reaches_target():
    results = run("jax", target=-0.3, evaluations=100_000, replicates=3, algorithm="mt-map-elites")
    assert len({result.evaluations for result in results}) > 1
    job = make_job(
        exact, TASKS, bounds=(0, 1), dim=2, call="jax", algorithm="mt-map-elites", evaluations=100_000, target=-0.3
    )
    together = JaxLoop(job, [Recorder(job, seed) for seed in (4, 5, 6)], Control())
    together.run()
    for side_by_side, alone in zip(together.results(), results, strict=True):
        assert np.array_equal(side_by_side.solutions, alone.solutions)
        assert side_by_side.evaluations == alone.evaluations


# Kinds of tasks.


@pytest.mark.parametrize("call", ["each", "batch"])
def test_fitness_receives_task_objects_unchanged(call):
    names = [f"{i / 250:.3f}" for i in range(250)]

    def each(solution, name):
        return exact(solution, [float(name)])

    def batch(solutions, several):
        assert isinstance(several, list)
        return np.array([each(solution, name) for solution, name in zip(solutions, several, strict=True)])

    tasks = te.Tasks(names, descriptors=[[float(name)] for name in names])
    function = each if call == "each" else batch
    by_name = te.solve(function, tasks, bounds=(0, 1), dim=2, call=call, evaluations=500)
    assert by_name.solved.sum() > 100


def test_distance_function_and_distance_matrix_give_same_run():
    def distance(a, b):
        return abs(a - b)

    numbers = [float(number) for number in TASKS[:, 0]]
    matrix = np.abs(np.subtract.outer(numbers, numbers))
    options = {"evaluations": 1000, "seed": 0, "algorithm": "mt-map-elites"}
    runs = [
        te.solve(lambda x, t: exact(x, [t]), te.Tasks(numbers, distance=how), bounds=(0, 1), dim=2, **options)
        for how in (distance, matrix)
    ]
    assert_same(*runs)
    assert np.array_equal(runs[0].fitness, run("each", **options).fitness, equal_nan=True)


@pytest.mark.thorough
def test_single_task_is_solved():
    result = te.solve(sphere_each, [[0.5]], bounds=(0, 1), dim=1, evaluations=3000)
    assert abs(result.solutions[0, 0] - 0.5) < 1e-3


@pytest.mark.thorough
def test_tasks_beyond_neighbour_table_limit_are_solved(monkeypatch):
    monkeypatch.setattr(te.tasks, "TABLE_LIMIT", 100)
    result = te.solve(
        lambda x, t: -jnp.abs(x - t[0]).sum(), TASKS, bounds=(0, 1), dim=2, call="jax", evaluations=50_000
    )
    assert result.fitness.min() > -0.05


def test_wide_box_gives_same_fitness_as_unit_box():
    def wide(solutions, tasks):
        return -np.abs((solutions - [-500, 3]) / [1000, 1e-3] - tasks[:, :1]).sum(axis=1)

    result = te.solve(wide, TASKS, bounds=[(-500, 500), (3, 3.001)], call="batch", evaluations=30_000, seed=1)
    unit = te.solve(sphere, TASKS, bounds=(0, 1), dim=2, call="batch", evaluations=30_000, seed=1)
    assert np.allclose(result.fitness, unit.fitness, atol=1e-6)


# Output folder, errors and Ctrl-C.


def test_out_folder_contains_result(tmp_path):
    result = run(out=tmp_path / "first")
    assert_same(te.load(tmp_path / "first"), result)
    names = [".lock", "checkpoints", "metrics.csv", "result.npz", "run.json", "run.log", "settings.json"]
    assert sorted(path.name for path in (tmp_path / "first").iterdir()) == names
    several = run(out=tmp_path / "several", replicates=2)
    assert_same(te.load(tmp_path / "several" / "replicate-1"), several[1])
    with pytest.raises(FileExistsError, match=r"out is '.*first', which is not empty; a run never overwrites files"):
        run(out=tmp_path / "first")


@pytest.mark.parametrize("call", ["each", "batch"])
def test_error_keeps_results_so_far(call, tmp_path):
    counted = []

    def fails_late(solutions, tasks):
        counted.append(1)
        if len(counted) > 700 if call == "each" else len(counted) > 10:
            raise ZeroDivisionError("the simulator fell over")
        return exact(solutions, tasks) if call == "each" else exact_batch(solutions, tasks)

    with pytest.raises(te.FitnessError, match=r"fitness raised ZeroDivisionError: the simulator fell over") as caught:
        te.solve(fails_late, TASKS, bounds=(0, 1), dim=2, call=call, evaluations=2000, seed=4, out=tmp_path / "run",
                 on_error="raise")  # fmt: skip
    kept = caught.value.result
    told = 700 if call == "each" else 640
    assert kept.evaluations == told
    assert "test_search.py, line" in str(caught.value)
    assert "ZeroDivisionError: the simulator fell over" in caught.value.__notes__[0]
    assert_same(te.load(tmp_path / "run"), kept)
    assert np.array_equal(kept.solutions, run(call, evaluations=told).solutions, equal_nan=True)


def test_ctrl_c_keeps_results_so_far(tmp_path):
    import signal

    counted = []

    def interrupted(solution, task):
        counted.append(1)
        if len(counted) == 333:
            signal.raise_signal(signal.SIGINT)
        return exact(solution, task)

    with pytest.raises(
        te.Interrupted, match=r"interrupted after 333 evaluations; the results so far are in "
    ) as caught:
        te.solve(interrupted, TASKS, bounds=(0, 1), dim=2, evaluations=2000, seed=4, out=tmp_path / "run")
    assert len(counted) == 333
    assert_same(te.load(tmp_path / "run"), caught.value.result)
    assert np.array_equal(caught.value.result.solutions, run("each", evaluations=333).solutions, equal_nan=True)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_stops_compiled_run():
    import signal

    def interrupt(row):
        if row["evaluations"] > 1000:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(te.Interrupted) as caught:
        run("jax", evaluations=100_000, callback=interrupt)
    assert 1000 < caught.value.result.evaluations < 10_000


def test_second_ctrl_c_raises_immediately():
    import signal

    def stubborn(solution, task):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return 0.0

    with pytest.raises(KeyboardInterrupt):
        te.solve(stubborn, TASKS, bounds=(0, 1), dim=2, evaluations=100)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_progress_without_terminal_prints_lines(capsys):
    run(progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("exact_batch: 64 of 2,000 evaluations, coverage ")
    assert lines[-1].startswith("exact_batch: 2,000 of 2,000 evaluations")
    assert lines[-1].endswith("00:00 left")
    run()
    assert capsys.readouterr().err == ""


@pytest.mark.thorough
def test_jax_fitness_may_read_variable_that_changes_between_runs():
    """Each run compiles its fitness again, since the variables that it reads are unknown."""
    level = [1.0]

    def fitness(solution, task):
        return level[0] + 0.0 * solution[0]

    first = te.solve(fitness, TASKS, bounds=(0, 1), dim=1, call="jax", evaluations=64)
    level[0] = 5.0
    second = te.solve(fitness, TASKS, bounds=(0, 1), dim=1, call="jax", evaluations=64)
    assert np.nanmax(first.fitness) == 1.0
    assert np.nanmax(second.fitness) == 5.0


@pytest.mark.parametrize("problem", [RuntimeError("mine"), SystemExit(3)])
def test_exception_from_callback_carries_results_so_far(problem, tmp_path):
    def stops(row):
        if row["evaluations"] > 500:
            raise problem

    with pytest.raises(type(problem)) as caught:
        run(callback=stops, out=tmp_path / "run")
    assert caught.value.result.evaluations > 500
    assert te.load(tmp_path / "run").evaluations == caught.value.result.evaluations


def test_finished_replicates_are_kept_if_later_one_fails(tmp_path):
    counted = []

    def third_fails(solutions, tasks):
        counted.append(1)
        if len(counted) > 20:
            raise RuntimeError("out of luck")
        return exact_batch(solutions, tasks)

    with pytest.raises(te.FitnessError) as caught:
        te.solve(third_fails, TASKS, bounds=(0, 1), dim=2, call="batch", evaluations=512, replicates=5, seed=4,
                 out=tmp_path / "several", on_error="raise")  # fmt: skip
    assert [result.evaluations for result in caught.value.result] == [512, 512, 256]
    assert te.load(tmp_path / "several" / "replicate-1").settings["seed"] == 5
    with pytest.raises(FileNotFoundError, match=r"there are some in its folders 'replicate-0' to 'replicate-2'"):
        te.load(tmp_path / "several")


def test_error_while_writing_result_carries_result(tmp_path, monkeypatch):
    from taskelites.runs import RunFolder

    def full(self, result):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunFolder, "write", full)
    with pytest.raises(OSError, match="No space left") as caught:
        run(out=tmp_path / "run")
    assert caught.value.result.evaluations == 2000


@pytest.mark.thorough
def test_32_bit_solutions_stay_within_64_bit_bounds():
    bounds = [(0.1, 0.3), (-0.7, 0.1)]
    result = te.solve(lambda x, t: x[0] - x[1], TASKS, bounds=bounds, call="jax", evaluations=5000)
    solutions = result.solutions[result.solved].astype(np.float64)
    assert (solutions >= [0.1, -0.7]).all()
    assert (solutions <= [0.3, 0.1]).all()
    again = te.solve(lambda x, t: x[0] - x[1], TASKS, bounds=bounds, call="jax", evaluations=100, initial=solutions)
    assert again.evaluations == 100


@pytest.mark.thorough
def test_error_inside_compiled_run_raises_fitness_error():
    import jax

    def host(solution):
        raise ValueError("no such thing")

    def fitness(solution, task):
        return jax.pure_callback(host, jax.ShapeDtypeStruct((), jnp.float32), solution, vmap_method="sequential")

    with pytest.raises(te.FitnessError, match="fitness failed inside the compiled program: ") as caught:
        te.solve(fitness, TASKS, bounds=(0, 1), dim=1, call="jax", evaluations=64)
    assert caught.value.result.evaluations == 0


def test_jax_marks_errors_inside_compiled_programs():
    import jax

    from taskelites.evaluation import compiled_errors

    def host(value):
        raise KeyError("no such thing")

    @jax.jit
    def program(value):
        return jax.pure_callback(host, jax.ShapeDtypeStruct((), jnp.float32), value)

    for call in range(4):  # from the second call on, JAX raises another type
        with pytest.raises((jax.errors.JaxRuntimeError, ValueError)) as caught:
            program(jnp.float32(call)).block_until_ready()
        assert str(caught.value).startswith("INTERNAL: "), "JAX words its errors anew; adapt `_is_of_jax`"
        with (
            pytest.raises(te.FitnessError, match="fitness failed inside the compiled program: INTERNAL: "),
            compiled_errors(),
        ):
            program(jnp.float32(call)).block_until_ready()
    with pytest.raises(ValueError, match=r"^mine$"), compiled_errors():
        raise ValueError("mine")


def test_algorithm_settings_need_not_be_dataclass():
    class Plain:
        name = "plain"

        def bind(self, problem, batch_size=64):
            return te.MultiTaskMapElites().bind(problem, batch_size)

    assert run(algorithm=Plain()).settings["algorithm"]["name"] == "plain"


@pytest.mark.thorough
def test_replicates_share_one_compiled_program():
    traces = []

    def fitness(solution, task):
        traces.append(1)
        return -jnp.abs(solution - task[0]).sum()

    te.solve(fitness, TASKS, bounds=(0, 1), dim=2, call="jax", evaluations=200)
    alone = len(traces)
    te.solve(fitness, TASKS, bounds=(0, 1), dim=2, call="jax", evaluations=200, replicates=4)
    assert len(traces) <= 2 * alone  # not once per replicate
