"""Cart-pole: balance every pole, by pushing its cart to the left or to the right.

A task is the pole, `[pole_mass, half_length]`, in kg and m. A solution is the 16 weights of a small neural network that
chooses the pushes, each in [0, 1]. The fitness is the number of steps of 0.02 s that the pole stays upright, at most
1000, averaged over ten starts that are the same for all tasks and solutions.

The physics is Gymnasium's CartPole-v1 (after Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve
difficult learning control problems", 1983): a cart of 1 kg, pushes of 10 N, explicit Euler steps. An episode ends when
the cart is more than 2.4 m from the middle or the pole more than 12 degrees from upright; the last step counts. The
family of tasks is from Hatzky, Bartz-Beielstein, Eiben and Yaman, "MONET" (PPSN 2026).

Deviations from Gymnasium: there, `total_mass` and `polemass_length` are not updated when `masspole` or `length` change;
here they are. The network sees the state itself, not the state rounded to 32 bits.

Near upright, a rounding error doubles every 6 to 13 steps. So if a controller balances for a while and then fails, the
number of steps differs between 32 and 64 bits, and between machines. Measured: of 5000 episodes of 500 elites, all
lasted to the end in 32 bits and 99.7 % in 64 bits. With networks near such elites (each weight moved by 0.05), 79 % of
the episodes had the same number of steps, and so did all episodes that ended within 100 steps.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from taskelites.domains.family import tasks_in_box
from taskelites.errors import whole_number
from taskelites.problem.problem import Domain
from taskelites.problem.sketch import Drawing, Sketch, Stroke

NAMES = ("pole_mass", "half_length")
LOWER, UPPER = (0.05, 0.3), (0.5, 1.2)
DIM = 16

GRAVITY = 9.8
CART_MASS = 1.0
FORCE = 10.0
TIME_STEP = 0.02
FARTHEST = 2.4
STEEPEST = 12 * 2 * np.pi / 360
WIDEST_START = 0.05

# Steps between two checks whether all poles have fallen: on a GPU, the host waits for each check.
_CHUNK = 50
_SNAPSHOTS = 8

State = tuple[Any, ...]  # position, velocity, angle, spin


def make(tasks: Any = 5000, starts: int = 10, steps: int = 1000, seed: int = 0) -> Domain:
    """Make the cart-pole domain.

    Args:
        tasks: the number of poles, spread as a centroidal Voronoi tessellation; or descriptors
            `[pole_mass, half_length]`, `(n, 2)`, in [0.05, 0.5] kg and [0.3, 1.2] m; or a file of descriptors.
        starts: the number of starts that the fitness is averaged over.
        steps: the maximum number of steps of an episode, 0.02 s each.
        seed: seed of the tessellation; the starts do not depend on it.

    Example:
        >>> import taskelites as te
        >>> cartpole = te.domain("cartpole", tasks=200, starts=3, steps=100)
        >>> cartpole.dim, cartpole.tasks.names, cartpole.options
        (16, ('pole_mass', 'half_length'), {'starts': 3, 'steps': 100})
    """
    starts = whole_number("starts", starts, least=1)
    steps = whole_number("steps", steps, least=1, most=1_000_000)
    return Domain(
        name="cartpole",
        fitness=CartpoleFitness(starts=starts, steps=steps),
        tasks=tasks_in_box("cartpole", tasks, LOWER, UPPER, names=NAMES, seed=seed),
        bounds=(0.0, 1.0),
        dim=DIM,
        call="jax",
        draw=CartpoleDrawing(starts=starts, steps=steps),
        worst=0.0,
        options={"starts": starts, "steps": steps},
    )


def start_states(number: int) -> np.ndarray:
    """Return the start states, `(number, 4)`: position, velocity, angle and spin, each in [-0.05, 0.05].

    They are fixed, and the first rows do not depend on `number`.

    Example:
        >>> start_states(2).round(4).tolist()
        [[0.0137, -0.023, -0.0459, -0.0483], [0.0313, 0.0413, 0.0107, 0.0229]]
    """
    return np.random.default_rng(0).uniform(-WIDEST_START, WIDEST_START, (number, 4))


def advance(state: State, push: Any, task: Any, xp: Any = jnp) -> State:
    """Return the state one step later.

    Args:
        state: position (m) and velocity (m/s) of the cart, angle (rad, to the right) and spin (rad/s) of the pole.
        push: force on the cart, N.
        task: `[pole_mass, half_length]`.
        xp: numpy or jax.numpy.

    Example:
        >>> import numpy as np
        >>> after = advance((0.0, 0.5, 0.0, 0.0), 10.0, (0.1, 0.5), xp=np)  # Gymnasium's own pole, upright
        >>> [round(float(number), 4) for number in after]
        [0.01, 0.6951, 0.0, -0.2927]
    """
    position, velocity, angle, spin = state
    mass, half = task[0], task[1]
    total = mass + CART_MASS
    sine, cosine = xp.sin(angle), xp.cos(angle)
    shove = (push + mass * half * spin * spin * sine) / total
    angular = (GRAVITY * sine - cosine * shove) / (half * (4.0 / 3.0 - mass * cosine * cosine / total))
    acceleration = shove - mass * half * angular * cosine / total
    return (
        position + TIME_STEP * velocity,
        velocity + TIME_STEP * acceleration,
        angle + TIME_STEP * spin,
        spin + TIME_STEP * angular,
    )


def chosen_push(weights: Any, state: State, xp: Any = jnp) -> Any:
    """Return the push that a network chooses, N: 10 to the right if its second output is at least its first, else -10.

    Args:
        weights: `(16, ...)`. First, for each of the four inputs and a bias, one weight per hidden unit (two, tanh).
            Then, for each of the hidden units and a bias, one weight per output.
        state: four numbers or four arrays.
        xp: numpy or jax.numpy.

    Example:
        >>> import numpy as np
        >>> weights = np.zeros(16)
        >>> weights[4] = weights[11] = 1.0  # the angle into the first hidden unit, and from it to the second output
        >>> [float(chosen_push(weights, (0, 0, angle, 0), xp=np)) for angle in (-0.1, 0.0, 0.1)]
        [-10.0, 10.0, 10.0]
    """
    inputs, outputs = weights[:10], weights[10:]
    left, right = (sum(value * inputs[2 * i + unit] for i, value in enumerate((*state, 1.0))) for unit in (0, 1))
    hidden = (xp.tanh(left), xp.tanh(right), 1.0)
    lead = sum(value * (outputs[2 * i + 1] - outputs[2 * i]) for i, value in enumerate(hidden))
    return xp.where(lead >= 0, FORCE, -FORCE)


def is_up(state: State, xp: Any = jnp) -> Any:
    """Return whether the cart and the pole are within their limits.

    Example:
        >>> import numpy as np
        >>> [bool(is_up((place, 0.0, angle, 0.0), xp=np)) for place, angle in ((2.4, 0.2), (2.41, 0.0), (0.0, -0.21))]
        [True, False, False]
    """
    return (xp.abs(state[0]) <= FARTHEST) & (xp.abs(state[2]) <= STEEPEST)


def steps_upright(weights: Array, task: Array, starts: Array, most: int) -> Array:
    """Return the number of steps that the pole stays upright from each start, `(n,)`, integers.

    Args:
        weights: weights of the network, `(16,)`.
        task: the pole, `(2,)`.
        starts: states within the limits, `(n, 4)`.
        most: the maximum number of steps.

    Example:
        >>> import jax.numpy as jnp
        >>> always_right = jnp.zeros(16)
        >>> steps_upright(always_right, jnp.array([0.1, 0.5]), jnp.zeros((1, 4)), 1000).tolist()
        [9]
    """
    number = len(starts)
    # On a GPU each iteration launches kernels, so an unrolled loop is faster; on a CPU it is slower.
    unrolled = 1 if jax.default_backend() == "cpu" else _CHUNK // 2
    # One copy of the weights per start halves the time: the loop then has no broadcasting.
    wide = jnp.broadcast_to(weights[:, None], (DIM, number))
    pole = jnp.broadcast_to(task[:, None], (2, number))

    def step(_: Any, carry: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
        state, count, up = carry
        after = advance(state, chosen_push(wide, state).astype(starts.dtype), pole)
        # A fallen pole keeps its state, because Euler steps of a whirling pole diverge to NaN.
        after = tuple(jnp.where(up, new, old) for new, old in zip(after, state, strict=True))
        return after, count + up, up & is_up(after)

    def chunk(carry: tuple[Array, Any]) -> tuple[Array, Any]:
        return carry[0] + _CHUNK, lax.fori_loop(0, _CHUNK, step, carry[1], unroll=unrolled)

    start: State = tuple(starts.T)
    nothing = jnp.zeros(number, jnp.int32)
    _, (_, count, _) = lax.while_loop(
        lambda carry: (carry[0] < most) & carry[1][2].any(),
        chunk,
        (jnp.int32(0), (start, nothing, nothing == 0)),
    )
    return jnp.minimum(count, most)


@dataclass(frozen=True)
class CartpoleFitness:
    """The mean number of steps that a network keeps a pole upright.

    Args:
        starts: the number of starts to average over.
        steps: the maximum number of steps of an episode.
    """

    starts: int = 10
    steps: int = 1000

    def __call__(self, solution: Array, task: Array) -> Array:
        """Return the fitness, a scalar."""
        starts = jnp.asarray(start_states(self.starts), solution.dtype)
        missing = (self.steps - steps_upright(solution, task, starts, self.steps)).sum()
        # Dividing the missing steps makes the maximum exact, however a compiler rounds divisions.
        return self.steps - missing.astype(solution.dtype) / self.starts


@dataclass(frozen=True)
class CartpoleDrawing(Drawing):
    """Draws the cart and the pole at several moments of the worst episode, from light to dark, the last one in red.

    Args:
        starts: as for the fitness.
        steps: as for the fitness.
    """

    size: ClassVar[tuple[float, float]] = (5, 3.5)

    starts: int = 10
    steps: int = 1000

    def many(self, solutions: np.ndarray, tasks: np.ndarray) -> Sketch:
        """Draw several solutions at once: `solutions (n, 16)`, `tasks (n, 2)`.

        Example:
            >>> import numpy as np
            >>> sketch = CartpoleDrawing(starts=2).many(np.zeros((1, 16)), np.array([[0.1, 0.5]]))
            >>> sketch.titles[0].splitlines()[1]
            'upright for 8 to 10 steps'
        """
        counts, moments = _snapshots(solutions, tasks, self.starts, self.steps)
        tips = 2 * tasks[:, 1, None, None] * np.stack([np.sin(moments[..., 1]), np.cos(moments[..., 1])], axis=2)
        feet = np.stack([moments[..., 0], np.zeros_like(moments[..., 0])], axis=2)
        shades = [f"#{255 - i:02x}{255 - i:02x}{255 - i:02x}" for i in np.linspace(60, 220, _SNAPSHOTS).astype(int)]
        strokes = [Stroke(points=np.array([[-FARTHEST, 0], [FARTHEST, 0]]), colour="#bbbbbb", width=1)]
        for i, shade in enumerate(shades):
            foot, last = feet[:, i], i == _SNAPSHOTS - 1
            pole = np.stack([foot, foot + tips[:, i]], axis=1)
            colour = "#d1495b" if last else shade
            strokes.append(Stroke(points=pole, colour=colour, width=2))
            strokes.append(Stroke(points=foot[:, None], colour="#2a6f97" if last else shade, width=0, marker="s"))
        titles = [
            f"pole {mass:.3f} kg, 2 x {half:.3f} m\nupright for {least} to {most} steps"
            for (mass, half), least, most in zip(
                tasks.tolist(), counts.min(axis=1).tolist(), counts.max(axis=1).tolist(), strict=True
            )
        ]
        # Leave room for a cart that has just left its track, and for the longest pole.
        limits = np.tile([-FARTHEST - 0.4, FARTHEST + 0.4, -0.3, 2 * UPPER[1] + 0.3], (len(tasks), 1))
        return Sketch(strokes=strokes, limits=limits, titles=titles, labels=("x (m); red: at the end", "height (m)"))


@partial(jax.jit, static_argnames=("starts", "steps"))
def _episode(weights: Array, task: Array, starts: int, steps: int) -> tuple[Array, Array]:
    """Return the steps upright per start, `(starts,)`, and the states of the worst episode, `(steps + 1, 4)`."""
    states = jnp.asarray(start_states(starts), weights.dtype)
    counts = steps_upright(weights, task, states, steps)

    def step(state: State, _: None) -> tuple[State, Array]:
        after = advance(state, chosen_push(weights, state).astype(weights.dtype), task)
        after = tuple(jnp.where(is_up(state), new, old) for new, old in zip(after, state, strict=True))
        return after, jnp.stack(after)

    first = states[counts.argmin()]
    _, path = lax.scan(step, tuple(first), None, length=steps)
    return counts, jnp.concatenate([first[None], path])


def _snapshots(solutions: np.ndarray, tasks: np.ndarray, starts: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps upright, `(n, starts)`, and position and angle at several moments, `(n, moments, 2)`."""
    counts, moments = [], []
    for begin in range(0, len(solutions), 256):  # the states of a block take 4 MB
        block = slice(begin, begin + 256)
        count, path = jax.device_get(
            jax.vmap(lambda weights, task: _episode(weights, task, starts, steps))(solutions[block], tasks[block])
        )
        when = np.linspace(0, count.min(axis=1), _SNAPSHOTS, axis=1).round().astype(int)
        counts.append(count)
        moments.append(np.take_along_axis(path[..., ::2], when[:, :, None], axis=1))
    return np.concatenate(counts), np.concatenate(moments)
