import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taskelites as te
from taskelites.core.variation import OPERATORS, as_variation

KEY = jax.random.key(3)
LOWER, UPPER = jnp.array([0.0, -1000.0, 1e-6]), jnp.array([1.0, 1000.0, 2e-6])


def parents(rows=2000, seed=0):
    key_first, key_second = jax.random.split(jax.random.key(seed))
    width = UPPER - LOWER
    return tuple(LOWER + jax.random.uniform(key, (rows, 3)) * width for key in (key_first, key_second))


@pytest.mark.parametrize("name", OPERATORS)
def test_children_stay_in_box_of_any_scale(name):
    child = as_variation(name)(KEY, *parents(), LOWER, UPPER)
    assert child.shape == (2000, 3)
    assert bool(((child >= LOWER) & (child <= UPPER)).all())


@pytest.mark.parametrize("name", OPERATORS)
def test_steps_scale_with_box(name):
    """With the same key, the child in a stretched box is the stretched child of the unit box."""
    with jax.enable_x64(True):
        lower, width = jnp.array([0.0, -1000.0, 1e-6]), jnp.array([1.0, 2000.0, 1e-6])
        first, second = (jax.random.uniform(jax.random.key(i), (500, 3)) for i in (0, 1))
        unit = as_variation(name)(KEY, first, second, jnp.zeros(3), jnp.ones(3))
        wide = as_variation(name)(KEY, lower + first * width, lower + second * width, lower, lower + width)
        assert np.allclose((wide - lower) / width, unit, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("name", OPERATORS)
def test_settings_can_be_swept_with_vmap(name):
    operator = as_variation(name)
    several = jax.tree.map(lambda leaf: jnp.array([leaf, leaf / 2]), operator)
    both = jax.vmap(lambda one: one(KEY, *parents(10), LOWER, UPPER))(several)
    assert both.shape == (2, 10, 3)
    assert np.allclose(both[0], operator(KEY, *parents(10), LOWER, UPPER))


def test_iso_line_without_noise_returns_first_parent():
    first, second = parents()
    assert np.array_equal(te.variation.IsoLine(sigma1=0.0, sigma2=0.0)(KEY, first, second, LOWER, UPPER), first)


def test_iso_line_without_isotropic_noise_stays_on_line():
    first, second = jnp.array([[0.4, 0.5]]), jnp.array([[0.5, 0.6]])
    children = te.variation.IsoLine(sigma1=0.0, sigma2=0.2)(
        KEY, jnp.tile(first, (4000, 1)), jnp.tile(second, (4000, 1)), jnp.zeros(2), jnp.ones(2)
    )
    steps = np.asarray((children - first) / (second - first))
    assert np.allclose(steps[:, 0], steps[:, 1], atol=1e-5)  # one random number scales all dimensions
    assert abs(steps.mean()) < 4 * 0.2 / np.sqrt(4000)
    assert abs(steps[:, 0].std() - 0.2) < 0.01


def test_iso_line_without_line_noise_is_isotropic_in_box_widths():
    middle = jnp.tile((LOWER + UPPER) / 2, (4000, 1))
    first, second = middle, middle + 0.2 * (UPPER - LOWER)
    children = te.variation.IsoLine(sigma1=0.01, sigma2=0.0)(KEY, first, second, LOWER, UPPER)
    steps = np.asarray((children - first) / (UPPER - LOWER))
    assert np.allclose(steps.std(axis=0), 0.01, rtol=0.06)
    assert np.abs(np.corrcoef(steps.T) - np.eye(3)).max() < 0.06  # each dimension has its own random number


def test_sbx_keeps_mean_and_equal_parents():
    first, second = jnp.full((20000, 1), 0.4), jnp.full((20000, 1), 0.6)
    assert np.array_equal(te.variation.SBX()(KEY, first, first, jnp.zeros(1), jnp.ones(1)), first)
    children = np.asarray(te.variation.SBX(eta=10.0)(KEY, first, second, jnp.zeros(1), jnp.ones(1)))
    assert abs(children.mean() - 0.5) < 0.005
    # With eta = 10 most children are near one of their parents.
    near = np.minimum(np.abs(children - 0.4), np.abs(children - 0.6))
    assert np.quantile(near, 0.9) < 0.03


def test_sbx_spread_has_published_distribution():
    """Far from the bounds, P(spread <= b) = b^(eta + 1) / 2 for b <= 1."""
    first, second = jnp.full((40000, 1), -1.0), jnp.full((40000, 1), 1.0)
    children = te.variation.SBX(eta=2.0)(KEY, first, second, jnp.full(1, -1e4), jnp.full(1, 1e4))
    spread = np.abs(np.asarray(children))
    for b in (0.5, 0.8, 1.0):
        assert abs((spread <= b).mean() - 0.5 * b**3) < 0.01


def test_gaussian_ignores_second_parent():
    first, second = parents()
    assert np.array_equal(te.variation.Gaussian(sigma=0.0)(KEY, first, second, LOWER, UPPER), first)
    same = te.variation.Gaussian()(KEY, first, second, LOWER, UPPER)
    assert np.array_equal(same, te.variation.Gaussian()(KEY, first, first, LOWER, UPPER))


def test_polynomial_mutates_at_given_rate_and_reaches_bounds():
    first = jnp.full((20000, 4), 0.5)
    children = te.variation.Polynomial(eta=20.0)(KEY, first, first, jnp.zeros(4), jnp.ones(4))
    assert abs(float((children != first).mean()) - 0.25) < 0.01
    wild = np.asarray(te.variation.Polynomial(eta=0.0, rate=1.0)(KEY, first, first, jnp.zeros(4), jnp.ones(4)))
    assert abs(wild.mean() - 0.5) < 0.01  # eta = 0 gives a uniform distribution on the box
    assert wild.min() < 0.001
    assert wild.max() > 0.999
    assert np.array_equal(te.variation.Polynomial(rate=0.0)(KEY, first, first, jnp.zeros(4), jnp.ones(4)), first)
