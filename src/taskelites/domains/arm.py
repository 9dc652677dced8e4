"""The planar arm of the paper (section 4): reach a point with a chain of links.

A task is `[alpha_max, length]`, the range of each joint and the length of the arm, both in [0, 1]. A solution sets each
joint within its limits. The fitness is minus the distance from the tip to the target. Later papers on many-task search
use exp(-distance), a number in (0, 1], and the target (0.5, 0.5): `form="exponential"`.

Deviation from the paper: joint i turns link i, as in the paper's code. Its text, read literally, leaves the first link
fixed and the last joint without effect.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from taskelites.disk_cache import cached_array
from taskelites.domains.family import tasks_in_box
from taskelites.errors import InvalidValueError, finite_array, one_of, whole_number
from taskelites.problem.problem import Domain
from taskelites.problem.sketch import Drawing, Sketch, Stroke

NAMES = ("alpha_max", "length")
FORMS = ("distance", "exponential")


def make(
    tasks: Any = 5000,
    dim: int = 10,
    target: tuple[float, float] = (1.0, 1.0),
    form: str = "distance",
    seed: int = 0,
) -> Domain:
    """Make the arm domain.

    Args:
        tasks: the number of tasks, spread as a centroidal Voronoi tessellation; or descriptors `[alpha_max, length]`,
            `(n, 2)`, in [0, 1]; or a file of descriptors.
        dim: the number of links.
        target: the point to reach, in m. The arm is at most 1 m long and starts at (0, 0).
        form: form of the fitness: "distance" is minus the distance to the target, as in the paper; "exponential" is
            exp(-distance).
        seed: seed of the tessellation.

    Example:
        >>> import taskelites as te
        >>> result = te.solve(te.domain("arm", tasks=500), evaluations=50_000)
        >>> bool(0 < result.gap < 0.01)
        True
    """
    dim = whole_number("dim", dim, least=1)
    point = finite_array("target", target, shape="(2,)", ndim=1)
    if point.shape != (2,):
        raise InvalidValueError(f"target must be a point (x, y), not {target!r}")
    one_of("form", form, FORMS)
    chosen = tasks_in_box("the arm", tasks, [0, 0], [1, 1], names=NAMES, seed=seed)
    fitness = ArmFitness(target=(float(point[0]), float(point[1])), form=form)
    descriptors = chosen.descriptors
    assert descriptors is not None
    worst = -(np.hypot(*point) + descriptors[:, 1])
    options: dict[str, Any] = {"target": list(fitness.target)}
    if form == "exponential":
        worst = np.exp(worst)
        options["form"] = form  # only here, so that runs made before this option existed still resume

    def optimum() -> np.ndarray:
        best = cached_array(arm_optimum, descriptors, dim, fitness.target)
        return np.exp(best) if form == "exponential" else best

    return Domain(
        name="arm",
        fitness=fitness,
        tasks=chosen,
        bounds=(0.0, 1.0),
        dim=dim,
        call="jax",
        draw=ArmDrawing(target=fitness.target),
        optimum=optimum,
        worst=worst,
        options=options,
    )


def joints(solution: Any, task: Any, xp: Any = jnp) -> Any:
    """Return the positions of the joints and the tip, `(dim + 1, 2)`, with the base at (0, 0).

    Args:
        solution: `(dim,)`, or `(dim, n)` for n arms, which returns `(dim + 1, 2, n)`.
        task: `[alpha_max, length]`, `(2,)` or `(2, n)`.
        xp: numpy or jax.numpy.

    Example:
        >>> import jax.numpy as jnp
        >>> from taskelites.domains.arm import joints
        >>> joints(jnp.full(4, 0.5), jnp.array([1.0, 0.5]))[-1].tolist()
        [0.5, 0.0]
    """
    dim = solution.shape[0]
    heading = xp.cumsum((solution - 0.5) * task[0] * (2 * np.pi / dim), axis=0)
    links = xp.stack([xp.cos(heading), xp.sin(heading)], axis=1) * (task[1] / dim)
    return xp.concatenate([xp.zeros_like(links[:1]), xp.cumsum(links, axis=0)])


@dataclass(frozen=True)
class ArmFitness:
    """Minus the distance from the tip to the target, or exp(-distance), for one solution and one task."""

    target: tuple[float, float]
    form: str = "distance"

    def __call__(self, solution: Array, task: Array) -> Array:
        """Return the fitness, a scalar."""
        dim = solution.shape[0]
        turns = (solution - 0.5) * (task[0] * (2 * np.pi / dim))

        def add_link(tip: tuple[Array, Array, Array], turn: Array) -> tuple[tuple[Array, Array, Array], None]:
            heading, x, y = tip
            heading = heading + turn
            return (heading, x + jnp.cos(heading), y + jnp.sin(heading)), None

        zero = jnp.zeros((), solution.dtype)
        # An unrolled scan takes half the time of sums over such short rows.
        (_, x, y), _ = lax.scan(add_link, (zero, zero, zero), turns, unroll=min(dim, 32))
        length = task[1] / dim
        x, y = length * x - self.target[0], length * y - self.target[1]
        below = -jnp.sqrt(x * x + y * y)
        return jnp.exp(below) if self.form == "exponential" else below


@dataclass(frozen=True)
class ArmDrawing(Drawing):
    """Draws the arm in its posture, with its target."""

    target: tuple[float, float]

    def many(self, solutions: np.ndarray, tasks: np.ndarray) -> Sketch:
        """Draw several solutions at once: `solutions (n, dim)`, `tasks (n, 2)`.

        Example:
            >>> import numpy as np
            >>> ArmDrawing(target=(1.0, 1.0)).many(np.full((1, 4), 0.5), np.array([[1.0, 0.5]])).strokes[0].points[
            ...     0, -1
            ... ].tolist()
            [0.5, 0.0]
        """
        points = np.moveaxis(joints(solutions.T, tasks.T, xp=np), 2, 0)
        tips, target = points[:, -1:], np.array([self.target])
        colour = "#2a6f97"
        strokes = [
            Stroke(points=points, colour=colour, width=2.5, marker="o", size=4, label="arm"),
            Stroke(points=np.zeros((1, 2)), colour="black", width=0, marker="s", size=8, label="base"),
            Stroke(points=tips, colour=colour, width=0, marker="o", size=8),
            Stroke(points=target, colour="#d1495b", width=0, marker="*", size=14, label="target"),
        ]
        low = np.minimum(points.min(axis=(1, 2)), target.min()) - 0.1
        high = np.maximum(points.max(axis=(1, 2)), target.max()) + 0.1
        distances = np.hypot(*(tips[:, 0] - target).T)
        titles = [
            f"{NAMES[0]} {reach:.3f}, {NAMES[1]} {length:.3f}\n{distance:.4f} m from the target"
            for (reach, length), distance in zip(tasks.tolist(), distances.tolist(), strict=True)
        ]
        limits = np.stack([low, high, low, high], axis=1)
        return Sketch(strokes=strokes, limits=limits, titles=titles, labels=("x (m)", "y (m)"))


def arm_optimum(descriptors: np.ndarray, dim: int, target: tuple[float, float]) -> np.ndarray:
    """Return the optimum of each task, minus the least distance to the target, `(n,)`, in float64.

    No posture reaches further in a direction than the one that turns towards it as fast as the joints allow and then
    goes straight. So each direction gives a lower bound on the distance to the target. If the best bound equals the
    distance of its own posture, that distance is optimal. Otherwise the target is inside the reachable set, and the
    optimum is searched for from several postures.

    Example:
        >>> import numpy as np
        >>> from taskelites.domains.arm import arm_optimum
        >>> arm_optimum(np.array([[0.0, 1.0]]), 10, (1.0, 1.0)).tolist()  # no joint turns: the tip is at (1, 0)
        [-1.0]
    """
    limit = np.pi * descriptors[:, 0] / dim
    length = descriptors[:, 1]
    direction, bound = _outer_bound(limit, length, dim, target)
    heading = _turned(direction, limit, dim)
    reached = _distance(heading, length, target)
    optimum = -reached
    open_cases = np.flatnonzero(reached - np.maximum(bound, 0.0) > 1e-9)
    if len(open_cases):
        optimum[open_cases] = np.maximum(
            optimum[open_cases], -_searched(limit[open_cases], length[open_cases], dim, target)
        )
    return optimum


def _turned(direction: np.ndarray, limit: np.ndarray, dim: int) -> np.ndarray:
    """Return the headings of the links, `(n, dim)`, of the posture that turns to a direction as fast as it can."""
    turn = np.arange(1, dim + 1) * limit[:, None]
    return np.sign(direction)[:, None] * np.minimum(turn, np.abs(direction)[:, None])


def _distance(heading: np.ndarray, length: np.ndarray, target: tuple[float, float]) -> np.ndarray:
    x = length * np.cos(heading).mean(axis=1) - target[0]
    y = length * np.sin(heading).mean(axis=1) - target[1]
    return np.hypot(x, y)


def _outer_bound(
    limit: np.ndarray, length: np.ndarray, dim: int, target: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return, per task, the direction with the best lower bound on the distance, and that bound."""

    def bound(direction: np.ndarray) -> np.ndarray:
        heading = _turned(direction, limit, dim)
        along = length * np.cos(heading - direction[:, None]).mean(axis=1)
        return np.asarray(target[0] * np.cos(direction) + target[1] * np.sin(direction) - along)

    best, height = np.zeros(len(limit)), np.full(len(limit), -np.inf)
    grid, step = np.linspace(-np.pi, np.pi, 361, retstep=True)
    for direction in grid:
        here = bound(np.full(len(limit), direction))
        best, height = np.where(here > height, direction, best), np.maximum(here, height)
    return _golden(bound, best - step, best + step)


def _golden(
    function: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Maximise several functions of one number at once by golden-section search."""
    ratio = (np.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        keep_left = function(left) >= function(right)
        low, high = np.where(keep_left, low, left), np.where(keep_left, right, high)
    middle = (low + high) / 2
    return middle, function(middle)


def _searched(limit: np.ndarray, length: np.ndarray, dim: int, target: tuple[float, float]) -> np.ndarray:
    """Return the least distance that cyclic coordinate descent finds from several postures, to about 1e-6.

    Each joint in turn takes the angle within its limits that brings the tip nearest to the target (Wang and Chen, "A
    combined optimization method for solving the inverse kinematics problem", 1991). This is exact for one joint.
    """
    bend = np.ones(dim)
    s_shape = np.where(np.arange(dim) < dim // 2, 1.0, -1.0)
    best = np.full(len(limit), np.inf)
    for posture in (bend, -bend, s_shape, -s_shape):
        active = np.flatnonzero(best > 1e-9)
        angles = 0.9 * posture * limit[active, None]
        before = np.full(len(active), np.inf)
        for _ in range(200):
            for _ in range(40):
                _turn_joints(angles, limit[active], length[active], target)
            distance = _distance(np.cumsum(angles, axis=1), length[active], target)
            best[active] = np.minimum(best[active], distance)
            moving = (distance > 1e-10) & (before - distance > 1e-9)
            active, angles, before = active[moving], angles[moving], distance[moving]
            if len(active) == 0:
                break
    return best


def _turn_joints(angles: np.ndarray, limit: np.ndarray, length: np.ndarray, target: tuple[float, float]) -> None:
    """Turn each joint of each arm once, in place, with points of the plane as complex numbers."""
    dim = angles.shape[1]
    for joint in range(dim):
        links = np.exp(1j * np.cumsum(angles, axis=1)) * (length / dim)[:, None]
        outer = links[:, joint:].sum(axis=1)
        aim = complex(*target) - links[:, :joint].sum(axis=1)
        wanted = np.angle(aim * outer.conj())
        low, high = -limit - angles[:, joint], limit - angles[:, joint]
        nearer_end = np.where(np.cos(low - wanted) > np.cos(high - wanted), low, high)
        angles[:, joint] += np.where((wanted >= low) & (wanted <= high), wanted, nearer_end)
