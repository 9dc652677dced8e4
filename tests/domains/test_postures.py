import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taskelites.domains import postures
from taskelites.domains.arm import arm_optimum


def evaluated(solution, task):
    with jax.enable_x64(True):
        fitness, how = postures.PosturesFitness()(jnp.asarray(solution), jnp.asarray(task, jnp.float64))
        return float(fitness), np.asarray(how).tolist()


def test_hand_calculated_postures():
    straight = np.full(8, 0.5)
    # The tip is at (1, 0) and points right; the middle, (0.5, 0), is on the line from the base to the point.
    assert evaluated(straight, [0.5, 0.0]) == (-0.5, [0.0, 0.5])
    # For a point above the base, (0.5, 0) is 0.5 m right of the line; for a point below, 0.5 m left of it.
    fitness, how = evaluated(straight, [0.0, 0.5])
    assert np.isclose(fitness, -np.sqrt(1.25))
    assert np.allclose(how, [0.0, 0.0])
    assert np.allclose(evaluated(straight, [0.0, -0.5])[1], [0.0, 1.0])
    # The first joint turns 90 degrees left, the fifth 90 degrees right: half a metre up, then half a metre right.
    bent = np.array([1.0, 0.5, 0.5, 0.5, 0.0, 0.5, 0.5, 0.5])
    fitness, how = evaluated(bent, [0.5, 0.5])
    assert abs(fitness) < 1e-15
    assert np.isclose(how[1], 0.5 + 0.5 * np.sqrt(0.5))  # (0, 0.5) is left of the diagonal
    assert min(how[0], 1 - how[0]) < 1e-15
    # The mirrored posture reaches (0.5, -0.5), bent to the right.
    fitness, how = evaluated(1 - bent, [0.5, -0.5])
    assert abs(fitness) < 1e-15
    assert np.isclose(how[1], 0.5 - 0.5 * np.sqrt(0.5))


def test_first_behaviour_is_direction_of_last_link():
    for last, share in ((1.0, 0.25), (0.75, 0.125), (0.0, 0.75), (0.25, 0.875)):
        solution = np.append(np.full(7, 0.5), last)
        assert np.isclose(evaluated(solution, [0.2, 0.1])[1][0], share)


def test_behaviour_for_point_at_base():
    fitness, how = evaluated(np.full(8, 0.5), [0.0, 0.0])
    assert fitness == -1.0
    assert how == [0.0, 0.5]


@pytest.mark.parametrize("dim", [4, 7])
def test_behaviours_are_within_bounds(dim):
    rng = np.random.default_rng(dim)
    points = np.concatenate([rng.uniform(-0.5, 0.5, (2000, 2)), np.zeros((1, 2)), [[0.5, 0.5], [-0.5, 0.5]]])
    solutions = np.concatenate([rng.random((2001, dim)), np.eye(dim)[:1], np.zeros((1, dim))])
    fitness, how = jax.vmap(postures.PosturesFitness())(jnp.asarray(solutions), jnp.asarray(points))
    assert how.shape == (2003, 2)
    assert (how >= 0).all()
    assert (how <= 1).all()
    assert np.ptp(np.asarray(how), axis=0).min() > 0.8
    assert (fitness <= 0).all()
    assert (fitness >= postures.make(tasks=points, dim=dim).worst - 1e-6).all()
    # A batch in columns gives the same behaviours as single calls.
    by_column = postures.behaviour(postures.posture(solutions.T, xp=np), points.T, xp=np)
    around = np.abs(by_column.T - how)
    assert np.minimum(around, 1 - around).max() < 1e-4


@pytest.mark.parametrize("dim", [4, 5, 8])
def test_every_point_is_reachable(dim):
    grid = [(x, y) for x in (-0.5, -0.2, 0.0, 0.1, 0.5) for y in (-0.5, 0.0, 0.3, 0.5)]
    # In the arm domain, alpha_max = dim / 2 allows 90 degrees per joint.
    assert all(arm_optimum(np.array([[dim / 2, 1.0]]), dim, point)[0] > -1e-8 for point in grid)
    assert (postures.make(tasks=10, dim=dim).optimum == 0).all()


def test_default_domain():
    domain = postures.make()
    assert (domain.name, domain.dim, domain.call, len(domain.tasks)) == ("postures", 8, "jax", 500)
    assert domain.tasks.names == ("x", "y")
    with pytest.raises(ValueError, match="dim must be a whole number of at least 4, not 3"):
        postures.make(dim=3)


def test_draw_shows_posture():
    bent = np.array([1.0, 0.5, 0.5, 0.5, 0.0, 0.5, 0.5, 0.5])
    axes = postures.make(tasks=3).draw(bent, np.array([0.5, 0.5]))
    _, arm, base, middle, point = (line.get_xydata() for line in axes.lines)
    assert np.allclose(arm, postures.posture(bent, xp=np))
    assert base.tolist() == [[0.0, 0.0]]
    assert np.allclose(middle, [[0.0, 0.5]])
    assert point.tolist() == [[0.5, 0.5]]
    assert axes.get_title().startswith("to (0.500, 0.500), 0.0000 m away")
