import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taskelites as te
from taskelites.algorithms import Candidates, Evaluation
from taskelites.algorithms.auto import (
    ANYWHERE,
    COPY,
    CROSS,
    DIFFER,
    LINEAR,
    NUMBERS,
    PAIRS,
    PAPER,
    PROMISE,
    RULES,
    SHARED,
    STEP,
    WAYS,
    Credit,
)
from taskelites.algorithms.interface import NOWHERE, replace

ARM = te.domain("arm", tasks=300, form="exponential", target=(0.5, 0.5))


def bound(tasks=None, **settings):
    problem = te.algorithms.Problem(ARM.tasks if tasks is None else tasks, bounds=(0, 1), dim=10)
    return te.Auto(**settings).bind(problem, batch_size=16)


@pytest.mark.thorough
def test_paper_way_alone_equals_multi_task_map_elites():
    runs = [
        te.solve(ARM, evaluations=5000, seed=3, algorithm=algorithm)
        for algorithm in (te.Auto(ways=("paper",)), te.MultiTaskMapElites(tournament=50))
    ]
    assert np.array_equal(runs[0].solutions, runs[1].solutions)
    assert np.array_equal(runs[0].fitness, runs[1].fitness)


@pytest.mark.thorough
def test_step_way_adapts_step_size_per_task():
    core = bound(ways=("step",), rules=("anywhere",))
    state = core.init(jax.random.key(0))
    elites = jax.random.uniform(jax.random.key(1), (300, 10), minval=0.4, maxval=0.6)
    every = Candidates(solutions=elites, niches=jnp.arange(300), origin=None)
    state = jax.jit(core.adopt)(state, every, Evaluation(fitness=jnp.zeros(300)))
    candidates, state = jax.jit(core.ask)(replace(state, step=jnp.int32(50)))
    noise = (candidates.solutions - elites[candidates.niches]) / NUMBERS["first_step"]
    assert abs(float(noise.std()) - 1) < 0.2
    fitness = jnp.where(jnp.arange(16) < 8, 1.0, -1.0)
    after, _ = jax.jit(core.tell)(state, candidates, Evaluation(fitness=fitness))
    once = np.bincount(np.asarray(candidates.niches), minlength=300)[np.asarray(candidates.niches)] == 1
    sizes = np.asarray(after.sizes)[np.asarray(candidates.niches)]
    expected = 0.1 * np.exp(np.where(np.arange(16) < 8, NUMBERS["longer"], -NUMBERS["shorter"]))
    assert once.sum() > 8
    assert np.allclose(sizes[once], expected[once], rtol=1e-5)
    vain = np.asarray(after.vain)[np.asarray(candidates.niches)]
    assert np.array_equal(vain[once], np.where(np.arange(16) < 8, 0.0, np.asarray(state.vain)[0] + 1)[once])


def test_step_size_of_one_task_stays_within_limits():
    core = te.Auto(ways="step").bind(te.algorithms.Problem(np.zeros((1, 1)), bounds=(0, 1), dim=2), batch_size=64)
    state, ask, tell = core.init(jax.random.key(0)), jax.jit(core.ask), jax.jit(core.tell)
    for fitness in (0.0, -1.0, -1.0, -1.0, 1.0, 2.0, -1.0):
        candidates, state = ask(state)
        assert np.isfinite(np.asarray(candidates.solutions)).all()
        state, _ = tell(state, candidates, Evaluation(fitness=jnp.linspace(fitness, fitness + 0.5, 64)))
        assert 0.99e-5 < float(state.sizes[0]) < 0.301


def test_probability_grows_with_squared_gain_and_has_floor():
    credit = Credit(gain=jnp.array([2.0, 1.0, 0.0, 9.0]), tried=jnp.array([10.0, 10.0, 10.0, 10.0]))
    allowed = jnp.array([True, True, True, False])
    chances = np.asarray(credit.chances(allowed, False, jnp.float32(0.1), jnp.float32(2.0)))
    assert chances == pytest.approx([0.1 + 0.7 * 0.8, 0.1 + 0.7 * 0.2, 0.1, 0.0])


def test_untried_way_counts_as_twice_the_best_gain():
    credit = Credit(gain=jnp.array([2.0, 0.0]), tried=jnp.array([10.0, 0.0]))
    both = jnp.array([True, True])
    assert np.asarray(credit.chances(both, False, 0.0, 2.0)) == pytest.approx([0.2, 0.8])
    tried = Credit(gain=jnp.array([2.0, 1.0]), tried=jnp.array([10.0, 10.0]))
    assert np.asarray(tried.chances(both, jnp.array([False, True]), 0.0, 2.0)) == pytest.approx([0.2, 0.8])
    nothing = Credit(gain=jnp.zeros(2), tried=jnp.array([10.0, 10.0]))
    assert np.asarray(nothing.chances(both, False, 0.1, 2.0)) == pytest.approx([0.5, 0.5])


def test_credit_is_discounted_and_divided_by_merit():
    credit = Credit(gain=jnp.array([4.0, 2.0]), tried=jnp.array([8.0, 8.0]))
    chosen = jnp.array([[True, False], [True, False], [False, False]])
    merit = jnp.array([[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]])
    after = credit.learnt(chosen, merit, jnp.array([1.0, 0.5, 7.0]), jnp.float32(0.5))
    assert np.asarray(after.gain).tolist() == [3.25, 1.25]
    assert np.asarray(after.tried).tolist() == [6.0, 4.0]


@pytest.mark.thorough
def test_gain_is_credited_to_ways_of_ancestors():
    core = bound()

    def tell(state, way, niche, parent, fitness):
        origin = jnp.array([[way * 2, parent]])
        made = Candidates(solutions=jnp.full((1, 10), 0.5), niches=jnp.array([niche]), origin=origin)
        return learn(state, made, Evaluation(fitness=jnp.array([fitness])))[0]

    state, learn = core.init(jax.random.key(0)), jax.jit(core.tell)
    no_parent = 2**31 - 1
    start = Candidates(solutions=jnp.zeros((2, 10)), niches=jnp.array([0, 1]), origin=None)
    state = core.adopt(state, start, Evaluation(fitness=jnp.array([0.0, 0.0])))
    assert not np.asarray(state.lineage).any()
    state = tell(state, SHARED, 0, no_parent, 1.0)
    assert np.asarray(state.ways.gain)[SHARED] == 1.0
    state = tell(state, COPY, 1, 0, 1.0)  # its parent is the elite that `shared` created
    expected = np.zeros(len(WAYS))
    expected[[SHARED, COPY]] = NUMBERS["heritage"], 1 - NUMBERS["heritage"]
    assert np.allclose(np.asarray(state.lineage)[1], expected)
    assert np.asarray(state.ways.gain)[SHARED] == pytest.approx(NUMBERS["discount"] + NUMBERS["heritage"])
    state = tell(state, COPY, 0, 1, 0.5)  # no success, so the lineage stays the same
    assert np.asarray(state.lineage)[0].tolist() == np.eye(len(WAYS))[SHARED].tolist()


def test_ancestors_share_of_gain_falls_with_age_of_parent():
    core = bound(numbers={"heritage": 0.5, "discount": 0.5})
    state = core.init(jax.random.key(0))
    # After 48 evaluations, three batches of 16: elites from the last one and from two batches before it.
    last_improved = state.archive.last_improved.at[jnp.array([0, 1])].set(jnp.array([48, 16]))
    lineage = state.lineage.at[:2, SHARED].set(0.75).at[:2, CROSS].set(0.25)
    archive = replace(state.archive, told=jnp.int32(48), last_improved=last_improved)
    made = jnp.full((3, 1), COPY) == jnp.arange(len(WAYS))
    state = replace(state, archive=archive, lineage=lineage)
    found = jax.jit(core.descended)(state, jnp.array([0, 1, NOWHERE]), made)
    expected = np.zeros((3, len(WAYS)))
    expected[0, [SHARED, CROSS, COPY]] = 0.5 * 0.75, 0.5 * 0.25, 0.5
    expected[1, [SHARED, CROSS, COPY]] = 0.125 * 0.75, 0.125 * 0.25, 0.875
    expected[2, COPY] = 1.0  # without a parent
    assert np.asarray(found) == pytest.approx(expected)


# Compiled once for all tests: `told` always has eight rows.
learn = jax.jit(lambda core, state, candidates, evaluation: core.tell(state, candidates, evaluation)[0])


def told(core, origins, fitness, elites, rules=None):
    """Return the state after a batch of eight rows, row i on task i, whose elites have the given fitness (NaN: none).

    Rows beyond the length of `fitness` are not evaluated.
    """
    state = core.init(jax.random.key(0))
    no_parent = jnp.array([[-1, NOWHERE]] * 8)
    batch = Candidates(solutions=jnp.full((8, 10), 0.5), niches=jnp.arange(8), origin=no_parent)
    elites = jnp.array([*elites, *[np.nan] * (8 - len(elites))])
    state = learn(core, state, batch, Evaluation(fitness=elites, told=jnp.full(8, True)))
    state = state if rules is None else replace(state, rules=rules)
    batch = replace(batch, origin=no_parent.at[: len(origins), 0].set(jnp.array(origins)))
    padded = jnp.array([*fitness, *[99.0] * (8 - len(fitness))])
    return learn(core, state, batch, Evaluation(fitness=padded, told=jnp.arange(8) < len(fitness)))


def origin_of(way, rule):
    return way * len(RULES) + rule


def test_rule_is_credited_for_candidates_whose_task_it_chose():
    core = bound(numbers={"discount": 0.5})
    rules = Credit(gain=jnp.array([8.0, 2.0]), tried=jnp.array([4.0, 6.0]))
    origins = [
        origin_of(CROSS, ANYWHERE),
        origin_of(COPY, PROMISE),
        origin_of(LINEAR, PROMISE),
        origin_of(STEP, PROMISE),  # fails
        origin_of(SHARED, PROMISE),  # `shared` chose the task itself, and so did `paper` in the next row
        origin_of(PAPER, ANYWHERE),
        -1,  # a random solution
        origin_of(COPY, ANYWHERE),  # not evaluated
    ]
    after = told(core, origins, [1.0, 2.0, 4.0, -1.0, 16.0, 32.0, 64.0], [0.0] * 8, rules).rules
    assert np.asarray(after.gain).tolist() == [4.0 + 1.0, 1.0 + 2.0 + 4.0]
    assert np.asarray(after.tried).tolist() == [2.0 + 1.0, 3.0 + 3.0]


def test_gain_of_first_solution_is_relative_to_worst_elite():
    origins = [
        origin_of(CROSS, ANYWHERE),
        origin_of(COPY, ANYWHERE),
        origin_of(STEP, ANYWHERE),
        origin_of(DIFFER, ANYWHERE),
    ]
    after = told(bound(), origins, [2.0, -10.0, 1.5, 1.0], [np.nan, np.nan, 1.0, -3.0])
    # A first solution below the worst elite gains nothing; the others are compared with their own elites.
    expected = dict.fromkeys(range(len(WAYS)), 0.0) | {CROSS: 2.0 + 3.0, COPY: 0.0, STEP: 0.5, DIFFER: 4.0}
    assert np.asarray(after.ways.gain).tolist() == list(expected.values())


def test_first_solution_without_any_elite_has_no_gain():
    after = told(bound(), [origin_of(CROSS, ANYWHERE)] * 2, [2.0, 7.0], [])
    assert np.asarray(after.ways.gain).tolist() == [0.0] * len(WAYS)
    assert float(after.ways.tried[CROSS]) == 2.0


def test_worst_elite_is_tracked():
    core = te.Auto().bind(te.algorithms.Problem(np.arange(6.0)[:, None], bounds=(0, 1), dim=2), batch_size=8)
    state, tell, rng = core.init(jax.random.key(0)), jax.jit(core.tell), np.random.default_rng(0)
    assert state.worst == np.inf
    nowhere = jnp.full((8, 2), -1)
    for step in range(60):
        fitness = rng.choice([*(0.1 * rng.integers(-9, 9, 5) + 0.1 * step), np.nan, -np.inf], 8)
        made = Candidates(solutions=jnp.zeros((8, 2)), niches=jnp.asarray(rng.integers(0, 6, 8)), origin=nowhere)
        state, _ = tell(state, made, Evaluation(fitness=jnp.asarray(fitness, jnp.float32)))
        elites = np.asarray(state.archive.fitness)
        assert state.worst == min(elites[elites > -np.inf], default=np.inf)
    assert (elites > -np.inf).all()


def generation(core, seed=3):
    rng = np.random.default_rng(seed)
    worth = rng.normal(size=len(core.rates.weights))
    return jnp.asarray(rng.random((len(worth), 10)), jnp.float32), jnp.asarray(worth, jnp.float32)


def test_update_of_shared_distribution_equals_hand_calculation():
    core = bound()
    shared = core.init(jax.random.key(0)).shared
    solutions, worth = generation(core)
    after = shared.told(solutions, worth, jnp.full(len(worth), True), core.rates)
    steps = ((np.asarray(solutions) - 0.5) / NUMBERS["first_spread"])[np.argsort(-np.asarray(worth))]
    weights = np.maximum(np.asarray(core.rates.weights), 0)
    shift, squares = weights @ steps, weights @ steps**2
    rates = {name: float(getattr(core.rates, name)) for name in ("c_sigma", "d_sigma", "c_mu", "mu_eff", "per_chi")}
    path = np.sqrt(rates["c_sigma"] * (2 - rates["c_sigma"]) * rates["mu_eff"]) * shift
    longer = rates["c_sigma"] / rates["d_sigma"] * (np.linalg.norm(path) * rates["per_chi"] - 1)
    spread = NUMBERS["first_spread"] * np.sqrt(1 - rates["c_mu"] + rates["c_mu"] * squares) * np.exp(longer)
    assert np.allclose(after.mean, 0.5 + NUMBERS["first_spread"] * shift, atol=1e-5)
    assert np.allclose(after.path, path, atol=1e-5)
    assert np.allclose(after.spread, np.clip(spread, 1e-3, 0.3), atol=1e-5)
    assert int(after.waiting) == 0


def test_shared_distribution_does_not_depend_on_batch_grouping():
    core = bound()
    whole = parts = core.init(jax.random.key(0)).shared
    solutions, worth = generation(core)
    own = jnp.full(len(worth), True)
    whole = whole.told(solutions, worth, own, core.rates)
    for row in range(len(worth)):  # the other rows count as rows of other ways
        assert np.array_equal(parts.mean, core.init(jax.random.key(0)).shared.mean)
        parts = parts.told(solutions, worth, jnp.arange(len(worth)) == row, core.rates)
    assert np.allclose(whole.mean, parts.mean)
    assert np.allclose(whole.spread, parts.spread)


def test_failures_do_not_change_shared_distribution():
    core = bound()
    shared = core.init(jax.random.key(0)).shared
    solutions, worth = generation(core)
    own = jnp.full(len(worth), True)
    after = shared.told(solutions, jnp.full_like(worth, -jnp.inf), own, core.rates)
    assert np.array_equal(after.mean, shared.mean)
    assert np.array_equal(after.spread, shared.spread)
    assert int(after.waiting) == 0
    alone = shared.told(solutions, jnp.where(jnp.arange(len(worth)) == 5, worth, -jnp.inf), own, core.rates)
    assert np.allclose(alone.mean, solutions[5], atol=1e-6)


@pytest.mark.thorough
def test_shared_distribution_finds_common_optimum():
    best = np.linspace(0.2, 0.8, 20)

    def fitness(solution, task):  # tasks of different difficulty with the same optimum
        return -jnp.square(solution - best).sum() * (1 + 9 * task[0]) - 100 * task[0]

    tasks = np.linspace(0, 1, 50)[:, None]
    found = te.solve(
        fitness, tasks, bounds=(0, 1), dim=20, call="jax", evaluations=10_000, algorithm=te.Auto(ways="shared")
    )
    assert np.abs(found.solutions - best).max() < 0.02


@pytest.fixture(scope="module")
def made():
    """A function that returns solutions, tasks and parents of 1600 rows of a way; and the elites it starts from."""
    core = bound()
    elites = jax.random.uniform(jax.random.key(1), (300, 10), minval=0.4, maxval=0.6)
    every = Candidates(solutions=elites, niches=jnp.arange(300), origin=None)
    state = jax.jit(core.adopt)(core.init(jax.random.key(0)), every, Evaluation(fitness=jnp.arange(300.0)))
    keys = jax.random.split(jax.random.key(2), 100)
    moved = jax.jit(jax.vmap(core.moved, in_axes=(0, None, None, None)))

    def rows(way):
        return tuple(np.concatenate(each) for each in moved(keys, state, jnp.int32(way), jnp.int32(0)))

    return rows, np.asarray(elites)


def test_cross_takes_each_gene_from_focal_elite_or_mate(made):
    rows, elites = made
    solutions, focal, mate = rows(CROSS)
    along = (solutions - elites[focal]) / (elites[mate] - elites[focal])
    whole = along.round()
    clear = np.abs(elites[mate] - elites[focal]) > 0.01  # otherwise rounding errors are too large
    assert set(np.unique(whole[clear])) == {0.0, 1.0}
    assert abs(whole[clear].mean() - 0.5) < 0.02
    assert abs((along - whole)[clear].std() / NUMBERS["blur"] - 1) < 0.05


def test_copy_is_near_line_from_mate_to_focal_elite(made):
    rows, elites = made
    solutions, focal, mate = rows(COPY)
    line = elites[focal] - elites[mate]
    along = ((solutions - elites[mate]) * line).sum(axis=1) / np.square(line).sum(axis=1)
    beside = solutions - elites[mate] - along[:, None] * line
    assert abs(along.std() / NUMBERS["line"] - 1) < 0.1
    assert abs(np.sqrt(np.square(beside).sum() / (9 * len(beside))) / NUMBERS["noise"] - 1) < 0.1


def test_differ_changes_some_genes_of_mate(made):
    rows, elites = made
    solutions, _, mate = rows(DIFFER)
    moved = (solutions != elites[mate]).mean(axis=1)
    # 0.9 / log(10) is the mean of exp(-u log 10) for uniform u.
    assert abs(moved.mean() - 0.9 / np.log(10)) < 0.02
    assert {0.0, 1.0} <= set(moved.round(3))
    assert np.abs(solutions - elites[mate]).max() <= 0.2


@pytest.mark.thorough
def test_linear_way_predicts_linear_elites(made):
    rows, _ = made
    assert (rows(LINEAR)[2] == 2**31 - 1).all()  # no parents
    core = bound()
    elites = jnp.asarray(0.3 + ARM.tasks.descriptors @ np.linspace(-0.2, 0.3, 20).reshape(2, 10), jnp.float32)
    missing = 7
    every = Candidates(solutions=elites, niches=jnp.arange(300).at[missing].set(2**31 - 1), origin=None)
    state = core.adopt(core.init(jax.random.key(0)), every, Evaluation(fitness=jnp.zeros(300)))
    near = np.asarray(ARM.tasks.neighbours)[:, 1:17]
    whole = ~(near == missing).any(axis=1)
    middle, every = jnp.full((1, 300), 2**31, jnp.uint32), jnp.arange(300)  # no noise, and arbitrary mates
    found = np.asarray(core.predicted(middle, state.archive, every, every[::-1], every, every))
    assert 200 < whole.sum() < 300
    assert np.allclose(found[whole], np.asarray(elites)[whole], atol=1e-4)
    assert np.allclose(found[~whole], np.asarray(elites)[::-1][~whole], atol=1e-6)


def test_sample_of_shared_distribution_is_on_random_task(made):
    rows, _ = made
    solutions, tasks, parents = rows(SHARED)
    assert (parents == 2**31 - 1).all()
    assert len(set(tasks)) > 290
    inside = (solutions > 0) & (solutions < 1)
    assert abs(np.abs(solutions - 0.5)[inside].mean() / (NUMBERS["first_spread"] * np.sqrt(2 / np.pi)) - 1) < 0.05


def test_near_mates_have_higher_probability():
    core = bound()
    words = jax.random.bits(jax.random.key(0), (100, 200))
    focal = jnp.full(words.shape, 7)
    found = np.asarray(core.neighbours(words, focal)).ravel()
    rank = np.argsort(np.asarray(ARM.tasks.neighbours[7]))[found]
    assert rank.min() == 1
    assert rank.max() == NUMBERS["mates"]
    # With a density of 1 / rank, half of the ranks are below the square root of the maximum.
    assert abs(np.mean(rank < np.sqrt(NUMBERS["mates"] + 1)) - 0.5) < 0.02


@pytest.mark.thorough
def test_promise_prefers_tasks_with_much_fitter_mates():
    core = bound(rules=("promise",))
    state = core.init(jax.random.key(0))
    good = int(ARM.tasks.neighbours[5][1])
    fitness = jnp.zeros(300).at[good].set(1.0).at[5].set(-1.0)
    every = Candidates(solutions=jnp.full((300, 10), 0.5), niches=jnp.arange(300), origin=None)
    state = core.adopt(state, every, Evaluation(fitness=fitness))
    words = [jax.random.bits(jax.random.key(seed), (PAIRS + 1, 16)) for seed in range(10)]
    chosen = [core.pairs(each, state, jnp.int32(1)) for each in words]
    focal = np.concatenate([np.asarray(pair[0]) for pair in chosen])
    above = np.concatenate([np.asarray(fitness[pair[1]] - fitness[pair[0]]) for pair in chosen])
    assert np.mean(focal == 5) > 10 * (1 / 300)
    assert above.mean() > 0.05  # about 0 for random pairs


pairs = jax.jit(lambda core, words, state, rule: core.pairs(words, state, rule))


def chosen_pair(fitness, vain, focal, rule):
    """Return the focal task and the mate that a rule chooses from pairs with the given focal tasks.

    There are four tasks. The mate of each is its nearest task: 0 and 1 are neighbours, and so are 2 and 3.
    """
    core = te.Auto().bind(te.algorithms.Problem(np.array([[0.0], [1.0], [10.0], [11.0]]), bounds=(0, 1), dim=2), 8)
    state = core.init(jax.random.key(0))
    fitness = jnp.array(fitness)
    worst = jnp.min(jnp.where(fitness > -jnp.inf, fitness, jnp.inf))
    state = replace(state, archive=replace(state.archive, fitness=fitness), worst=worst, vain=jnp.array(vain))
    # The two highest bits of a word are the task; the sixteen lowest are 0, which is the nearest mate.
    words = np.resize(np.array(focal, np.uint32) << 30, (PAIRS + 1, 1))
    return tuple(int(chosen[0]) for chosen in pairs(core, jnp.asarray(words), state, jnp.int32(rule)))


@pytest.mark.parametrize("unsolved", [0.0, -np.inf])  # an unsolved task counts as the worst elite
def test_failed_attempts_divide_promise_of_task(unsolved):
    fitness = [unsolved, 5.0, 0.0, 2.0]  # promises: 5 for task 0, 2 for task 2
    assert chosen_pair(fitness, [0.0] * 4, [0, 2], PROMISE) == (0, 1)
    assert chosen_pair(fitness, [1.0, 0.0, 0.0, 0.0], [0, 2], PROMISE) == (0, 1)  # 5 / 2 against 2
    assert chosen_pair(fitness, [2.0, 0.0, 0.0, 0.0], [0, 2], PROMISE) == (2, 3)  # 5 / 3 against 2
    assert chosen_pair(fitness, [2.0, 0.0, 1.0, 0.0], [0, 2], PROMISE) == (0, 1)  # 5 / 3 against 2 / 2
    assert chosen_pair(fitness, [9.0] * 4, [0, 2], ANYWHERE) == (0, 1)  # the only task drawn


def test_failed_attempts_do_not_make_worse_mate_promising():
    fitness = [0.0, 5.0, 0.0, 2.0]  # the mates of tasks 1 and 3 are 5 and 2 below them
    assert chosen_pair(fitness, [0.0, 9.0, 0.0, 0.0], [1, 3], PROMISE) == (3, 2)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::taskelites.errors.FitnessWarning")
def test_failing_tasks_do_not_impair_the_others():
    def fitness(solution, task):
        return jnp.where(task[0] < 0.2, jnp.nan, -jnp.abs(solution - task[0]).sum())

    tasks = np.linspace(0, 1, 250)[:, None]
    found = te.solve(fitness, tasks, bounds=(0, 1), dim=2, call="jax", algorithm="auto", evaluations=12_000)
    assert found.solved[50:].all()
    assert not found.solved[:50].any()
    assert np.nanmean(found.fitness) > -0.02


@pytest.mark.thorough
@pytest.mark.parametrize(
    "tasks",
    [
        np.zeros((1, 1)),
        pytest.param(np.array([[0.1], [0.2]]), marks=pytest.mark.slow),
        te.Tasks([str(i) for i in range(30)]),
        pytest.param(
            te.Tasks([str(i) for i in range(30)], distance=np.abs(np.subtract.outer(np.arange(30.0), np.arange(30.0)))),
            marks=pytest.mark.slow,
        ),
        pytest.param(np.tile([[0.3, 0.3]], (40, 1)), marks=pytest.mark.slow),
    ],
    ids=["one", "two", "no distance", "distance matrix", "equal descriptors"],
)
@pytest.mark.filterwarnings("ignore::taskelites.errors.TaskWarning")
def test_solves_any_kind_of_tasks(tasks):
    def fitness(solution, task):
        return -float(np.square(solution - 0.5).sum())

    found = te.solve(fitness, tasks, bounds=(0, 1), dim=3, evaluations=1500, batch_size=16, algorithm="auto")
    assert found.coverage == 1
    assert found.fitness.mean() > -0.05


@pytest.mark.slow
def test_result_does_not_depend_on_unit_of_fitness():
    def fitness(unit):
        return lambda solutions, tasks: unit * -np.abs(solutions - tasks[:, :1]).sum(axis=1)

    tasks = np.linspace(0, 1, 220)[:, None]
    runs = [
        te.solve(fitness(unit), tasks, bounds=(0, 1), dim=2, call="batch", algorithm="auto", evaluations=3000)
        for unit in (1.0, 2.0**-20)
    ]
    assert np.array_equal(runs[0].solutions, runs[1].solutions)


@pytest.mark.thorough
def test_auto_exceeds_multi_task_map_elites_after_10000_evaluations():
    def mean(algorithm):
        runs = te.solve(ARM, evaluations=10_000, algorithm=algorithm, replicates=3)
        return np.array([run.fitness.mean() for run in runs])

    assert mean("auto").min() > mean("mt-map-elites").max()


def test_history_has_evaluations_per_way():
    history = te.solve(ARM, evaluations=3000, algorithm="auto").history
    tried = [history[f"tried_{way}"][-1] for way in WAYS]
    assert min(tried) > 0
    assert sum(tried) <= 3000
    assert len(WAYS) == STEP + 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ways": ()}, "ways must contain at least one"),
        ({"ways": ("jump",)}, "jump"),
        ({"rules": "nowhere"}, "nowhere"),
        ({"numbers": {"size": 1}}, "size"),
        ({"numbers": {"power": -1}}, "power is -1"),
        ({"numbers": {"heritage": 1.5}}, "a heritage of at most 1, not 1.5"),
    ],
)
def test_invalid_settings_raise_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        te.Auto(**settings)
