import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taskelites as te
from taskelites.domains import archery

SCORE = archery.ArcheryFitness()
CORNERS = [[5.0, -10.0], [5.0, 10.0], [40.0, -10.0], [40.0, 10.0], [40.0, 0.0]]


def integrated(yaw, pitch, distance, wind):
    """Return where the arrow crosses the plane of the target, by integration in steps of 1e-5 s."""
    velocity = 70 * np.array([-np.sin(yaw), np.cos(yaw) * np.cos(pitch), np.cos(yaw) * np.sin(pitch)])
    pull = np.array([wind, 0.0, -9.8])
    position, step = np.zeros(3), 1e-5
    while position[1] < distance:
        before = position
        position = position + step * velocity + 0.5 * step**2 * pull
        velocity = velocity + step * pull
    share = (distance - before[1]) / (position[1] - before[1])
    return (before + share * (position - before))[[0, 2]]


@pytest.mark.parametrize(
    ("aim", "task"), [((0.1, 0.05), (10.0, -4.0)), ((-0.26, 0.2), (7.0, 10.0)), ((0.03, -0.1), (9.0, 3.0))]
)
def test_landing_point_equals_numerical_integration(aim, task):
    assert np.allclose(archery.landing(np.array(aim), np.array(task), xp=np), integrated(*aim, *task), atol=1e-7)


def test_hand_calculated_shots():
    # Straight ahead, 7 m take 0.1 s. The arrow falls 4.9 x 0.01 = 0.049 m (10 points), and wind 10 pushes it 0.05 m.
    with jax.enable_x64(True):
        shoot = jax.jit(SCORE)
        still, windy = jnp.array([7.0, 0.0]), jnp.array([7.0, 10.0])
        ahead = jnp.zeros(2)
        assert shoot(ahead, still) == 1.0
        assert shoot(ahead, windy) == 0.9  # hypot(0.049, 0.05) = 0.070 m
        # 14 m: 0.2 s, 0.196 m down, which is 3.2 rings, so 7 points. 28 m: 0.784 m down, a miss.
        assert shoot(ahead, jnp.array([14.0, 0.0])) == 0.7
        assert shoot(ahead, jnp.array([28.0, 0.0])) == 0.0
        # A yaw to the left compensates a wind to the right: sin yaw = wind t / 2 / 70.
        assert shoot(jnp.array([np.arcsin(0.5 / 70), 0.0]), windy) == 1.0


def test_edge_belongs_to_outer_ring():
    edges = archery.EDGES
    assert np.allclose(edges, [0.061, 0.122, 0.183, 0.244, 0.305, 0.366, 0.427, 0.488, 0.549, 0.61], rtol=1e-15)
    with jax.enable_x64(True):
        points = jax.jit(archery.rings_hit)
        assert points(jnp.asarray(edges)).tolist() == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
        assert points(jnp.asarray(np.nextafter(edges, 0))).tolist() == [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    inside = np.random.default_rng(0).uniform(0, 0.8, 10_000)
    assert (archery.rings_hit(inside, xp=np) == np.maximum(0, 10 - np.floor(inside / 0.061))).all()


def test_arrow_on_edge_scores_outer_ring():
    """At the distance 70 sqrt(edge / 4.9), an arrow that is shot straight ahead falls onto the edge of a ring."""
    with jax.enable_x64(True):
        for number, edge in enumerate(archery.EDGES[1:], start=2):
            distance = 70 * np.sqrt(edge / 4.9)
            for share, points in ((1 - 1e-12, 11 - number), (1 + 1e-12, 10 - number)):
                found = SCORE(jnp.zeros(2), jnp.array([distance * share, 0.0]))
                assert found == points / 10


def test_computed_aim_hits_centre_on_every_task():
    domain = te.domain("archery")
    tasks = np.concatenate([domain.tasks.descriptors, CORNERS])
    aims = archery.aim(tasks)
    assert (np.abs(aims) < archery.WIDEST_AIM).all()
    assert np.hypot(*archery.landing(aims.T, tasks.T, xp=np)).max() < 1e-12
    assert (jax.vmap(SCORE)(jnp.asarray(aims), jnp.asarray(tasks)) == 1).all()
    assert (domain.optimum == 1).all()


def test_default_domain():
    domain = te.domain("archery")
    assert (domain.name, domain.dim, domain.call, len(domain.tasks)) == ("archery", 2, "jax", 5000)
    assert domain.tasks.names == ("distance", "wind")
    assert (domain.tasks.descriptors >= [5, -10]).all()
    assert (domain.tasks.descriptors <= [40, 10]).all()
    # Close to the optimal aim, all scores from 0 to 1 occur.
    aims = archery.aim(domain.tasks.descriptors) + np.random.default_rng(0).normal(scale=0.01, size=(5000, 2))
    scores = jax.vmap(domain.fitness)(jnp.asarray(aims), jnp.asarray(domain.tasks.descriptors))
    assert np.unique(scores).tolist() == np.float32(np.arange(11) / 10).tolist()
    with pytest.raises(ValueError, match=r"\[distance, wind\], in \[5, 40\] and \[-10, 10\], .* tasks\[1\] is \[4.0,"):
        te.domain("archery", tasks=[[5.0, 0.0], [4.0, 0.0]])


def test_draw_shows_arrow():
    axes = te.domain("archery", tasks=3).draw(np.zeros(2), np.array([14.0, 0.0]))
    assert np.allclose(axes.lines[-1].get_xydata(), [[0.0, -0.196]])
    assert "score 0.7, 0.1960 m" in axes.get_title()
    rings = [np.hypot(*line.get_xydata().T) for line in axes.lines[:5]]
    assert np.allclose([ring.min() for ring in rings], [0.122, 0.244, 0.366, 0.488, 0.61])
