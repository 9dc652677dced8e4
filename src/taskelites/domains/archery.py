"""Archery: aim a bow at every distance and in every side wind.

A task is `[distance, wind]`: the distance of the target in m, and the sideways acceleration of the arrow by the wind in
m/s2. A solution is the aim, `[yaw, pitch]` in radians. The fitness is the score of the arrow, 0 to 1 in steps of 0.1.
Most aims miss the target and score 0: the fitness landscape is a plateau with one small hill.

From Anne and Mouret, "Parametric-Task MAP-Elites" (GECCO 2024). The arrow leaves at 70 m/s in the direction
(-sin yaw, cos yaw cos pitch, cos yaw sin pitch) - to the right, ahead, up - and falls with 9.8 m/s2. The target has ten
rings, each 0.061 m wide. An arrow that crosses its plane `miss` metres from the centre scores
max(0, 10 - floor(miss / 0.061)) / 10.

An arrow on the edge between two rings counts for the outer one. In 64 bits this is exact up to the last bits of `miss`.
In 32 bits the error of `miss` is up to 1e-6 m, so an arrow that close to an edge may score 0.1 more or less: this
happened to 2 of 2,000,000 random arrows on the target.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from taskelites.domains.family import tasks_in_box
from taskelites.problem.problem import Domain
from taskelites.problem.sketch import Drawing, Sketch, Stroke

NAMES = ("distance", "wind")
LOWER, UPPER = (5.0, -10.0), (40.0, 10.0)
WIDEST_AIM = float(np.pi / 12)

SPEED = 70.0
GRAVITY = 9.8
RINGS = 10
RING_WIDTH = 0.061
# Outer edges of the rings, from the innermost.
EDGES = RING_WIDTH * np.arange(1, RINGS + 1)
_SCORES = np.arange(RINGS + 1) / RINGS

# One colour per two rings, as on real targets.
_COLOURS = ("#f2b632", "#d1495b", "#2a6f97", "#333333", "#999999")


def make(tasks: Any = 5000, seed: int = 0) -> Domain:
    """Make the archery domain.

    Args:
        tasks: the number of tasks, spread as a centroidal Voronoi tessellation; or descriptors `[distance, wind]`,
            `(n, 2)`, in [5, 40] m and [-10, 10] m/s2; or a file of descriptors.
        seed: seed of the tessellation.

    Example:
        >>> import taskelites as te
        >>> archery = te.domain("archery", tasks=300)
        >>> archery.dim, archery.tasks.names, archery.worst
        (2, ('distance', 'wind'), 0.0)
    """
    chosen = tasks_in_box("archery", tasks, LOWER, UPPER, names=NAMES, seed=seed)
    return Domain(
        name="archery",
        fitness=ArcheryFitness(),
        tasks=chosen,
        bounds=(-WIDEST_AIM, WIDEST_AIM),
        dim=2,
        call="jax",
        draw=ArcheryDrawing(),
        optimum=np.ones(len(chosen)),  # `aim` hits the centre of every target in the box
        worst=0.0,
    )


def landing(solution: Any, task: Any, xp: Any = jnp) -> tuple[Any, Any]:
    """Return where the arrow crosses the plane of the target: metres to the right of its centre, and above it.

    Args:
        solution: `[yaw, pitch]` in radians, `(2,)`, or `(2, n)` for n arrows, one per column.
        task: `[distance, wind]`, `(2,)` or `(2, n)`.
        xp: numpy or jax.numpy.

    Example:
        >>> import numpy as np
        >>> right, up = landing(np.zeros(2), np.array([35.0, 2.0]), xp=np)  # straight ahead: half a second
        >>> float(right), round(float(up), 9)
        (0.25, -1.225)
    """
    yaw, pitch = solution[0], solution[1]
    time = task[0] / (SPEED * xp.cos(yaw) * xp.cos(pitch))
    right = -SPEED * xp.sin(yaw) * time + 0.5 * task[1] * time * time
    up = SPEED * xp.cos(yaw) * xp.sin(pitch) * time - 0.5 * GRAVITY * time * time
    return right, up


def rings_hit(miss: Any, xp: Any = jnp) -> Any:
    """Return the points of an arrow, 0 to 10, given its distance from the centre in m.

    This is max(0, 10 - floor(miss / 0.061)), computed without a division, because compilers round divisions
    differently.

    Example:
        >>> import numpy as np
        >>> [int(rings_hit(miss, xp=np)) for miss in (0.0, 0.060, 0.061, 0.6, 0.61, 7.0)]
        [10, 10, 9, 1, 0, 0]
    """
    miss = xp.asarray(miss)
    return (miss[..., None] < xp.asarray(EDGES, dtype=miss.dtype)).sum(axis=-1)


@dataclass(frozen=True)
class ArcheryFitness:
    """The score of one arrow on one target, 0 to 1."""

    def __call__(self, solution: Array, task: Array) -> Array:
        """Return the fitness, a scalar.

        Example:
            >>> import jax.numpy as jnp
            >>> float(ArcheryFitness()(jnp.array([0.0, 0.06]), jnp.array([30.0, 0.0])))  # 0.9 m too high
            0.0
        """
        right, up = landing(solution, task)
        # A table, because a compiled division by 10 gives 0.30000000000000004 for 3.
        return jnp.asarray(_SCORES, solution.dtype)[rings_hit(jnp.sqrt(right * right + up * up))]


def aim(task: Any) -> np.ndarray:
    """Return the flat shot through the centre of the target, `[yaw, pitch]`: `(2,)` for one task, `(n, 2)` for n.

    An arrow with flight time t hits the centre if its velocity is (-wind t / 2, distance / t, gravity t / 2). The norm
    of that velocity is the arrow's speed for one short t, a root of
    (wind^2 + gravity^2) t^4 / 4 - speed^2 t^2 + distance^2.

    Example:
        >>> import numpy as np
        >>> aim(np.array([40.0, 10.0])).round(4).tolist()
        [0.0409, 0.0401]
    """
    distance, wind = np.moveaxis(np.asarray(task, dtype=np.float64), -1, 0)
    push = (wind**2 + GRAVITY**2) / 4
    # This form of the smaller root has no cancellation.
    time = np.sqrt(2 * distance**2 / (SPEED**2 + np.sqrt(SPEED**4 - 4 * push * distance**2)))
    yaw = np.arcsin(wind * time / 2 / SPEED)
    pitch = np.arctan2(GRAVITY * time / 2, distance / time)
    return np.stack([yaw, pitch], axis=-1)


@dataclass(frozen=True)
class ArcheryDrawing(Drawing):
    """Draws the target, the point where the arrow hits its plane, and the same for a shot straight ahead."""

    def many(self, solutions: np.ndarray, tasks: np.ndarray) -> Sketch:
        """Draw several solutions at once: `solutions (n, 2)`, `tasks (n, 2)`.

        Example:
            >>> import numpy as np
            >>> ArcheryDrawing().many(np.zeros((1, 2)), np.array([[35.0, 2.0]])).titles[0].splitlines()[1]
            'score 0.0, 1.2502 m from the centre'
        """
        arrows = np.stack(landing(solutions.T, tasks.T, xp=np), axis=1)
        straight = np.stack(landing(np.zeros_like(solutions.T), tasks.T, xp=np), axis=1)
        turn = np.linspace(0, 2 * np.pi, 25)
        circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
        strokes = [
            Stroke(points=edge * circle, colour=colour, width=1.5)
            for edge, colour in zip(EDGES[1::2], _COLOURS, strict=True)
        ]
        strokes += [
            Stroke(points=straight[:, None], colour="#777777", width=0, marker="s", size=5, label="straight ahead"),
            Stroke(points=arrows[:, None], colour="black", width=0, marker="*", size=11, label="arrow"),
        ]
        reach = 1.15 * np.maximum(EDGES[-1], np.abs(np.concatenate([arrows, straight], axis=1)).max(axis=1))
        misses = np.hypot(*arrows.T)
        titles = [
            f"{distance:.3f} m, wind {wind:.3f} m/s²\nscore {points / RINGS:.1f}, {miss:.4f} m from the centre"
            for (distance, wind), points, miss in zip(
                tasks.tolist(), rings_hit(misses, xp=np).tolist(), misses.tolist(), strict=True
            )
        ]
        # The margin below is wider, because the legend is there and an arrow shot straight ahead lands there.
        limits = np.stack([-1.25 * reach, 1.25 * reach, -1.5 * reach, reach], axis=1)
        return Sketch(strokes=strokes, limits=limits, titles=titles, labels=("to the right (m)", "up (m)"))
