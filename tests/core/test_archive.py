import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import insert_one_by_one

from taskelites.algorithms.interface import NOWHERE
from taskelites.core import archive

NUMBER = 5
# Few different values, so that ties, repeated tasks, NaN and infinities are frequent.
FITNESS = st.sampled_from([-2.0, -1.0, 0.0, 0.0, 1.0, 2.0, np.nan, np.inf, -np.inf])
ROWS = st.lists(st.tuples(st.integers(0, NUMBER - 1), FITNESS), min_size=1, max_size=12)

insert = jax.jit(archive.insert, static_argnames="ties")


def as_arrays(rows, width=12):
    """Pad the rows to one width, so that one compiled program serves all examples."""
    niches = np.full(width, NOWHERE)
    fitness = np.zeros(width)
    niches[: len(rows)] = [niche for niche, _ in rows]
    fitness[: len(rows)] = [value for _, value in rows]
    return np.arange(width, dtype=float)[:, None] + [[0.25, 0.5]], niches.astype(np.int32), fitness


def check_against_sequential_loop(batches, width=12, ties=False):
    state, elites = archive.empty(NUMBER, 2), {}
    told = 0
    for rows in batches:
        solutions, niches, fitness = as_arrays(rows, width)
        state, success = insert(state, solutions, niches, fitness, ties=ties)
        expected = insert_one_by_one(elites, solutions, niches, fitness, NUMBER, ties)
        told += len(rows)
        assert np.asarray(success).tolist() == expected
    for niche in range(NUMBER):
        if niche in elites:
            assert np.array_equal(state.solutions[niche], elites[niche][0])
            assert float(state.fitness[niche]) == elites[niche][1]
        else:
            assert float(state.fitness[niche]) == -np.inf
    assert int(state.solved_count) == len(elites)
    assert np.asarray(state.solved)[: len(elites)].tolist() == list(elites)
    values = [value for rows in batches for _, value in rows]
    assert int(state.told) == told
    assert int(state.failed) == sum(np.isnan(value) or value == np.inf for value in values)
    assert int(state.infeasible) == sum(value == -np.inf for value in values)
    counts = np.bincount([niche for rows in batches for niche, _ in rows], minlength=NUMBER)
    assert np.asarray(state.evaluations).tolist() == counts.tolist()
    return state


@settings(max_examples=300, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4), st.booleans())
def test_insert_equals_sequential_loop(batches, ties):
    check_against_sequential_loop(batches, ties=ties)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, NUMBER - 1), FITNESS), min_size=65, max_size=150))
def test_insert_in_chunks_equals_sequential_loop(rows):
    check_against_sequential_loop([rows], width=150)


def test_equal_fitness_does_not_replace_elite():
    state, success = insert(archive.empty(2, 1), jnp.array([[1.0], [2.0]]), jnp.array([0, 0]), jnp.array([3.0, 3.0]))
    assert success.tolist() == [True, False]
    assert state.solutions[0, 0] == 1.0
    again, success = insert(state, jnp.array([[9.0], [9.0]]), jnp.array([0, 1]), jnp.array([3.0, 3.0]))
    assert success.tolist() == [False, True]
    assert again.solutions[:, 0].tolist() == [1.0, 9.0]


def test_nan_does_not_block_later_solutions():
    state, _ = insert(archive.empty(1, 1), jnp.array([[1.0]]), jnp.array([0]), jnp.array([jnp.nan]))
    state, success = insert(state, jnp.array([[2.0]]), jnp.array([0]), jnp.array([5.0]))
    assert success.tolist() == [True]
    assert state.fitness.tolist() == [5.0]


def test_last_improved_counts_evaluations_from_one():
    state, _ = insert(archive.empty(2, 1), jnp.zeros((3, 1)), jnp.array([1, 1, 0]), jnp.array([1.0, 2.0, jnp.nan]))
    assert state.last_improved.tolist() == [0, 2]
    state, _ = insert(state, jnp.zeros((2, 1)), jnp.array([1, 0]), jnp.array([1.0, 1.0]))
    assert state.last_improved.tolist() == [5, 2]


def test_64_bit_fitness_keeps_differences_of_1e_12():
    with jax.enable_x64(True):
        state, success = archive.insert(
            archive.empty(1, 1), jnp.zeros((2, 1)), jnp.array([0, 0]), jnp.array([1.0, 1.0 + 1e-12])
        )
        assert success.tolist() == [True, True]
        assert float(state.fitness[0]) == 1.0 + 1e-12


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200])
def test_one_niche_receives_many_candidates(rows):
    values = np.random.default_rng(rows).permutation(rows).astype(float)
    state, success = insert(archive.empty(1, 1), jnp.zeros((rows, 1)), jnp.zeros(rows, jnp.int32), values)
    records = np.maximum.accumulate(values)
    assert int(success.sum()) == len(np.unique(records))
    assert float(state.fitness[0]) == rows - 1
