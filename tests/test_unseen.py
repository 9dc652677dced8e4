"""Going on from a result: refine, extend, warm_start."""

import numpy as np
import pytest

import taskelites as te
from taskelites.prediction import METHODS
from taskelites.search.statement import make_job
from taskelites.search.warm import warm_initial

# As many new tasks as old ones: one compiled step serves nearly all.
TASKS = np.linspace(0, 1, 60)[:, None]
NEW = np.linspace(0.0012, 0.98, 60)[:, None]


def fitness(solutions, tasks):
    return -np.abs(solutions - tasks[:, :1]).sum(axis=1)


class Counted:
    """A fitness that keeps what it was called with."""

    def __init__(self):
        self.solutions, self.tasks = [], []

    def __call__(self, solutions, tasks):
        self.solutions.append(solutions.copy())
        self.tasks.append(np.asarray(tasks).copy())
        return fitness(solutions, tasks)

    @property
    def all_solutions(self):
        return np.concatenate(self.solutions)

    @property
    def all_tasks(self):
        return np.concatenate(self.tasks)


@pytest.fixture(scope="module")
def result():
    return te.solve(fitness, TASKS, bounds=(0, 1), dim=2, call="batch", evaluations=1500)


def test_refine_evaluates_the_predictions_first_and_never_ends_below_them(result):
    counted = Counted()
    best = result.predict(NEW)
    refined = result.refine(NEW, counted, evaluations=800)
    assert (refined.evaluations, len(counted.all_tasks)) == (800, 800)
    assert np.array_equal(counted.all_solutions[:60], best)
    assert np.array_equal(counted.all_tasks[:60], NEW)
    assert np.array_equal(refined.tasks.descriptors, NEW)
    assert refined.settings["call"] == "batch"
    for method in METHODS:
        assert (refined.fitness >= fitness(result.predict(NEW, method), NEW)).all()
    assert refined.fitness.mean() > fitness(best, NEW).mean()


def test_refine_with_the_least_budget_is_the_prediction_evaluated(result):
    refined = result.refine(NEW, fitness, evaluations=60)
    assert np.array_equal(refined.solutions, result.predict(NEW))
    assert np.array_equal(refined.fitness, fitness(refined.solutions, NEW))


def test_refine_with_a_method_evaluates_one_prediction_a_task(result):
    counted = Counted()
    refined = result.refine(NEW, counted, evaluations=128, method="nearest")
    assert np.array_equal(counted.all_solutions[:60], result.predict(NEW, "nearest"))
    assert refined.task_evaluations.sum() == 128
    assert not np.array_equal(np.sort(counted.all_tasks[60:120], axis=0), NEW)


def test_refine_takes_a_domain_for_the_fitness_or_for_all():
    arm = te.domain("arm", tasks=60)
    result = te.solve(arm, evaluations=5000)
    points = np.random.default_rng(1).random((60, 2))
    new = te.domain("arm", tasks=points)
    whole = result.refine(new, evaluations=600)
    part = result.refine(points, arm, evaluations=600)
    assert np.array_equal(whole.solutions, part.solutions)
    assert whole.gap < te.solve(new, evaluations=1200).gap
    assert np.isnan(part.gap)  # the optimum of the domain is that of its own tasks
    assert part.settings["call"] == "jax"


def test_one_new_task_is_refined(result):
    refined = result.refine([[0.3337]], fitness, evaluations=20)
    assert refined.solved.all()
    assert refined.fitness[0] >= fitness(result.predict([[0.3337]]), np.array([[0.3337]]))[0]


def test_tasks_that_are_objects_are_refined_and_extended():
    words = te.Tasks([f"load {i}" for i in range(60)], descriptors=TASKS)

    def heavy(solution, task):
        return -np.abs(solution - int(task.split()[1]) / 60).sum()

    result = te.solve(heavy, words, bounds=(0, 1), dim=2, evaluations=300)
    more = te.Tasks([f"load {i / 10}" for i in range(60)], descriptors=NEW)

    def light(solution, task):
        return -np.abs(solution - float(task.split()[1]) / 60).sum()

    assert result.refine(more, light, evaluations=100, method="nearest").coverage == 1.0
    extended = result.extend(more, light, evaluations=200)
    assert extended.tasks.objects == (*words.objects, *more.objects)
    with pytest.raises(ValueError, match=r"new_tasks must be te.Tasks\(objects, descriptors=...\), since the fitness"):
        result.refine([[0.5]], heavy, evaluations=10)
    with pytest.raises(ValueError, match=r"new_tasks are rows of descriptors, but .* are objects; they must agree"):
        result.refine(te.Tasks(descriptors=[[0.5]]), heavy, evaluations=10)


def test_warm_start_tries_elites_on_their_tasks_and_predictions_on_others(result):
    mixed = np.concatenate([NEW[:5], TASKS[:4:-1]])
    counted = Counted()
    warm = te.solve(counted, mixed, bounds=(0, 1), dim=2, call="batch", evaluations=200, warm_start=result)
    assert warm.evaluations == len(counted.all_tasks) == 200
    assert np.array_equal(counted.all_tasks[:60], mixed)
    assert np.array_equal(counted.all_solutions[:60], result.predict(mixed))
    assert np.array_equal(counted.all_solutions[5:60], result.solutions[:4:-1])
    cold = te.solve(fitness, mixed, bounds=(0, 1), dim=2, call="batch", evaluations=200)
    assert warm.fitness.mean() > np.nanmean(cold.fitness)


def test_a_budget_below_the_number_of_tasks_reaches_the_first(result):
    warm = te.solve(fitness, TASKS, bounds=(0, 1), dim=2, call="batch", evaluations=25, warm_start=result)
    assert np.array_equal(warm.solved, np.arange(60) < 25)


def test_the_elites_are_evaluated_again_since_the_fitness_may_have_changed(result):
    warm = te.solve(
        lambda x, t: fitness(x, t) - 1, TASKS, bounds=(0, 1), dim=2, call="batch", evaluations=60, warm_start=result
    )
    assert np.allclose(warm.fitness[result.solved], result.fitness[result.solved] - 1)


def test_other_bounds_cut_the_elites(result):
    warm = te.solve(fitness, TASKS, bounds=(0.2, 0.6), dim=2, call="batch", evaluations=60, warm_start=result)
    assert np.array_equal(warm.solutions, np.clip(result.predict(TASKS), 0.2, 0.6))


def by_hand(tasks, solutions):
    number = len(tasks)
    fitness = np.where(np.isnan(solutions).any(axis=1), np.nan, 0.0)
    counts = np.ones(number, int)
    return te.Result(solutions=solutions, fitness=fitness, tasks=tasks, evaluations=number, task_evaluations=counts,
                     last_improved=counts)  # fmt: skip


def test_tasks_without_descriptors_are_known_by_their_text():
    earlier = by_hand(te.Tasks(["a", "bb", "ccc", "e"]), np.array([[0.1], [0.2], [0.3], [np.nan]]))
    solutions, numbers = warm_initial(earlier, te.Problem(te.Tasks(["dddd", "ccc", "a", "e"]), (0, 1), 1))
    assert numbers.tolist() == [1, 2]
    assert solutions.tolist() == [[0.3], [0.1]]
    with pytest.raises(ValueError, match="warm_start has no solved task in common with these"):
        warm_initial(earlier, te.Problem(te.Tasks(["x"]), (0, 1), 1))


def test_a_warm_run_goes_on_where_it_stopped(result, tmp_path):
    def run(evaluations, **kwargs):
        return te.solve(
            fitness, NEW, bounds=(0, 1), dim=2, call="batch", evaluations=evaluations, warm_start=result, **kwargs
        )

    whole = run(600)
    run(300, out=tmp_path / "run")
    again = run(600, out=tmp_path / "run", resume=True)
    assert np.array_equal(again.solutions, whole.solutions)
    with pytest.raises(ValueError, match=r"holds a run with initial '\w+', and this one has None"):
        te.solve(fitness, NEW, bounds=(0, 1), dim=2, call="batch", evaluations=700, out=tmp_path / "run", resume=True)


def test_refine_goes_on_where_it_stopped(result, tmp_path):
    result.refine(NEW, fitness, evaluations=100, out=tmp_path / "run")
    again = result.refine(NEW, fitness, evaluations=800, out=tmp_path / "run", resume=True)
    assert np.array_equal(again.solutions, result.refine(NEW, fitness, evaluations=800).solutions)


def test_extend_keeps_the_old_tasks_first_and_never_worse(result):
    counted = Counted()
    more = result.extend(NEW, counted, evaluations=400)
    assert np.array_equal(more.tasks.descriptors, np.concatenate([TASKS, NEW]))
    assert np.array_equal(counted.all_tasks[:120], np.concatenate([NEW, TASKS]))
    assert more.evaluations == 400
    assert (more.fitness[:60][result.solved] >= result.fitness[result.solved]).all()
    assert (more.fitness[60:] >= fitness(result.predict(NEW), NEW)).all()


def test_extend_with_a_small_budget_keeps_what_it_did_not_reach(result):
    more = result.extend(NEW, fitness, evaluations=60)
    assert np.array_equal(more.solutions[:60], result.solutions, equal_nan=True)
    assert np.array_equal(more.solutions[60:], result.predict(NEW))
    assert (more.last_improved[:60] == 0).all()
    assert more.evaluations == 60


def test_extend_keeps_elites_that_fail_now(result):
    def crashing(solutions, tasks):
        return np.where(tasks[:, 0] < 0.5, np.nan, fitness(solutions, tasks))

    with pytest.warns(te.FitnessWarning, match="evaluations failed"):
        more = result.extend(NEW, crashing, evaluations=200)
    assert (more.fitness[:60][result.solved] >= result.fitness[result.solved]).all()


def test_mistakes_are_named(result):
    warm = {"bounds": (0, 1), "dim": 2, "call": "batch", "evaluations": 10}
    for change, kind, message in [
        ({"warm_start": "a.npz"}, TypeError, r"warm_start must be a te.Result, not str; te.load\('a.npz'\) reads one"),
        ({"warm_start": 3}, TypeError, "warm_start must be a te.Result, not int"),
        ({"warm_start": result, "initial": [[0, 0]]}, ValueError, "initial and warm_start both say what is evaluated"),
        ({"warm_start": result, "dim": 3}, ValueError, "warm_start has solutions of 2 numbers, and these have 3"),
        ({"warm_start": result, "tasks": np.zeros((9, 4))}, ValueError, "warm_start has tasks of 1 descriptors"),
        ({"warm_start": result, "tasks": te.Box([0], [1])}, ValueError, "warm_start needs a list of tasks to begin"),
    ]:
        with pytest.raises(kind, match=message):
            te.solve(fitness, **{"tasks": TASKS, **warm, **change})
    nothing = by_hand(te.Tasks(descriptors=[[0.0]]), np.full((1, 2), np.nan))
    with pytest.raises(ValueError, match="warm_start must have at least one solved task, and none is solved"):
        te.solve(fitness, TASKS, **warm, warm_start=nothing)
    with pytest.raises(TypeError, match="fitness must be given: a result does not hold the function"):
        result.refine(NEW, evaluations=100)
    with pytest.raises(ValueError, match="evaluations must be at least 60, one for the prediction of each new task"):
        result.refine(NEW, fitness, evaluations=59)
    with pytest.raises(TypeError, match="refine takes no initial; "):
        result.refine(NEW, fitness, evaluations=100, initial=[[0, 0]])
    with pytest.raises(TypeError, match="bounds must be given, since this result does not say what they were"):
        nothing.extend([[1.0]], fitness, evaluations=10)
    with pytest.raises(ValueError, match=r"new_tasks must have shape \(m, 1\), not \(2, 2\)"):
        result.extend(np.zeros((2, 2)), fitness, evaluations=100)
    matrix = te.Tasks(descriptors=TASKS, distance=np.zeros((60, 60)))
    known = te.solve(fitness, matrix, bounds=(0, 1), dim=2, call="batch", evaluations=64)
    with pytest.raises(ValueError, match=r"tasks with a distance matrix can't be extended, .* warm_start=result"):
        known.extend(NEW, fitness, evaluations=100)


def test_what_is_begun_with_is_part_of_the_plan(result):
    job = make_job(fitness, NEW, (0, 1), 2, "batch", "mt-map-elites", 64, 100, None, None, None, result)
    assert np.array_equal(job.initial.solutions, result.predict(NEW))
    assert job.initial.niches.tolist() == list(range(60))
