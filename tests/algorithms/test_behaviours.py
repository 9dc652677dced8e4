"""Behaviours that a fitness returns, and the algorithm that keeps an elite per behaviour."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taskelites as te
from taskelites.algorithms import Candidates, Evaluation
from taskelites.evaluation import Caller, JaxFitness
from taskelites.search.stepper import host_precision

TASKS = np.linspace(0, 1, 20)[:, None]
STATED = {"bounds": (0, 1), "dim": 2, "behaviour": [(0, 1)]}
FOUR = te.algorithms.MultiTaskMultiBehaviour(cells=(4,))


def batch(solutions, tasks):
    return -np.abs(solutions[:, 0] - tasks[:, 0]), solutions[:, 1:]


def each(solution, task):
    return -abs(solution[0] - task[0]), solution[1:]


def traced(solution, task):
    return -jnp.abs(solution[0] - task[0]), solution[1:]


def alone(solutions, tasks):
    return batch(solutions, tasks)[0]


def solve(fitness=batch, **options):
    return te.solve(fitness, TASKS, **{"call": "batch", "evaluations": 2000, "algorithm": FOUR} | STATED | options)


def same(a, b):
    return all(
        np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True)
        for name in ("solutions", "fitness", "task_evaluations", "last_improved")
    )


def state_after(core, *rows):
    """Return the state and the info after rows of (task, solution, fitness, behaviour)."""
    numbers, solutions, fitness, behaviour = (jnp.array(column) for column in zip(*rows, strict=True))
    candidates = Candidates(solutions=solutions, niches=numbers, origin=jnp.full(len(rows), -1))
    return core.tell(core.init(jax.random.key(0)), candidates, Evaluation(fitness=fitness, behaviour=behaviour))


def test_solution_is_stored_in_cell_of_its_task_and_behaviour():
    with host_precision():
        core = FOUR.bind(te.algorithms.Problem(TASKS[:2], **STATED))
        state, info = state_after(
            core,
            (0, [0.1, 0.1], 1.0, [0.1]),  # task 0, cell 0
            (0, [0.2, 0.2], 2.0, [0.9]),  # task 0, cell 3
            (0, [0.3, 0.3], 1.5, [0.2]),  # better in cell 0
            (1, [0.4, 0.4], 0.5, [-7.0]),  # below the bounds: cell 0
            (1, [0.5, 0.5], 0.4, [jnp.inf]),  # above: cell 3
            (1, [0.6, 0.6], 9.0, [jnp.nan]),  # failed
            (1, [0.7, 0.7], -jnp.inf, [jnp.nan]),  # infeasible
        )
        assert info.success.tolist() == [True, True, True, True, True, False, False]
        assert state.archive.fitness.tolist() == [1.5, -np.inf, -np.inf, 2.0, 0.5, -np.inf, -np.inf, 0.4]
        assert state.behaviour[:, 0].tolist() == [0.2, 0.0, 0.0, 0.9, -7.0, 0.0, 0.0, np.inf]
        elites = core.elites(state).archive
        assert elites.fitness.tolist() == [2.0, 0.5]
        assert elites.solutions.tolist() == [[0.2, 0.2], [0.4, 0.4]]
        assert elites.evaluations.tolist() == [3, 4]
        assert elites.last_improved.tolist() == [2, 4]
        assert (int(elites.told), int(elites.failed), int(elites.infeasible)) == (7, 1, 1)
        counts = core.diagnostics(state)
        assert (int(counts["solutions"]), float(counts["solutions_per_task"])) == (4, 2.0)


@pytest.mark.parametrize(("ties", "kept"), [(False, 0.1), (True, 0.2)])
def test_equal_fitness_replaces_elite_with_ties_only(ties, kept):
    with host_precision():
        core = te.algorithms.MultiTaskMultiBehaviour(cells=(4,), ties=ties).bind(
            te.algorithms.Problem(TASKS[:1], **STATED)
        )
        state, _ = state_after(core, (0, [0.1, 0.1], 1.0, [0.1]), (0, [0.2, 0.2], 1.0, [0.2]))
        assert float(state.archive.solutions[0, 0]) == kept
        assert float(state.behaviour[0, 0]) == kept


@pytest.mark.thorough
def test_one_cell_equals_map_elites_with_random_tasks():
    one = solve(algorithm=te.algorithms.MultiTaskMultiBehaviour(cells=1, variation="sbx", random_start=50))
    plain = solve(algorithm=te.algorithms.MapElitesRandom(variation="sbx", random_start=50))
    assert same(one, plain)
    assert np.array_equal(one.repertoire.solutions, one.solutions)


@pytest.mark.slow
def test_call_kinds_give_the_same_repertoire():
    whole = solve()
    assert same(whole, solve(each, call="each"))
    assert np.array_equal(whole.repertoire.behaviour, whole.repertoire.solutions[:, 1:])
    compiled = solve(traced, call="jax").repertoire
    assert np.array_equal(compiled.behaviour, compiled.solutions[:, 1:])
    assert len(compiled) == pytest.approx(80, abs=5)
    loose = solve(each, call="each", workers=2, mode="async").repertoire
    assert np.array_equal(loose.behaviour, loose.solutions[:, 1:])


@pytest.mark.thorough
def test_other_algorithms_ignore_behaviour():
    algorithm = "mt-map-elites"
    plain = te.solve(alone, TASKS, bounds=(0, 1), dim=2, call="batch", evaluations=500, algorithm=algorithm)
    assert same(plain, solve(algorithm=algorithm, evaluations=500))
    assert same(plain, solve(each, call="each", algorithm=algorithm, evaluations=500, workers=1))
    compiled = solve(traced, call="jax", algorithm=algorithm, evaluations=500)
    assert compiled.repertoire is None
    assert "solutions" not in compiled.history


def test_unused_behaviour_is_not_returned_by_callers():
    solutions, tasks = np.full((3, 2), 0.25), TASKS[:3]
    fitness, behaviour, failures, *_ = Caller(each, "each", 1, keeps=False)(solutions, tasks)
    assert behaviour is None
    assert failures == []
    assert fitness.tolist() == [-abs(0.25 - task) for task in TASKS[:3, 0]]
    candidates = Candidates(solutions=jnp.asarray(solutions), niches=jnp.arange(3), tasks=jnp.asarray(tasks))
    assert JaxFitness(traced, 1, keeps=False)(candidates, 3).behaviour is None


@pytest.mark.parametrize("call", ["each", "batch", "jax"])
def test_nan_in_behaviour_counts_as_failure(call):
    def odd(xp):
        return lambda x, t: (x[..., 0] * 0 + 1, xp.where(x[..., 1:] < 0.3, xp.nan, x[..., 1:]))

    with pytest.warns(te.errors.FitnessWarning, match="evaluations failed .nan"):
        result = solve(odd(jnp if call == "jax" else np), call=call, evaluations=128)  # fewer than the random start
    assert result.failures == {"nan": result.failed}
    assert 12 < result.failed < 65  # 0.3 * 128, within five standard deviations
    assert result.evaluations == 128
    assert (result.repertoire.behaviour >= 0.3).all()
    assert result.history["failed"][-1] == result.failed
    optimizer = te.Optimizer(TASKS, algorithm=FOUR, **STATED)
    asked = optimizer.ask()
    optimizer.tell(asked, np.zeros(64), np.where(np.arange(64) < 10, np.nan, 0.5)[:, None])
    assert optimizer.result().failed == 10


@pytest.mark.thorough
def test_invalid_arguments_raise_errors():
    with pytest.raises(
        ValueError,
        match=r"'mtmb-map-elites' needs a behaviour, but the problem has none; let the fitness return a pair",
    ):
        solve(behaviour=None)
    with pytest.raises(ValueError, match=r"cells must be a whole number, or a sequence of 1, one per dimension"):
        solve(algorithm=te.algorithms.MultiTaskMultiBehaviour(cells=(4, 4)))
    with pytest.raises(ValueError, match=r"behaviour must be a list of pairs .* not an array of shape \(2,\)"):
        solve(behaviour=(0, 1))
    with pytest.raises(ValueError, match=r"behaviour must have lower below upper, but dimension 0 has \(1.0, 0.0\)"):
        solve(behaviour=[(1, 0)])
    with pytest.raises(ValueError, match=r"cells must be at most 10,737,418 for 200 tasks, not 16,777,216"):
        te.algorithms.MultiTaskMultiBehaviour(cells=(2**24,)).bind(te.algorithms.Problem(np.zeros((200, 1)), **STATED))
    with pytest.raises(ValueError, match=r"cells must be a whole number of at least 1 and at most 20,000"):
        te.algorithms.MultiTaskMultiBehaviour(cells=1_000_000)
    with pytest.raises(TypeError, match="cells must be a whole number"):
        te.algorithms.MultiTaskMultiBehaviour(cells="many")
    with pytest.raises(te.FitnessError, match=r"fitness must return a pair \(fitness, behaviour\), since behav"):
        solve(alone)
    with pytest.raises(te.FitnessError, match=r"returned the pair .*; if the second element is a beh"):
        te.solve(each, TASKS, bounds=(0, 1), dim=2, evaluations=100)
    with pytest.raises(ValueError, match="a domain has its own behaviour"):
        te.solve(te.Domain(name="d", fitness=each, tasks=TASKS, **STATED), behaviour=[(0, 1)], evaluations=1)


def test_repertoire_is_saved_with_result(tmp_path):
    result = solve()
    found = te.load(result.save(tmp_path / "result.npz"))
    for name in ("numbers", "solutions", "fitness", "behaviour"):
        assert np.array_equal(getattr(found.repertoire, name), getattr(result.repertoire, name))
    assert found.repertoire.tasks is None
    own = found.solutions_of(7)
    assert (np.diff(own.fitness) <= 0).all()
    assert own.fitness[0] == result.fitness[7]
    assert np.array_equal(np.sort(np.floor(own.behaviour[:, 0] * 4)), np.arange(4))
    table = own.to_dataframe()
    assert list(table.columns) == ["task_id", "fitness", "behaviour_0", "solution_0", "solution_1"]
    assert len(found.to_dataframe()) == 20
    assert f"{len(result.repertoire):,} kept" in result.summary()
    with pytest.raises(ValueError, match="task must be a whole number of at least 0 and at most 19"):
        found.solutions_of(20)


def test_damaged_repertoire_raises_error(tmp_path):
    result = solve(evaluations=300)
    for change in ({"numbers": result.repertoire.numbers + 20}, {"behaviour": np.zeros((3, 1))}):
        path = dataclasses.replace(result, repertoire=dataclasses.replace(result.repertoire, **change)).save(
            tmp_path / "result.npz"
        )
        with pytest.raises(te.StorageError, match="repertoire"):
            te.load(path)


def test_resumed_run_equals_uninterrupted_run(tmp_path):
    whole = solve(evaluations=1500)
    solve(evaluations=700, out=tmp_path / "run", checkpoint_every=100)
    resumed = solve(evaluations=1500, out=tmp_path / "run", resume=True)
    assert same(whole, resumed)
    assert np.array_equal(whole.repertoire.behaviour, resumed.repertoire.behaviour)
    with pytest.raises(ValueError, match="holds a run with behaviour"):
        solve(evaluations=1500, out=tmp_path / "run", resume=True, behaviour=[(0, 2)])


@pytest.mark.slow
def test_other_functions_ignore_behaviour():
    domain = te.Domain(name="shift", fitness=batch, tasks=TASKS, call="batch", **STATED)
    result = te.solve(domain, evaluations=500, algorithm=FOUR)
    assert np.array_equal(te.reevaluate(result, domain, samples=1).corrected, result.fitness)
    assert np.array_equal(te.reevaluate(result, batch, samples=1).corrected, result.fitness)
    compiled = te.Domain(name="shift", fitness=traced, tasks=TASKS, call="jax", **STATED)
    found = te.solve(compiled, evaluations=500, algorithm=FOUR)
    assert np.allclose(te.reevaluate(found, compiled, samples=1).corrected, found.fitness, atol=1e-6)
    assert result.refine([[0.33]], batch, evaluations=50).coverage == 1
    found = te.compare(domain, algorithms=[FOUR, "random"], replicates=1, evaluations=300)
    assert found.results["random"][0].repertoire is None
