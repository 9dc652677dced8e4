"""Six-legged walking (section 5 of the paper): a gait for every body.

A task is 12 lengths, those of the tibias and femurs of six legs; a solution is the 36 numbers of a gait; the fitness is
how far the robot walks forward in 3 s, in metres. A walk ends before when the robot leans over by more than 22.5
degrees or leaves its corridor, 0.5 m to each side; what it has walked until then counts.

Where this departs from the paper and its code: docs/hexapod.md.
"""

import importlib
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from io import StringIO
from os import PathLike
from typing import Any

import numpy as np

from taskelites.domains.hexapod.body import LOWER, NAMES, UPPER, as_damage, check_lengths
from taskelites.domains.hexapod.drawing import HexapodDrawing
from taskelites.domains.hexapod.episode import Rules
from taskelites.domains.hexapod.gait import DIM
from taskelites.domains.hexapod.quiet import quiet
from taskelites.domains.hexapod.rendering import HexapodFilm
from taskelites.errors import one_of, whole_number
from taskelites.problem import Domain
from taskelites.tasks import Tasks, as_tasks, read, uniform

# How each is called, its module, the extra of this package that brings it, and the packages that its results depend on.
ENGINES = {
    "mujoco": ("batch", "mujoco", "hexapod", ("mujoco",)),
    "mjx": ("jax", "mujoco.mjx", "mjx", ("mujoco-mjx", "mujoco")),
    "pybullet": ("each", "pybullet", "pybullet", ("pybullet",)),
}


def make(
    tasks: Any = 2000,
    engine: str = "mujoco",
    yaw: bool = False,
    damage: Any = None,
    threads: int | None = None,
    seed: int = 0,
) -> Domain:
    """The six-legged robot.

    Args:
        tasks: how many bodies, drawn uniformly; or their lengths in metres, `(n, 12)`: tibias of legs 0 to 5, in
            [0.10, 0.18], then femurs, in [0.045, 0.125]; or a file of them.
        engine: the simulator. "mujoco" runs on native threads; "mjx" is compiled into the search, for accelerators;
            "pybullet" is the paper's, one walk at a time.
        yaw: whether a walk ends, too, when the robot has turned by more than 22.5 degrees, as in the paper's code.
        damage: what is broken, a dict of legs and one of "dead" (motors without torque), "stuck" (motors that hold at
            zero), "no-tibia" and "no-leg". Legs 0, 1, 2 are the left ones from the rear, 3, 4, 5 the right ones from
            the front.
        threads: of "mujoco"; by default all processors that this process may use. No result depends on it.
        seed: of the bodies.

    Raises:
        ImportError: if the simulator is not installed; it says how to.

    Example:
        >>> import taskelites as te
        >>> hexapod = te.domain("hexapod", tasks=200, damage={2: "dead"})
        >>> hexapod.dim, len(hexapod.tasks), hexapod.call
        (36, 200, 'batch')
    """
    call, needed, extra, packages = ENGINES[one_of("engine", engine, ENGINES)]
    if threads is not None:
        threads = whole_number("threads", threads, least=1)
    if not isinstance(yaw, bool | np.bool):
        raise TypeError(f"yaw must be True or False, not {yaw!r}")
    _import(needed, extra)
    broken = as_damage(damage)
    if isinstance(tasks, str | PathLike):
        tasks = read(tasks)
    if isinstance(tasks, int | float | np.integer):
        chosen = uniform(whole_number("tasks", tasks, least=1), LOWER, UPPER, seed=seed, names=NAMES)
    else:
        chosen = _own_tasks(tasks)
    rules = Rules(yaw=bool(yaw))
    return Domain(
        name="hexapod",
        fitness=Walked(engine, rules, broken, threads),
        tasks=chosen,
        bounds=(0.0, 1.0),
        dim=DIM,
        call=call,
        draw=HexapodDrawing(rules, broken),
        film=HexapodFilm(rules, broken),
        options={
            "engine": engine,
            "simulator": ", ".join(f"{package} {version(package)}" for package in packages),
            "yaw": bool(yaw),
            "damage": {str(leg): kind for leg, kind in broken},
        },
    )


@dataclass(frozen=True)
class Walked:
    """How far a gait walks on a body, m; in the shape that the engine's kind of call asks for.

    Args:
        engine: one of `ENGINES`.
        rules: when a walk ends early.
        damage: as `as_damage` gives it.
        threads: of "mujoco".
    """

    engine: str
    rules: Rules
    damage: tuple[tuple[int, str], ...] = ()
    threads: int | None = None

    def __call__(self, gaits: Any, lengths: Any) -> Any:
        """The fitness; NaN where the simulation diverged."""
        if self.engine == "mujoco":
            from taskelites.domains.hexapod import mujoco_engine

            return mujoco_engine.engine(self.rules, self.damage, self.threads).distances(gaits, lengths)
        if self.engine == "mjx":
            from taskelites.domains.hexapod import mjx_engine

            return mjx_engine.distance(gaits, lengths, self.rules, self.damage)
        from taskelites.domains.hexapod import pybullet_engine

        return pybullet_engine.engine(self.rules, self.damage).distance(gaits, lengths)


def _own_tasks(tasks: Any) -> Tasks:
    given = as_tasks(tasks)
    lengths = given.descriptors if isinstance(given, Tasks) else None
    # Objects would reach the simulators in place of the lengths.
    if not isinstance(given, Tasks) or given.objects is not None or lengths is None or lengths.shape[1] != len(NAMES):
        raise ValueError("tasks of the hexapod must be a number, or lengths (n, 12): six tibias, then six femurs, in m")
    check_lengths(lengths, "tasks of the hexapod")
    return Tasks(descriptors=lengths, distance=given.distance, scale=given.scale, names=NAMES)


def _import(module: str, extra: str) -> None:
    """Import a simulator, without what some of them print then."""
    said = StringIO()
    try:
        with quiet(1, 2), redirect_stdout(said), redirect_stderr(said):
            importlib.import_module(module)
    except (ImportError, AttributeError, RuntimeError) as error:
        hint = f"`pip install 'taskelites[{extra}]'` brings it"
        chosen = os.environ.get("MUJOCO_GL")
        if chosen and not isinstance(error, ImportError):  # MuJoCo takes it at its word when it is imported
            hint = f"its variable MUJOCO_GL is {chosen!r}, which can't draw here: leave it unset"
        if module == "pybullet" and sys.version_info >= (3, 12):
            hint = "it has wheels for Python up to 3.11 only; engine='mujoco' needs none of it"
        raise ImportError(
            f"this engine of the hexapod needs {module}, which can't be imported ({error}); {hint}"
        ) from None
