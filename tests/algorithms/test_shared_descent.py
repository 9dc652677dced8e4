"""The local search of `Result.refine`, part by part."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taskelites as te
from taskelites.algorithms import Candidates, Evaluation
from taskelites.algorithms.interface import replace
from taskelites.algorithms.shared_descent import SharedDescent, SharedDescentCore

# Compiled, since compiling the operations one by one takes longer.
adopt, tell, ask, chosen, direction, factor = (
    jax.jit(getattr(SharedDescentCore, name)) for name in ("adopt", "tell", "ask", "chosen", "direction", "factor")
)
TASKS = np.random.default_rng(3).random((50, 2))
DIM = 3


@pytest.fixture(scope="module")
def core():
    # Independent errors of 0.1 in each dimension, so the metric is a ball of this radius.
    errors = np.sqrt(DIM) * 0.1 * np.eye(DIM)
    settings = SharedDescent(errors=errors, near=np.tile(np.arange(DIM), (50, 1)), digest="ball")
    return settings.bind(te.algorithms.Problem(TASKS, bounds=[(0, 1), (0, 10), (-1, 1)]), 16)


@pytest.fixture
def state(core):
    """All tasks are solved in the middle of the box, with fitness 1."""
    start = core.init(jax.random.key(0))
    middle = jnp.tile(jnp.array([0.5, 5.0, 0.0]), (50, 1))
    return adopt(core, start, Candidates(solutions=middle, niches=jnp.arange(50)), Evaluation(fitness=jnp.ones(50)))


def test_metric_is_square_root_of_error_covariance(core):
    root = np.asarray(factor(core, jnp.arange(4)))
    assert np.allclose(root, 0.1 * np.eye(DIM), atol=1e-5)
    skewed = replace(core, errors=jnp.array([[0.2, 0.2, 0.0], [0.0, 0.0, 0.1]]), near=jnp.zeros((50, 2), jnp.int32))
    root = np.asarray(factor(skewed, jnp.arange(4)))[0]
    assert np.allclose(root @ root.T, [[0.04, 0.04, 0], [0.04, 0.04, 0], [0, 0, 0]], atol=2e-6)


def test_first_neighbour_is_task_itself_even_among_duplicates():
    settings = SharedDescent(errors=np.eye(1), near=np.zeros((30, 1), int), digest="")
    core = settings.bind(te.algorithms.Problem(np.zeros((30, 2)), (0, 1), 1))
    neighbours = np.asarray(core.neighbours)
    assert neighbours[:, 0].tolist() == list(range(30))
    assert all(len(set(row)) == len(row) for row in neighbours.tolist())


def test_direction_is_gradient_estimated_from_trials(core, state):
    slope = np.array([3.0, -4.0, 0.0])
    deltas = np.random.default_rng(0).normal(0, 0.05, state.deltas.shape)
    known = replace(state, deltas=jnp.asarray(deltas), gains=jnp.asarray(deltas @ slope))
    tasks = jnp.arange(8)
    found = np.asarray(direction(core, known, tasks, factor(core, tasks)))
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert (found @ slope / 5 > 0.99).all()
    nothing = direction(core, state, tasks, factor(core, tasks))
    assert np.array_equal(np.asarray(nothing), np.zeros((8, DIM)))


def test_direction_uses_trials_of_neighbours(core, state):
    """Only the nearest neighbour of task 0 has a trial, which gives the direction."""
    neighbour = int(core.neighbours[0, 1])
    known = replace(
        state,
        deltas=state.deltas.at[neighbour, 0].set(jnp.array([0.1, 0.0, 0.0])),
        gains=state.gains.at[neighbour, 0].set(2.0),
    )
    tasks = jnp.arange(8)
    found = np.asarray(direction(core, known, tasks, factor(core, tasks)))[0]
    assert found == pytest.approx([1, 0, 0], abs=1e-5)


def test_half_of_batch_goes_in_turn_and_half_by_promise(core, state):
    turns = []
    promising = replace(state, promise=jnp.zeros(50).at[jnp.array([7, 31])].set(1.0))
    for step in range(7):
        taken = np.asarray(chosen(core, jax.random.key(step), replace(promising, step=jnp.int32(step))))
        assert len(set(taken.tolist())) == 16
        assert {7, 31} <= set(taken.tolist())
        turn = [(step * 8 + i) % 50 for i in range(8)]
        assert set(turn) <= set(taken.tolist())
        turns += turn
    assert set(turns) == set(range(50))


def test_tell_stores_trial_with_its_gain(core, state):
    solutions = jnp.array([[0.6, 5.0, 0.0], [0.5, 6.0, 0.0], [0.5, 5.0, 0.5], [0.5, 5.0, 0.2]])
    candidates = Candidates(solutions=solutions, niches=jnp.array([4, 9, 11, 13]))
    told = Evaluation(fitness=jnp.array([1.5, 0.5, jnp.nan, 9.0]), told=jnp.array([True, True, True, False]))
    after, info = tell(core, state, candidates, told)
    assert info.success.tolist() == [True, False, False, False]
    slot = state.trials[0]
    assert np.allclose(after.deltas[4, slot], [0.1, 0, 0], atol=1e-6)
    assert np.allclose(after.deltas[9, slot], [0, 0.1, 0], atol=1e-6)
    assert (float(after.gains[4, slot]), float(after.gains[9, slot])) == (0.5, -0.5)
    assert not np.asarray(after.deltas[jnp.array([11, 13])]).any()  # one failed, the other was not evaluated
    assert np.allclose(after.length[jnp.array([4, 9, 11, 13])] / state.length[0], [1.5, 0.8, 0.8, 1])
    assert after.promise[jnp.array([4, 9, 11])].tolist() == [0.25, 0, 0]


def test_initial_solutions_that_are_not_elites_become_trials(core):
    start = core.init(jax.random.key(0))
    solutions = jnp.array([[0.5, 5, 0], [0.5, 5, 0], [0.6, 5, 0], [0.5, 5, 0.2]])
    candidates = Candidates(solutions=solutions, niches=jnp.array([3, 8, 3, 3]))
    after = adopt(core, start, candidates, Evaluation(fitness=jnp.array([1.0, 1.0, 3.0, 2.5])))
    kept = np.asarray(after.deltas[3])
    assert np.allclose(kept[:3], [[-0.1, 0, 0], [0, 0, 0], [-0.1, 0, 0.1]], atol=1e-6)
    assert np.asarray(after.gains[3])[:3].tolist() == [-2.0, 0.0, -0.5]
    assert after.trials[jnp.array([3, 8, 0])].tolist() == [3, 1, 0]


def test_unsolved_task_starts_from_another_elite(core):
    start = core.init(jax.random.key(0))
    only = Candidates(solutions=jnp.array([[0.9, 9.0, 0.8]]), niches=jnp.array([5]))
    state = adopt(core, start, only, Evaluation(fitness=jnp.array([1.0])))
    asked, _ = ask(core, replace(state, length=jnp.zeros(50)))
    assert np.allclose(asked.solutions, [0.9, 9.0, 0.8], atol=1e-6)
    nothing, _ = ask(core, replace(start, length=jnp.zeros(50)))
    assert np.ptp(np.asarray(nothing.solutions), axis=0).min() > 0.3  # random solutions


def test_single_task():
    settings = SharedDescent(errors=np.eye(2), near=np.zeros((1, 1), int), digest="")
    core = settings.bind(te.algorithms.Problem([[0.5]], (0, 1), 2))
    assert (core.rows, core.neighbours.tolist()) == (1, [[0]])
    assert chosen(core, jax.random.key(0), core.init(jax.random.key(0))).tolist() == [0]


@pytest.mark.slow
def test_refine_gains_more_than_general_algorithm():
    """The fitness is quadratic in ten dimensions, its optimum moves with the task, and the elites are noisy."""
    rng = np.random.default_rng(0)
    slope = rng.uniform(-0.3, 0.3, (2, 10))
    stretch = np.logspace(0, 1.5, 10)

    def fitness(solutions, tasks):
        return -(np.square((solutions - 0.5 - (tasks - 0.5) @ slope) * stretch)).sum(axis=1)

    tasks, new = rng.random((200, 2)), rng.random((100, 2))
    solutions = np.clip(0.5 + (tasks - 0.5) @ slope + rng.normal(0, 0.1, (200, 10)) / stretch, 0, 1)
    counts = np.ones(200, int)
    result = te.Result(
        solutions=solutions, fitness=fitness(solutions, tasks), tasks=te.Tasks(descriptors=tasks), evaluations=200,
        task_evaluations=counts, last_improved=counts, settings={"bounds": [0, 1], "call": "batch"},
    )  # fmt: skip
    predicted = fitness(result.predict(new), new).mean()
    refined = result.refine(new, fitness, evaluations=2000)
    general = result.refine(new, fitness, evaluations=2000, algorithm="mt-map-elites")
    assert refined.fitness.mean() > 0.5 * predicted
    assert refined.fitness.mean() > general.fitness.mean()
