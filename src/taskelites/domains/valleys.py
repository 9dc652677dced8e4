"""Valleys: find the deepest of many, which moves as the task changes.

A task is a point `[east, north]` of the unit square. A solution is a point x of the unit cube, 10 numbers by default.
The fitness is minus a rotated Rastrigin function whose only global optimum, 0, lies at o(task):

    z = 4 R (x - o(task))        fitness = -mean over i of (z_i^2 + 2 sin^2(pi z_i))
    o_i(task) = 0.5 + 0.3 sin(2 pi (a_i . task + p_i))

R is a rotation, so no coordinate can be optimised alone. R, a (in [-1, 1]) and p (in [0, 1]) are fixed per number of
dimensions. Along each axis of z neighbouring valleys are about 1 apart, so solutions of a near task help and solutions
of a distant task mislead. The domain is meant for comparing algorithms and was not tuned for any of them. After
Rastrigin, "Systems of extremal control" (1974), with the factor 1 instead of 10, which makes hills of moderate height.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from taskelites.domains.family import tasks_in_box
from taskelites.errors import whole_number
from taskelites.problem.problem import Domain
from taskelites.problem.sketch import Drawing, Sketch, Stroke

NAMES = ("east", "north")
# Width of the unit cube in z, which is the number of valleys along an axis.
STRETCH = 4.0
HEIGHT = 2.0
CENTRE, SWING = 0.5, 0.3


def make(tasks: Any = 5000, dim: int = 10, seed: int = 0) -> Domain:
    """Make the valleys domain.

    Args:
        tasks: the number of tasks, spread as a centroidal Voronoi tessellation; or descriptors `[east, north]`,
            `(n, 2)`, in [0, 1]; or a file of descriptors.
        dim: length of a solution.
        seed: seed of the tessellation; the valleys do not depend on it.

    Example:
        >>> import taskelites as te
        >>> valleys = te.domain("valleys", tasks=300, dim=2)
        >>> valleys.dim, valleys.tasks.names, float(valleys.optimum.max())
        (2, ('east', 'north'), 0.0)
    """
    dim = whole_number("dim", dim, least=1, most=10_000)
    chosen = tasks_in_box("valleys", tasks, [0, 0], [1, 1], names=NAMES, seed=seed)
    descriptors = chosen.descriptors
    assert descriptors is not None
    return Domain(
        name="valleys",
        fitness=ValleysFitness(dim=dim),
        tasks=chosen,
        bounds=(0.0, 1.0),
        dim=dim,
        call="jax",
        draw=ValleysDrawing(),
        optimum=np.zeros(len(chosen)),
        worst=worst(descriptors, dim),
    )


@dataclass(frozen=True, eq=False)
class Constants:
    """The constants of the fitness, float64, fixed per number of dimensions.

    Attributes:
        rotation: R, `(dim, dim)`.
        slopes: a, `(dim, 2)`.
        phases: p, `(dim,)`.
    """

    rotation: np.ndarray
    slopes: np.ndarray
    phases: np.ndarray


@lru_cache(maxsize=8)
def constants(dim: int) -> Constants:
    """Return the constants for `dim` dimensions.

    Example:
        >>> import numpy as np
        >>> rotation = constants(10).rotation
        >>> bool(np.allclose(rotation @ rotation.T, np.eye(10)))
        True
    """
    rng = np.random.default_rng(dim)
    slopes, phases = rng.uniform(-1, 1, (dim, 2)), rng.uniform(0, 1, dim)
    rotation, triangle = np.linalg.qr(rng.normal(size=(dim, dim)))
    # Fixes the signs of the columns, which QR leaves to the linear algebra library.
    return Constants(rotation=rotation * np.sign(np.diag(triangle)), slopes=slopes, phases=phases)


def best(task: Any, dim: int, xp: Any = jnp) -> Any:
    """Return the only solution with fitness 0: `(dim,)` for one task, `(n, dim)` for tasks `(n, 2)`.

    Example:
        >>> import numpy as np
        >>> best(np.array([0.5, 0.5]), 2, xp=np).round(4).tolist()
        [0.7535, 0.2753]
    """
    fixed = constants(dim)
    slopes, phases = (xp.asarray(values, task.dtype) for values in (fixed.slopes, fixed.phases))
    turns = task[..., None, 0] * slopes[:, 0] + task[..., None, 1] * slopes[:, 1] + phases
    return CENTRE + SWING * xp.sin(2 * np.pi * turns)


def worst(tasks: np.ndarray, dim: int) -> np.ndarray:
    """Return a lower bound on the fitness of each task, `(n,)`: the farthest corner, with every sine at its peak.

    Example:
        >>> import numpy as np
        >>> bool((worst(np.array([[0.5, 0.5]]), 10) < -HEIGHT).all())
        True
    """
    middle = best(np.asarray(tasks), dim, xp=np)
    return -(STRETCH**2 * np.square(np.maximum(middle, 1 - middle)).mean(axis=1) + HEIGHT)


@dataclass(frozen=True)
class ValleysFitness:
    """Minus the height above the deepest valley, for one solution and one task.

    Args:
        dim: length of a solution.
    """

    dim: int = 10

    def __call__(self, solution: Array, task: Array) -> Array:
        """Return the fitness, a scalar."""
        rotation = jnp.asarray(constants(self.dim).rotation, solution.dtype)
        # By default, accelerators round the factors of products to fewer bits.
        turned = jnp.matmul(rotation, solution - best(task, self.dim), precision=lax.Precision.HIGHEST)
        z = STRETCH * turned
        # sin^2 rather than 1 - cos, which in 32 bits is exactly 0 in a wide neighbourhood of 0.
        return -jnp.mean(z * z + HEIGHT * jnp.square(jnp.sin(np.pi * z)))


@dataclass(frozen=True)
class ValleysDrawing(Drawing):
    """Draws the numbers of a solution next to the numbers of the optimum."""

    def many(self, solutions: np.ndarray, tasks: np.ndarray) -> Sketch:
        """Draw several solutions at once: `solutions (n, dim)`, `tasks (n, 2)`.

        Example:
            >>> import numpy as np
            >>> task = np.array([[0.5, 0.5]])
            >>> ValleysDrawing().many(best(task, 3, xp=np), task).titles[0].splitlines()
            ['east 0.500, north 0.500', '0.0000 from the best in the mean']
        """
        number, dim = solutions.shape
        right = best(np.asarray(tasks, np.float64), dim, xp=np)
        places = np.broadcast_to(np.arange(1, dim + 1), (number, dim))
        strokes = [
            Stroke(
                points=np.stack([places, right], axis=2), colour="#d1495b", width=0, marker="*", size=9, label="best"
            ),
            Stroke(
                points=np.stack([places, solutions], axis=2), colour="#2a6f97", marker="o", size=4, label="solution"
            ),
        ]
        titles = [
            f"{NAMES[0]} {east:.3f}, {NAMES[1]} {north:.3f}\n{apart:.4f} from the best in the mean"
            for (east, north), apart in zip(tasks.tolist(), np.abs(solutions - right).mean(axis=1), strict=True)
        ]
        limits = np.tile([0.5, dim + 0.5, -0.02, 1.02], (number, 1))
        return Sketch(strokes=strokes, limits=limits, titles=titles, labels=("number", "value"), equal=False)
