"""Predictions against hand-calculated cases, and the choice of the method."""

import tracemalloc

import numpy as np
import pytest

import taskelites as te
from taskelites.core.fits import plane_weights
from taskelites.results.prediction import METHODS, SAMPLE, Predictor

RNG = np.random.default_rng(7)


def make_result(tasks, solutions, bounds=None, fitness=None, **kwargs):
    """Return a result with the given elites; rows with NaN are unsolved tasks."""
    solutions = np.asarray(solutions, float)
    number = len(solutions)
    unsolved = np.isnan(solutions).any(axis=1)
    fitness = np.where(unsolved, np.nan, np.zeros(number) if fitness is None else fitness)
    return te.Result(
        solutions=solutions,
        fitness=fitness,
        tasks=tasks if isinstance(tasks, te.Tasks) else te.Tasks(descriptors=tasks),
        evaluations=number,
        task_evaluations=np.ones(number, int),
        last_improved=np.ones(number, int),
        settings={} if bounds is None else {"bounds": bounds, "dim": solutions.shape[1]},
        **kwargs,
    )


def linear_family(number=60, k=2, dim=3):
    tasks = RNG.random((number, k))
    slope, start = RNG.uniform(-1, 1, (k, dim)), RNG.uniform(-1, 1, dim)
    return tasks, lambda places: start + places @ slope


def test_nearest_copies_nearest_elite():
    result = make_result([[0.0], [1.0], [3.0]], [[10.0], [20.0], [30.0]], [0, 100])
    assert result.predict([[0.4], [1.9], [2.1]], "nearest").tolist() == [[10.0], [20.0], [30.0]]


def test_blend_weights_are_inverse_squared_distances():
    # Distances 1, 2 and, for three neighbours, 4 give weights 1, 1/4 and 1/16.
    result = make_result([[0.0], [3.0]], [[10.0], [20.0]], [0, 100])
    assert result.predict([[1.0]], "blend")[0, 0] == pytest.approx((10 + 20 / 4) / 1.25)
    predictor = Predictor(np.array([[0.0], [3.0], [5.0]]), np.array([[10.0], [20.0], [40.0]]), np.zeros(3))
    predictor.__dict__["_known"] = {"blend": (predictor._variants("blend")[-1][0], 3, 0.0)}
    found = predictor.predict(np.array([[1.0]]), "blend").solutions[0, 0]
    assert found == pytest.approx((10 + 20 / 4 + 40 / 16) / (1 + 1 / 4 + 1 / 16))


def test_linear_elites_are_predicted_exactly_by_linear_method():
    for k, dim in ((1, 1), (2, 3), (5, 4)):
        tasks, true = linear_family(80, k, dim)
        result = make_result(tasks, true(tasks), [-10, 10])
        places = RNG.random((50, k))
        found = result.predict(places, report=True)
        assert found.method == "linear"
        assert found.error < 1e-6 < found.errors["blend"] < found.errors["nearest"]
        assert np.abs(found.solutions - true(places)).max() < 1e-6
        assert np.array_equal(result.predict(places), found.solutions)


def test_linear_method_extrapolates_within_bounds():
    tasks = np.linspace(0, 1, 30)[:, None]
    result = make_result(tasks, 2 * tasks, [0, 2.5])
    assert result.predict([[1.1], [9.0], [-9.0]], "linear").ravel() == pytest.approx([2.2, 2.5, 0.0])
    by_hand = make_result(tasks, 2 * tasks)  # without bounds, the range of the elites
    assert by_hand.predict([[1.1], [-1.0]], "linear").ravel() == pytest.approx([2.0, 0.0])


@pytest.mark.parametrize("method", METHODS)
def test_predictions_stay_within_bounds_of_each_dimension(method):
    tasks = RNG.random((200, 3))
    bounds = [(-1.0, 1.0), (100.0, 200.0)]
    solutions = RNG.uniform([-1, 100], [1, 200], (200, 2))
    found = make_result(tasks, solutions, bounds).predict(RNG.uniform(-5, 5, (300, 3)), method)
    assert found.shape == (300, 2)
    assert (found >= [-1, 100]).all()
    assert (found <= [1, 200]).all()


@pytest.mark.parametrize("method", [None, *METHODS])
def test_single_solved_task_gives_its_elite(method):
    result = make_result([[0.0, 0], [1, 1], [2, 2]], [[np.nan] * 2, [0.25, 0.5], [np.nan] * 2], [0, 1])
    found = result.predict([[5.0, 5], [1, 1], [0, 0]], method, report=True)
    assert found.solutions.tolist() == [[0.25, 0.5]] * 3
    assert np.isnan(found.error)
    assert found.errors == {}
    assert found.method == (method or "nearest")


@pytest.mark.parametrize("method", [None, *METHODS])
def test_unsolved_tasks_are_ignored(method):
    tasks, true = linear_family()
    solutions = true(tasks)
    solved = np.arange(len(tasks)) % 3 > 0
    some = make_result(tasks, np.where(solved[:, None], solutions, np.nan), [-10, 10])
    rest = make_result(tasks[solved], solutions[solved], [-10, 10])
    places = np.concatenate([RNG.random((20, 2)), tasks[~solved]])
    assert np.array_equal(some.predict(places, method), rest.predict(places, method))


@pytest.mark.parametrize("method", [None, *METHODS])
def test_solved_task_gives_best_elite_of_equal_tasks(method):
    tasks = np.repeat(RNG.random((20, 2)), 2, axis=0)
    solutions = RNG.random((40, 3))
    fitness = RNG.random(40)
    best = fitness.reshape(20, 2).argmax(axis=1) + np.arange(0, 40, 2)
    found = make_result(tasks, solutions, [0, 1], fitness).predict(tasks[::2], method)
    assert np.array_equal(found, solutions[best])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("number", [2, 3, 4])
def test_few_elites_give_predictions_between_them(method, number):
    tasks = RNG.random((number, 4))
    solutions = RNG.uniform(0.25, 0.75, (number, 2))
    found = make_result(tasks, solutions).predict(RNG.random((10, 4)), method)
    assert np.isfinite(found).all()
    assert (found >= solutions.min(axis=0)).all()
    assert (found <= solutions.max(axis=0)).all()


@pytest.mark.parametrize("method", [None, *METHODS])
def test_constant_descriptors(method):
    constant = np.column_stack([np.linspace(0, 1, 30), np.full(30, 7.0)])  # one descriptor is constant
    result = make_result(constant, constant[:, :1], [0, 1])
    assert result.predict([[0.505, 7.0]], method)[0, 0] == pytest.approx(0.505, abs=0.02)
    one_place = make_result(np.zeros((30, 2)), RNG.random((30, 1)), [0, 1])
    assert np.isfinite(one_place.predict([[1.0, 1.0], [0.0, 0.0]], method)).all()


def test_new_tasks_are_scaled_like_solved_ones():
    raw = np.column_stack([RNG.random(100), RNG.random(100) * 1000])
    solutions = raw / [1, 1000]
    scaled = make_result(te.Tasks(descriptors=raw, scale="range"), solutions, [0, 1])
    place = np.array([[0.2, 900.0]])
    spread = np.ptp(raw, axis=0)
    nearest = np.argmin((((raw - place) / spread) ** 2).sum(axis=1))
    assert np.array_equal(scaled.predict(place, "nearest")[0], solutions[nearest])
    assert scaled.predict(place)[0] == pytest.approx([0.2, 0.9], abs=1e-6)


def test_regression_weights_are_tricube_of_distance():
    # Weighted least squares for unit vectors of solutions. The reach is 1.1 times the largest distance.
    tricube = [(1 - (1 / 2.2) ** 3) ** 3, (1 - (1.5 / 2.2) ** 3) ** 3, (1 - (2 / 2.2) ** 3) ** 3]
    assert tricube == pytest.approx([0.7439, 0.3187, 0.0154], abs=1e-4)
    places = np.array([1.0, -1.5, 2.0])
    expected = [np.polyfit(places, one, 1, w=np.sqrt(tricube))[1] for one in np.eye(3)]
    found = plane_weights(places[None, :, None], np.abs(places)[None])
    assert found[0] == pytest.approx(expected, abs=1e-6)
    trust = [1.0, 0.5, 0.25]
    expected = [np.polyfit(places, one, 1, w=np.sqrt(np.multiply(tricube, trust)))[1] for one in np.eye(3)]
    assert plane_weights(places[None, :, None], np.abs(places)[None], np.array([trust]))[0] == pytest.approx(
        expected, abs=1e-6
    )


# Positions and solutions of six neighbours of the task at 0, the nearest first. The solutions differ from the first one
# by 0.1 to 0.4; the last one is another posture. The first quartile of the differences is 0.2, so the scale is 0.4.
PLACES = np.array([1.0, -2.0, 3.0, 4.0, -5.0, 6.0])
SOLUTIONS = np.array([0.3, 0.4, 0.1, 0.6, 0.7, 3.3])
TRUST = np.array([1.0, *np.exp([-1 / 32, -1 / 8, -9 / 32, -1 / 2]), 0.0])


def predicted_by(method, variant):
    """Return the prediction of a variant of a method from these six neighbours."""
    predictor = Predictor(PLACES[:, None], SOLUTIONS[:, None], np.zeros(6), np.zeros(1), np.full(1, 4.0))
    rule, _ = predictor._variants(method)[variant]
    predictor.__dict__["_known"] = {method: (rule, 6, 0.0)}
    return predictor.predict(np.zeros((1, 1)), method).solutions[0, 0]


def test_linear_method_trusts_neighbours_of_same_posture():
    weights = (1 - np.abs(PLACES / 6.6) ** 3) ** 3 * TRUST
    expected = np.polyfit(PLACES, SOLUTIONS, 1, w=np.sqrt(weights))[1]
    assert predicted_by("linear", 0) == pytest.approx(expected, abs=1e-6)


def test_regressor_trusts_neighbours_of_same_posture():
    """Ordinary kriging; a Lagrange multiplier accounts for the unknown mean."""

    def kernel(distance):
        scaled = np.sqrt(3) * np.abs(distance) / 18  # three times the largest distance
        return (1 + scaled) * np.exp(-scaled)

    for variant, noise in enumerate((0.001, 0.03, 0.3)):
        system = np.ones((7, 7))
        system[:6, :6] = kernel(np.subtract.outer(PLACES, PLACES)) + np.diag(noise / np.maximum(TRUST, 1e-9))
        system[6, 6] = 0.0
        weights = np.linalg.solve(system, [*kernel(PLACES), 1.0])[:6]
        assert predicted_by("regressor", variant) == pytest.approx(weights @ SOLUTIONS, abs=1e-6)


def test_prediction_does_not_average_two_postures():
    """Solutions are near 0.1 for tasks below 0.5 and near 0.9 above. No prediction should lie between."""
    tasks = RNG.random((300, 1))
    solutions = np.where(tasks < 0.5, 0.1, 0.9) + 0.05 * tasks
    result = make_result(tasks, solutions, [0, 1])
    places = np.linspace(0.4, 0.6, 41)[:, None]
    for method in ("linear", "regressor"):
        found = result.predict(places, method)
        right = np.where(places < 0.5, 0.1, 0.9) + 0.05 * places
        other = np.where(places < 0.5, 0.9, 0.1) + 0.05 * places
        apart = np.minimum(np.abs(found - right), np.abs(found - other))
        assert np.mean(apart < 0.02) > 0.9
    assert result.predict(places, report=True).method in ("linear", "regressor")


def test_noisy_elites_are_smoothed():
    tasks, true = linear_family(400)
    result = make_result(tasks, true(tasks) + RNG.normal(0, 0.2, (400, 3)), [-10, 10])
    places = RNG.random((200, 2))
    found = result.predict(places, report=True)
    assert found.method in ("linear", "regressor")

    def error(method):
        return np.abs(result.predict(places, method) - true(places)).mean()

    assert np.abs(found.solutions - true(places)).mean() < 0.5 * error("nearest")


def test_unrelated_elites_are_copied():
    """The mean of the elites has the lowest leave-one-out error, but is not necessarily a good solution."""
    result = make_result(RNG.random((300, 2)), RNG.random((300, 8)), [0, 1])
    found = result.predict(RNG.random((20, 2)), report=True)
    assert found.errors["regressor"] < found.errors["nearest"]
    assert found.method == "nearest"
    assert found.error == found.errors["nearest"]


def test_error_is_leave_one_out_error():
    tasks, solutions = RNG.random((40, 2)), RNG.random((40, 3))
    predictor = Predictor(tasks, solutions, np.zeros(40), np.zeros(3), np.full(3, 2.0))
    apart = []
    for i in range(40):
        distance = np.linalg.norm(tasks - tasks[i], axis=1)
        distance[i] = np.inf
        apart.append(np.sqrt((((solutions[distance.argmin()] - solutions[i]) / 2) ** 2).mean()))
    assert predictor.errors["nearest"] == pytest.approx(np.sqrt(apart).mean() ** 2)


def test_simplest_of_equally_good_methods_is_chosen():
    result = make_result(RNG.random((50, 2)), np.full((50, 2), 0.5), [0, 1])
    assert result.predict([[0.5, 0.5]], report=True).method == "nearest"


def test_large_archive_is_sampled_with_little_memory():
    tasks = RNG.random((50_000, 3))
    predictor = Predictor(tasks, np.sin(tasks @ RNG.normal(size=(3, 36))), np.zeros(50_000))
    assert len(predictor._sample) == SAMPLE
    tracemalloc.start()
    found = predictor.predict(RNG.random((5000, 3)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.error < found.errors["nearest"] / 2
    assert peak < 400e6
    again = Predictor(predictor.positions, predictor.solutions, np.zeros(50_000))
    assert again.errors == predictor.errors


def test_new_tasks_are_validated():
    tasks, true = linear_family()
    result = make_result(te.Tasks(list("abc" * 20), descriptors=tasks), true(tasks), [-10, 10])
    named = te.Tasks(["x", "y"], descriptors=[[0.1, 0.2], [0.3, 0.4]])
    assert np.array_equal(result.predict(named), result.predict([[0.1, 0.2], [0.3, 0.4]]))
    assert result.predict(np.empty((0, 2))).shape == (0, 3)
    assert result.predict(named, report=True).distances.shape == (2,)
    assert repr(result.predict(named, report=True)).startswith("<Prediction: 2 solutions by 'linear'")
    for wrong, message in [
        ([[1.0]], r"new_tasks must have shape \(m, 2\), not \(1, 1\)"),
        ([1.0, 2.0], r"new_tasks must have shape \(m, 2\), not \(2,\)"),
        ([[np.nan, 0]], r"new_tasks must be finite, but new_tasks\[0, 0\] is nan"),
        (te.Tasks(["x"]), "new_tasks must have descriptors, as the solved tasks do, but has none"),
    ]:
        with pytest.raises(ValueError, match=message):
            result.predict(wrong)
    with pytest.raises(TypeError, match=r"new_tasks must be a list of tasks, not a te.Box"):
        result.predict(te.Box([0, 0], [1, 1]))
    with pytest.raises(ValueError, match=r"method must be one of .*, not 'liner'; did you mean 'linear'\?"):
        result.predict(named, "liner")
    with pytest.raises(ValueError, match=r"predict needs tasks with descriptors, .* te.Tasks\(objects, descriptors"):
        make_result(te.Tasks(["x", "y"]), [[1.0], [2.0]]).predict([[0.0]])
    with pytest.raises(ValueError, match="predict needs at least one solved task, but none is solved"):
        make_result([[0.0]], [[np.nan]]).predict([[0.0]])


def test_loaded_result_gives_same_predictions(tmp_path):
    tasks, true = linear_family()
    result = make_result(tasks, true(tasks) + RNG.normal(0, 0.1, (60, 3)), [-10, 10])
    places = RNG.random((20, 2))
    assert np.array_equal(te.load(result.save(tmp_path / "a.npz")).predict(places), result.predict(places))


def gap(domain, solutions):
    import jax

    with jax.enable_x64(True):
        fitness = np.asarray(jax.vmap(domain.fitness)(solutions, np.asarray(domain.tasks.descriptors)))
    return float(np.mean(domain.optimum - fitness))


@pytest.mark.thorough
def test_predictions_for_arm_are_better_than_copies():
    result = te.solve(te.domain("arm", tasks=500), evaluations=200_000)
    new = te.domain("arm", tasks=RNG.random((300, 2)))
    copied = gap(new, result.predict(new.tasks, "nearest"))
    assert gap(new, result.predict(new.tasks)) < 0.85 * copied


@pytest.mark.slow
@pytest.mark.parametrize("number", [5000, 500])
@pytest.mark.parametrize("target", [(1.0, 1.0), (0.5, 0.5)])
def test_prediction_and_refinement_for_arm_reach_documented_gap(target, number):
    new = te.domain("arm", tasks=te.tasks.uniform(1000, [0, 0], [1, 1], seed=100).descriptors, target=target)
    domain = te.domain("arm", tasks=number, target=target)
    for result in te.solve(domain, evaluations=1_000_000, replicates=3):
        copied, predicted = (gap(new, result.predict(new.tasks, method)) for method in ("nearest", None))
        assert predicted < 0.85 * copied
        assert result.refine(new, evaluations=20_000).gap < 0.5 * predicted
