import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taskelites as te
from taskelites.domains import arm


def transformed(solution, task):
    """Return the position of the tip by a product of 4 x 4 matrices, as in the paper's code."""
    dim = len(solution)
    matrix = np.eye(4)
    for value in solution:
        angle = (value - 0.5) * task[0] * 2 * np.pi / dim
        turn, link = np.eye(4), np.eye(4)
        turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        link[0, 3] = task[1] / dim
        matrix = matrix @ turn @ link
    return (matrix @ [0, 0, 0, 1])[:2]


@pytest.mark.parametrize("dim", [1, 2, 10, 36])
def test_fitness_is_negative_distance_of_tip(dim):
    rng = np.random.default_rng(dim)
    fitness = te.domain("arm", tasks=5, dim=dim, target=(0.5, -0.25)).fitness
    with jax.enable_x64(True):
        for _ in range(20):
            solution, task = rng.random(dim), rng.random(2)
            tip = transformed(solution, task)
            assert np.allclose(arm.joints(solution, task, xp=np)[-1], tip)
            assert np.isclose(fitness(jnp.asarray(solution), jnp.asarray(task)), -np.hypot(*(tip - [0.5, -0.25])))


def test_hand_calculated_postures():
    fitness = te.domain("arm", tasks=5, dim=2).fitness
    straight = fitness(jnp.full(2, 0.5), jnp.array([1.0, 1.0]))  # the tip is at (1, 0)
    assert np.isclose(straight, -1.0)
    # First joint +90 degrees (0.5 of 2 pi / 2), second straight: the tip is at (0, 1).
    assert np.isclose(fitness(jnp.array([1.0, 0.5]), jnp.array([1.0, 1.0])), -1.0, atol=1e-6)
    # +90, then -90 degrees: the tip is at (0.5, 0.5).
    assert np.isclose(fitness(jnp.array([1.0, 0.0]), jnp.array([1.0, 1.0])), -np.sqrt(0.5), atol=1e-6)


def test_defaults_equal_paper():
    domain = te.domain("arm")
    assert (domain.name, domain.dim, domain.call, len(domain.tasks)) == ("arm", 10, "jax", 5000)
    assert domain.tasks.names == ("alpha_max", "length")
    assert domain.fitness.target == (1.0, 1.0)
    assert np.array_equal(domain.tasks.descriptors, te.domain("arm").tasks.descriptors)
    assert domain.optimum is domain.optimum  # computed once
    assert domain.optimum.shape == (5000,)


def test_tasks_may_be_array_or_file(tmp_path):
    points = np.array([[0.1, 0.2], [0.3, 0.4]])
    assert te.domain("arm", tasks=points).tasks.descriptors.tolist() == points.tolist()
    np.save(tmp_path / "own.npy", points)
    assert te.domain("arm", tasks=str(tmp_path / "own.npy")).tasks.descriptors.tolist() == points.tolist()


def best_of_many(task, dim, target, rng):
    """Return the fitness of the best of 500 random postures after a simple hill climb."""
    solutions = rng.random((4000, dim))
    values = -np.hypot(*(np.array([arm.joints(s, task, xp=np)[-1] for s in solutions[:500]]) - target).T)
    best, value = solutions[values.argmax()], values.max()
    step = 0.2
    for _ in range(4000):
        child = np.clip(best + step * rng.normal(size=dim) * (rng.random(dim) < 0.5), 0, 1)
        new = -np.hypot(*(arm.joints(child, task, xp=np)[-1] - target))
        if new > value:
            best, value = child, new
        else:
            step = max(step * 0.998, 1e-4)
    return value


@pytest.mark.parametrize("target", [(1.0, 1.0), (0.5, 0.5), (0.1, 0.0), (-0.3, -0.6)])
@pytest.mark.parametrize("dim", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_optimum_is_reached_but_not_exceeded(target, dim):
    rng = np.random.default_rng(0)
    tasks = np.concatenate([rng.random((10, 2)), [[1.0, 1.0], [0.0, 0.7], [1.0, 0.1], [0.05, 1.0]]])
    optimum = arm.arm_optimum(tasks, dim, target)
    found = np.array([best_of_many(task, dim, target, rng) for task in tasks])
    assert (found <= optimum + 1e-6).all()
    assert (found >= optimum - 2e-2).all()  # the hill climb is not exact


def test_outer_bound_is_reached_for_default_target():
    """For (1, 1), the bound of the best direction equals the distance of its posture on every task."""
    descriptors = te.domain("arm", tasks=1000).tasks.descriptors
    limit, length = np.pi * descriptors[:, 0] / 10, descriptors[:, 1]
    direction, bound = arm._outer_bound(limit, length, 10, (1.0, 1.0))
    reached = arm._distance(arm._turned(direction, limit, 10), length, (1.0, 1.0))
    assert np.abs(reached - bound).max() < 1e-9
    assert np.allclose(arm.arm_optimum(descriptors, 10, (1.0, 1.0)), -bound)


def test_run_does_not_exceed_optimum(small_arm):
    for target in ((1.0, 1.0), (0.5, 0.5)):
        domain = te.domain("arm", tasks=small_arm.tasks.descriptors, target=target)
        result = te.solve(domain, evaluations=300_000)
        assert (result.fitness <= result.optimum + 1e-6).all()
        assert 0 < result.gap < 2e-3
        assert (result.fitness >= result.worst).all()


def test_exponential_form_is_exponential_of_distance(small_arm):
    points = small_arm.tasks.descriptors
    plain, other = (te.domain("arm", tasks=points, target=(0.5, 0.5), form=form) for form in arm.FORMS)
    solution, task = jnp.full(10, 0.5), jnp.array([1.0, 0.5])  # straight: the tip is at (0.5, 0)
    assert np.isclose(other.fitness(solution, task), np.exp(-0.5))
    assert np.isclose(other.fitness(solution, task), np.exp(plain.fitness(solution, task)))
    assert np.allclose(other.optimum, np.exp(plain.optimum), rtol=1e-12)
    # In the worst case the tip points away from the target, at a distance of sqrt(0.5) + length.
    assert np.allclose(other.worst, np.exp(-(np.sqrt(0.5) + points[:, 1])), rtol=1e-12)
    assert other.options == {"target": [0.5, 0.5], "form": "exponential"}
    assert plain.options == {"target": [0.5, 0.5]}  # the default form is not saved, so that older runs can be resumed
    result = te.solve(other, evaluations=20_000)
    assert 0 < result.gap < 0.05
    assert (result.fitness <= other.optimum + 1e-6).all()
    assert (result.fitness >= other.worst - 1e-6).all()


def test_draw_shows_posture(small_arm):
    result = te.solve(small_arm, evaluations=2000)
    axes = small_arm.draw(result.solutions[7], small_arm.tasks.descriptors[7])
    drawn = axes.lines[0].get_xydata()
    assert np.allclose(drawn, arm.joints(result.solutions[7], small_arm.tasks.descriptors[7], xp=np))
    assert f"{-result.fitness[7]:.4f} m" in axes.get_title()
    assert axes.get_xlabel() == "x (m)"


@pytest.mark.slow
def test_twenty_seeds_reach_small_gap():
    """1,000,000 evaluations give a median gap of at most 1.5e-4, and a gap below 2e-3 for every seed."""
    gaps = [result.gap for result in te.solve(te.domain("arm"), evaluations=1_000_000, replicates=20)]
    assert np.median(gaps) <= 1.5e-4
    assert max(gaps) < 2e-3
