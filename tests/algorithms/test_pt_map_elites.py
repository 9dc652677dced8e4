"""Parametric-task MAP-Elites: its regression, cells, reductions, and results on a box."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taskelites as te
from taskelites.algorithms import Candidates, Evaluation
from taskelites.algorithms.pt_map_elites import regress
from taskelites.cli import main
from taskelites.core import archive as archives
from taskelites.core import random
from taskelites.core.cells import adjacent, grid_within
from taskelites.search.stepper import host_precision

BOX = te.Box([0.0, 10.0], [1.0, 20.0])
KEY = jax.random.key(0)


def batch(solutions, tasks):
    best = np.stack([tasks[:, 0], (tasks[:, 1] - 10) / 10], axis=1)
    return -np.abs(solutions - best).sum(axis=1)


def solve(tasks=BOX, **options):
    usual = {"algorithm": te.algorithms.ParametricTaskMapElites(cells=20, dataset=100), "evaluations": 1000, "seed": 1}
    return te.solve(batch, tasks, **{"bounds": (0, 1), "dim": 2, "call": "batch"} | usual | options)


def elites(solutions, solved=True):
    archive = archives.empty(*np.shape(solutions))
    fitness = jnp.where(jnp.asarray(solved), 0.0, -jnp.inf) + jnp.zeros(len(solutions))
    return dataclasses.replace(archive, solutions=jnp.asarray(solutions), fitness=fitness)


def predicted(places, solutions, wanted, solved=True, around=None):
    with host_precision():
        around = [list(range(len(places)))] if around is None else around
        arguments = [jnp.asarray(value, float) for value in (places, wanted, [-9.0] * 2, [9.0] * 2)]
        archive = elites(np.asarray(solutions, float), solved)
        found, known = regress(KEY, archive, arguments[0], jnp.asarray(around), *arguments[1:])
        return np.asarray(found), np.asarray(known)


def test_regression_equals_numpy_least_squares_plus_noise():
    rng = np.random.default_rng(0)
    places, solutions, wanted = rng.random((7, 2)), rng.random((7, 2)), rng.random((1, 2))
    design = np.concatenate([np.ones((7, 1)), places], axis=1)
    plane = np.linalg.lstsq(design, solutions, rcond=None)[0]
    with host_precision():
        noise = np.asarray(random.normal(KEY, (1, 2), jnp.zeros(()).dtype))
    expected = np.concatenate([[[1.0]], wanted], axis=1) @ plane + noise * solutions.std(axis=0)
    assert np.allclose(predicted(places, solutions, wanted)[0], expected, atol=1e-9)


def test_regression_ignores_unsolved_cells_and_padding():
    places, solutions = (
        [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [5.0, 5.0]],
        [[2.0, 3.0], [2.0, 3.0], [2.0, 3.0], [8.0, 8.0]],
    )
    for solved, around in (([True, True, True, False], [[0, 1, 2, 3]]), (True, [[0, 1, 2, -1]])):
        found, known = predicted(places, solutions, [[0.3, 0.3]], solved, around)
        assert np.allclose(found, [[2.0, 3.0]])
        assert known.tolist() == [True]
    assert predicted(places, solutions, [[0.3, 0.3]], False)[1].tolist() == [False]


def test_regression_has_no_slope_across_a_line_of_elites():
    """The elites on a line have equal solutions; the prediction beside the line is the same solution."""
    found, _ = predicted([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]], np.full((3, 2), 0.7), [[0.3, 0.1]])
    assert np.allclose(found, 0.7)
    assert np.allclose(predicted([[0.1, 0.1]], [[0.4, 0.5]], [[0.9, 0.1]])[0], [[0.4, 0.5]])


def test_adjacent_cells():
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.5]])
    table = adjacent(corners)
    assert table[4].tolist() == [4, 0, 1, 2, 3]
    assert {frozenset(row[row >= 0]) for row in table[:4]} == {
        frozenset(case) for case in ([0, 4, 1, 2], [1, 4, 0, 3], [2, 4, 0, 3], [3, 4, 1, 2])
    }
    line = adjacent(np.stack([np.arange(9.0), np.arange(9.0)], axis=1))  # no triangulation, so the six nearest
    assert sorted(line[4].tolist()) == [1, 2, 3, 4, 5, 6, 7]
    assert adjacent(np.zeros((1, 2))).tolist() == [[0]]
    same = adjacent(np.zeros((4, 3)))
    assert (same[:, 0] == np.arange(4)).all()
    assert grid_within(10_000, 3) == (22, 21, 21)


@pytest.mark.thorough
def test_without_predictions_equals_multi_task_map_elites():
    tasks = te.Tasks(te.tasks.cvt(30, BOX.lower, BOX.upper).descriptors, scale="range")
    same = {"tournament": (1, 5, 20), "random_start": 70, "reward": "rate"}
    plain = solve(tasks, algorithm=te.MultiTaskMapElites(variation="sbx", **same))
    reduced = solve(tasks, algorithm=te.algorithms.ParametricTaskMapElites(p_regression=0.0, **same))
    for name in ("solutions", "fitness", "last_improved", "task_evaluations"):
        assert np.array_equal(getattr(plain, name), getattr(reduced, name))
    assert np.array_equal(plain.history["tried_5"], reduced.history["tried_5"])
    assert reduced.repertoire is None
    predicting = solve(tasks, algorithm=te.algorithms.ParametricTaskMapElites(p_regression=1.0, **same))
    assert predicting.history["tried_5"][-1] < plain.history["tried_5"][-1]


def state_after(settings, *rows):
    """Return a core on the box and its state after rows of (task, solution, fitness)."""
    core = settings.bind(te.algorithms.Problem(BOX, bounds=(0, 1), dim=2))
    tasks, solutions, fitness = (jnp.array(column) for column in zip(*rows, strict=True))
    candidates = Candidates(solutions=solutions, niches=core.cells(tasks), tasks=tasks, origin=jnp.full(len(rows), -1))
    return core, core.tell(core.init(KEY), candidates, Evaluation(fitness=fitness))[0]


@pytest.mark.parametrize(("ties", "kept"), [(False, 0.1), (True, 0.3)])
def test_cell_keeps_best_solution_with_its_task(ties, kept):
    with host_precision():
        settings = te.algorithms.ParametricTaskMapElites(cells=1, dataset=4, ties=ties)
        core, state = state_after(
            settings,
            ([0.1, 11.0], [0.1, 0.1], 1.0),
            ([0.9, 19.0], [0.2, 0.2], 0.5),  # worse, but in another quarter of the finer grid
            ([0.2, 12.0], [0.3, 0.3], 1.0),  # equal
            ([0.9, 11.0], [0.4, 0.4], jnp.nan),
        )
        assert float(state.archive.solutions[0, 0]) == kept
        assert np.allclose(core.elites(state).tasks, [[kept if kept < 0.2 else 0.2, 11.0 if kept < 0.2 else 12.0]])
        data = te.analysis.Repertoire.of_solved(**core.kept(state)._asdict())
        assert data.fitness.tolist() == [1.0, 0.5]
        assert np.allclose(data.tasks[1], [0.9, 19.0])
        assert data.numbers.tolist() == [0, 0]


@pytest.mark.thorough
def test_result_on_box_has_chosen_tasks(tmp_path):
    result = solve(evaluations=3000)
    tasks = result.tasks.descriptors
    assert tasks.shape == (20, 2)
    # Sides of lengths 1 and 10 are scaled to the same length.
    assert np.allclose(np.ptp(result.tasks.positions, axis=0), 1.0)
    assert np.allclose(batch(result.solutions, tasks), result.fitness)
    kept = result.repertoire
    assert np.allclose(batch(kept.solutions, kept.tasks), kept.fitness)
    assert len(kept) == pytest.approx(100, abs=5)
    assert (kept.tasks >= BOX.lower).all()
    assert (kept.tasks <= BOX.upper).all()
    new = te.tasks.uniform(50, BOX.lower, BOX.upper, seed=3).descriptors
    assert batch(result.predict(new), new).mean() > -0.1
    loaded = te.load(result.save(tmp_path / "result.npz"))
    assert np.array_equal(loaded.predict(new), result.predict(new))
    assert np.array_equal(loaded.repertoire.tasks, kept.tasks)


@pytest.mark.thorough
def test_resumed_run_on_box_equals_uninterrupted_run(tmp_path):
    whole = solve()
    solve(evaluations=500, out=tmp_path / "run")
    resumed = solve(out=tmp_path / "run", resume=True)
    assert np.array_equal(whole.solutions, resumed.solutions, equal_nan=True)
    assert np.array_equal(whole.repertoire.tasks, resumed.repertoire.tasks)


@pytest.mark.slow
def test_command_runs_domains_with_box_or_behaviour(tmp_path, monkeypatch, capsys):
    (tmp_path / "families_domain.py").write_text(
        "import taskelites as te\n"
        "def fitness(x, t):\n    return (-abs(x[:, 0] - t[:, 0]), x[:, 1:])\n"
        "stated = dict(fitness=fitness, call='batch', bounds=(0, 1), dim=2, behaviour=[(0, 1)], worst=-1.0)\n"
        "box = te.Domain(name='box', tasks=te.Box([0.0], [1.0]), **stated)\n"
        "many = te.Domain(name='many', tasks=te.tasks.grid((200,), [0], [1]), **stated)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, algorithm in (("box", "pt-map-elites(cells=30)"), ("many", "mtmb-map-elites(cells=(3,))")):
        command = f"run families_domain:{name} --evaluations 500 --out {name} --quiet --algorithm".split()
        assert main([*command, algorithm]) == 0
        assert (tmp_path / name / "report.html").stat().st_size > 10_000
        assert "report       none" not in capsys.readouterr().out
    box = ["box", "--domain", "families_domain:box"]
    assert main(["resume", *box, "--evaluations", "600", "--quiet", "--no-report"]) == 0
    assert main(["report", *box]) == 0
    assert te.load("box").evaluations == 600
    assert te.load("box").worst.tolist() == [-1.0] * 30


def test_invalid_arguments_raise_errors():
    with pytest.raises(ValueError, match=r"needs tasks with descriptors for its predictions, but these have none"):
        te.algorithms.ParametricTaskMapElites().bind(te.algorithms.Problem(te.Tasks(["a", "b"]), bounds=(0, 1), dim=2))
    with pytest.raises(ValueError, match=r"p_regression must be a probability between 0 and 1, not 2"):
        te.algorithms.ParametricTaskMapElites(p_regression=2)
    with pytest.raises(ValueError, match=r"cells must be a whole number of at least 1 and at most 20,000"):
        te.algorithms.ParametricTaskMapElites(cells=0)
    with pytest.raises(ValueError, match=r"tasks must be the same for all runs of a comparison, but on a te.Box"):
        te.compare(batch, BOX, bounds=(0, 1), dim=2, algorithms=["pt-map-elites"], evaluations=100)
