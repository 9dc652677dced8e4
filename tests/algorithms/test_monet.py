"""MONET against a plain loop over single candidates, its reductions, and cases that the paper leaves open."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import insert_one_by_one, order_from, word_to_integer

import taskelites as te
from taskelites.algorithms import Evaluation
from taskelites.algorithms.interface import replace
from taskelites.core import archive as archives
from taskelites.core import random
from taskelites.core.selection import nearest_others
from taskelites.experiments.comparison.run import label_algorithms
from taskelites.search.stepper import host_precision

POINTS = np.concatenate([np.random.default_rng(2).random((27, 2)), [[0.5, 0.5], [0.5, 0.5], [0.25, 0.75]]])
LOWER, UPPER = np.array([0.0, -2.0, 10.0]), np.array([1.0, 2.0, 30.0])
LINE = np.arange(5.0)[:, None]
ROWS = 8


def fitness(solutions, niches):
    """Return rounded values, for frequent ties, with some NaN and infinities; on the first task, only NaN."""
    unit = (solutions - LOWER) / (UPPER - LOWER)
    values = np.round(-np.abs(unit[:, :2] - POINTS[niches]).sum(axis=1) - 0.3 * unit[:, 2], 1)
    odd = (unit[:, 2] * 1000).astype(int) % 20
    failed = (odd == 0) | (np.asarray(niches) == 0)
    return np.select([failed, odd == 1, odd == 2], [np.nan, np.inf, -np.inf], values)


@jax.jit
def raw_numbers(key, step):
    """Return the random numbers that the library draws in this step, and the data of the crossover's key."""
    keys = random.split(random.fold_in(key, step), 6)
    real = jnp.dtype(float)
    return (
        random.words(keys[0], (ROWS,)),
        random.words(random.split(keys[1])[1], (ROWS,)),
        random.uniform(keys[2], (ROWS,), real),
        random.normal(keys[3], (ROWS, 3), real),
        random.uniform(keys[5], (ROWS, 3), real),
        jax.random.key_data(keys[4]),
    )


@jax.jit
def crossover(key_data, own, other):
    return te.variation.SBX()(jax.random.wrap_key_data(key_data), own, other, LOWER, UPPER)


class PlainLoop:
    """MONET in plain loops. Only the raw random numbers and the crossover come from the library."""

    def __init__(self, links, individual, best, sigma=0.05, start_steps=2, seed=11):
        self.links = [order_from(POINTS, task)[1 : links + 1] for task in range(len(POINTS))]
        self.individual, self.best, self.sigma, self.start_steps = individual, best, sigma, start_steps
        self.key, self.step = jax.random.key(seed), 0
        self.elites, self.tried = {}, set()

    def neighbour(self, task, word):
        solved = [other for other in self.links[task] if other in self.elites]
        if not solved:
            return None
        if self.best:
            return max(solved, key=lambda other: self.elites[other][1])  # the first of equals, which is the nearest
        return solved[word_to_integer(word, len(solved))]

    def ask(self):
        words, ranks, coins, normal, uniform, key = map(np.asarray, raw_numbers(self.key, self.step))
        noise = self.sigma * (UPPER - LOWER) * normal
        anything = LOWER + uniform * (UPPER - LOWER)
        focal = [word_to_integer(word, len(POINTS)) for word in words]
        neighbours = [self.neighbour(task, rank) for task, rank in zip(focal, ranks, strict=True)]
        nothing = np.zeros(3)
        own, other = (
            np.array([self.elites[task][0] if task in self.elites else nothing for task in numbers])
            for numbers in (focal, neighbours)
        )
        crossed = np.asarray(crossover(key, own, other))
        solutions, ways = [], []
        for i, task in enumerate(focal):
            alone = neighbours[i] is None
            if self.step < self.start_steps or (task not in self.elites and alone):
                way, child = "random", anything[i]
            elif task not in self.elites and task not in self.tried:
                way, child = "copy", other[i]
            elif task not in self.elites:
                way, child = "again", other[i] + noise[i]
            elif alone or coins[i] < self.individual:
                way, child = "individual", own[i] + noise[i]
            else:
                way, child = "social", crossed[i]
            ways.append(way)
            solutions.append(np.clip(child, LOWER, UPPER))
        self.step += 1
        return focal, np.array(solutions), ways


@pytest.mark.parametrize(
    ("individual", "neighbour", "ties"), [(0.3, "best", False), (0.3, "random", True), (1.0, "best", False)]
)
def test_archive_equals_plain_loop(individual, neighbour, ties):
    """A child may differ in its last bit, since the compiler fuses multiply and add. It is compared with a tolerance of
    1e-13, then copied. All decisions must be equal. With individual=1, there is no social learning."""
    seen = []
    with host_precision():
        problem = te.algorithms.Problem(POINTS, bounds=np.stack([LOWER, UPPER], axis=1))
        settings = te.algorithms.Monet(
            neighbours=4, individual=individual, neighbour=neighbour, random_start=9, ties=ties
        )
        core = settings.bind(problem, batch_size=ROWS)
        loop = PlainLoop(4, individual, neighbour == "best")
        state = core.init(jax.random.key(11))
        ask, tell = jax.jit(core.ask), jax.jit(core.tell)
        for _ in range(100):
            candidates, state = ask(state)
            focal, children, ways = loop.ask()
            solutions = np.asarray(candidates.solutions)
            assert np.asarray(candidates.niches).tolist() == focal
            assert np.allclose(solutions, children, rtol=1e-13, atol=1e-13)
            copied = np.array(ways) == "copy"
            assert np.array_equal(solutions[copied], children[copied])
            values = fitness(solutions, focal)
            expected = insert_one_by_one(loop.elites, list(solutions), focal, values, len(POINTS), ties)
            loop.tried.update(focal)
            state, info = tell(state, candidates, Evaluation(fitness=jnp.asarray(values), told=jnp.ones(ROWS, bool)))
            assert np.asarray(info.success).tolist() == expected
            seen += ways
    archive = state.archive
    assert set(np.flatnonzero(np.isfinite(np.asarray(archive.fitness)))) == set(loop.elites)
    for task, (solution, value) in loop.elites.items():
        assert np.array_equal(archive.solutions[task], solution)
        assert float(archive.fitness[task]) == value
    assert set(seen) == {"random", "copy", "again", "individual"} | ({"social"} if individual < 1 else set())


def bound(settings, tasks=LINE, rows=64, solved=None):
    """Return a core and a state after the random start with the elites `solved`: task -> (solution, fitness)."""
    core = settings.bind(te.algorithms.Problem(tasks, bounds=(0, 1), dim=2), batch_size=rows)
    state = replace(core.init(jax.random.key(3)), step=jnp.int32(1000))
    numbers = jnp.asarray(list(solved or {}), jnp.int32)
    if solved:
        solutions = jnp.asarray([solution for solution, _ in solved.values()])
        values = jnp.asarray([value for _, value in solved.values()])
        state = replace(state, archive=jax.jit(archives.insert)(state.archive, solutions, numbers, values)[0])
    return core, state


def test_unsolved_task_copies_neighbour_or_draws_random_solution():
    core, state = bound(te.algorithms.Monet(neighbours=1, sigma=0.0), solved={0: ([0.25, 0.75], 1.0)})
    candidates, _ = jax.jit(core.ask)(state)
    niches, solutions = np.asarray(candidates.niches), np.asarray(candidates.solutions)
    assert set(niches) == set(range(5))
    # Task 1 is as near to 0 as to 2, and the lower index comes first. Task 0 has no solved neighbour but its own elite.
    assert (solutions[niches <= 1] == [0.25, 0.75]).all()
    rest = solutions[niches > 1]
    assert len(np.unique(rest[:, 0])) == len(rest)
    assert ((rest >= 0) & (rest <= 1)).all()


@pytest.mark.parametrize(("neighbour", "taken"), [("best", {0.75}), ("random", {0.25, 0.5, 0.75})])
def test_neighbour_is_best_or_random_solved_one(neighbour, taken):
    """Task 2 is unsolved. Three of its four neighbours are solved; of the two fittest, the nearer one is chosen."""
    solved = {0: ([0.5, 0.5], 2.0), 1: ([0.75, 0.75], 2.0), 3: ([0.25, 0.25], 1.0)}
    core, state = bound(te.algorithms.Monet(neighbours=4, neighbour=neighbour), solved=solved, rows=256)
    candidates, _ = jax.jit(core.ask)(state)
    copies = np.asarray(candidates.solutions)[np.asarray(candidates.niches) == 2]
    assert set(copies[:, 0].tolist()) == taken


def test_copy_for_failed_task_has_noise():
    core, state = bound(te.algorithms.Monet(neighbours=1), solved={0: ([0.5, 0.5], 1.0), 1: ([0.25, 0.25], math.nan)})
    assert np.asarray(state.archive.evaluations).tolist() == [1, 1, 0, 0, 0]
    candidates, _ = jax.jit(core.ask)(state)
    given = np.asarray(candidates.solutions)[np.asarray(candidates.niches) == 1]
    assert len(np.unique(given[:, 0])) == len(given)
    assert (np.abs(given - 0.5) < 0.3).all()


@pytest.mark.parametrize("ties", [False, True])
def test_equal_fitness_replaces_elite_with_ties_only(ties):
    core, state = bound(te.algorithms.Monet(ties=ties), rows=2, solved={0: ([0.25, 0.25], 1.0)})
    candidates, state = jax.jit(core.ask)(state)
    candidates = replace(candidates, niches=jnp.array([0, 0]), solutions=jnp.array([[0.5, 0.5], [0.75, 0.75]]))
    after, info = jax.jit(core.tell)(state, candidates, Evaluation(fitness=jnp.array([1.0, 1.0])))
    assert info.success.tolist() == [ties, ties]
    assert after.archive.solutions[0].tolist() == ([0.75, 0.75] if ties else [0.25, 0.25])


def test_presets_equal_tuned_settings_of_paper():
    def tuned_settings(settings):
        return settings.neighbours, settings.individual, settings.neighbour

    assert tuned_settings(te.algorithms.Monet()) == (0.05, 0.3, "best")
    assert tuned_settings(te.algorithms.Monet(tuned="archery")) == (0.39, 0.22, "best")
    assert tuned_settings(te.algorithms.Monet(tuned="arm")) == (0.001, 0.54, "best")
    assert tuned_settings(te.algorithms.Monet(tuned="cartpole")) == (0.01, 0.5, "best")
    assert tuned_settings(te.algorithms.Monet(tuned="hexapod")) == (0.01, 0.0, "random")
    # Given arguments override the preset, even if they equal the defaults.
    assert tuned_settings(te.algorithms.Monet(tuned="hexapod", individual=0.3, neighbour="best")) == (0.01, 0.3, "best")
    assert dataclasses.replace(te.algorithms.Monet(tuned="arm"), sigma=0.1) == te.algorithms.Monet(
        tuned="arm", sigma=0.1
    )
    assert list(label_algorithms(["monet", te.algorithms.Monet(tuned="arm")])) == [
        "monet",
        "monet(neighbours=0.001, individual=0.54)",
    ]


@pytest.mark.parametrize(("given", "links"), [(0.001, 1), (0.05, 15), (7, 7), (20.0, 20), (0.5, 150), (5000, 299)])
def test_number_of_neighbours(given, links):
    problem = te.algorithms.Problem(np.linspace(0, 1, 300)[:, None], bounds=(0, 1), dim=2)
    core = te.algorithms.Monet(neighbours=given).bind(problem)
    assert (core.links, core.network.shape) == (links, (300, links))
    own = np.arange(300)[:, None]
    assert not (np.asarray(core.network) == own).any()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"tuned": "arms"}, ValueError, "tuned must be one of .* not 'arms'; did you mean 'arm'"),
        ({"neighbours": 0}, ValueError, "neighbours must be a whole number of at least 1"),
        ({"neighbours": 1.5}, ValueError, "neighbours must be a whole number of tasks or a share of the tasks"),
        ({"neighbours": math.nan}, ValueError, "neighbours must be a whole number of tasks or a share of the tasks"),
        ({"individual": 1.1}, ValueError, "individual must be a finite number of at least 0 and at most 1, not 1.1"),
        ({"individual": math.nan}, ValueError, "individual must be a finite number"),
        ({"individual": "0.3"}, TypeError, "individual must be a finite number .* not '0.3'"),
        ({"neighbour": "worst"}, ValueError, "neighbour must be one of 'best', 'random', not 'worst'"),
        ({"sigma": -0.1}, ValueError, "sigma must be a finite number of at least 0, not -0.1"),
        ({"eta": math.inf}, ValueError, "eta must be a finite number of at least 0, not inf"),
        ({"ties": 1}, TypeError, "ties must be True or False, not 1"),
    ],
)
def test_invalid_settings_raise_errors(settings, error, message):
    with pytest.raises(error, match=message):
        te.algorithms.Monet(**settings)


def test_single_task_learns_individually():
    """There is no neighbour to learn from, whatever the share of individual learning."""
    core, state = bound(te.algorithms.Monet(individual=0.0, sigma=0.01), tasks=LINE[:1], solved={0: ([0.5, 0.5], 1.0)})
    solutions = np.asarray(jax.jit(core.ask)(state)[0].solutions)
    assert len(np.unique(solutions[:, 0])) > 60
    assert (np.abs(solutions - 0.5) < 0.06).all()


def test_tasks_without_distance_have_random_neighbours():
    core = te.algorithms.Monet(neighbours=20).bind(
        te.algorithms.Problem(te.Tasks(range(6)), bounds=(0, 1), dim=2), batch_size=64
    )
    assert core.network is None
    focal = jnp.arange(64, dtype=jnp.int32) % 6
    near = np.asarray(core._links(jax.random.key(0), focal))
    assert near.shape == (64, 5)
    assert {(int(task), int(other)) for task, row in zip(focal, near, strict=True) for other in row} == {
        (a, b) for a in range(6) for b in range(6) if a != b
    }


def test_nearest_tasks_without_table_equal_table(monkeypatch):
    points = np.random.default_rng(0).random((2500, 3))
    expected = nearest_others(te.Tasks(points), 9)
    monkeypatch.setattr("taskelites.problem.tasks.TABLE_LIMIT", 2000)
    tasks = te.Tasks(points)
    assert not tasks.fits_table
    assert np.array_equal(nearest_others(tasks, 9), expected)
    # More equal tasks than are looked up: the neighbours are any of the equal tasks, but never the task itself.
    crowd = te.Tasks(np.concatenate([np.zeros((50, 3)), 1 + points]))
    near = nearest_others(crowd, 9)
    assert (near[:50] < 50).all()
    assert not (near == np.arange(len(near))[:, None]).any()
    assert all(len(set(row)) == 9 for row in near.tolist())
    monkeypatch.setattr("taskelites.core.selection.TABLE_ENTRIES", 10_000)
    with pytest.raises(
        ValueError, match=r"neighbours must be at most 4 for 2,500 tasks, not 125, since at most 10,000 neighbours fit"
    ):
        te.algorithms.Monet().bind(te.algorithms.Problem(tasks, bounds=(0, 1), dim=2))


def test_golden_stream():
    """Changes need a line under "Results change" in the changelog. The fitness is integer, so rounding is no issue."""
    tasks = np.linspace(0, 1, 250)[:, None]
    optimizer = te.Optimizer(tasks, bounds=(0, 1), dim=3, batch_size=8, seed=5, algorithm="monet")
    sums = []
    for _ in range(20):
        candidates = optimizer.ask()
        sums.append(candidates.solutions.sum())
        optimizer.tell(candidates, (candidates.niches * 7 + np.arange(8)) % 13)
    assert candidates.niches.tolist() == GOLDEN_LAST
    assert np.allclose(sums[::5], GOLDEN_SUMS, rtol=1e-9)


GOLDEN_LAST = [204, 95, 215, 123, 46, 198, 60, 174]
GOLDEN_SUMS = [12.39047151776666, 12.614095435053109, 12.033626230957461, 9.357784511107912]
