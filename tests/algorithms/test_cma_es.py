"""CMA-ES on all tasks at once against the `cma` package: single updates, and the distribution of results."""

import warnings

import cma
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ks_2samp

import taskelites as te
from taskelites.algorithms import cma_es
from taskelites.experiments.comparison.pycma import new_strategy, solve_with_pycma

CURRENT_CMA = te.algorithms.CmaEs(penalty=False, max_std=1 / 3)


def beyond(x):
    """Return values of a function whose optimum is outside of the box in one coordinate."""
    weights = np.arange(1, x.shape[-1] + 1)
    return np.sum(weights * (x - 0.3) ** 2, axis=-1) + 5 * (x[..., 0] - 1.4) ** 2


def sphere(x):
    return np.sum((x - 0.3) ** 2, axis=-1)


def rosenbrock(x):
    y = 4 * x - 2
    return np.sum(100 * (y[..., 1:] - y[..., :-1] ** 2) ** 2 + (1 - y[..., :-1]) ** 2, axis=-1)


def rastrigin(x):
    y = 10 * (x - 0.4)
    return np.sum(y**2 + 10 - 10 * np.cos(2 * np.pi * y), axis=-1)


@pytest.mark.parametrize("function", [beyond, rosenbrock, rastrigin])
@pytest.mark.parametrize("dim", [5, 10, 36])
@pytest.mark.parametrize(
    "settings", [te.algorithms.CmaEs(), CURRENT_CMA, te.algorithms.CmaEs(population=30, sigma0=0.3, x0=0.4)]
)
def test_each_update_equals_cma_package(settings, dim, function):
    theirs = new_strategy(settings, dim, seed=11)
    # The package starts from almost the unit matrix, so set it exactly.
    theirs.sm.C, theirs.sm.B, theirs.sm.D = np.eye(dim), np.eye(dim), np.ones(dim)
    theirs._updateBDfromSM(theirs.sm)
    if settings.max_std is not None:
        theirs.sigma_vec.scaling = np.full(dim, settings.max_std / settings.sigma0)
    with jax.enable_x64(True):
        core = settings.bind(te.algorithms.Problem([[0.0]], bounds=(0, 1), dim=dim))
        ours = jax.tree.map(lambda leaf: leaf[0], core.init(jax.random.key(0)).search)

        @jax.jit
        def learn(now, steps, cost, generation):
            after = cma_es.update(now, steps, cost, generation, core.rates, core.max_std, penalise=core.penalty)
            return cma_es.decompose(after)

        for generation in range(1, 61):
            asked = theirs.ask()
            # The package confuses equal solutions, such as two in one corner of the box.
            assert len(np.unique(asked, axis=0)) == core.population
            drawn = np.array([theirs.sent_solutions[solution]["geno"] for solution in asked])
            steps = (drawn - theirs.mean) / (theirs.sigma * theirs.sigma_vec.scaling)
            cost = function(np.array(asked))
            theirs.tell(asked, cost.tolist())
            ours = learn(ours, steps, cost, generation)
            pairs = {
                "mean": (ours.mean, theirs.mean),
                "sigma": (ours.sigma, theirs.sigma),
                "scaling": (ours.scaling, theirs.sigma_vec.scaling * np.ones(dim)),
                "covariance": (ours.covariance, theirs.sm.C),
                "path of sigma": (ours.path_sigma, theirs.adapt_sigma.ps),
                "path": (ours.path, theirs.pc),
                "penalty": (ours.penalty, theirs.boundary_handler.gamma * np.ones(dim)),
            }
            for name, (mine, reference) in pairs.items():
                scale = np.abs(reference).max() + 1e-12
                assert np.abs(np.asarray(mine) - reference).max() < 1e-8 * scale, (generation, name)
    if function is beyond:  # the boundary penalty was used
        assert bool(ours.weighted)
        assert not np.allclose(theirs.boundary_handler.gamma, 1.0)


@pytest.mark.parametrize("dim", [2, 3, 10, 36, 100])
@pytest.mark.parametrize("population", [None, 6, 7, 40])
def test_constants_equal_cma_package(dim, population):
    theirs = new_strategy(te.algorithms.CmaEs(population=population), dim, seed=0)
    core = te.algorithms.CmaEs(population=population).bind(te.algorithms.Problem([[0.0]], bounds=(0, 1), dim=dim))
    assert core.population == theirs.popsize
    ours = cma_es.rates(dim, core.population)
    known = theirs.sm.parameters()
    assert np.allclose(ours.weights, list(theirs.sp.weights), rtol=1e-12, atol=1e-15)
    assert ours.mu_eff == pytest.approx(theirs.sp.weights.mueff, rel=1e-12)
    assert (ours.c_1, ours.c_mu) == pytest.approx((known["c1"], known["cmu"]), rel=1e-12)
    assert ours.c_c == pytest.approx(theirs.sp.cc, rel=1e-12)
    assert ours.c_sigma == pytest.approx(theirs.adapt_sigma.cs, rel=1e-12)
    assert ours.d_sigma == pytest.approx(theirs.adapt_sigma.damps, rel=1e-12)


def many_tasks(function, number, dim=10):
    """Return a domain whose tasks are independent searches of the same function."""
    return te.Domain(
        name=function.__name__,
        fitness=lambda solutions, tasks: -function(solutions),
        tasks=np.zeros((number, 1)),
        bounds=(0, 1),
        dim=dim,
        call="batch",
    )


@pytest.mark.thorough
def test_each_task_reaches_its_optimum():
    tasks = te.tasks.grid((200,), [0.2], [0.8])
    result = te.solve(
        lambda x, t: -np.sum(np.arange(1, 6) ** 2 * (x - t[:, :1]) ** 2, axis=1),
        tasks, bounds=[(0, 1), *[(-3, 3)] * 4], call="batch", algorithm="cma-es", evaluations=200 * 1600,
    )  # fmt: skip
    assert (result.task_evaluations == 1600).all()
    assert result.fitness.min() > -1e-6
    assert np.abs(result.solutions - tasks.descriptors).max() < 1e-2


@pytest.mark.thorough
def test_incomplete_generation_goes_to_tasks_in_turn_and_updates_nothing():
    tasks = np.linspace(0, 1, 7)[:, None]
    optimizer = te.Optimizer(tasks, bounds=(0, 1), dim=4, algorithm="cma-es")
    asked = optimizer.ask(at_most=10)
    assert asked.niches.tolist() == [*range(7), *range(3)]
    assert len(np.unique(asked.solutions, axis=0)) == 10
    core = te.algorithms.CmaEs().bind(te.algorithms.Problem(tasks, bounds=(0, 1), dim=4))
    candidates, state = core.ask(core.init(jax.random.key(0)))
    told = jnp.arange(core.rows) < core.rows - 1
    after, _ = core.tell(state, candidates, te.algorithms.Evaluation(fitness=candidates.solutions[:, 0], told=told))
    assert np.array_equal(after.search.mean, state.search.mean)
    assert int(after.archive.told) == core.rows - 1
    whole, _ = core.tell(state, candidates, te.algorithms.Evaluation(fitness=candidates.solutions[:, 0]))
    assert not np.array_equal(whole.search.mean, state.search.mean)


def test_failures_rank_last_and_failed_generation_updates_nothing():
    core = te.algorithms.CmaEs().bind(te.algorithms.Problem(np.zeros((2, 1)), bounds=(0, 1), dim=5))
    candidates, state = core.ask(core.init(jax.random.key(0)))
    values = np.linspace(0, 1, core.rows).astype(np.float32)
    bad = [jnp.nan, jnp.inf, -jnp.inf]
    fitness = values.copy()
    fitness[[0, 2, 4]] = bad  # the first three of task 0, which have the lowest values anyway
    fitness[1::2] = np.resize(bad, len(fitness[1::2]))
    after, _ = core.tell(state, candidates, te.algorithms.Evaluation(fitness=jnp.asarray(fitness)))
    clean, _ = core.tell(state, candidates, te.algorithms.Evaluation(fitness=jnp.asarray(values)))
    assert np.array_equal(after.search.mean[0], clean.search.mean[0])
    assert np.array_equal(after.search.covariance[1], state.search.covariance[1])
    assert np.array_equal(after.search.mean[1], state.search.mean[1])
    assert np.isfinite(np.asarray(after.search.sigma)).all()


def test_initial_solution_is_first_mean_of_its_task():
    tasks = np.linspace(0, 1, 3)[:, None]
    known = ([[0.9, 1.5], [0.1, -1.0]], [1, 2])
    optimizer = te.Optimizer(tasks, bounds=[(0, 1), (-2, 2)], algorithm=te.algorithms.CmaEs(sigma0=1e-6), initial=known)
    first = optimizer.ask()
    optimizer.tell(first, np.zeros(2))
    asked = optimizer.ask()
    assert np.allclose(asked.solutions[:3], [[0.5, 0.0], [0.9, 1.5], [0.1, -1.0]], atol=1e-4)


def test_converged_search_stays_finite():
    def flat(solution, task):
        return -jnp.sum(jnp.square(solution - 0.25))

    result = te.solve(
        flat, np.zeros((3, 1)), bounds=(0, 1), dim=2, call="jax", algorithm="cma-es", evaluations=3 * 6 * 2000
    )
    assert np.isfinite(result.history["sigma_median"]).all()
    assert result.fitness.min() > -1e-12


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"population": 1}, "population must be a whole number of at least 2"),
        ({"sigma0": 0}, r"sigma0 must be a finite number greater than 0 \(in box widths\), not 0"),
        ({"sigma0": None}, r"sigma0 must be a finite number greater than 0 \(in box widths\), not None"),
        ({"max_std": float("inf")}, r"max_std must be a finite number greater than 0 \(in box widths\), not inf"),
        ({"x0": 2}, r"x0 must be a number between 0 and 1 \(in box widths\), not 2"),
        ({"penalty": 1}, "penalty must be True or False, not 1"),
    ],
)
def test_invalid_settings_raise_errors(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        te.algorithms.CmaEs(**settings)


def test_pycma_reference_accepts_all_call_kinds():
    arm = te.domain("arm", tasks=4)
    result = solve_with_pycma(arm, evaluations=4 * 105)
    assert (result.task_evaluations == 105).all()
    assert 0 < result.gap < 0.1
    assert (result.last_improved > 105 * np.arange(4)).all()  # evaluations are numbered over all tasks
    again = solve_with_pycma(many_tasks(sphere, 2), evaluations=200, seed=3)
    each = te.Domain(name="each", fitness=lambda x, t: -float(sphere(x)), tasks=np.zeros((2, 1)), bounds=(0, 1), dim=10)
    assert np.array_equal(again.fitness, solve_with_pycma(each, evaluations=200, seed=3).fitness)
    with pytest.raises(ValueError, match="evaluations must be a multiple of the number of tasks, 4, not 401"):
        solve_with_pycma(arm, evaluations=401)


# Kolmogorov-Smirnov tests with fixed seeds; each would fail for one seed in a thousand.
FALSE_ALARM = 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("function", [sphere, rosenbrock])
def test_best_values_have_distribution_of_fmin(function, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    theirs = np.array([best_of_fmin(function, seed) for seed in range(80)])
    for i, evaluations in enumerate((200, 2000)):
        ours = te.solve(many_tasks(function, 400), evaluations=400 * evaluations, algorithm=CURRENT_CMA)
        assert ks_2samp(np.log(-ours.fitness), np.log(theirs[:, i])).pvalue > FALSE_ALARM, evaluations


def best_of_fmin(function, seed):
    """Return the best value of `cma.fmin2` after 200 and after 2000 evaluations, without other stopping criteria."""
    values = []

    def watched(x):
        values.append(float(function(np.asarray(x))))
        return values[-1]

    never = {"tolfun": 0, "tolfunhist": 0, "tolx": 0, "tolstagnation": 1e9, "tolflatfitness": 1e9, "tolxstagnation": 0}
    options = {"bounds": [0, 1], "BoundaryHandler": cma.BoundPenalty, "maxfevals": 2000, "seed": seed + 1, **never}
    quiet = {"verbose": -9, "verb_log": 0, "eval_final_mean": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cma.fmin2(watched, 10 * [0.5], 0.5, options | quiet)
    assert len(values) >= 2000
    return min(values[:200]), min(values[:2000])


@pytest.mark.slow
@pytest.mark.parametrize("settings", [te.algorithms.CmaEs(), CURRENT_CMA], ids=["penalty", "current cma"])
@pytest.mark.parametrize("function", [sphere, rosenbrock, rastrigin, beyond])
def test_best_values_have_distribution_of_reference(function, settings):
    for evaluations in (200, 1000):
        reference = solve_with_pycma(many_tasks(function, 80), evaluations=80 * evaluations, settings=settings)
        ours = te.solve(many_tasks(function, 400), evaluations=400 * evaluations, algorithm=settings)
        assert ks_2samp(ours.fitness, reference.fitness).pvalue > FALSE_ALARM, evaluations


@pytest.mark.slow
@pytest.mark.parametrize("settings", [te.algorithms.CmaEs(), CURRENT_CMA], ids=["penalty", "current cma"])
def test_gaps_on_arm_have_distribution_of_reference(settings):
    arm = te.domain("arm", tasks=300)
    gaps = [
        arm.optimum - te.solve(arm, evaluations=60_000, algorithm=settings).fitness,
        arm.optimum - solve_with_pycma(arm, evaluations=60_000, settings=settings).fitness,
    ]
    assert ks_2samp(*gaps).pvalue > FALSE_ALARM
