"""The tournament against a brute-force simulation.

Statistical tests use fixed seeds and reject at p < 1e-4, so each would fail for one seed in ten thousand.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import taskelites as te
from taskelites.core import archive, selection
from taskelites.core.selection import rank_limits, rank_of, tournament, uniform_integers, uniform_parents

N = 30
POINTS = np.random.default_rng(5).random((N, 2))


def brute_force(parent, size, draws, replacement, rng):
    """Count the winners of `draws` simulated tournaments per task."""
    distance = np.square(POINTS - POINTS[parent]).sum(axis=1)
    order = np.lexsort((np.arange(N), distance))
    rank = np.empty(N, int)
    rank[order] = np.arange(N)
    if replacement:
        drawn = rng.integers(N, size=(draws, size))
    else:
        drawn = np.argsort(rng.random((draws, N)), axis=1)[:, : min(size, N)]
    return np.bincount(order[rank[drawn].min(axis=1)], minlength=N)


def p_value_of_same_distribution(observed, expected_sample):
    """Return the p-value of a chi-square test of two samples, with rare tasks pooled."""
    table = np.stack([observed, expected_sample])
    common = table.sum(axis=0) >= 20
    pooled = np.concatenate([table[:, common], table[:, ~common].sum(axis=1, keepdims=True)], axis=1)
    pooled = pooled[:, pooled.sum(axis=0) > 0]
    return 1.0 if pooled.shape[1] < 2 else stats.chi2_contingency(pooled).pvalue


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("size", [1, 2, 10, N, 3 * N])
def test_distribution_equals_simulated_tournament(size, replacement):
    choose = tournament(te.Tasks(descriptors=POINTS), (size, 7), replacement=replacement)
    parent, draws = 4, 40_000
    chosen = choose(jax.random.key(size), jnp.full(draws, parent), jnp.int32(0))
    expected = brute_force(parent, size, draws, replacement, np.random.default_rng(size + 1))
    assert p_value_of_same_distribution(np.bincount(chosen, minlength=N), expected) > 1e-4


@pytest.mark.parametrize("size", [1, 2, 10, N, 500])
def test_distribution_without_neighbour_table_equals_simulated_tournament(size, monkeypatch):
    monkeypatch.setattr(te.tasks, "TABLE_LIMIT", 10)
    choose = tournament(te.Tasks(descriptors=POINTS), (3, size))
    assert choose.neighbours is None
    parent, draws = 4, 20_000
    chosen = jax.jit(choose.__call__)(jax.random.key(size), jnp.full(draws, parent), jnp.int32(1))
    expected = brute_force(parent, size, draws, True, np.random.default_rng(size + 2))
    assert p_value_of_same_distribution(np.bincount(chosen, minlength=N), expected) > 1e-4


def test_tournament_of_one_equals_uniform_choice_bit_for_bit():
    words = jax.random.bits(jax.random.key(0), (100_000,), jnp.uint32)
    for number in (1, 2, 3, 7, 64, 5000):
        ranks = rank_of(words, jnp.asarray(rank_limits(number, 1))[None], 0)
        assert np.array_equal(ranks, uniform_integers(words, jnp.uint32(number)))


def test_tournament_of_all_tasks_without_replacement_chooses_parents_own_task():
    """A parent's own task is its nearest task."""
    choose = tournament(te.Tasks(descriptors=POINTS), (N,), replacement=False)
    parents = jnp.tile(jnp.arange(N), 1000)
    assert np.array_equal(choose(jax.random.key(0), parents, 0), parents)


@pytest.mark.parametrize("number", [2, 3, 17, 5000])
@pytest.mark.parametrize("size", [1, 2, 10, 500, 5000, 100_000])
def test_rank_limits_equal_closed_form(number, size):
    limits = rank_limits(number, size).astype(float)
    rank = np.arange(1, number)
    assert np.allclose((limits + 1) / 2**32, 1 - (1 - rank / number) ** size, atol=3e-9)
    assert (np.diff(limits) >= 0).all()


def test_rank_limits_without_replacement_equal_counted_subsets():
    """n = 5, s = 2: of the 10 pairs, 4 contain rank 0, 7 rank 0 or 1, 9 a rank below 3, and 10 a rank below 4."""
    assert np.allclose((rank_limits(5, 2, replacement=False).astype(float) + 1) / 2**32, [0.4, 0.7, 0.9, 1.0])


def test_rank_of_counts_limits_below_word():
    limits = np.sort(np.random.default_rng(0).integers(0, 2**32, (3, 99), dtype=np.uint32), axis=1)
    words = np.concatenate([limits[1], limits[1] + 1, [0, 2**32 - 1]]).astype(np.uint32)
    expected = [(limits[1] < word).sum() for word in words]
    assert rank_of(jnp.asarray(words), jnp.asarray(limits), 1).tolist() == expected


@pytest.mark.parametrize("count", [1, 2, 3, 1000, 65536, 65537, 10**6, 2**31 - 1])
def test_uniform_integers_are_upper_half_of_product(count):
    words = np.concatenate(
        [[0, 1, 2**16 - 1, 2**16, 2**31, 2**32 - 1], np.random.default_rng(1).integers(0, 2**32, 1000)]
    ).astype(np.uint32)
    expected = [(int(word) * count) >> 32 for word in words]
    assert uniform_integers(jnp.asarray(words), jnp.uint32(count)).tolist() == expected


def test_equal_distances_are_ordered_by_own_task_then_index():
    points = np.array([[0.0], [1.0], [1.0], [2.0], [0.0]])
    neighbours = te.Tasks(descriptors=points).neighbours
    assert neighbours.tolist() == [
        [0, 4, 1, 2, 3],
        [1, 2, 0, 3, 4],
        [2, 1, 0, 3, 4],
        [3, 1, 2, 0, 4],
        [4, 0, 1, 2, 3],
    ]


def test_simulation_and_table_break_ties_alike(monkeypatch):
    """2000 draws contain all 12 tasks, so the first in the order wins: the parent's own task."""
    points = np.repeat(np.arange(4.0), 3)[:, None]
    monkeypatch.setattr(te.tasks, "TABLE_LIMIT", 3)
    choose = tournament(te.Tasks(descriptors=points), (2000,))
    parents = jnp.arange(12)
    assert np.array_equal(choose(jax.random.key(0), parents, jnp.int32(0)), parents)


def test_parents_are_uniform_among_solved_tasks():
    state = archive.empty(50, 1)
    solved = [3, 7, 11, 40]
    state, _ = archive.insert(state, jnp.zeros((4, 1)), jnp.array(solved), jnp.arange(4.0))
    parents = np.asarray(uniform_parents(jax.random.key(1), state, (2, 20_000)))
    counts = np.bincount(parents.ravel(), minlength=50)
    assert set(np.flatnonzero(counts)) == set(solved)
    assert stats.chisquare(counts[solved]).pvalue > 1e-4
    assert abs(np.corrcoef(parents)[0, 1]) < 0.03


def test_tasks_without_distance_are_chosen_uniformly():
    choose = tournament(te.Tasks(list("abcdefghij")), (1,))
    counts = np.bincount(choose(jax.random.key(2), jnp.zeros(20_000, jnp.int32), jnp.int32(0)), minlength=10)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_too_large_table_raises_error(monkeypatch):
    monkeypatch.setattr(te.tasks, "TABLE_LIMIT", 10)
    with pytest.raises(ValueError, match=r"replacement must be True for more than 10,000 tasks, but it is False"):
        tournament(te.Tasks(descriptors=POINTS), (5,), replacement=False)
    assert selection.tournament(te.Tasks(descriptors=POINTS), (1,)).positions is None


@pytest.mark.parametrize("offset", [0.0, 1e7])
def test_tournament_without_table_is_precise_far_from_origin(offset, monkeypatch):
    monkeypatch.setattr(te.tasks, "TABLE_LIMIT", 10)
    points = np.random.default_rng(1).random((2000, 2))
    choose = tournament(te.Tasks(descriptors=points + offset), (500,))
    parents = jnp.arange(2000)
    chosen = np.asarray(choose(jax.random.key(0), parents, jnp.int32(0)))
    distance = np.linalg.norm(points[chosen] - points, axis=1)
    assert distance.mean() < 0.03


def test_huge_tournament_without_table_terminates(monkeypatch):
    monkeypatch.setattr(te.tasks, "TABLE_LIMIT", 10)
    choose = tournament(te.Tasks(descriptors=POINTS), (2**31 - 1,))
    assert np.array_equal(choose(jax.random.key(0), jnp.arange(N), jnp.int32(0)), np.arange(N))
