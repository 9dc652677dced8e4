"""Archery: aim a bow at every distance and in every side wind.

A task is how far away the target stands and how strongly the wind pushes the arrow sideways, `[distance, wind]`, in m
and m/s2; a solution is where to aim, `[yaw, pitch]` in radians; the fitness is the score of the arrow, 0 to 1 in steps
of 0.1. Most aims miss the target and score 0, so a search sees nothing until an arrow hits: a plateau with a small
hill in it.

From Anne and Mouret, "Parametric-Task MAP-Elites" (GECCO 2024). The arrow leaves at 70 m/s in the direction
(-sin yaw, cos yaw cos pitch, cos yaw sin pitch) - to the right, ahead, up - and falls with 9.8 m/s2. The target has ten
rings, each 0.061 m wide. Of an arrow that crosses its plane `miss` metres from the centre, the score is
max(0, 10 - floor(miss / 0.061)) / 10.

On the edge between two rings an arrow counts for the outer one. In 64 bits that holds to the last bits of `miss`. In 32
bits `miss` is off by up to 1e-6 m, so that an arrow that near to an edge may score 0.1 more or less: 2 of 2,000,000
random arrows on the target did.
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

# Two rings of a target share a colour.
_COLOURS = ("#f2b632", "#d1495b", "#2a6f97", "#333333", "#999999")


def make(tasks: Any = 5000, seed: int = 0) -> Domain:
    """Archery.

    Args:
        tasks: how many, spread as a centroidal Voronoi tessellation; or descriptors `[distance, wind]`, `(n, 2)`, in
            [5, 40] m and [-10, 10] m/s2; or a file of them.
        seed: of the tessellation.

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
    """Where the arrow crosses the plane of the target: to the right of its centre, and above it, in m.

    Works by columns too: `solution (2, n)`, `task (2, n)`.

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
    """Points for an arrow so far from the centre, 0 to 10: how many edges of rings it lies within.

    That is max(0, 10 - floor(miss / 0.061)), without a division, which compilers round in different ways.

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
        """The fitness, a scalar.

        Example:
            >>> import jax.numpy as jnp
            >>> float(ArcheryFitness()(jnp.array([0.0, 0.06]), jnp.array([30.0, 0.0])))  # 0.9 m too high
            0.0
        """
        right, up = landing(solution, task)
        # Looked up, since a compiled division by 10 gives 0.30000000000000004 for 3.
        return jnp.asarray(_SCORES, solution.dtype)[rings_hit(jnp.sqrt(right * right + up * up))]


def aim(task: Any) -> np.ndarray:
    """The flat shot through the centre of the target, `[yaw, pitch]`; of tasks `(n, 2)`, one row each.

    For the flight time t, the velocity that ends in the centre is (-wind t / 2, distance / t, gravity t / 2); its size
    is the arrow's for one short t, a root of (wind^2 + gravity^2) t^4 / 4 - speed^2 t^2 + distance^2.

    Example:
        >>> import numpy as np
        >>> aim(np.array([40.0, 10.0])).round(4).tolist()
        [0.0409, 0.0401]
    """
    distance, wind = np.moveaxis(np.asarray(task, dtype=np.float64), -1, 0)
    push = (wind**2 + GRAVITY**2) / 4
    # The form of the smaller root that subtracts nothing.
    time = np.sqrt(2 * distance**2 / (SPEED**2 + np.sqrt(SPEED**4 - 4 * push * distance**2)))
    yaw = np.arcsin(wind * time / 2 / SPEED)
    pitch = np.arctan2(GRAVITY * time / 2, distance / time)
    return np.stack([yaw, pitch], axis=-1)


@dataclass(frozen=True)
class ArcheryDrawing(Drawing):
    """Draws the target, where the arrow hits its plane, and where one shot straight ahead would."""

    def many(self, solutions: np.ndarray, tasks: np.ndarray) -> Sketch:
        """Draw many at once: `solutions (n, 2)`, `tasks (n, 2)`.

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
        # More room below, for the legend: an arrow shot straight ahead lands there.
        limits = np.stack([-1.25 * reach, 1.25 * reach, -1.5 * reach, reach], axis=1)
        return Sketch(strokes=strokes, limits=limits, titles=titles, labels=("to the right (m)", "up (m)"))
