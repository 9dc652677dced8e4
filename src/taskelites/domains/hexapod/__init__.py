"""Six-legged walking (section 5 of the paper): a gait for every body.

A task is 12 lengths, the tibias and femurs of six legs. A solution is the 36 numbers of a gait. The fitness is the
distance that the robot walks forward in 3 s, in metres. A walk ends early if the robot leans over by more than 22.5
degrees or leaves its corridor, 0.5 m to each side; the distance up to then counts.

docs/hexapod.md lists the deviations from the paper and its code.
"""

import importlib
import os
import re
import sys
import warnings
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
from taskelites.errors import InvalidTypeError, InvalidValueError, MissingPackageError, one_of, whole_number
from taskelites.problem.problem import Domain
from taskelites.problem.tasks import Tasks, as_tasks, read, uniform

# Per engine: the domain's `call`, its module, the extra that installs it, and the packages that its results depend on.
ENGINES = {
    "mujoco": ("batch", "mujoco", "hexapod", ("mujoco",)),
    "mjx": ("jax", "mujoco.mjx", "mjx", ("mujoco-mjx", "mujoco")),
    "warp": ("batch", "mujoco_warp", "warp", ("mujoco-warp", "warp-lang", "mujoco")),
    "pybullet": ("each", "pybullet", "pybullet", ("pybullet",)),
}
# For "warp": the rows of the paper's experiment, ten runs with 16 batches of 64 at a time.
_ROWS_PER_CALL = 10_240


def make(
    tasks: Any = 2000,
    engine: str = "mujoco",
    yaw: bool = False,
    damage: Any = None,
    threads: int | None = None,
    device: str = "cuda",
    worlds: int = 16_384,
    seed: int = 0,
) -> Domain:
    """Make the hexapod domain.

    Args:
        tasks: the number of bodies, drawn uniformly; or their lengths in metres, `(n, 12)`: tibias of legs 0 to 5, in
            [0.10, 0.18], then femurs, in [0.045, 0.125]; or a file of lengths.
        engine: the simulator. "mujoco" runs on native threads. "warp" is MuJoCo Warp, which simulates thousands of
            walks at once on an NVIDIA GPU. "mjx" is compiled into the search, for accelerators. "pybullet" is the
            simulator of the paper, one walk at a time.
        yaw: whether a walk also ends when the robot has turned by more than 22.5 degrees, as in the paper's code.
        damage: a dict that maps a leg to "dead" (motors without torque), "stuck" (motors that hold at zero), "no-tibia"
            or "no-leg". Legs 0, 1, 2 are the left ones from the rear, 3, 4, 5 the right ones from the front.
        threads: threads of "mujoco"; by default, all processors that this process may use. Results do not depend on it.
        device: device of "warp": "cuda", a specific GPU such as "cuda:1", or "cpu", which is slow and meant for tests.
        worlds: maximum number of simulations at a time with "warp"; each takes about 50 kB of GPU memory.
        seed: seed of the bodies.

    Raises:
        ImportError: if the simulator is not installed.
        ValueError: if an argument is wrong, or "warp" finds no GPU.

    Example:
        >>> import taskelites as te
        >>> hexapod = te.domain("hexapod", tasks=200, damage={2: "dead"})
        >>> hexapod.dim, len(hexapod.tasks), hexapod.call
        (36, 200, 'batch')
    """
    call, needed, extra, packages = ENGINES[one_of("engine", engine, ENGINES)]
    if threads is not None:
        threads = whole_number("threads", threads, least=1)
    worlds = whole_number("worlds", worlds, least=1, most=2**20)
    if not isinstance(yaw, bool | np.bool):
        raise InvalidTypeError(f"yaw must be True or False, not {yaw!r}")
    _import(needed, extra)
    if engine == "warp":
        _check_device(device)
    broken = as_damage(damage)
    if isinstance(tasks, str | PathLike):
        tasks = read(tasks)
    if isinstance(tasks, int | float | np.integer):
        chosen = uniform(whole_number("tasks", tasks, least=1), LOWER, UPPER, seed=seed, names=NAMES)
    else:
        chosen = _as_bodies(tasks)
    rules = Rules(yaw=bool(yaw))
    return Domain(
        name="hexapod",
        fitness=Walked(engine, rules, broken, threads, device, worlds),
        tasks=chosen,
        bounds=(0.0, 1.0),
        dim=DIM,
        call=call,
        rows_per_call=_ROWS_PER_CALL if engine == "warp" else None,
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
    """The distance that a gait walks on a body, m.

    Args:
        engine: a key of `ENGINES`.
        rules: rules that end a walk early.
        damage: as returned by `as_damage`.
        threads: threads of "mujoco".
        device: device of "warp".
        worlds: maximum number of simulations at a time with "warp".
    """

    engine: str
    rules: Rules
    damage: tuple[tuple[int, str], ...] = ()
    threads: int | None = None
    device: str = "cuda"
    worlds: int = 16_384

    def __call__(self, gaits: Any, lengths: Any) -> Any:
        """Return the fitness: `(n,)`, or a scalar for "mjx" and "pybullet"; NaN where the simulation diverged."""
        if self.engine == "mujoco":
            from taskelites.domains.hexapod import mujoco_engine

            return mujoco_engine.engine(self.rules, self.damage, self.threads).distances(gaits, lengths)
        if self.engine == "warp":
            from taskelites.domains.hexapod import warp_engine

            return warp_engine.engine(self.rules, self.damage, self.device, self.worlds).distances(gaits, lengths)
        if self.engine == "mjx":
            from taskelites.domains.hexapod import mjx_engine

            return mjx_engine.distance(gaits, lengths, self.rules, self.damage)
        from taskelites.domains.hexapod import pybullet_engine

        return pybullet_engine.engine(self.rules, self.damage).distance(gaits, lengths)


def _as_bodies(tasks: Any) -> Tasks:
    given = as_tasks(tasks)
    lengths = given.descriptors if isinstance(given, Tasks) else None
    # The simulators would get the objects instead of the lengths.
    if not isinstance(given, Tasks) or given.objects is not None or lengths is None or lengths.shape[1] != len(NAMES):
        raise InvalidValueError(
            "tasks of the hexapod must be a number, or lengths (n, 12): six tibias, then six femurs, in m"
        )
    check_lengths(lengths, "tasks of the hexapod")
    return Tasks(descriptors=lengths, distance=given.distance, scale=given.scale, names=NAMES)


def _check_device(device: Any) -> None:
    """Raise if Warp does not have this device; warn if it is slow."""
    import warp

    from taskelites.domains.hexapod.warp_engine import silent

    if device == "cpu":
        warnings.warn(
            "device='cpu' simulates one walk after another, about 30 times slower than engine='mujoco' on one core; "
            "use it for tests only",
            UserWarning,
            stacklevel=4,
        )
        return
    if not isinstance(device, str) or re.fullmatch(r"cuda(:\d+)?", device) is None:
        raise InvalidValueError(f"device must be 'cuda', a specific GPU such as 'cuda:1', or 'cpu', not {device!r}")
    with silent():
        there = warp.get_cuda_device_count()
    if there == 0:
        raise InvalidValueError(
            "engine='warp' needs an NVIDIA GPU and its driver, but Warp finds none; use engine='mujoco' on a CPU"
        )
    if int(device.partition(":")[2] or 0) >= there:
        raise InvalidValueError(
            f"device must be one of the GPUs that Warp finds, 'cuda:0' to 'cuda:{there - 1}', not {device!r}"
        )


def _import(module: str, extra: str) -> None:
    """Import a simulator and discard what it prints."""
    said = StringIO()
    try:
        with quiet(1, 2), redirect_stdout(said), redirect_stderr(said):
            importlib.import_module(module)
    except (ImportError, AttributeError, RuntimeError) as error:
        hint = f"install it with `pip install 'taskelites[{extra}]'`"
        chosen = os.environ.get("MUJOCO_GL")
        if chosen and not isinstance(error, ImportError):  # importing MuJoCo fails if this backend does
            hint = f"the environment variable MUJOCO_GL is {chosen!r}, which does not work here: unset it"
        if module == "pybullet" and sys.version_info >= (3, 12):
            hint = "it has wheels for Python up to 3.11 only; use engine='mujoco' instead"
        raise MissingPackageError(
            f"this engine of the hexapod needs {module}, which can't be imported ({error}); {hint}"
        ) from None
