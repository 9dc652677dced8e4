"""Test searches that start from a result: refine, extend and warm_start."""

import numpy as np
import pytest

import taskelites as te
from taskelites.results.prediction import METHODS
from taskelites.search.job import make_job
from taskelites.search.warm_start import warm_initial

# All searches have 60 tasks, so that nearly all share one compiled step.
TASKS = np.linspace(0, 1, 60)[:, None]
NEW = np.linspace(0.0012, 0.98, 60)[:, None]


def fitness(solutions, tasks):
    return -np.abs(solutions - tasks[:, :1]).sum(axis=1)


class Counted:
    """A fitness function that records its arguments."""

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


def by_hand(tasks, solutions, values=None, **settings):
    """Return a result without a search; tasks whose solution has NaN are unsolved."""
    number = len(solutions)
    values = np.zeros(number) if values is None else values
    counts = np.ones(number, int)
    return te.Result(
        solutions=solutions, fitness=np.where(np.isnan(solutions).any(axis=1), np.nan, values), evaluations=number,
        tasks=tasks if isinstance(tasks, te.Tasks) else te.Tasks(descriptors=tasks), task_evaluations=counts,
        last_improved=counts, settings=settings,
    )  # fmt: skip


def near_the_best(tasks):
    solutions = np.clip(tasks + np.random.default_rng(0).normal(0, 0.03, (len(tasks), 2)), 0, 1)
    return by_hand(tasks, solutions, fitness(solutions, tasks), bounds=[0, 1], call="batch")


@pytest.fixture(scope="module")
def result():
    return near_the_best(TASKS)


@pytest.fixture(scope="module")
def half():
    """A result on half of the tasks, so that an extension by half of the new ones has 60 tasks, too."""
    return near_the_best(TASKS[::2])


def test_refine_evaluates_predictions_first_and_is_never_worse(result):
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


def test_refine_with_minimum_budget_returns_evaluated_predictions(result):
    refined = result.refine(NEW, fitness, evaluations=60)
    assert np.array_equal(refined.solutions, result.predict(NEW))
    assert np.array_equal(refined.fitness, fitness(refined.solutions, NEW))


def test_refine_with_given_method_evaluates_one_prediction_per_task(result):
    counted = Counted()
    refined = result.refine(NEW, counted, evaluations=128, method="nearest")
    assert np.array_equal(counted.all_solutions[:60], result.predict(NEW, "nearest"))
    assert refined.task_evaluations.sum() == 128
    assert not np.array_equal(np.sort(counted.all_tasks[60:120], axis=0), NEW)


def test_refine_accepts_domain_as_tasks_or_as_fitness():
    rng = np.random.default_rng(1)
    old, points = rng.random((60, 2)), rng.random((60, 2))
    result = by_hand(old, rng.random((60, 4)), bounds=[0, 1])
    arm, new = (te.domain("arm", tasks=tasks, dim=4) for tasks in (old, points))
    whole = result.refine(new, evaluations=400)
    part = result.refine(points, arm, evaluations=400)
    assert np.array_equal(whole.solutions, part.solutions)
    assert np.array_equal(whole.optimum, new.optimum)
    assert part.optimum is None  # the domain's optimum belongs to other tasks
    assert part.settings["call"] == "jax"


def test_extend_accepts_tasks_with_objects(half):
    words = te.Tasks([f"load {i}" for i in range(30)], descriptors=TASKS[::2])
    more = te.Tasks([f"load {i}" for i in range(30, 60)], descriptors=NEW[::2])
    received = []

    def heavy(solution, task):
        received.append(task)
        return -np.abs(solution - int(task.split()[1]) / 60).sum()

    result = by_hand(words, half.solutions, bounds=[0, 1])
    extended = result.extend(more, heavy, evaluations=70)
    assert extended.tasks.objects == (*words.objects, *more.objects)
    assert received[:60] == [*more.objects, *words.objects]
    with pytest.raises(ValueError, match=r"new_tasks must be te.Tasks\(objects, descriptors=...\), since the fitness"):
        result.refine([[0.5]], heavy, evaluations=10)
    with pytest.raises(
        ValueError, match=r"new_tasks must be objects, as the tasks of the result, not rows of descriptors"
    ):
        result.refine(te.Tasks(descriptors=[[0.5]]), heavy, evaluations=10)


def test_warm_start_uses_elites_for_known_tasks_and_predictions_for_others(result):
    mixed = np.concatenate([NEW[:5], TASKS[:4:-1]])
    counted = Counted()
    warm = te.solve(counted, mixed, bounds=(0, 1), dim=2, call="batch", evaluations=200, warm_start=result)
    assert warm.evaluations == len(counted.all_tasks) == 200
    assert np.array_equal(counted.all_tasks[:60], mixed)
    assert np.array_equal(counted.all_solutions[:60], result.predict(mixed))
    assert np.array_equal(counted.all_solutions[5:60], result.solutions[:4:-1])
    cold = te.solve(fitness, mixed, bounds=(0, 1), dim=2, call="batch", evaluations=200)
    assert warm.fitness.mean() > np.nanmean(cold.fitness)


def test_warm_start_with_small_budget_solves_first_tasks(result):
    warm = te.solve(fitness, TASKS, bounds=(0, 1), dim=2, call="batch", evaluations=25, warm_start=result)
    assert np.array_equal(warm.solved, np.arange(60) < 25)


def test_warm_start_evaluates_elites_again(result):
    warm = te.solve(
        lambda x, t: fitness(x, t) - 1, TASKS, bounds=(0, 1), dim=2, call="batch", evaluations=60, warm_start=result
    )
    assert np.allclose(warm.fitness[result.solved], result.fitness[result.solved] - 1)


def test_warm_start_clips_elites_to_new_bounds(result):
    warm = te.solve(fitness, TASKS, bounds=(0.2, 0.6), dim=2, call="batch", evaluations=60, warm_start=result)
    assert np.array_equal(warm.solutions, np.clip(result.predict(TASKS), 0.2, 0.6))


def test_warm_start_matches_tasks_without_descriptors_by_text():
    earlier = by_hand(te.Tasks(["a", "bb", "ccc", "e"]), np.array([[0.1], [0.2], [0.3], [np.nan]]))
    solutions, numbers = warm_initial(earlier, te.algorithms.Problem(te.Tasks(["dddd", "ccc", "a", "e"]), (0, 1), 1))
    assert numbers.tolist() == [1, 2]
    assert solutions.tolist() == [[0.3], [0.1]]
    with pytest.raises(ValueError, match="warm_start must have a solved task in common with this problem"):
        warm_initial(earlier, te.algorithms.Problem(te.Tasks(["x"]), (0, 1), 1))


def test_resumed_warm_start_equals_uninterrupted_run(result, tmp_path):
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


def test_resumed_refine_equals_uninterrupted_refine(result, tmp_path):
    result.refine(NEW, fitness, evaluations=100, out=tmp_path / "run")
    again = result.refine(NEW, fitness, evaluations=800, out=tmp_path / "run", resume=True)
    assert np.array_equal(again.solutions, result.refine(NEW, fitness, evaluations=800).solutions)


def test_extend_keeps_old_tasks_first_and_is_never_worse(half):
    counted = Counted()
    old, new = TASKS[::2], NEW[::2]
    more = half.extend(new, counted, evaluations=400)
    assert np.array_equal(more.tasks.descriptors, np.concatenate([old, new]))
    assert np.array_equal(counted.all_tasks[:60], np.concatenate([new, old]))
    assert more.evaluations == 400
    assert (more.fitness[:30] >= half.fitness).all()
    assert (more.fitness[30:] >= fitness(half.predict(new), new)).all()


def test_extend_with_small_budget_keeps_unevaluated_elites(half):
    more = half.extend(NEW[::2], fitness, evaluations=30)
    assert np.array_equal(more.solutions[:30], half.solutions)
    assert np.array_equal(more.solutions[30:], half.predict(NEW[::2]))
    assert (more.last_improved[:30] == 0).all()
    assert more.evaluations == 30


def test_extend_keeps_elites_whose_new_evaluation_fails(half):
    def crashing(solutions, tasks):
        return np.where(tasks[:, 0] < 0.5, np.nan, fitness(solutions, tasks))

    with pytest.warns(te.errors.FitnessWarning, match="evaluations failed"):
        more = half.extend(NEW[::2], crashing, evaluations=200)
    assert (more.fitness[:30] >= half.fitness).all()


def test_invalid_arguments_raise_errors(result):
    warm = {"bounds": (0, 1), "dim": 2, "call": "batch", "evaluations": 10}
    for change, kind, message in [
        (
            {"warm_start": "a.npz"},
            TypeError,
            r"warm_start must be a te.Result, not str; read it with te.load\('a.npz'\)",
        ),
        ({"warm_start": 3}, TypeError, "warm_start must be a te.Result, not int"),
        (
            {"warm_start": result, "initial": [[0, 0]]},
            ValueError,
            "initial and warm_start both give the first solutions",
        ),
        (
            {"warm_start": result, "dim": 3},
            ValueError,
            "warm_start must have solutions of 3 numbers, as this problem, not 2",
        ),
        ({"warm_start": result, "tasks": np.zeros((9, 4))}, ValueError, "warm_start must have tasks of 4 descriptors"),
        ({"warm_start": result, "tasks": te.Box([0], [1])}, ValueError, "warm_start needs a list of tasks, but"),
    ]:
        with pytest.raises(kind, match=message):
            te.solve(fitness, **{"tasks": TASKS, **warm, **change})
    nothing = by_hand(te.Tasks(descriptors=[[0.0]]), np.full((1, 2), np.nan))
    with pytest.raises(ValueError, match="warm_start must have at least one solved task, but it has none"):
        te.solve(fitness, TASKS, **warm, warm_start=nothing)
    with pytest.raises(TypeError, match="fitness must be given, since a result does not contain the function"):
        result.refine(NEW, evaluations=100)
    with pytest.raises(ValueError, match="evaluations must be at least 60, one for the prediction of each new task"):
        result.refine(NEW, fitness, evaluations=59)
    with pytest.raises(TypeError, match="refine takes no initial; "):
        result.refine(NEW, fitness, evaluations=100, initial=[[0, 0]])
    with pytest.raises(TypeError, match="bounds must be given, since the settings of this result do not have them"):
        nothing.extend([[1.0]], fitness, evaluations=10)
    with pytest.raises(ValueError, match=r"new_tasks must have shape \(m, 1\), not \(2, 2\)"):
        result.extend(np.zeros((2, 2)), fitness, evaluations=100)
    matrix = te.Tasks(descriptors=TASKS, distance=np.zeros((60, 60)))
    known = by_hand(matrix, result.solutions, bounds=[0, 1])
    with pytest.raises(ValueError, match=r"tasks with a distance matrix can't be extended, .* warm_start=result"):
        known.extend(NEW, fitness, evaluations=100)


def test_initial_solutions_of_warm_start_are_part_of_job(result):
    job = make_job(fitness, NEW, bounds=(0, 1), dim=2, call="batch", evaluations=100, warm_start=result)
    assert np.array_equal(job.initial.solutions, result.predict(NEW))
    assert job.initial.niches.tolist() == list(range(60))
