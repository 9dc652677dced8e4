import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import stats

from taskelites.core import random


@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (64, 10), (2, 3, 5)])
def test_words_equal_jax_threefry(shape):
    key = jax.random.key(42)
    number = int(np.prod(shape))
    padded = threefry_2x32(jax.random.key_data(key), jnp.arange(number + number % 2, dtype=jnp.uint32))
    assert np.array_equal(random.words(key, shape), padded[:number].reshape(shape))


@pytest.mark.parametrize("bits", [32, 64])
def test_uniform_and_normal_distributions(bits):
    """Kolmogorov-Smirnov tests with fixed seeds; one seed in ten thousand would fail."""
    with jax.enable_x64(bits == 64):
        uniform = np.asarray(random.uniform(jax.random.key(1), (200, 500), jnp.zeros(()).dtype))
        normal = np.asarray(random.normal(jax.random.key(2), (200, 500), jnp.zeros(()).dtype))
    assert uniform.dtype == normal.dtype == (np.float32 if bits == 32 else np.float64)
    assert stats.kstest(uniform.ravel(), "uniform").pvalue > 1e-4
    assert stats.kstest(normal.ravel(), "norm").pvalue > 1e-4
    assert abs(np.corrcoef(normal[:, :250].ravel(), normal[:, 250:].ravel())[0, 1]) < 0.02
    assert 0 <= uniform.min() < uniform.max() < 1


@pytest.mark.parametrize("bits", [32, 64])
def test_extreme_words_give_finite_normals(bits, monkeypatch):
    extremes = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
    words = jnp.asarray(extremes)
    monkeypatch.setattr(random, "words", lambda key, shape: words)
    monkeypatch.setattr(random, "_pairs", lambda key, number: (words, words))
    with jax.enable_x64(bits == 64):
        values = np.asarray(random.normal(jax.random.key(0), (5,), jnp.zeros(()).dtype))
        uniform = np.asarray(random.uniform(jax.random.key(0), (5,), jnp.zeros(()).dtype))
    assert np.isfinite(values).all()
    assert values.min() < -5
    assert values.max() > 5
    assert uniform.max() < 1


def test_vmap_over_keys_equals_separate_calls():
    keys = jax.random.split(jax.random.key(0), 3)
    together = jax.vmap(lambda key: random.normal(key, (4, 5), jnp.float32))(keys)
    for i in range(3):
        assert np.array_equal(together[i], random.normal(keys[i], (4, 5), jnp.float32))


def test_split_and_fold_in_give_distinct_keys():
    key = jax.random.key(3)
    several = [*random.split(key, 50), *(random.fold_in(key, i) for i in range(50))]
    assert len({tuple(np.asarray(jax.random.key_data(one)).tolist()) for one in several}) == 100
    assert random.split(key).dtype == key.dtype
    expected = threefry_2x32(jax.random.key_data(key), jnp.array([0, 7], jnp.uint32))
    assert np.array_equal(jax.random.key_data(random.fold_in(key, 7)), expected)


def test_keys_of_other_generators_are_accepted():
    """Keys of other generators have more words, of which only the first two are used."""
    assert random.words(jax.random.key(0, impl="rbg"), (4,)).shape == (4,)
    assert random.split(jax.random.key(0, impl="rbg"), 3).shape == (3,)
