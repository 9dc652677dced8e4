"""What happens in a walk, step by step: which feet carry the robot, how fast it goes, what its motors do.

The positions and speeds of a recorded walk are put back into the simulator, so what is said here is of the very walk
that the fitness measured.
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
    """A walk, with what can be said of each of its steps of 1/240 s.

    Attributes:
        walk: positions, speeds and controls.
        forces: with which the ground carries each foot, N, `(steps, 6)`; 0 for a foot in the air.
        base_touches: whether the body of the robot is on the ground, `(steps,)`.
        penetration: how deep anything is in the ground, m, `(steps,)`; 0 if nothing is.
        speed: of the base, m/s, `(steps,)`.
        power: that the motors put in, W, `(steps,)`; what they take while they brake is not counted back.
        reason: why it ended before its time, in words; empty if it did not.
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
        """How far it walked, m."""
        return self.walk.distance

    @property
    def seconds(self) -> float:
        """How long it took."""
        return len(self.forces) / RATE

    @cached_property
    def touching(self) -> np.ndarray:
        """Which feet are on the ground, `(steps, 6)`."""
        return self.forces > 0

    @property
    def duty(self) -> np.ndarray:
        """The share of the time that each foot is on the ground, `(6,)`."""
        return np.asarray(self.touching.mean(axis=0))

    @property
    def flight(self) -> float:
        """The share of the time that nothing is on the ground."""
        return float((~self.touching.any(axis=1) & ~self.base_touches).mean())

    @property
    def switches(self) -> float:
        """How often a foot touches down or lifts off, per foot and second."""
        return float((self.touching[1:] != self.touching[:-1]).sum() / LEGS / self.seconds)


def analyse(engine: "MujocoEngine", gait: Any, lengths: Any) -> Analysis:
    """Let a gait walk on a body, and look at each step.

    Args:
        engine: with its rules and its damage.
        gait: `(36,)`.
        lengths: of the body, `(12,)`.

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
            f"a gait must be {DIM} numbers in [0, 1], not {gait.shape} in [{gait.min():g}, {gait.max():g}]"
        )
    lengths = finite_array("lengths", lengths, shape="(12,): the task itself, not its number", ndim=1)
    if lengths.shape != (len(NAMES),):
        raise InvalidValueError(
            f"a body must be {len(NAMES)} lengths, six tibias, then six femurs, not {lengths.shape}"
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
    """What touches the ground in each step of a walk.

    Args:
        model: of the body that walked, as `body_model` gives it.
        walk: of that body.

    Returns:
        The normal force on each foot, N, `(steps, 6)`; whether the base touches, `(steps,)`; the deepest penetration,
        m, `(steps,)`.
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
            other = int(contact.geom.max())  # that of the two which is not the floor, the first of all
            if other == base:
                touches[step] |= force[0] > 0
            else:
                forces[step, leg_of[other]] += force[0]
    return forces, touches, depth


def body_model(engine: "MujocoEngine", lengths: Any) -> Any:
    """The engine's model with the numbers of one body."""
    import mujoco

    from taskelites.domains.hexapod.mujoco_engine import fields

    model = copy.copy(engine.model)
    for name, values in fields(model, np.asarray(lengths, float), engine.damage).items():
        getattr(model, name)[:] = values
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def shown_engine(rules: Rules | None = None, damage: tuple[tuple[int, str], ...] = ()) -> "MujocoEngine":
    """The engine in which walks are shown, whichever they were found with.

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
            f"a walk of the hexapod is shown with mujoco, which can't be imported ({error}); "
            "`pip install 'taskelites[hexapod]'` brings it"
        ) from None
    return mujoco_engine.engine(rules or Rules(), damage, 1)


def _power(model: Any, walk: "Walk") -> np.ndarray:
    """What the motors put in, `(steps,)` W.

    MuJoCo's integrator takes the part of a motor's torque that depends on speed at the end of a step; so does this.
    """
    joints = model.actuator_trnid[:, 0]
    angle, speed = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
    stiffness, drag = model.actuator_gainprm[:, 0], -model.actuator_biasprm[:, 2]
    after = walk.speeds[1:, speed]
    torque = stiffness * (walk.controls - walk.positions[:-1, angle]) - drag * after
    torque = np.clip(torque, *model.actuator_forcerange.T)
    return np.asarray(np.maximum(torque * after, 0.0).sum(axis=1))
