"""Multi-task MAP-Elites against the paper's pseudo-code in plain loops, and its reductions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import PaperLoop
from spheres import sphere

import taskelites as te
from taskelites.algorithms import Evaluation
from taskelites.search.stepper import host_precision

POINTS = np.concatenate([np.random.default_rng(2).random((27, 2)), [[0.5, 0.5], [0.5, 0.5], [0.25, 0.75]]])
LOWER, UPPER = np.array([0.0, -2.0, 10.0]), np.array([1.0, 2.0, 30.0])
SIZES = (1, 3, 10, 50)


def fitness(solutions, tasks):
    """Return rounded values, for frequent ties, with some NaN and infinities."""
    unit = (solutions - LOWER) / (UPPER - LOWER)
    values = np.round(-np.abs(unit[:, :2] - tasks).sum(axis=1) - 0.3 * unit[:, 2], 2)
    odd = (unit[:, 2] * 1000).astype(int) % 20
    return np.select([odd == 0, odd == 1, odd == 2], [np.nan, np.inf, -np.inf], values)


@pytest.mark.parametrize(("sigma1", "sigma2"), [pytest.param(0.0, 0.0, marks=pytest.mark.slow), (0.05, 0.2)])
def test_archive_equals_loop_of_paper(sigma1, sigma2):
    """A child with noise may differ in its last bit, since the compiler fuses multiply and add. It is compared with a
    tolerance of 1e-14, then copied. All decisions must be equal."""
    with host_precision():
        problem = te.algorithms.Problem(POINTS, bounds=np.stack([LOWER, UPPER], axis=1))
        settings = te.MultiTaskMapElites(
            tournament=SIZES, variation=te.variation.IsoLine(sigma1=sigma1, sigma2=sigma2), random_start=20
        )
        core = settings.bind(problem, batch_size=8)
        loop = PaperLoop(POINTS, LOWER, UPPER, SIZES, sigma1, sigma2, batch_size=8, random_start=20, seed=11)
        state = core.init(jax.random.key(11))
        ask, tell = jax.jit(core.ask), jax.jit(core.tell)
        for _ in range(300):
            candidates, state = ask(state)
            arm, tasks, children = loop.ask()
            solutions = np.asarray(candidates.solutions)
            assert np.asarray(candidates.niches).tolist() == tasks
            assert np.asarray(candidates.origin).tolist() == [-1 if arm is None else arm] * 8
            if sigma1 == sigma2 == 0.0 and arm is not None:
                assert np.array_equal(solutions, children)
            assert np.allclose(solutions, children, rtol=1e-14, atol=1e-13)
            values = fitness(solutions, POINTS[tasks])
            loop.tell(arm, tasks, list(solutions), values)
            state, _ = tell(state, candidates, Evaluation(fitness=jnp.asarray(values), told=jnp.ones(8, bool)))

    archive = state.archive
    solved = np.isfinite(np.asarray(archive.fitness))
    assert set(np.flatnonzero(solved)) == set(loop.elites)
    for task, (solution, value) in loop.elites.items():
        assert np.array_equal(archive.solutions[task], solution)
        assert float(archive.fitness[task]) == value
    assert np.asarray(archive.evaluations).tolist() == loop.evaluations
    assert np.asarray(archive.last_improved).tolist() == loop.last_improved
    assert np.asarray(state.successes).tolist() == loop.successes
    assert (np.asarray(state.tried) / 8).tolist() == loop.selected
    assert int(archive.failed) > 0
    assert int(archive.infeasible) > 0
    assert min(loop.selected) > 0


def run(algorithm, tasks, seed=0, evaluations=3000):
    return te.solve(
        sphere, tasks, bounds=(0, 1), dim=3, call="batch", algorithm=algorithm, evaluations=evaluations, seed=seed
    )


@pytest.mark.thorough
def test_tasks_without_distance_equal_tournament_of_one():
    points = np.linspace(0, 1, 250)[:, None]
    with pytest.warns(
        te.errors.TaskWarning, match="has no distance between tasks, so it chooses tasks uniformly"
    ) as caught:
        blind = te.solve(
            lambda solutions, numbers: sphere(solutions, points[numbers]),
            te.Tasks(range(250)),
            bounds=(0, 1),
            dim=3,
            call="batch",
            evaluations=3000,
            algorithm="mt-map-elites",
        )
    assert len(caught) == 1
    one = run(te.MultiTaskMapElites(tournament=1), points)
    assert np.array_equal(blind.solutions, one.solutions, equal_nan=True)


def test_tournament_of_all_tasks_without_replacement_solves_no_new_task():
    """The nearest of all tasks is the parent's own, so only the random start solves tasks."""
    points = np.linspace(0, 1, 250)[:, None]
    result = run(te.MultiTaskMapElites(tournament=250, replacement=False, random_start=64), points)
    assert result.solved.sum() <= 64
    assert run(te.MultiTaskMapElites(tournament=250, random_start=64), points).solved.sum() > 64


def test_random_start_is_rounded_up_to_full_batches():
    problem = te.algorithms.Problem(np.linspace(0, 1, 1000)[:, None], bounds=(0, 1), dim=2)
    assert int(te.MultiTaskMapElites().bind(problem, 64).start_steps) == 2
    assert int(te.MultiTaskMapElites(random_start=64).bind(problem, 64).start_steps) == 1
    assert int(te.MultiTaskMapElites(random_start=0.1).bind(problem, 64).start_steps) == 2
    assert int(te.MultiTaskMapElites(random_start=0.5).bind(problem, 64).start_steps) == 8


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:more than half of the last:taskelites.errors.FitnessWarning")
def test_random_start_continues_until_a_task_is_solved():
    seen = []

    def fails_at_first(solutions, tasks):
        seen.append(solutions.copy())
        return np.full(len(solutions), np.nan) if len(seen) <= 5 else sphere(solutions, tasks)

    with pytest.warns(te.errors.FitnessWarning, match="320 of 1,000 evaluations failed"):
        result = te.solve(
            fails_at_first, np.linspace(0, 1, 300)[:, None], bounds=(0, 1), dim=3, call="batch", evaluations=1000
        )
    assert result.failed == 320
    assert all(abs(batch.std() - np.sqrt(1 / 12)) < 0.04 for batch in seen[:6])


def test_reward_by_rate_explores_more():
    points = np.linspace(0, 1, 250)[:, None]

    def tried(reward):
        history = run(te.MultiTaskMapElites(reward=reward), points, evaluations=50_000).history
        return sorted(history[f"tried_{size}"][-1] for size in (1, 10, 50, 100, 500))

    assert tried("rate")[0] > tried("count")[0]


def test_golden_stream():
    """Changes need a line under "Results change" in the changelog. The fitness is integer, so rounding is no issue."""
    tasks = np.linspace(0, 1, 250)[:, None]
    optimizer = te.Optimizer(tasks, bounds=(0, 1), dim=3, algorithm="mt-map-elites", batch_size=8, seed=5)
    niches, sums = [], []
    for _ in range(20):
        candidates = optimizer.ask()
        niches.append(candidates.niches.tolist())
        sums.append(candidates.solutions.sum())
        optimizer.tell(candidates, (candidates.niches * 7 + np.arange(8)) % 13)
    assert niches[0] == GOLDEN_FIRST
    assert niches[19] == GOLDEN_LAST
    assert np.allclose(sums[::5], GOLDEN_SUMS, rtol=1e-9)


GOLDEN_FIRST = [133, 114, 228, 59, 16, 64, 183, 74]
GOLDEN_LAST = [108, 86, 202, 72, 31, 22, 77, 116]
GOLDEN_SUMS = [9.681821080701493, 9.238824712287567, 11.067323336953006, 10.74086537385455]
