"""The paper's baselines: exact reductions to one another, and their differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from spheres import sphere

import taskelites as te
from taskelites.algorithms.interface import start_steps

TASKS = np.linspace(0, 1, 30)[:, None]


def jax_sphere(solution, task):
    return -jnp.sum(jnp.abs(solution - task[0]))


FITNESS = {"batch": sphere, "jax": jax_sphere}


def run(algorithm, call="batch", tasks=TASKS, **options):
    given = {"bounds": (0, 1), "dim": 4, "evaluations": 3000, "batch_size": 16, "seed": 5} | options
    return te.solve(FITNESS[call], tasks, call=call, algorithm=algorithm, **given)


def same_results(a, b):
    return (
        np.array_equal(a.solutions, b.solutions, equal_nan=True)
        and np.array_equal(a.fitness, b.fitness, equal_nan=True)
        and np.array_equal(a.last_improved, b.last_improved)
        and np.array_equal(a.task_evaluations, b.task_evaluations)
    )


@pytest.mark.parametrize("call", FITNESS)
@pytest.mark.parametrize("settings", [{}, {"variation": "sbx", "random_start": 0.5}])
def test_random_task_equals_multi_task_with_tournament_of_one(call, settings):
    assert same_results(
        run(te.algorithms.MapElitesRandom(**settings), call), run(te.MultiTaskMapElites(tournament=1, **settings), call)
    )


@pytest.mark.thorough
@pytest.mark.parametrize("call", FITNESS)
@pytest.mark.parametrize("evaluations", [7, 112, 113, 1000])
def test_all_tasks_equals_random_task_on_one_task(call, evaluations):
    alone = {"tasks": TASKS[:1], "evaluations": evaluations}
    assert same_results(run("map-elites-all", call, **alone), run("map-elites-random", call, **alone))


@pytest.mark.thorough
def test_all_tasks_evaluates_each_candidate_on_every_task_after_random_start():
    optimizer = te.Optimizer(TASKS, bounds=(0, 1), dim=4, algorithm="map-elites-all", batch_size=16, seed=5)
    opening = optimizer.ask()
    assert len(opening) == 112  # 100 random solutions, in whole batches
    assert len(np.unique(opening.niches)) > 20
    assert not np.array_equal(opening.niches[:30], np.arange(30))
    optimizer.tell(opening, sphere(opening.solutions, opening.tasks))
    step = optimizer.ask()
    assert len(step) == 16 * 30
    assert np.array_equal(step.niches.reshape(16, 30), np.tile(np.arange(30), (16, 1)))
    assert np.array_equal(step.solutions, np.repeat(step.solutions[::30], 30, axis=0))
    assert len(np.unique(step.solutions[::30], axis=0)) == 16
    values = sphere(step.solutions, step.tasks)
    optimizer.tell(step, values)
    best = np.maximum(values.reshape(16, 30).max(axis=0), best_per_task(opening))
    assert np.array_equal(optimizer.result().fitness, best)


def best_per_task(asked):
    best = np.full(30, -np.inf)
    np.maximum.at(best, asked.niches, sphere(asked.solutions, asked.tasks))
    return best


@pytest.mark.thorough
def test_all_tasks_stays_random_until_a_task_is_solved():
    def fails_at_first(solutions, tasks, calls=[]):  # noqa: B006 - counts the rows
        calls.append(len(solutions))
        return np.full(len(solutions), np.nan) if sum(calls) <= 112 + 480 else sphere(solutions, tasks)

    with pytest.warns(te.errors.FitnessWarning):
        result = te.solve(
            fails_at_first, TASKS, bounds=(0, 1), dim=4, call="batch", algorithm="map-elites-all", batch_size=16,
            evaluations=112 + 2 * 480,
        )  # fmt: skip
    assert result.coverage == 1
    assert (result.task_evaluations >= 32).all()


def test_random_sampling_draws_solutions_and_tasks_uniformly():
    core = te.algorithms.RandomSampling().bind(
        te.algorithms.Problem(TASKS, bounds=[(0, 1), (-2, 3)]), batch_size=30_000
    )
    candidates, state = core.ask(core.init(jax.random.key(0)))
    solutions = np.asarray(candidates.solutions)
    # Six standard deviations of the mean of 30,000 samples: fails for one seed in 1e8.
    assert np.abs(solutions.mean(axis=0) - [0.5, 0.5]).max() < 6 * 5 / np.sqrt(12 * 30_000)
    assert np.abs(solutions.std(axis=0) - np.array([1, 5]) / np.sqrt(12)).max() < 0.05
    counts = np.bincount(np.asarray(candidates.niches), minlength=30)
    assert np.abs(counts - 1000).max() < 6 * np.sqrt(1000)
    again, _ = core.ask(state)
    assert not np.array_equal(np.asarray(again.solutions), solutions)


@pytest.mark.thorough
def test_random_sampling_does_not_use_elites(small_arm):
    result = te.solve(small_arm, evaluations=20_000, algorithm="random")
    better = te.solve(small_arm, evaluations=20_000, algorithm="map-elites-random")
    assert result.gap > 10 * better.gap


def test_random_start_is_rounded_up_to_full_batches():
    assert start_steps(100, 5000, 64) == 2
    assert start_steps(64, 5000, 64) == 1
    assert start_steps(0.1, 5000, 64) == 8


@pytest.mark.parametrize("settings", [te.algorithms.MapElitesRandom, te.algorithms.MapElitesAll])
def test_invalid_settings_raise_errors(settings):
    with pytest.raises(ValueError, match=r"random_start must be a whole number of solutions or a share .* not 1.5"):
        settings(random_start=1.5)
    with pytest.raises(ValueError, match="variation must be one of"):
        settings(variation="sxb")
    with pytest.raises(ValueError, match=f"'{settings.name}' needs a list of tasks, but tasks is a te.Box"):
        settings().bind(te.algorithms.Problem(te.Box([0.0], [1.0]), bounds=(0, 1), dim=2))
