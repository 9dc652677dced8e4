"""Conformance tests of all registered algorithms and of the three toy algorithms."""

from dataclasses import dataclass
from operator import itemgetter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toys
from spheres import sphere

import taskelites as te
from taskelites.algorithms import ALGORITHMS, Evaluation, as_algorithm
from taskelites.evaluation import JaxFitness

LIST = te.algorithms.Problem(np.linspace(0, 1, 24)[:, None], bounds=[(0.0, 1.0), (-2.0, 3.0)])
DESCRIBED = te.algorithms.Problem(LIST.tasks, LIST.bounds, behaviour=[(0.0, 1.0)])
BOX = te.algorithms.Problem(te.Box([0.0], [1.0]), bounds=[(0.0, 1.0), (-2.0, 3.0)])


@dataclass(frozen=True)
class JaxSphere:
    """A fitness that compares by value, so that runs share their compiled programs."""

    behaviour: bool = False

    def __call__(self, solution, task):
        fitness = -jnp.sum(jnp.abs(solution - task[0]))
        return (fitness, solution[:1]) if self.behaviour else fitness


jax_sphere, jax_behaviour = JaxSphere(), JaxSphere(behaviour=True)


# Settings, problem and fitness per algorithm.
CASES = {name: (settings(), LIST, jax_sphere) for name, settings in ALGORITHMS.items()} | {
    "mtmb-map-elites": (te.algorithms.MultiTaskMultiBehaviour(cells=(4,)), DESCRIBED, jax_behaviour),
    "pt-map-elites on a box": (te.algorithms.ParametricTaskMapElites(cells=12, dataset=50), BOX, jax_sphere),
    "toy-every-task": (toys.EveryTask(), LIST, jax_sphere),
    "toy-four-behaviours": (toys.FourBehaviours(), LIST, jax_behaviour),
    "toy-box": (toys.CellsOfABox(), BOX, jax_sphere),
}
# Algorithms whose fitness returns a behaviour. The problem of the toy does not state the behaviour's bounds.
PAIRED = ("toy-four-behaviours", "mtmb-map-elites")


# Full runs of the toys test little that runs of the registered algorithms do not.
NAMES = [name if name in ALGORITHMS else pytest.param(name, marks=pytest.mark.slow) for name in CASES]


class Case:
    """An algorithm bound to its problem; its step is compiled once for all tests."""

    def __init__(self, settings, problem, fitness):
        self.core = settings.bind(problem, batch_size=16)
        self.evaluate = JaxFitness(fitness, self.core.behaviour_dim)
        self.traced = 0
        self.compiled = jax.jit(self.step)

    def step(self, core, state):
        self.traced += 1
        candidates, asked = core.ask(state)
        return candidates, core.tell(asked, candidates, self.evaluate(candidates, core.rows))[0]

    def init(self, seed=0):
        return self.core.init(jax.random.key(seed))

    def after(self, state, steps=1):
        for _ in range(steps):
            state = self.compiled(self.core, state)[1]
        return state


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return Case(*CASES[request.param])


def equal_leaves(a, b):
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(_data(x), _data(y)) for x, y in leaves)


def _data(leaf):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    return np.asarray(leaf)


def shapes(tree):
    return [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)]


def test_step_keeps_shapes(case):
    core, state = case.core, case.init()
    candidates, asked = jax.eval_shape(core.ask, state)
    assert len(candidates) == core.rows
    assert candidates.solutions.shape == (core.rows, 2)
    assert candidates.niches.shape == (core.rows,)
    assert candidates.niches.dtype == jnp.int32
    evaluation = jax.eval_shape(lambda candidates: case.evaluate(candidates, core.rows), candidates)
    after, info = jax.eval_shape(core.tell, asked, candidates, evaluation)
    assert shapes(after) == shapes(state)
    assert info.success.shape == (core.rows,)


@pytest.mark.thorough
def test_jit_scan_and_vmap_agree_with_plain_calls(case):
    states = [case.init(seed) for seed in (0, 1)]
    plain = [case.after(state, steps=5) for state in states]

    def scanned(core, state):
        return jax.lax.scan(lambda carry, _: (case.step(core, carry)[1], None), state, length=5)[0]

    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    batched = jax.jit(jax.vmap(scanned, in_axes=(None, 0)))(case.core, together)
    for i in (0, 1):
        assert equal_leaves(jax.tree.map(itemgetter(i), batched), plain[i])


def test_step_is_traced_once(case):
    state = case.after(case.init())
    before = case.traced
    case.after(state, steps=4)
    assert case.traced == before


def test_result_depends_on_key_only(case):
    first, again, other = (case.after(case.init(seed), steps=2).archive for seed in (7, 7, 8))
    assert equal_leaves(first, again)
    assert not equal_leaves(first, other)


def test_candidates_are_within_bounds_and_elites_never_worsen(case):
    state = case.init()
    for _ in range(20):
        before = np.asarray(case.core.elites(state).archive.fitness)
        candidates, state = case.compiled(case.core, state)
        solutions = np.asarray(candidates.solutions)
        assert (solutions >= [0, -2]).all()
        assert (solutions <= [1, 3]).all()
        assert (np.asarray(case.core.elites(state).archive.fitness) >= before).all()


def test_failures_are_counted_but_not_stored(case):
    core, state = case.core, case.init()

    @jax.jit
    def broken(state):
        candidates, asked = core.ask(state)
        good = case.evaluate(candidates, core.rows)
        odd = jnp.arange(core.rows) % 4
        values = jnp.array([jnp.nan, jnp.inf, -jnp.inf, 0.0])[odd]
        fitness = jnp.where(odd < 3, values, good.fitness)
        return core.tell(asked, candidates, Evaluation(fitness=fitness, told=good.told, behaviour=good.behaviour))[0]

    for _ in range(6):
        state = broken(state)
    archive = core.elites(state).archive
    assert int(archive.told) == 6 * core.rows
    assert int(archive.failed) == 2 * 6 * core.rows // 4
    assert int(archive.infeasible) == 6 * core.rows // 4
    assert int(np.asarray(archive.evaluations).sum()) == 6 * core.rows
    assert np.isfinite(np.asarray(archive.fitness)).any()
    assert not np.isnan(np.asarray(archive.fitness)).any()
    assert not (np.asarray(archive.fitness) == np.inf).any()


def test_rows_without_result_change_nothing(case):
    core, state = case.core, case.after(case.init())

    @jax.jit
    def told(state, rows):
        candidates, asked = core.ask(state)
        return core.tell(asked, candidates, case.evaluate(candidates, rows))

    after, info = told(state, 5)
    assert int(core.elites(after).archive.told) == core.rows + 5
    assert not np.asarray(info.success)[5:].any()
    nothing, _ = told(state, 0)
    assert equal_leaves(nothing.archive, state.archive)


@pytest.mark.parametrize(("call", "budget"), [("each", 17), ("batch", 1), ("batch", 400), ("jax", 17), ("jax", 400)])
@pytest.mark.parametrize("name", NAMES)
def test_evaluations_equal_budget(name, call, budget):
    settings, problem, fitness = CASES[name]
    calls = []

    def each(solution, task):
        calls.append(1)
        value = -np.abs(solution - task[0]).sum()
        return (value, solution[:1]) if settings.name in PAIRED else value

    def batch(solutions, tasks):
        calls.extend([1] * len(solutions))
        return toy_batch(settings)(solutions, tasks)

    functions = {"each": each, "batch": batch, "jax": fitness}
    result = te.solve(
        functions[call],
        problem.tasks,
        bounds=problem.bounds,
        behaviour=problem.behaviour,
        call=call,
        algorithm=settings,
        evaluations=budget,
        batch_size=16,
    )
    assert result.evaluations == budget
    assert result.task_evaluations.sum() == budget
    assert result.history["evaluations"][-1] == budget
    assert call == "jax" or len(calls) == budget
    assert result.solved.any()


@pytest.mark.parametrize("call", ["batch", pytest.param("jax", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", NAMES)
def test_history_row_equals_shorter_run(name, call):
    settings, problem, fitness = CASES[name]
    function = fitness if call == "jax" else toy_batch(settings)
    options = {"call": call, "algorithm": settings, "batch_size": 16, "seed": 2} | problem_options(problem)
    history = te.solve(function, problem.tasks, evaluations=410, **options).history
    points = history["evaluations"].tolist()
    # All algorithms log at the same points, except that the first batch of map-elites-all has 112 rows.
    assert points == [*range(112 if name == "map-elites-all" else 16, 410, 16), 410]
    for i in (0, 3, 12, len(points) - 1):
        alone = te.solve(function, problem.tasks, evaluations=points[i], **options)
        assert alone.coverage == history["coverage"][i]
        assert alone.to_row()["mean"] == pytest.approx(history["mean"][i], rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_raised_budget_equals_longer_run(name):
    settings, problem, _ = CASES[name]

    def run(*budgets):
        optimizer = te.Optimizer(problem.tasks, algorithm=settings, batch_size=16, seed=3, **problem_options(problem))
        for budget in budgets:
            while optimizer.evaluations < budget:
                candidates = optimizer.ask(at_most=budget - optimizer.evaluations)
                behaviour = candidates.solutions[:, :1] if settings.name in PAIRED else None
                optimizer.tell(candidates, sphere(candidates.solutions, candidates.tasks), behaviour)
            result = optimizer.result()  # must not change the search
            assert result.evaluations == budget
        return result

    cut, whole = run(5, 21, 40, 100, 333), run(333)
    assert np.array_equal(cut.solutions, whole.solutions, equal_nan=True)
    assert np.array_equal(cut.fitness, whole.fitness, equal_nan=True)
    assert np.array_equal(cut.last_improved, whole.last_improved)


@pytest.mark.thorough
@pytest.mark.parametrize("call", ["batch", "jax"])
@pytest.mark.parametrize("name", NAMES)
def test_target_stops_run_and_initial_solutions_are_used(name, call):
    settings, problem, fitness = CASES[name]
    function = fitness if call == "jax" else toy_batch(settings)
    options = {"call": call, "algorithm": settings, "evaluations": 5000, "batch_size": 16} | problem_options(problem)
    result = te.solve(function, problem.tasks, target=-2.0, **options)
    assert result.evaluations < 5000
    if problem is not BOX:
        known = te.solve(function, problem.tasks, initial=([[0.5, 0.5]], [20]), **options | {"evaluations": 1})
        assert np.flatnonzero(known.solved).tolist() == [20]


def problem_options(problem):
    return {"bounds": problem.bounds, "behaviour": problem.behaviour}


def toy_batch(settings):
    def batch(solutions, tasks):
        values = sphere(solutions, tasks)
        return (values, solutions[:, :1]) if settings.name in PAIRED else values

    return batch


def test_partial_ask_keeps_the_order_of_rows():
    settings, problem, _ = CASES["toy-every-task"]
    optimizer = te.Optimizer(problem.tasks, bounds=problem.bounds, algorithm=settings, batch_size=3)
    asked = optimizer.ask(at_most=30)
    assert asked.niches.tolist() == [*range(24), *range(6)]
    assert len(np.unique(asked.solutions[:24], axis=0)) == 1


def test_box_algorithm_reports_chosen_tasks():
    settings, problem, fitness = CASES["toy-box"]
    result = te.solve(fitness, problem.tasks, bounds=problem.bounds, call="jax", algorithm=settings, evaluations=500)
    assert result.tasks.descriptors.shape == (10, 1)
    assert np.array_equal(np.floor(result.tasks.descriptors[:, 0] * 10), np.arange(10))
    values = sphere(result.solutions, result.tasks.descriptors)
    assert np.allclose(values, result.fitness, atol=1e-5)


def test_behaviour_algorithm_reports_best_elite_per_task():
    settings, problem, fitness = CASES["toy-four-behaviours"]
    result = te.solve(fitness, problem.tasks, bounds=problem.bounds, call="jax", algorithm=settings, evaluations=5000)
    assert len(result) == 24
    assert result.history["behaviours"][-1] == 96
    assert np.allclose(sphere(result.solutions, result.tasks.descriptors), result.fitness, atol=1e-5)


def test_algorithm_for_task_lists_rejects_box():
    with pytest.raises(ValueError, match=r"'mt-map-elites' needs a list of tasks, but tasks is a te.Box; te.tasks.cvt"):
        te.MultiTaskMapElites().bind(BOX)


def test_algorithm_is_found_by_name_or_settings():
    assert as_algorithm("mt-map-elites").tournament == (1, 10, 50, 100, 500)
    settings = te.MultiTaskMapElites(tournament=50)
    assert as_algorithm(settings) is settings
    assert all(settings_class.name == name for name, settings_class in ALGORITHMS.items())
