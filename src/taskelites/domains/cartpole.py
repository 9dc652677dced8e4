"""Cart-pole: balance every pole, by pushing its cart to the left or to the right.

A task is the pole, `[pole_mass, half_length]`, in kg and m; a solution is the 16 weights of a small neural network that
chooses the pushes, each in [0, 1]; the fitness is how many steps of 0.02 s the pole stays upright, at most 1000, the
mean over ten starts that are the same for all.

The physics is that of Gymnasium's CartPole-v1 (after Barto, Sutton and Anderson, "Neuronlike adaptive elements that
can solve difficult learning control problems", 1983): a cart of 1 kg, pushes of 10 N, explicit Euler steps, over when
the cart is more than 2.4 m from the middle or the pole more than 12 degrees from upright; the step that ends it counts.
As a family of tasks it is from Hatzky, Bartz-Beielstein, Eiben and Yaman, "MONET" (PPSN 2026).

Where this departs from Gymnasium: there, `total_mass` and `polemass_length` stay what they were when `masspole` or
`length` are changed; here they follow. The network sees the state as it is, not rounded to 32 bits.

An upright pole doubles a difference of rounding every 6 to 13 steps. So of controllers that balance for a while and
then fail, the steps differ between 32 and 64 bits, and between machines. Measured: all of 5000 episodes of 500 elites
were held to the end in 32 bits, and 99.7 % of them in 64; of networks near such elites (each weight moved by 0.05) 79 %
of the episodes had the same number of steps, of those over within 100 steps all.
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

# Whether all have fallen is looked at after so many steps: on a GPU, the host waits for each look.
_CHUNK = 50
_SNAPSHOTS = 8

State = tuple[Any, ...]  # position, velocity, angle, spin


def make(tasks: Any = 5000, starts: int = 10, steps: int = 1000, seed: int = 0) -> Domain:
    """The cart-pole.

    Args:
        tasks: how many poles, spread as a centroidal Voronoi tessellation; or descriptors `[pole_mass, half_length]`,
            `(n, 2)`, in [0.05, 0.5] kg and [0.3, 1.2] m; or a file of them.
        starts: how many starts the fitness is the mean of.
        steps: how many steps a pole has to stay upright at most, 0.02 s each.
        seed: of the tessellation; the starts do not depend on it.

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
    """The states that poles start from, `(number, 4)`: position, velocity, angle and spin, each within 0.05.

    They are always the same, and fewer are the first of more.

    Example:
        >>> start_states(2).round(4).tolist()
        [[0.0137, -0.023, -0.0459, -0.0483], [0.0313, 0.0413, 0.0107, 0.0229]]
    """
    return np.random.default_rng(0).uniform(-WIDEST_START, WIDEST_START, (number, 4))


def advance(state: State, push: Any, task: Any, xp: Any = jnp) -> State:
    """The state one step later: cart's position (m) and velocity, pole's angle (radians, to the right) and spin.

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
    """The push that a network chooses, N: 10 to the right where its second output is at least its first, else -10.

    Args:
        weights: `(16, ...)`. Of the four inputs and a bias, in turn, two weights each, one a hidden unit (tanh); then
            of the two hidden units and a bias two each, one an output.
        state: four numbers, or arrays of them.
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
    """Whether the episode goes on from a state.

    Example:
        >>> import numpy as np
        >>> [bool(is_up((place, 0.0, angle, 0.0), xp=np)) for place, angle in ((2.4, 0.2), (2.41, 0.0), (0.0, -0.21))]
        [True, False, False]
    """
    return (xp.abs(state[0]) <= FARTHEST) & (xp.abs(state[2]) <= STEEPEST)


def steps_upright(weights: Array, task: Array, starts: Array, most: int) -> Array:
    """How many steps the pole is kept up from each of some starts, `(n,)`, whole numbers.

    Args:
        weights: `(16,)`, of the network.
        task: `(2,)`, the pole.
        starts: `(n, 4)`, states within the limits.
        most: steps after which it ends.

    Example:
        >>> import jax.numpy as jnp
        >>> always_right = jnp.zeros(16)
        >>> steps_upright(always_right, jnp.array([0.1, 0.5]), jnp.zeros((1, 4)), 1000).tolist()
        [9]
    """
    number = len(starts)
    # On a GPU, each turn of a loop starts kernels, so many steps a turn are faster; a CPU is slower with such code.
    unrolled = 1 if jax.default_backend() == "cpu" else _CHUNK // 2
    # One copy of the weights a start: the loop is then over plain rows, in half the time.
    wide = jnp.broadcast_to(weights[:, None], (DIM, number))
    pole = jnp.broadcast_to(task[:, None], (2, number))

    def step(_: Any, carry: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
        state, count, up = carry
        after = advance(state, chosen_push(wide, state).astype(starts.dtype), pole)
        # The fallen stay where they are, since an Euler step of a pole that whirls would run away to NaN.
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
    """The mean steps that a network keeps a pole upright.

    Args:
        starts: how many starts it is the mean of.
        steps: the most there are.
    """

    starts: int = 10
    steps: int = 1000

    def __call__(self, solution: Array, task: Array) -> Array:
        """The fitness, a scalar."""
        starts = jnp.asarray(start_states(self.starts), solution.dtype)
        missing = (self.steps - steps_upright(solution, task, starts, self.steps)).sum()
        # So that the most there is comes out exactly, whichever way a compiler divides.
        return self.steps - missing.astype(solution.dtype) / self.starts


@dataclass(frozen=True)
class CartpoleDrawing(Drawing):
    """Draws the cart and the pole at some moments, light to dark, the last one red, from the start that goes worst.

    Args:
        starts: of the fitness.
        steps: of the fitness.
    """

    size: ClassVar[tuple[float, float]] = (5, 3.5)

    starts: int = 10
    steps: int = 1000

    def many(self, solutions: np.ndarray, tasks: np.ndarray) -> Sketch:
        """Draw many at once: `solutions (n, 16)`, `tasks (n, 2)`.

        Example:
            >>> import numpy as np
            >>> sketch = CartpoleDrawing(starts=2).many(np.zeros((1, 16)), np.array([[0.1, 0.5]]))
            >>> sketch.titles[0].splitlines()[1]
            'upright for 8 to 10 steps'
        """
        counts, moments = _watched(solutions, tasks, self.starts, self.steps)
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
        # Room for a cart that has just left its track, and for the longest pole.
        limits = np.tile([-FARTHEST - 0.4, FARTHEST + 0.4, -0.3, 2 * UPPER[1] + 0.3], (len(tasks), 1))
        return Sketch(strokes=strokes, limits=limits, titles=titles, labels=("x (m); red: at the end", "height (m)"))


@partial(jax.jit, static_argnames=("starts", "steps"))
def _episode(weights: Array, task: Array, starts: int, steps: int) -> tuple[Array, Array]:
    """Steps upright from each start, and the states of the start that goes worst, `(steps + 1, 4)`."""
    states = jnp.asarray(start_states(starts), weights.dtype)
    counts = steps_upright(weights, task, states, steps)

    def step(state: State, _: None) -> tuple[State, Array]:
        after = advance(state, chosen_push(weights, state).astype(weights.dtype), task)
        after = tuple(jnp.where(is_up(state), new, old) for new, old in zip(after, state, strict=True))
        return after, jnp.stack(after)

    first = states[counts.argmin()]
    _, path = lax.scan(step, tuple(first), None, length=steps)
    return counts, jnp.concatenate([first[None], path])


def _watched(solutions: np.ndarray, tasks: np.ndarray, starts: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps upright, `(n, starts)`, and cart's position and pole's angle at some moments, `(n, moments, 2)`."""
    counts, moments = [], []
    for begin in range(0, len(solutions), 256):  # a block of whole episodes is 4 MB
        block = slice(begin, begin + 256)
        count, path = jax.device_get(
            jax.vmap(lambda weights, task: _episode(weights, task, starts, steps))(solutions[block], tasks[block])
        )
        when = np.linspace(0, count.min(axis=1), _SNAPSHOTS, axis=1).round().astype(int)
        counts.append(count)
        moments.append(np.take_along_axis(path[..., ::2], when[:, :, None], axis=1))
    return np.concatenate(counts), np.concatenate(moments)
