"""Postures: reach every point with a jointed arm, in as many ways as there are.

A task is a point to reach, `[x, y]`, in m. A solution sets the joints of a planar arm with 8 links by default and a
total length of 1 m; each joint turns up to 90 degrees to either side. The fitness is minus the distance from the tip to
the point. The fitness function also returns a behaviour, two numbers in [0, 1] that describe how the point is reached:

- approach: the direction of the last link, as a fraction of a full turn from the x axis (0.25 is upwards; 0 and 1 are
  the same direction);
- side: the distance of the middle joint to the left of the line from the base to the point, in m, plus 0.5. Above 0.5
  the arm bends to the left, below 0.5 to the right.

Of a grid of 10 x 10 behaviours, 42 to 84 are reachable within 1 cm of the point (median over 40 points: 76).

The domain is meant for algorithms that keep several solutions per task, such as Multi-task multi-behaviour MAP-Elites
(Anne and Mouret, "Multi-task multi-behavior MAP-Elites", GECCO 2023). The arm is the one of the arm domain (`joints`).
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from taskelites.domains.arm import joints
from taskelites.domains.family import tasks_in_box
from taskelites.errors import whole_number
from taskelites.problem.problem import Domain
from taskelites.problem.sketch import Drawing, Sketch, Stroke

NAMES = ("x", "y")
# The corners are 0.71 m away, so an arm of 1 m can bend in different ways at every point.
LOWER, UPPER = (-0.5, -0.5), (0.5, 0.5)
BEHAVIOUR = [(0.0, 1.0), (0.0, 1.0)]
BEHAVIOUR_NAMES = ("approach", "side")


def make(tasks: Any = 500, dim: int = 8, seed: int = 0) -> Domain:
    """Make the postures domain.

    Args:
        tasks: the number of points, spread as a centroidal Voronoi tessellation; or the points `[x, y]`, `(n, 2)`, in
            [-0.5, 0.5] m; or a file of points.
        dim: the number of links, at least 4: fewer can't reach every point.
        seed: seed of the tessellation.

    Example:
        >>> make(tasks=300).tasks
        <Tasks: 300 rows of 2 descriptors, Euclidean distance>
    """
    dim = whole_number("dim", dim, least=4)
    chosen = tasks_in_box("postures", tasks, LOWER, UPPER, names=NAMES, seed=seed)
    points = chosen.descriptors
    assert points is not None
    return Domain(
        name="postures",
        fitness=PosturesFitness(),
        tasks=chosen,
        bounds=(0.0, 1.0),
        dim=dim,
        behaviour=BEHAVIOUR,
        call="jax",
        draw=PosturesDrawing(),
        optimum=np.zeros(len(chosen)),
        worst=-(np.hypot(*points.T) + 1.0),
    )


def posture(solution: Any, xp: Any = jnp) -> Any:
    """Return the positions of the joints and the tip, `(dim + 1, 2)`, with the base at (0, 0).

    Args:
        solution: `(dim,)`, or `(dim, n)` for n arms, which returns `(dim + 1, 2, n)`.
        xp: numpy or jax.numpy.

    Example:
        >>> import numpy as np
        >>> posture(np.array([1.0, 0.5, 0.5, 0.5]), xp=np)[-1].round(
        ...     9
        ... ).tolist()  # 90 degrees to the left, then straight
        [0.0, 1.0]
    """
    dim = solution.shape[0]
    # The first number of the task scales the range of `joints`, which is 180 degrees / dim.
    return joints(solution, (dim / 2, 1.0), xp=xp)


def behaviour(places: Any, task: Any, xp: Any = jnp) -> Any:
    """Return the behaviour, `[approach, side]`, `(2,)`.

    Args:
        places: positions of the joints and the tip, `(dim + 1, 2)`, or `(dim + 1, 2, n)` for n arms, which returns
            `(2, n)`.
        task: the point to reach, `(2,)` or `(2, n)`.
        xp: numpy or jax.numpy.

    Example:
        >>> import numpy as np
        >>> straight = np.full(8, 0.5)
        >>> behaviour(posture(straight, xp=np), np.array([0.0, 0.5]), xp=np).tolist()
        [0.0, 0.0]
    """
    last = places[-1] - places[-2]
    approach = (xp.arctan2(last[1], last[0]) / (2 * np.pi)) % 1.0
    middle = places[(len(places) - 1) // 2]
    # For a point at the base the line is undefined; the x axis takes its place.
    far = xp.hypot(task[0], task[1])
    east, north = xp.where(far > 0, task[0], 1.0), xp.where(far > 0, task[1], 0.0)
    side = (east * middle[1] - north * middle[0]) / xp.where(far > 0, far, 1.0)
    return xp.stack([approach, xp.clip(side + 0.5, 0.0, 1.0)])


@dataclass(frozen=True)
class PosturesFitness:
    """Minus the distance from the tip to the point, and the behaviour."""

    def __call__(self, solution: Array, task: Array) -> tuple[Array, Array]:
        """Return the fitness, a scalar, and the behaviour, `(2,)`.

        Example:
            >>> import jax.numpy as jnp
            >>> fitness, how = PosturesFitness()(jnp.full(8, 0.5), jnp.array([0.5, 0.0]))  # 0.5 m too far
            >>> round(float(fitness), 6), how.tolist()
            (-0.5, [0.0, 0.5])
        """
        places = posture(solution)
        off = places[-1] - task
        return -jnp.sqrt(off[0] * off[0] + off[1] * off[1]), behaviour(places, task)


@dataclass(frozen=True)
class PosturesDrawing(Drawing):
    """Draws the arm in its posture, with its middle joint and the point to reach."""

    def many(self, solutions: np.ndarray, tasks: np.ndarray) -> Sketch:
        """Draw several solutions at once: `solutions (n, dim)`, `tasks (n, 2)`.

        Example:
            >>> import numpy as np
            >>> sketch = PosturesDrawing().many(np.full((1, 8), 0.5), np.array([[0.5, 0.0]]))
            >>> sketch.titles[0].splitlines()
            ['to (0.500, 0.000), 0.5000 m away', 'approach 0.000, side 0.500']
        """
        solutions, tasks = np.asarray(solutions, np.float64), np.asarray(tasks, np.float64)
        by_column = posture(solutions.T, xp=np)
        how = behaviour(by_column, tasks.T, xp=np)
        points = np.moveaxis(by_column, 2, 0)
        colour, dim = "#2a6f97", solutions.shape[1]
        line = np.stack([np.zeros_like(tasks), tasks], axis=1)
        strokes = [
            Stroke(points=line, colour="#bbbbbb", width=1),
            Stroke(points=points, colour=colour, width=2.5, marker="o", size=4, label="arm"),
            Stroke(points=np.zeros((1, 2)), colour="black", width=0, marker="s", size=8, label="base"),
            Stroke(points=points[:, dim // 2, None], colour="#f2b632", width=0, marker="o", size=8, label="middle"),
            Stroke(points=tasks[:, None], colour="#d1495b", width=0, marker="*", size=14, label="point"),
        ]
        away = np.hypot(*(points[:, -1] - tasks).T)
        titles = [
            f"to ({x:.3f}, {y:.3f}), {distance:.4f} m away\n{BEHAVIOUR_NAMES[0]} {approach:.3f}, "
            f"{BEHAVIOUR_NAMES[1]} {side:.3f}"
            for (x, y), distance, approach, side in zip(tasks.tolist(), away.tolist(), *how.tolist(), strict=True)
        ]
        limits = np.tile([-1.1, 1.1, -1.1, 1.1], (len(tasks), 1))
        return Sketch(strokes=strokes, limits=limits, titles=titles, labels=("x (m)", "y (m)"))
