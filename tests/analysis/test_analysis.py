"""Re-evaluation, covers and transfer of elites: hand-calculated cases, failures and interruptions."""

import dataclasses
import hashlib
import json
import math
import os
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

import taskelites as te
from taskelites import show
from taskelites.analysis import evaluate as rows
from taskelites.analysis.covering import make_cover
from taskelites.analysis.elites import best_elites, chosen_elites, spread_elites

NAN = math.nan
# Fitness of the elite of a task (row) on a task (column).
FITNESS = np.array(
    [
        [5.0, 1.0, 1.0, 0.0],
        [4.0, 4.0, 0.0, 2.0],
        [0.0, 3.0, 6.0, 5.0],
        [0.0, 0.0, 0.0, 7.0],
    ]
)


def make_result(fitness, solutions=None, tasks=None, **kwargs):
    """Return a result with the given fitness; by default, the solution of a task is its index."""
    number = len(fitness)
    fitness = np.array(fitness, float)
    given = np.arange(number, dtype=float)[:, None] if solutions is None else np.array(solutions, float)
    return te.Result(
        solutions=np.where(np.isnan(fitness)[:, None], np.nan, given),
        fitness=fitness,
        tasks=tasks or te.Tasks(descriptors=np.arange(number, dtype=float)[:, None]),
        evaluations=number,
        task_evaluations=np.ones(number, int),
        last_improved=np.ones(number, int),
        **kwargs,
    )


def fitness_of(solution, task):
    return float(FITNESS[int(solution[0]), int(task[0])])


def four_tasks(**kwargs):
    return make_result(np.diag(FITNESS), **kwargs)


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


# Re-evaluation.


def test_mean_and_deviation_of_samples(tmp_path):
    values = iter([1.0, 10.0, 3.0, 10.0, 5.0, 40.0])  # one sample per elite at a time
    result = te.reevaluate(make_result([9.0, NAN, 50.0]), lambda x, t: next(values), samples=3)
    assert np.array_equal(result.corrected, [3.0, NAN, 20.0], equal_nan=True)
    assert result.deviation == pytest.approx([2.0, NAN, math.sqrt(300)], nan_ok=True)
    assert (result.samples, result.fitness[0]) == (3, 9.0)
    assert result.summary().splitlines()[-1] == "corrected    11.5 mean of 3 samples (believed 29.5)"
    table = result.to_dataframe()
    assert np.array_equal(table["corrected"], result.corrected, equal_nan=True)
    assert np.array_equal(table["deviation"], result.deviation, equal_nan=True)
    loaded = te.load(result.save(tmp_path / "result.npz"))
    assert np.array_equal(loaded.corrected, result.corrected, equal_nan=True)
    assert np.array_equal(loaded.deviation, result.deviation, equal_nan=True)
    assert loaded.samples == 3


def test_result_without_reevaluation_has_no_corrected_fitness(tmp_path):
    result = make_result([1.0])
    assert (result.corrected, result.deviation, result.samples) == (None, None, 0)
    assert "corrected" not in result.summary()
    assert "corrected" not in result.to_dataframe().columns
    loaded = te.load(result.save(tmp_path / "result.npz"))
    assert (loaded.corrected, loaded.samples) == (None, 0)


def test_failed_samples_are_ignored_but_infeasible_ones_count():
    values = iter([1.0, NAN, 2.0, 3.0, NAN, -math.inf])
    with pytest.warns(
        te.errors.FitnessWarning, match=r"2 of 6 evaluations of the re-evaluation failed \(nan 2\)"
    ) as caught:
        result = te.reevaluate(make_result([1.0, 1.0, 1.0]), lambda x, t: next(values), samples=2)
    assert caught[0].filename == __file__
    assert np.array_equal(result.corrected, [2.0, NAN, -math.inf], equal_nan=True)
    assert np.isnan(result.deviation).tolist() == [False, True, True]
    assert result.summary().endswith("2 mean of 2 samples (believed 1); 2 elites failed or were infeasible")


def test_noise_makes_believed_fitness_too_high():
    rng = np.random.default_rng(0)

    def noisy(solutions, tasks):
        return -np.abs(solutions - tasks).sum(axis=1) + rng.normal(0, 0.1, len(tasks))

    tasks = np.linspace(0, 1, 200)[:, None]
    result = te.solve(noisy, tasks, bounds=(0, 1), dim=1, call="batch", evaluations=3000)
    result = te.reevaluate(result, noisy, samples=40)
    true = -np.abs(result.solutions - tasks).sum(axis=1)
    assert result.fitness.mean() > 0.05  # although the optimum is 0
    # The standard error of 40 samples is 0.016, and of 200 such means 0.0011. The bound is five times as large.
    assert abs((result.corrected - true).mean()) < 0.006
    assert result.deviation.mean() == pytest.approx(0.1, rel=0.05)


def test_jax_fitness_is_sampled_only_once(small_arm):
    solutions = np.random.default_rng(0).random((200, 10))
    fitness = jax.vmap(small_arm.fitness)(jnp.asarray(solutions), jnp.asarray(small_arm.tasks.descriptors))
    result = make_result(fitness, solutions, small_arm.tasks)
    again = te.reevaluate(result, small_arm)
    assert again.samples == 1
    assert again.corrected == pytest.approx(result.fitness, rel=1e-6, nan_ok=True)
    assert np.isnan(again.deviation).all()
    with pytest.raises(ValueError, match=r"samples must be 1 with call='jax', not 5: a JAX function returns the"):
        te.reevaluate(result, small_arm, samples=5)


# Transfer.


def test_hand_calculated_transfer():
    found = te.transfer(four_tasks(), fitness_of, elites=[2, 0])
    assert found.elites.tolist() == [2, 0]
    assert found.own.tolist() == [5, 4, 6, 7]
    assert found.fitness.tolist() == FITNESS[[2, 0]].tolist()
    wanted = [[-5, -1, NAN, -2], [NAN, -3, -5, -7]]
    assert np.array_equal(found.differences(), wanted, equal_nan=True)
    table = found.table()
    assert table["fitness"].tolist() == [6.0, 5.0]
    assert table["difference_median"].tolist() == [-2.0, -5.0]
    assert table["tried_on"].tolist() == [3, 3]
    assert "-4 in the median (quartiles -5 to -2.25)" in found.summary()
    assert "0 of 6 copies are better" in found.summary()
    assert repr(found) == "<Transfer: 2 elites on 4 tasks, median difference -4>"
    assert table["ranked_by"].tolist() == [6.0, 5.0]


def test_transfer_table_has_ranking_fitness():
    measured = four_tasks(corrected=np.array([4.5, 4.75, NAN, 1.0]), samples=2)
    table = te.transfer(measured, fitness_of, "top 4").table()
    assert table["task"].tolist() == [1, 0, 3, 2]
    assert np.array_equal(table["ranked_by"], [4.75, 4.5, 1.0, NAN], equal_nan=True)
    assert table["fitness"].tolist() == [4.0, 5.0, 7.0, 6.0]
    believed = make_result(np.diag(FITNESS) + 0.5)  # the believed fitness ranks, not the new one
    assert te.transfer(believed, fitness_of, "top 2").table()["ranked_by"].tolist() == [7.5, 6.5]
    alone = te.analysis.Transfer(elites=np.array([0]), tasks=np.arange(2), own=np.ones(2), fitness=np.ones((1, 2)))
    assert "ranked_by" not in alone.table()


def test_transfer_ignores_unsolved_tasks_and_failures():
    result = make_result([5.0, NAN, 6.0, 7.0])

    def fails(x, t):
        return NAN if (x[0], t[0]) == (2, 3) else fitness_of(x, t)

    with pytest.warns(te.errors.FitnessWarning, match=r"1 of 9 evaluations of the transfer failed \(nan 1\)") as caught:
        found = te.transfer(result, fails, elites="top 2")
    assert caught[0].filename == __file__
    assert found.elites.tolist() == [3, 2]
    assert found.tasks.tolist() == [0, 2, 3]
    assert np.array_equal(found.differences(), [[-5, -6, NAN], [-5, NAN, NAN]], equal_nan=True)
    assert found.failed == 1


def test_selection_of_elites():
    fitness = np.arange(40.0)
    fitness[[0, 39]] = NAN
    result = make_result(fitness)
    assert chosen_elites(result, "top 5 %", "elites").tolist() == [38, 37]
    assert chosen_elites(result, "Top 3", "elites").tolist() == [38, 37, 36]
    assert chosen_elites(result, "all", "elites").tolist() == list(range(1, 39))
    assert chosen_elites(result, "top 100", "elites").tolist() == list(range(38, 0, -1))
    measured = dataclasses.replace(result, corrected=np.where(fitness == 38, NAN, -fitness), samples=1)
    assert best_elites(measured, 1.0)[[0, 1, -1]].tolist() == [1, 2, 38]  # an elite whose re-evaluation failed is last
    for wrong in ("top", "top 0", "top 200 %", "best 5", "top 2.5"):
        with pytest.raises(ValueError, match=rf"elites must be 'top 5 %', 'top 10', 'all' or indices .* {wrong!r}"):
            chosen_elites(result, wrong, "elites")
    for wrong in (3, [], [0.5], [[1]], None):
        with pytest.raises(TypeError, match="elites must be 'top 5 %'"):
            chosen_elites(result, wrong, "elites")
    with pytest.raises(ValueError, match="elites must be solved tasks, but task 39 has no elite"):
        chosen_elites(result, [3, 39], "elites")
    with pytest.raises(ValueError, match="elites must be from 0 to 39, not 3 to 40"):
        chosen_elites(result, [3, 40], "elites")
    with pytest.raises(ValueError, match="elites must not contain a task twice"):
        chosen_elites(result, [3, 3], "elites")


# Covers.


def test_hand_calculated_cover():
    found = te.cover(four_tasks(), fitness_of, k=4)
    # Sums over tasks: 7, 10, 14, 7. With elite 2: 19 (5 3 6 5), 19 (4 4 6 5), -, 16; next 20, -, 21; next 22.
    assert found.elites.tolist() == [2, 0, 3, 1]
    assert found.assignment(1).tolist() == [2, 2, 2, 2]
    assert found.assignment(2).tolist() == [0, 2, 2, 2]
    assert found.fitness(2).tolist() == [5, 3, 6, 5]
    assert found.loss(2).tolist() == [0, 1, 0, 2]
    assert found.assignment().tolist() == [0, 1, 2, 3]
    table = found.table(within=1.0)
    assert table["k"].tolist() == [1, 2, 4]
    assert table["mean"].tolist() == [14 / 4, 19 / 4, 22 / 4]
    assert table["loss"].tolist() == [2.0, 0.75, 0.0]
    assert table["loss_worst"].tolist() == [5.0, 2.0, 0.0]
    assert table["within"].tolist() == [0.5, 0.75, 1.0]
    assert found.solutions.tolist() == [[2], [0], [3], [1]]
    assert repr(found) == "<Cover: 4 elites for 4 tasks, mean loss 0 against one per task>"
    assert [line.split()[0] for line in found.summary().splitlines()[2:]] == ["1", "2", "4", "own"]


def test_cover_has_fewer_elites_if_more_do_not_help():
    def same(solution, task):
        return float(solution[0])

    found = te.cover(make_result([0.0, 1.0, 2.0]), same, k=3)
    assert found.elites.tolist() == [2]
    assert found.loss().tolist() == [-2, -1, 0]  # the copy is better than the task's own elite
    assert found.summary().splitlines()[-1] == "3 elites were requested: no other candidate would help"
    all_used = te.cover(four_tasks(), fitness_of, k=1001)
    assert len(all_used) == 4
    assert all_used.summary().splitlines()[-1] == "1,001 elites were requested: there are no more candidates"
    assert te.cover(four_tasks(), fitness_of, k=4).summary().splitlines()[-1] == "   own          5.5"
    with pytest.raises(ValueError, match="k must be a whole number of at least 1 and at most 1, not 2"):
        found.fitness(2)


def test_unserved_task_counts_as_worst_fitness():
    gives = FITNESS.copy()
    gives[0, 1:] = NAN
    gives[2, 0] = -math.inf

    def fails(solution, task):
        return float(gives[int(solution[0]), int(task[0])])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", te.errors.FitnessWarning)
        known = te.cover(four_tasks(worst=np.full(4, -10.0)), fails, k=1, candidates=[0, 2])
        lowest = te.cover(four_tasks(), fails, k=2, candidates=[0, 2])
    # Elite 0: 5 - 30, elite 2: -10 + 14.
    assert known.elites.tolist() == [2]
    assert known.assignment().tolist() == [-1, 2, 2, 2]
    assert np.array_equal(known.fitness(), [NAN, 3, 6, 5], equal_nan=True)
    assert known.loss().tolist() == [15, 1, 0, 2]
    assert known.table()["unserved"].tolist() == [1]
    assert lowest.floor.tolist() == [3.0] * 4  # the lowest observed value
    assert lowest.elites.tolist() == [2, 0]
    assert lowest.loss(1).tolist() == [2, 1, 0, 2]


def test_fitness_below_worst_is_not_clipped():
    gives = np.array([[-5.0, 4.0, 0.0], [3.0, 0.0, 0.0], [NAN, 0.0, -1.0]])
    tried = te.analysis.Transfer(elites=np.arange(3), tasks=np.arange(3), own=np.diag(gives), fitness=gives)
    found = make_cover(make_result(np.diag(gives), worst=np.zeros(3)), tried, 1)
    assert found.floor.tolist() == [-5, 0, -1]
    assert found.elites.tolist() == [1]  # its sum is 3; that of elite 0 is -1, or 4 if -5 were clipped to 0
    assert found.loss().tolist() == [-8, 0, -1]


def test_unsolved_tasks_are_unserved_and_failed_own_elites_keep_believed_fitness():
    result = make_result([5.0, NAN, 6.0, 7.0])
    calls = []

    def once_broken(solution, task):
        calls.append(1)
        return NAN if len(calls) == 1 else fitness_of(solution, task)  # the first call is task 0's own elite

    with pytest.warns(te.errors.FitnessWarning, match="1 of 9"):
        found = te.cover(result, once_broken, k=2, candidates=[2, 3])
    assert found.own.tolist() == [5, 6, 7]
    assert found.assignment().tolist() == [2, -1, 2, 3]
    assert np.isnan(found.fitness()[1])
    assert "3 tasks (1 more is unsolved), elites chosen from 2" in found.summary()
    measured = dataclasses.replace(result, corrected=np.array([4.5, NAN, NAN, 7.0]), samples=2)
    calls.clear()
    with pytest.warns(te.errors.FitnessWarning, match="1 of 9"):
        assert te.cover(measured, once_broken, candidates=[2, 3]).own.tolist() == [4.5, 6, 7]


def test_single_task_and_only_failures():
    found = te.cover(make_result([3.0]), lambda x, t: 3.0)
    assert (found.elites.tolist(), found.loss().tolist()) == ([0], [0.0])
    lone = te.transfer(make_result([3.0]), lambda x, t: 3.0)
    assert np.isnan(lone.differences()).all()
    assert "unknown: all evaluations on other tasks failed" in lone.summary()
    lone.plot()
    nothing = te.analysis.Transfer(
        elites=np.array([0]), tasks=np.arange(2), own=np.array([1.0, 2.0]), fitness=np.full((1, 2), NAN)
    )
    nothing_served = make_cover(make_result([1.0, 2.0]), nothing, 3)
    assert nothing_served.assignment().tolist() == [-1, -1]
    assert nothing_served.loss().tolist() == [0.0, 1.0]  # relative to the lowest observed value


def test_candidates_are_the_best_and_diverse_solutions():
    rng = np.random.default_rng(0)
    solutions = np.concatenate([rng.normal(0, 0.01, (60, 2)), rng.normal(5, 0.01, (40, 2)), np.full((20, 2), 9.0)])
    fitness = np.concatenate([np.linspace(2, 3, 60), np.linspace(0, 1, 40), np.full(20, -1.0)])
    result = make_result(fitness, solutions)
    chosen = spread_elites(result, 8)
    assert chosen[:4].tolist() == [59, 58, 57, 56]
    assert len(set(chosen.tolist())) == 8
    assert {round(value) for value in solutions[chosen, 0]} == {0, 5, 9}
    assert len(spread_elites(result, 500)) == 101  # equal solutions count once
    assert te.cover(result, lambda x, t: float(x[0]), k=1, candidates=8).candidates == 8
    assert te.cover(result, lambda x, t: float(x[0]), k=1).candidates == 100
    assert te.cover(result, lambda x, t: float(x[0]), k=1, candidates="top 5").candidates == 5


# Evaluation.


def test_call_kinds_and_executors_give_equal_results(monkeypatch):
    monkeypatch.setattr(rows, "BLOCK", {"each": 5, "batch": 5, "jax": 5})
    result = make_result(np.linspace(0, 1, 7))

    def batch(x, t):
        return x[:, 0] * t[:, 0]

    def one(x, t):
        return x[0] * t[0]

    wanted = te.transfer(result, batch, "all", call="batch").fitness
    assert wanted.tolist() == np.outer(np.arange(7), np.arange(7)).tolist()
    assert np.array_equal(te.transfer(result, one, "all").fitness, wanted)
    assert np.array_equal(te.transfer(result, one, "all", call="jax").fitness, wanted)
    assert np.array_equal(te.transfer(result, one, "all", workers=2, timeout=60).fitness, wanted)
    with ThreadPoolExecutor(2) as pool:
        assert np.array_equal(te.transfer(result, one, "all", executor=pool).fitness, wanted)
    given_call = dataclasses.replace(result, settings={"call": "batch"})
    assert np.array_equal(te.transfer(given_call, batch, "all").fitness, wanted)


def test_task_objects_setup_and_samples():
    result = make_result([0.0, 1.0], tasks=te.Tasks([{"at": 0}, {"at": 3}]))
    found = te.transfer(result, lambda x, task, add: x[0] + task["at"] + add, "all", setup=lambda: 10)
    assert found.fitness.tolist() == [[10, 13], [11, 14]]
    domain = te.Domain(
        name="d", fitness=lambda x, task, add: task["at"] + add, tasks=result.tasks, bounds=(0, 1), dim=1,
        setup=lambda: 5,
    )  # fmt: skip
    assert te.transfer(result, domain, [1]).fitness.tolist() == [[5, 8]]
    mean = iter([1.0, 2.0, 3.0, 5.0])
    assert te.transfer(make_result([1.0]), lambda x, t: next(mean), samples=2).fitness.tolist() == [[4.0]]


def test_error_explains_that_loaded_task_objects_are_text(tmp_path):
    saved = make_result([0.0, 1.0], tasks=te.Tasks([{"at": 0}, {"at": 3}])).save(tmp_path / "r.npz")
    loaded = te.load(saved)

    def fitness(x, task):
        return x[0] + task["at"]

    remedy = r"the tasks are text, .* give a domain .* or dataclasses.replace\(result, tasks=te.Tasks\(objects\)\)"
    for analysis in (te.reevaluate, te.cover, te.transfer):
        with pytest.raises(
            te.FitnessError, match=rf"^all \d+ evaluations failed; .* TypeError: string .*; {remedy}"
        ) as info:
            analysis(loaded, fitness)
        assert "Traceback" in info.value.__notes__[0]
        with pytest.raises(te.FitnessError, match=rf"^fitness raised TypeError.*; {remedy}"):
            analysis(loaded, fitness, on_error="raise")
    objects = dataclasses.replace(loaded, tasks=te.Tasks([{"at": 0}, {"at": 3}]))
    assert te.transfer(objects, fitness, "all").fitness.tolist() == [[0, 3], [1, 4]]

    def breaks(x, task):
        if task == "b":
            raise OSError("no licence")
        return 1.0

    with pytest.raises(te.FitnessError, match="no licence") as info:
        te.transfer(make_result([1.0, 1.0], tasks=te.Tasks(["a", "b"])), breaks, on_error="raise")
    assert str(info.value).endswith(
        "[task 1, solution [1.0]]"
    )  # one evaluation succeeded, so the text of objects is not the cause


def children():
    """Return the ids of the child processes."""
    place = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return set(place.read_text().split()) if place.exists() else set()


def test_crash_costs_one_evaluation_and_errors_can_be_raised():
    def crashes(x, t):
        if (x[0], t[0]) == (2, 0):
            os._exit(3)
        return fitness_of(x, t)

    with pytest.warns(te.errors.FitnessWarning, match=r"1 of 8 evaluations of the cover failed \(died 1\)"):
        found = te.cover(four_tasks(), crashes, candidates=[2], workers=1)
    assert found.assignment().tolist() == [-1, 2, 2, 2]

    def raises(x, t):
        if (x[0], t[0]) == (2, 1):
            raise OSError("no licence")
        return fitness_of(x, t)

    with pytest.raises(te.FitnessError, match=r"OSError: no licence .* \[task 1, solution \[2.0\]\]") as info:
        te.transfer(four_tasks(), raises, elites=[3, 2], on_error="raise")
    assert info.value.result.elites.tolist() == [3]  # the elites that are complete
    before = children()
    with pytest.raises(te.FitnessError, match="no licence") as info:
        te.transfer(four_tasks(), raises, elites=[3, 2], on_error="raise", workers=1)
    assert children() <= before  # no worker is left, although the error still exists


def test_elite_that_fails_on_all_tasks_does_not_stop_transfer():
    def falls(x, t):
        if x[0] == 7 and t[0] != 7:
            raise ValueError
        return 1.0

    with pytest.warns(
        te.errors.FitnessWarning, match=r"1,199 of 3,600 evaluations of the transfer failed \(raised 1,199\)"
    ):
        found = te.transfer(make_result(np.ones(1200)), falls, elites=[7, 8])
    assert np.isnan(found.fitness[0]).sum() == 1199
    assert (found.fitness[1] == 1).all()


def test_interruption_returns_partial_result_and_file_resumes(tmp_path, monkeypatch):
    calls = []

    def interrupts(x, t):
        calls.append(1)
        if len(calls) == 10:
            os.kill(os.getpid(), signal.SIGINT)
        return fitness_of(x, t)

    path = tmp_path / "kept.npz"
    with pytest.raises(
        te.Interrupted, match=r"after 10 of 20 evaluations of the cover; the same call with 'kept.npz' resumes"
    ) as info:
        te.cover(four_tasks(), interrupts, path=path, candidates=[0, 1, 2, 3])
    assert info.value.signal == signal.SIGINT
    assert info.value.result.elites.tolist() == [0]
    assert info.value.result.candidates == 1
    assert te.cover(four_tasks(), interrupts, path=path, candidates=[0, 1, 2, 3]).elites.tolist() == [2, 0, 3, 1]
    assert len(calls) == 20  # nothing was evaluated twice
    assert te.cover(four_tasks(), interrupts, path=path, k=1, candidates=[0, 1, 2, 3]).elites.tolist() == [2]
    assert len(calls) == 20  # another k needs no new evaluations

    calls.clear()
    with pytest.raises(te.Interrupted, match=r"interrupted after 10 of 12 evaluations of the re-evaluation$") as info:
        te.reevaluate(four_tasks(), interrupts, samples=3)
    assert info.value.result.samples == 3
    assert info.value.result.corrected.tolist() == [5, 4, 6, 7]
    assert np.isnan(info.value.result.deviation).sum() == 0

    for analysis in (te.cover, te.transfer):
        for before in (7, 6, 3):  # interrupted after 3 own elites, after all 4, and after 3 tasks of the first copy
            calls[:] = [1] * before
            with pytest.raises(te.Interrupted) as info:
                analysis(four_tasks(), interrupts)
            assert info.value.result is None  # no elite is complete


def test_other_files_are_not_overwritten(tmp_path):
    path = tmp_path / "kept.npz"
    te.transfer(four_tasks(), fitness_of, [0], path=path)
    before = path.read_bytes()
    for other in (
        {"elites": [1]},
        {"elites": [0], "fitness": lambda x, t: 0.0},
        {"elites": [0], "samples": 2},
        {"elites": [0], "result": make_result([5.0, 4.0, 6.0, NAN])},
    ):
        options = {"result": four_tasks(), "fitness": fitness_of, "path": path} | other
        with pytest.raises(ValueError, match=r"path must be a new file or .* is from other elites, tasks or"):
            te.transfer(**options)
    assert path.read_bytes() == before
    four_tasks().save(path)
    with pytest.raises(te.StorageError, match=r"kept.npz' is damaged or another kind of file"):
        te.transfer(four_tasks(), fitness_of, [0], path=path)
    path.write_bytes(before[:50])
    with pytest.raises(te.StorageError, match=r"kept.npz' is damaged or another kind of file"):
        te.transfer(four_tasks(), fitness_of, [0], path=path)
    with pytest.raises(ValueError, match=r"path must end in .npz, not 'kept.txt'"):
        te.transfer(four_tasks(), fitness_of, [0], path=tmp_path / "kept.txt")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        te.transfer(four_tasks(), fitness_of, [0], path=tmp_path / "none" / "kept.npz")


def test_file_identifies_fitness_of_domain_without_options(tmp_path):
    def domain_of(fitness, **kwargs):
        return te.Domain(name="line", fitness=fitness, tasks=four_tasks().tasks, bounds=(0, 9), dim=1, **kwargs)

    def doubled(solution, task):
        return 2 * fitness_of(solution, task)

    path = tmp_path / "kept.npz"
    for analysis, some in ((te.transfer, "elites"), (te.cover, "candidates")):
        analysis(four_tasks(), domain_of(fitness_of), **{some: [0]}, path=path)
        for other in (domain_of(doubled), domain_of(lambda x, t: x[:, 0], call="batch")):
            with pytest.raises(ValueError, match=r"is from other elites, tasks or another fitness"):
                analysis(four_tasks(), other, **{some: [0]}, path=path)
        analysis(four_tasks(), domain_of(fitness_of), **{some: [0]}, path=path)
    # The options identify a domain, if it has any; existing files rely on it.
    te.transfer(four_tasks(), domain_of(fitness_of, options={"legs": 6}), [0], path=tmp_path / "options.npz")
    about = json.dumps({"options": {"legs": 6}, "tasks": four_tasks().tasks.digest}).encode()
    digest = hashlib.sha256(b"|".join([about, four_tasks().solutions.tobytes(), np.array([0]).tobytes()])).hexdigest()
    assert str(np.load(tmp_path / "options.npz")["identity"]) == digest


def test_invalid_arguments_raise_errors_before_any_evaluation(small_arm):
    def never(*_):
        raise AssertionError

    result = four_tasks()
    domain = te.Domain(name="line", fitness=never, tasks=result.tasks, bounds=(0, 9), dim=1)
    cases = [
        (TypeError, "result must be a Result, not str; te.load loads one", ("run", never), {}),
        (ValueError, "none of its 2 tasks is solved", (make_result([NAN, NAN]), never), {}),
        (TypeError, r"did you mean te.domain\('arm'\)", (result, "arm"), {}),
        (TypeError, "fitness must be a function", (result, 3), {}),
        (ValueError, "a domain has its own call", (result, domain), {"call": "each"}),
        (ValueError, "'arm' has solutions of length 10, and the result of length 1", (result, small_arm), {}),
        (ValueError, "'line' has 4 tasks, and the result 2", (make_result([1.0, 2.0]), domain), {}),
        (
            ValueError,
            "'line' has other descriptors",
            (make_result([1.0] * 4, tasks=te.Tasks(descriptors=np.ones((4, 1)))), domain),
            {},
        ),
        (ValueError, "call must be one of 'each', 'batch', 'jax': the result is from ask/tell",
         (dataclasses.replace(result, settings={"call": "ask/tell"}), never), {}),
        (ValueError, "call='jax' needs tasks with descriptors",
         (make_result([1.0], tasks=te.Tasks(["a"])), never), {"call": "jax"}),
        (ValueError, "workers is for Python functions", (result, never), {"call": "jax", "workers": 2}),
        (ValueError, "on_error must be one of", (result, never), {"on_error": "ignore"}),
        (te.FitnessError, "could not be traced", (result, lambda x, t: float(x[0])), {"call": "jax"}),
    ]  # fmt: skip
    for analysis in (te.reevaluate, te.cover, te.transfer):
        for kind, message, given, options in cases:
            with pytest.raises(kind, match=message):
                analysis(*given, **options)
    with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
        te.cover(result, never, k=0)
    with pytest.raises(TypeError, match=r"candidates must be 'top 5 %', 'top 10', 'all', a number of elites or"):
        te.cover(result, never, candidates={1, 2})
    with pytest.raises(TypeError, match=r"candidates must be a whole number of at least 1, not 0.5"):
        te.cover(result, never, candidates=0.5)


def test_domain_with_other_task_objects_raises_error():
    result = make_result([1.0, 2.0], tasks=te.Tasks(["a", "b"]))
    domain = te.Domain(name="d", fitness=lambda x, t: 1.0, tasks=te.Tasks(["a", "c"]), bounds=(0, 1), dim=1)
    with pytest.raises(ValueError, match="'d' has other task objects"):
        te.transfer(result, domain)


def test_progress_states_number_of_evaluations_first(capsys):
    te.cover(four_tasks(), fitness_of, candidates=[0, 1], samples=3, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == (
        "cover: 12 evaluations of 3 samples each: 4 elites on their own tasks, then 2 of them on all solved tasks"
    )
    assert lines[-1].startswith("cover: 12 of 12 evaluations")
    with pytest.warns(te.errors.FitnessWarning):
        te.reevaluate(make_result([1.0, 1.0]), lambda x, t: NAN if x[0] else 1.0, samples=2, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "re-evaluation: 4 evaluations: 2 elites, 2 times each"
    assert "failed (nan): fitness returned nan [task 1, solution [1.0]]" in lines[1]
    assert "2 failed" in lines[-1]


# Figures.


def test_transfer_plot_has_box_per_elite():
    found = te.transfer(four_tasks(), fitness_of, elites=[2, 0, 1])
    axes = show.transfer(found, first=2)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "first\n2", "all\n3"]
    wide = [line for line in axes.lines if np.ptp(line.get_xdata()) == pytest.approx(0.65)]  # the others are whiskers
    pooled = np.array([-5, -1, -2, -3, -5, -7, -1, -6, -5])
    assert [line.get_ydata()[0] for line in wide] == [-2.0, -5.0, np.median(pooled[:6]), np.median(pooled)]
    assert found.plot(ax=axes) is axes
    assert show.transfer(found, axes) is axes
    assert [
        tick.get_text() for tick in show.transfer(te.transfer(four_tasks(), fitness_of, [1])).get_xticklabels()
    ] == ["1"]
    with pytest.raises(TypeError, match=r"transfer must be the result of te.transfer, not Result"):
        show.transfer(four_tasks())


def test_cover_plot_shows_loss():
    found = te.cover(four_tasks(), fitness_of, k=4)
    axes = found.plot()
    mean, most, _ = axes.lines
    assert mean.get_xdata().tolist() == [1, 2, 3, 4]
    assert mean.get_ydata().tolist() == [2.0, 0.75, 0.25, 0.0]
    assert most.get_ydata() == pytest.approx([np.quantile(found.loss(k), 0.95) for k in (1, 2, 3, 4)])
    assert "4 tasks, elites chosen from 4" in axes.get_title()
    assert show.cover(found, axes) is axes
    with pytest.raises(TypeError, match=r"cover must be the result of te.cover, not Result"):
        show.cover(four_tasks())


def cells(html):
    """Return the text of the cells of a table."""
    return [[cell.text or "" for cell in row] for row in ElementTree.fromstring(html).iter("tr")]


def test_notebook_shows_summaries():
    found = te.cover(four_tasks(), fitness_of, k=9, candidates=[2, 0])
    assert cells(found._repr_html_()) == [
        ["elites", "mean", "mean loss", "95 % within", "worst loss", "unserved"],
        ["1", "3.5", "2", "4.55", "5", "0"],  # losses 5, 1, 0, 2
        ["2", "4.75", "0.75", "1.85", "2", "0"],  # losses 0, 1, 0, 2
        ["own", "5.5", "", "", "", ""],
    ]
    text = "".join(ElementTree.fromstring(found._repr_html_()).itertext())
    assert text.startswith("Cover: 4 tasks, elites chosen from 2")
    assert text.endswith("9 elites were requested: there are no more candidates")
    copies = te.transfer(four_tasks(), fitness_of, elites=[2, 0])
    assert cells(copies._repr_html_())[0] == ["transfer", "2 elites on 4 tasks"]
    assert len(cells(copies._repr_html_())) == 3
