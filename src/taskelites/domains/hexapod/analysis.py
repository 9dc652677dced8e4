"""Analysis of a walk, step by step: contacts of the feet, speed, motor power.

The positions and speeds of a recorded walk are loaded into the simulator again, so the analysis is of exactly the walk
that the fitness was measured on.
"""

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.domains.hexapod.body import LEGS, NAMES, check_lengths
from taskelites.domains.hexapod.episode import Rules
from taskelites.domains.hexapod.gait import DIM, RATE
from taskelites.errors import InvalidValueError, MissingPackageError, finite_array

if TYPE_CHECKING:
    from taskelites.domains.hexapod.mujoco_engine import MujocoEngine, Walk


@dataclass(frozen=True, kw_only=True, eq=False)
class Analysis:
    """A walk and quantities of each of its steps of 1/240 s.

    Attributes:
        walk: the recorded walk.
        forces: normal force of the ground on each foot, N, `(steps, 6)`; 0 for a foot in the air.
        base_touches: whether the base is on the ground, `(steps,)`.
        penetration: greatest penetration of the ground, m, `(steps,)`; 0 without contact.
        speed: speed of the base, m/s, `(steps,)`.
        power: mechanical power of the motors, W, `(steps,)`; braking counts as 0.
        reason: why the walk ended early, in words; empty if it did not.
    """

    walk: "Walk"
    forces: np.ndarray
    base_touches: np.ndarray
    penetration: np.ndarray
    speed: np.ndarray
    power: np.ndarray
    reason: str = ""

    @property
    def distance(self) -> float:
        """The distance of the walk, m."""
        return self.walk.distance

    @property
    def seconds(self) -> float:
        """The duration of the walk, s."""
        return len(self.forces) / RATE

    @cached_property
    def touching(self) -> np.ndarray:
        """Whether each foot is on the ground, `(steps, 6)`."""
        return self.forces > 0

    @property
    def duty(self) -> np.ndarray:
        """The fraction of time that each foot is on the ground, `(6,)`."""
        return np.asarray(self.touching.mean(axis=0))

    @property
    def flight(self) -> float:
        """The fraction of time without contact with the ground."""
        return float((~self.touching.any(axis=1) & ~self.base_touches).mean())

    @property
    def switches(self) -> float:
        """The rate of touchdowns and liftoffs, per foot and second."""
        return float((self.touching[1:] != self.touching[:-1]).sum() / LEGS / self.seconds)


def analyse(engine: "MujocoEngine", gait: Any, lengths: Any) -> Analysis:
    """Simulate a gait on a body and analyse each step.

    Args:
        engine: the simulator, which defines rules and damage.
        gait: `(36,)`.
        lengths: lengths of the body, m, `(12,)`.

    Raises:
        ValueError: if the gait or the lengths have the wrong shape or range.

    Example:
        >>> from taskelites.domains.hexapod.body import NOMINAL
        >>> from taskelites.domains.hexapod.gait import FORWARD
        >>> found = analyse(shown_engine(), FORWARD, NOMINAL)
        >>> found.forces.shape, bool(found.touching.any(axis=1).mean() > 0.5)
        ((720, 6), True)
    """
    gait = finite_array("gait", gait, shape="(36,)", ndim=1)
    if gait.shape != (DIM,) or gait.min() < 0 or gait.max() > 1:
        raise InvalidValueError(
            f"gait must be {DIM} numbers in [0, 1], not an array {gait.shape} in [{gait.min():g}, {gait.max():g}]"
        )
    lengths = finite_array("lengths", lengths, shape="(12,): the task itself, not its number", ndim=1)
    if lengths.shape != (len(NAMES),):
        raise InvalidValueError(
            f"lengths must be {len(NAMES)} numbers, six tibias, then six femurs, not an array {lengths.shape}"
        )
    check_lengths(lengths[None], "a body")
    walk = engine.walk(gait, lengths)
    model = body_model(engine, lengths)
    forces, base_touches, penetration = contacts(model, walk)
    return Analysis(
        walk=walk,
        forces=forces,
        base_touches=base_touches,
        penetration=penetration,
        speed=np.linalg.norm(walk.speeds[1:, :3], axis=1),
        power=_power(model, walk),
        reason=engine.rules.reason(walk.positions[-1, :7], walk.positions[0, :7]) if walk.ended else "",
    )


def contacts(model: Any, walk: "Walk") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the contacts with the ground in each step of a walk.

    Args:
        model: model of the body, as returned by `body_model`.
        walk: a walk of that body.

    Returns:
        The normal force on each foot, N, `(steps, 6)`; whether the base touches the ground, `(steps,)`; the greatest
        penetration, m, `(steps,)`.
    """
    import mujoco

    leg_of = {model.geom(f"foot_{leg}").id: leg for leg in range(LEGS)}
    base = model.geom("base").id
    steps = len(walk.controls)
    forces, depth = np.zeros((steps, LEGS)), np.zeros(steps)
    touches = np.zeros(steps, dtype=bool)
    data = mujoco.MjData(model)
    force = np.zeros(6)
    for step in range(steps):
        data.qpos[:], data.qvel[:], data.ctrl[:] = walk.positions[step], walk.speeds[step], walk.controls[step]
        mujoco.mj_forward(model, data)
        for number in range(data.ncon):
            contact = data.contact[number]
            mujoco.mj_contactForce(model, data, number, force)
            depth[step] = max(depth[step], -contact.dist)
            other = int(contact.geom.max())  # the floor is geom 0
            if other == base:
                touches[step] |= force[0] > 0
            else:
                forces[step, leg_of[other]] += force[0]
    return forces, touches, depth


def body_model(engine: "MujocoEngine", lengths: Any) -> Any:
    """Return a copy of the engine's model with the fields of one body, of lengths `(12,)`."""
    import mujoco

    from taskelites.domains.hexapod.mujoco_engine import fields

    model = copy.copy(engine.model)
    for name, values in fields(model, np.asarray(lengths, float), engine.damage).items():
        getattr(model, name)[:] = values
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def shown_engine(rules: Rules | None = None, damage: tuple[tuple[int, str], ...] = ()) -> "MujocoEngine":
    """Return the engine that simulates walks for drawings and films, whichever engine found them.

    Raises:
        ImportError: if MuJoCo is not installed.

    Example:
        >>> shown_engine().rules.yaw
        False
    """
    try:
        from taskelites.domains.hexapod import mujoco_engine
    except ImportError as error:
        raise MissingPackageError(
            f"drawings and films of the hexapod need mujoco, which can't be imported ({error}); "
            "install it with `pip install 'taskelites[hexapod]'`"
        ) from None
    return mujoco_engine.engine(rules or Rules(), damage, 1)


def _power(model: Any, walk: "Walk") -> np.ndarray:
    """Return the mechanical power of the motors, W, `(steps,)`.

    As in MuJoCo's implicit integrator, damping uses the speed at the end of a step.
    """
    joints = model.actuator_trnid[:, 0]
    angle, speed = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
    stiffness, drag = model.actuator_gainprm[:, 0], -model.actuator_biasprm[:, 2]
    after = walk.speeds[1:, speed]
    torque = stiffness * (walk.controls - walk.positions[:-1, angle]) - drag * after
    torque = np.clip(torque, *model.actuator_forcerange.T)
    return np.asarray(np.maximum(torque * after, 0.0).sum(axis=1))
