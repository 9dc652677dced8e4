import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

import taskelites as te
from taskelites.domains import cartpole

# A network from a short search. It balances the pole below for 1000 steps, and so do similar networks.
BALANCING = np.array(
    [0.112, 0.32, 0.219, 0.65, 0.751, 0.441, 0.75, 0.543, 0.255, 0.253, 0.48, 0.931, 0.152, 0.343, 0.214, 0.105]
)
POLE = np.array([0.336, 0.536])


def gymnasium_env(task, start):
    env = CartPoleEnv()
    env.masspole, env.length = task
    env.total_mass = env.masspole + env.masscart
    env.polemass_length = env.masspole * env.length
    env.state = np.array(start)
    return env


def pushes_right(weights, state):
    hidden = np.tanh(np.append(state, 1.0) @ weights[:10].reshape(5, 2))
    first, second = np.append(hidden, 1.0) @ weights[10:].reshape(3, 2)
    return int(second >= first)


def gymnasium_steps(weights, task, start, most):
    env = gymnasium_env(task, start)
    for number in range(1, most + 1):
        if env.step(pushes_right(weights, env.state))[2]:
            return number
    return most


def our_steps(weights, tasks, starts, most):
    with jax.enable_x64(True):
        each = jax.vmap(lambda *row: cartpole.steps_upright(*row[:2], row[2][None], most)[0])
        return np.asarray(jax.jit(each)(jnp.asarray(weights), jnp.asarray(tasks), jnp.asarray(starts)))


def drawn(number, seed):
    rng = np.random.default_rng(seed)
    return rng, rng.uniform(cartpole.LOWER, cartpole.UPPER, (number, 2)), rng.uniform(-0.05, 0.05, (number, 4))


def test_random_networks_fall_at_the_same_step_as_in_gymnasium():
    """Within 200 steps, differences of rounding do not grow enough to change a push."""
    rng, tasks, starts = drawn(1000, seed=0)
    weights = rng.random((1000, 16))
    wanted = [gymnasium_steps(*row, 200) for row in zip(weights, tasks, starts, strict=True)]
    assert our_steps(weights, tasks, starts, 200).tolist() == wanted
    assert min(wanted) < 10
    assert max(wanted) == 200


def test_balancing_networks_fall_at_the_same_step_as_in_gymnasium():
    rng, _, starts = drawn(60, seed=1)
    tasks = np.tile(POLE, (60, 1))
    away = np.clip(BALANCING + 0.1 * rng.normal(size=(60, 16)), 0, 1)
    wanted = [gymnasium_steps(*row, 200) for row in zip(away, tasks, starts, strict=True)]
    assert our_steps(away, tasks, starts, 200).tolist() == wanted
    assert np.mean(np.array(wanted) == 200) > 0.2
    assert np.mean(np.array(wanted) < 200) > 0.2
    near = np.clip(BALANCING + 0.01 * rng.normal(size=(10, 16)), 0, 1)
    wanted = [gymnasium_steps(*row, 1000) for row in zip(near, tasks, starts, strict=False)]
    assert our_steps(near, tasks[:10], starts[:10], 1000).tolist() == wanted == [1000] * 10


def test_each_step_of_long_episode_equals_gymnasium():
    """Each step starts from Gymnasium's state, so that differences of rounding cannot grow."""
    env = gymnasium_env(POLE, [0.03, -0.02, 0.04, 0.05])
    for _ in range(300):
        before = tuple(env.state)
        right = pushes_right(BALANCING, env.state)
        push = cartpole.chosen_push(BALANCING, before, xp=np)
        assert push == (10.0 if right else -10.0)
        over = env.step(right)[2]
        after = cartpole.advance(before, push, POLE, xp=np)
        assert np.allclose(after, env.state, rtol=0, atol=1e-14)
        assert cartpole.is_up(after, xp=np) == (not over)


def test_equal_outputs_push_right():
    assert cartpole.chosen_push(np.full(16, 0.3), (0.1, -0.2, 0.3, 0.4), xp=np) == 10.0
    favours_left = np.zeros(16)
    favours_left[14] = 0.01  # the bias of the first output
    assert cartpole.chosen_push(favours_left, (0.1, -0.2, 0.3, 0.4), xp=np) == -10.0


def test_hand_calculated_step():
    # Upright, pushed to the right. Force per mass: 10 / 1.1 = 9.0909. Pole: 9.0909 / (0.5 (4/3 - 0.1/1.1)) = 14.6341,
    # backwards. Cart: 9.0909 + 0.05 x 14.6341 / 1.1 = 9.7561. Each is multiplied by 0.02 s.
    after = cartpole.advance((0.0, 0.0, 0.0, 0.0), 10.0, (0.1, 0.5), xp=np)
    assert np.allclose(after, [0.0, 0.195122, 0.0, -0.292683], atol=1e-6)


@pytest.mark.parametrize(("starts", "steps"), [(10, 1000), (49, 60), (1, 1), (3, 130)])
def test_fitness_is_mean_over_starts(starts, steps):
    fitness = te.domain("cartpole", tasks=3, starts=starts, steps=steps).fitness
    states = cartpole.start_states(starts)
    assert np.abs(states).max() <= 0.05
    assert np.array_equal(states, cartpole.start_states(60)[:starts])
    with jax.enable_x64(True):
        held, fell = (float(jax.jit(fitness)(jnp.asarray(w), jnp.asarray(POLE))) for w in (BALANCING, np.zeros(16)))
    assert held == steps  # exactly, so that it can be used as target
    wanted = [gymnasium_steps(np.zeros(16), POLE, state, steps) for state in states]
    assert np.isclose(fell, np.mean(wanted), rtol=1e-12)


def test_starts_are_independent():
    states = cartpole.start_states(5)
    states[2] = [2.39, 3.0, 0.0, 0.0]  # leaves the track at once
    with jax.enable_x64(True):
        counts = cartpole.steps_upright(jnp.asarray(BALANCING), jnp.asarray(POLE), jnp.asarray(states), 1000)
    assert counts.tolist() == [1000, 1000, 1, 1000, 1000]


def test_default_domain():
    domain = te.domain("cartpole")
    assert (domain.name, domain.dim, domain.call, len(domain.tasks)) == ("cartpole", 16, "jax", 5000)
    assert domain.tasks.names == ("pole_mass", "half_length")
    assert domain.optimum is None  # unknown whether every pole can be balanced
    assert domain.options == {"starts": 10, "steps": 1000}
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1 and at most 1,000,000, not 0"):
        te.domain("cartpole", tasks=3, steps=0)
    with pytest.raises(
        ValueError, match=r"in \[0.05, 0.5\] and \[0.3, 1.2\], or a file, but tasks\[0\] is \[0.0, 0.5\]"
    ):
        te.domain("cartpole", tasks=[[0.0, 0.5]])


def test_draw_shows_worst_start():
    domain = te.domain("cartpole", tasks=3)
    sketch = domain.draw.many(np.stack([np.zeros(16), BALANCING]), np.tile(POLE, (2, 1)))
    ends = [gymnasium_steps(np.zeros(16), POLE, state, 1000) for state in cartpole.start_states(10)]
    assert sketch.titles[0].endswith(f"upright for {min(ends)} to {max(ends)} steps")
    assert sketch.titles[1].endswith("upright for 1000 to 1000 steps")
    poles = [stroke.points for stroke in sketch.strokes if stroke.points.shape == (2, 2, 2)]
    assert np.allclose([np.hypot(*(pole[:, 1] - pole[:, 0]).T) for pole in poles], 2 * POLE[1])
    first = cartpole.start_states(10)[int(np.argmin(ends))]
    assert np.isclose(poles[0][0, 0, 0], first[0])
    foot, tip = poles[-1][0]
    assert abs(np.arctan2(tip[0] - foot[0], tip[1])) > cartpole.STEEPEST  # it has fallen
    axes = domain.draw(BALANCING, POLE)
    assert axes.get_ylabel() == "height (m)"
