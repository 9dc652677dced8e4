"""Simulation of walks in PyBullet, the simulator of the paper.

The model file is written from the same links as MuJoCo's. An engine simulates one walk at a time; use several processes
(`workers=`) for several walks. As in the paper's code, each walk loads its robot anew, motors are PyBullet's position
controllers, and links lose 4 % of their speed per second. Unlike there, every robot starts just above the ground, its
distance is measured from where it has settled, and motors get a command only when their target changes.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pybullet

from taskelites.domains.hexapod.body import FRICTION, GRAVITY, SPEED, TORQUE, links, spawn_height, urdf
from taskelites.domains.hexapod.episode import SETTLE, Rules
from taskelites.domains.hexapod.gait import DRAG, HOLD, RATE, STEPS, STIFFNESS, joint_angles, signals
from taskelites.domains.hexapod.quiet import quiet

_SETTLE_GAIN, _SETTLE_TORQUE = 0.1, 1.0


@dataclass(frozen=True, eq=False)
class PybulletEngine:
    """Simulates walks, one after another.

    Args:
        rules: rules that end a walk early.
        damage: as returned by `as_damage`.
        finer: divisor of the time step, to study how much the results depend on it.
        same_gains: with a finer step, do not scale the gains of PyBullet's motors, which makes the motors faster. By
            default gains are scaled so that the motors stay the same.
        height: initial height of the base, m; by default `spawn_height`. The paper's code uses 0.15 for all bodies.
    """

    rules: Rules
    damage: tuple[tuple[int, str], ...] = ()
    finer: int = 1
    same_gains: bool = False
    height: float | None = None

    def distance(self, gait: np.ndarray, lengths: np.ndarray) -> float:
        """Return the distance that a gait walks on a body, m; NaN if the simulation diverged.

        Args:
            gait: `(36,)`.
            lengths: `(12,)`, m.
        """
        return self.walk(gait, lengths)[0]

    def walk(self, gait: np.ndarray, lengths: np.ndarray) -> tuple[float, int]:
        """Return the distance of a walk, m, and its number of steps of 1/240 s."""
        with _connected() as client:
            robot, joints = self._load(client, np.asarray(lengths, float))
            step = client.stepSimulation
            for _ in range(SETTLE * self.finer):
                step()
            start = _pose(client, robot)
            period = joint_angles(signals(np.asarray(gait, float)))
            dt = 1 / RATE if self.same_gains else 1 / (RATE * self.finer)
            gains = {"positionGains": STIFFNESS * dt * dt, "velocityGains": DRAG * dt}
            for leg, kind in self.damage:
                if kind == "stuck":
                    period[:, 3 * leg : 3 * leg + 3] = 0.0
            before = start
            for now in range(STEPS):
                if now % HOLD == 0:
                    self._set_targets(client, robot, joints, period[now // HOLD % len(period)], gains)
                for _ in range(self.finer):
                    step()
                pose = _pose(client, robot)
                if not self.rules.plausible(pose, before):
                    return float("nan"), now + 1
                if self.rules.broken(pose, start):
                    break
                before = pose
            return float(pose[0] - start[0]), now + 1

    def _load(self, client: Any, lengths: np.ndarray) -> tuple[int, dict[int, int]]:
        """Load the floor and the robot with its motors at zero.

        Returns:
            The robot, and a dict that maps its joints with motors to their numbers among the 18 joints.
        """
        client.setGravity(0, 0, -GRAVITY)
        client.setTimeStep(1 / (RATE * self.finer))
        floor = client.createMultiBody(0, client.createCollisionShape(pybullet.GEOM_PLANE))
        client.changeDynamics(floor, -1, lateralFriction=1.0)
        parts = links(lengths, self.damage)
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "hexapod.urdf"
            model.write_text(urdf(parts))
            height = float(spawn_height(lengths, self.damage)) if self.height is None else self.height
            robot = client.loadURDF(str(model), [0, 0, height])
        powered = {part.name: part.powered for part in parts}
        joints = {}
        for number in range(-1, client.getNumJoints(robot)):
            client.changeDynamics(robot, number, lateralFriction=FRICTION)
            if number < 0:
                continue
            segment, leg = client.getJointInfo(robot, number)[1].decode().split("_")
            force = _SETTLE_TORQUE if powered[f"{segment}_{leg}"] else 0.0
            gain = _SETTLE_GAIN / self.finer**2
            client.setJointMotorControl2(
                robot, number, pybullet.POSITION_CONTROL, targetPosition=0.0, positionGain=gain, force=force
            )
            if powered[f"{segment}_{leg}"]:
                joints[number] = 3 * int(leg) + ("coxa", "femur", "tibia").index(segment)
        return robot, joints

    def _set_targets(
        self, client: Any, robot: int, joints: dict[int, int], angles: np.ndarray, gains: dict[str, float]
    ) -> None:
        for number, column in joints.items():
            client.setJointMotorControl2(
                robot,
                number,
                pybullet.POSITION_CONTROL,
                targetPosition=float(angles[column]),
                positionGain=gains["positionGains"],
                velocityGain=gains["velocityGains"],
                force=TORQUE,
                maxVelocity=SPEED,
            )


def _pose(client: Any, robot: int) -> np.ndarray:
    position, (x, y, z, w) = client.getBasePositionAndOrientation(robot)
    return np.array([*position, w, x, y, z])


@contextlib.contextmanager
def _connected() -> Iterator[Any]:
    """Connect to a simulator of its own for one walk."""
    from pybullet_utils.bullet_client import BulletClient

    with quiet(1):  # it prints at every connection
        client = BulletClient(connection_mode=pybullet.DIRECT)
    try:
        yield client
    finally:
        client.disconnect()


@lru_cache(maxsize=8)
def engine(rules: Rules, damage: tuple[tuple[int, str], ...]) -> PybulletEngine:
    """Return the cached engine of this process for these settings."""
    return PybulletEngine(rules, damage)
