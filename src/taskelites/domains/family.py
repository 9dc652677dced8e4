"""Conversion of a domain's `tasks` argument (a number, an array or a file) to tasks."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from taskelites.errors import InvalidValueError, whole_number
from taskelites.problem.tasks import Tasks, as_tasks, cvt, read


def tasks_in_box(
    owner: str, tasks: Any, lower: Sequence[float], upper: Sequence[float], *, names: Sequence[str], seed: int
) -> Tasks:
    """Return tasks whose descriptors lie in a box.

    Args:
        owner: name of the domain in error messages.
        tasks: the number of tasks, spread as a centroidal Voronoi tessellation; or descriptors `(n, k)`; or a file of
            descriptors.
        lower: lower bound of each descriptor.
        upper: upper bound of each descriptor.
        names: names of the descriptors.
        seed: seed of the tessellation.

    Raises:
        ValueError: if `tasks` has the wrong shape or a descriptor is outside the box.

    Example:
        >>> tasks_in_box("the ramp", [[10.0, 0.5]], [0, 0], [45, 1], names=("angle", "friction"), seed=0).names
        ('angle', 'friction')
    """
    if isinstance(tasks, str | PathLike):
        tasks = read(tasks)
    if isinstance(tasks, int | float | np.integer):
        return cvt(whole_number("tasks", tasks, least=1), lower, upper, seed=seed, names=names)
    given = as_tasks(tasks)
    points = given.descriptors if isinstance(given, Tasks) else None
    ranges = [f"[{low:g}, {high:g}]" for low, high in zip(lower, upper, strict=True)]
    where = f"each in {ranges[0]}" if len(set(ranges)) == 1 else f"in {' and '.join(ranges)}"
    expected = (
        f"tasks of {owner} must be a number, or an array (n, {len(names)}) of [{', '.join(names)}], {where}, or a file"
    )
    if not isinstance(given, Tasks) or points is None:
        raise InvalidValueError(
            f"{expected}, not a family without descriptors; te.tasks.cvt spreads a list over a te.Box"
        )
    if points.shape[1] != len(names):
        raise InvalidValueError(f"{expected}, not of shape {points.shape}")
    outside = np.flatnonzero(((points < lower) | (points > upper)).any(axis=1))
    if len(outside):
        raise InvalidValueError(f"{expected}, but tasks[{outside[0]}] is {points[outside[0]].tolist()}")
    return Tasks(given.objects, descriptors=points, distance=given.distance, scale=given.scale, names=names)
