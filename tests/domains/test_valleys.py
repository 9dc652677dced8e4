import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taskelites as te
from taskelites.domains import valleys

TASK = np.array([0.3, 0.8])


def solution_at(z, dim):
    """Return the solution with coordinates z along the axes of the valleys, for TASK."""
    return valleys.best(TASK, dim, xp=np) + valleys.constants(dim).rotation.T @ np.asarray(z) / 4


def fitness_of(solution, task=TASK):
    with jax.enable_x64(True):
        return float(valleys.ValleysFitness(dim=len(solution))(jnp.asarray(solution), jnp.asarray(task)))


def documented_fitness(solution, task):
    """Return the fitness by the formula in the docstring of the module, in plain loops."""
    dim = len(solution)
    fixed = valleys.constants(dim)
    total = 0.0
    for i in range(dim):
        z = 0.0
        for j in range(dim):
            turn = fixed.slopes[j, 0] * task[0] + fixed.slopes[j, 1] * task[1] + fixed.phases[j]
            z += 4 * fixed.rotation[i, j] * (solution[j] - 0.5 - 0.3 * np.sin(2 * np.pi * turn))
        total += z**2 + 2 * np.sin(np.pi * z) ** 2
    return -total / dim


@pytest.mark.parametrize("dim", [1, 2, 10, 30])
def test_hand_calculated_fitness(dim):
    first = np.eye(dim)[0]
    assert abs(fitness_of(solution_at(0 * first, dim))) < 1e-28
    # In the next valley: 1 from the square, 0 from the sine. Half way: 0.25 from the square, 2 from the sine.
    assert np.isclose(fitness_of(solution_at(first, dim)), -1 / dim, rtol=1e-12)
    assert np.isclose(fitness_of(solution_at(0.5 * first, dim)), -2.25 / dim, rtol=1e-12)
    assert np.isclose(fitness_of(solution_at(np.full(dim, -2.0), dim)), -4.0, rtol=1e-12)


def test_fitness_equals_documented_formula():
    rng = np.random.default_rng(0)
    for dim in (1, 3, 10):
        solution, task = rng.random(dim), rng.random(2)
        assert np.isclose(fitness_of(solution, task), documented_fitness(solution, task), rtol=1e-12)


def test_fitness_has_local_optima():
    """There is a local optimum near z = 1 along each axis."""
    rng = np.random.default_rng(1)
    # The derivative is 0: 2 z + 2 pi sin(2 pi z) = 0.
    z = 0.951
    assert abs(2 * z + 2 * np.pi * np.sin(2 * np.pi * z)) < 0.02
    for axis in np.eye(10):
        here = fitness_of(solution_at(z * axis, 10))
        steps = rng.normal(size=(20, 10))
        steps *= 0.1 / np.linalg.norm(steps, axis=1, keepdims=True)
        assert all(fitness_of(solution_at(z * axis + step, 10)) < here for step in steps)


def test_best_solution_changes_smoothly_within_bounds():
    domain = te.domain("valleys", tasks=1000)
    tasks = domain.tasks.descriptors
    inside = valleys.best(tasks, 10, xp=np)
    assert inside.min() >= 0.2
    assert inside.max() <= 0.8
    assert np.ptp(inside, axis=0).min() > 0.1  # every coordinate changes
    # The maximum slope is 0.3 x 2 pi x |a|, and |a| is at most sqrt(2).
    near = tasks[domain.tasks.neighbours[:, 1]]
    moved = np.abs(valleys.best(near, 10, xp=np) - inside).max(axis=1)
    assert (moved <= 0.6 * np.pi * np.sqrt(2) * np.linalg.norm(near - tasks, axis=1) + 1e-12).all()
    # The best solution of the task in the middle is poor for a task in a corner.
    assert fitness_of(valleys.best(np.array([0.5, 0.5]), 10, xp=np), np.array([0.0, 0.0])) < -0.5


def test_fitness_is_between_worst_and_optimum():
    domain = te.domain("valleys", tasks=40, dim=4)
    corners = np.stack(np.meshgrid(*[[0.0, 1.0]] * 4), axis=-1).reshape(-1, 4)
    points = np.concatenate([corners, np.random.default_rng(0).random((300, 4))])
    with jax.enable_x64(True):
        every = jax.vmap(jax.vmap(domain.fitness, (0, None)), (None, 0))
        found = np.asarray(every(jnp.asarray(points), jnp.asarray(domain.tasks.descriptors)))
    assert (found < 0).all()
    assert (found >= domain.worst[:, None]).all()
    assert (found.min(axis=1) < 0.5 * domain.worst).all()  # the bound is not too loose


def test_default_domain():
    domain = te.domain("valleys")
    assert (domain.name, domain.dim, domain.call, len(domain.tasks)) == ("valleys", 10, "jax", 5000)
    assert domain.tasks.names == ("east", "north")
    assert (domain.optimum == 0).all()
    assert te.domain("valleys", tasks=20, seed=1).fitness == domain.fitness  # other tasks, same function
    assert abs(domain.fitness(jnp.asarray(valleys.best(TASK, 10, xp=np)), jnp.asarray(TASK))) < 1e-11  # 32 bits
    # The random constants of the function must never change.
    assert valleys.best(TASK, 3, xp=np).round(6).tolist() == [0.22061, 0.552576, 0.699723]


def test_draw_shows_solution_and_best_solution():
    axes = te.domain("valleys", tasks=3, dim=3).draw(np.array([0.1, 0.2, 0.3]), TASK)
    stars, dots = (line.get_xydata() for line in axes.lines)
    assert np.allclose(stars[:, 1], valleys.best(TASK, 3, xp=np))
    assert dots.tolist() == [[1.0, 0.1], [2.0, 0.2], [3.0, 0.3]]
