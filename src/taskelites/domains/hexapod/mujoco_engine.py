"""Simulation of walks in MuJoCo, in batches on native threads, with one compiled model for all bodies.

Each simulation is a row of a `mujoco.batch.Batch`, with its own state and its own values of the model fields that
depend on the lengths. Rows are independent: a walk is bitwise the same whatever else is in the batch, in any order and
on any number of threads.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import mujoco
import mujoco.batch
import numpy as np

from taskelites.domains.hexapod.body import NOMINAL, TORQUE, links, mjcf, spawn_height
from taskelites.domains.hexapod.episode import SETTLE, Rules
from taskelites.domains.hexapod.gait import RATE, STEPS, Motors, joint_angles
from taskelites.evaluation.engines.workers import cores

# Newton to convergence, and pyramidal friction cones, which MJX supports too. The motors follow the trajectory of the
# motor law to 0.011 rad. docs/hexapod.md compares other choices.
OPTIONS = (
    f'timestep="{1 / RATE!r}" integrator="implicitfast" solver="Newton" tolerance="1e-8" cone="pyramidal" impratio="1"'
)
KP, KV = 60.0, 1.2
ACTUATOR = f'kp="{KP}" kv="{KV}" forcerange="{-TORQUE} {TORQUE}"'
JOINT = 'armature="0.005"'
# Iterations of the solver on accelerators: enough for all but a few steps, and a batch waits for its slowest row.
FEW_ITERATIONS = 'iterations="10" ls_iterations="10"'

_ROWS = 128  # simulations at a time
_CHUNK = 60  # steps between two checks of the rules
_CACHE_SIZE = 20_000  # bodies whose settled state is cached, about 2 kB each
_FIELDS = ("body_pos", "body_ipos", "body_inertia", "geom_pos")


@dataclass(frozen=True, eq=False)
class Walk:
    """A recorded walk, up to its end or the first broken rule.

    Attributes:
        positions: positions of all joints, the base first, `(steps + 1, nq)`; the first row is the start.
        speeds: velocities of all joints, `(steps + 1, nv)`.
        controls: targets of the motors, `(steps, motors)`, at most 18 motors.
        distance: displacement of the base along x, m; NaN if the simulation diverged.
        ended: whether a rule ended the walk.
    """

    positions: np.ndarray
    speeds: np.ndarray
    controls: np.ndarray
    distance: float
    ended: bool


def compile_model(damage: tuple[tuple[int, str], ...], solver: str = "") -> mujoco.MjModel:
    """Return the model of the nominal body.

    Args:
        damage: as returned by `as_damage`.
        solver: additional attributes of the element `option`.
    """
    options = f"{OPTIONS} {solver}"
    return mujoco.MjModel.from_xml_string(mjcf(links(NOMINAL, damage), options, ACTUATOR, JOINT))


def fields(model: mujoco.MjModel, lengths: Any, damage: tuple[tuple[int, str], ...], xp: Any = np) -> dict[str, Any]:
    """Return the model fields that depend on the lengths, `(..., bodies or geoms, 3)`, by name.

    Args:
        model: the model of any body with this damage.
        lengths: `(..., 12)`, m.
        damage: as returned by `as_damage`.
        xp: numpy or jax.numpy.
    """
    parts = links(lengths, damage, xp)

    def filled(template: np.ndarray, rows: dict[int, Any]) -> Any:
        wide = [
            xp.broadcast_to(xp.asarray(rows.get(i, row), lengths.dtype), (*lengths.shape[:-1], 3))
            for i, row in enumerate(template)
        ]
        return xp.stack(wide, axis=-2)

    bodies = {model.body(part.name).id: part for part in parts if part.parent is not None}
    feet = {model.geom(f"foot_{part.name[-1]}").id: part.foot for part in parts if part.foot is not None}
    return {
        "body_pos": filled(model.body_pos, {i: part.origin for i, part in bodies.items()}),
        "body_ipos": filled(model.body_ipos, {i: part.centre for i, part in bodies.items()}),
        "body_inertia": filled(model.body_inertia, {i: part.inertia for i, part in bodies.items()}),
        "geom_pos": filled(model.geom_pos, feet),
    }


def powered_joints(damage: tuple[tuple[int, str], ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the joints that have a motor, of 18, and for each of them whether its motor moves it."""
    names = {part.name: part.powered for part in links(NOMINAL, damage) if part.parent is not None}
    every = [f"{segment}_{leg}" for leg in range(6) for segment in ("coxa", "femur", "tibia")]
    there = [i for i, name in enumerate(every) if names.get(name)]
    stuck = {leg for leg, kind in damage if kind == "stuck"}
    return np.array(there, dtype=int), np.array([i // 3 not in stuck for i in there], dtype=bool)


class MujocoEngine:
    """Simulates walks.

    Args:
        rules: rules that end a walk early.
        damage: as returned by `as_damage`.
        threads: number of threads; by default, the number of processors that this process may use.
    """

    def __init__(self, rules: Rules, damage: tuple[tuple[int, str], ...] = (), threads: int | None = None) -> None:
        self.rules = rules
        self.damage = damage
        self.model = compile_model(damage)
        # With automatic resets, a diverged simulation would go unnoticed.
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        self.threads = threads or cores()
        self._batch = mujoco.batch.Batch(self.model, _ROWS, self.threads)
        self._fields = {name: self._batch.expand(name) for name in _FIELDS}
        self._joints, self._moved = powered_joints(damage)
        self._settled: OrderedDict[bytes, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()  # the rows are shared by all Python threads

    def distances(self, gaits: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the distance that each gait walks on its body, `(n,)` m; NaN where the simulation diverged.

        Args:
            gaits: `(n, 36)`.
            lengths: `(n, 12)`, m.
        """
        found = np.empty(len(gaits))
        for first in range(0, len(gaits), _ROWS):
            rows = slice(first, first + _ROWS)
            with self._lock:
                found[rows] = self._walk_batch(np.asarray(gaits[rows], float), np.asarray(lengths[rows], float))
        return found

    def walk(self, gait: np.ndarray, lengths: np.ndarray) -> Walk:
        """Return one recorded walk; its distance is bitwise equal to the one from `distances`."""
        with self._lock:
            return self._record(np.asarray(gait, float)[None], np.asarray(lengths, float)[None])

    def _record(self, gaits: np.ndarray, bodies: np.ndarray) -> Walk:
        fine = bool(self._begin(bodies)[0])
        motors = Motors(gaits)
        record = {name: [self._batch.bind(name)[:1].copy()] for name in ("qpos", "qvel")}
        controls, over = [], False
        # The same chunks as in `_walk_batch`, so that both find a divergence at the same step.
        for _ in range(0, STEPS, _CHUNK):
            if over or not fine:
                break
            controls.append(self._controls(motors, _CHUNK))
            warned = self._warned([0])
            found = self._batch.rollout(_CHUNK, controls[-1], record=tuple(record), ids=[0])
            poses = np.concatenate([record["qpos"][-1][-1:], found["qpos"][0]])[:, :7]
            broken = _first(self.rules.broken(poses[1:], record["qpos"][0][0, :7]))
            leapt = _first(~self.rules.plausible(poses[1:], poses[:-1]))
            last = min(int(broken), int(leapt), _CHUNK - 1) + 1
            over = bool(broken < leapt)
            fine = over or bool(leapt == _CHUNK and self._warned([0]) == warned)
            controls[-1] = controls[-1][:, :last]
            for name, parts in record.items():
                parts.append(found[name][0, :last])
        positions, speeds = (np.concatenate(parts) for parts in record.values())
        distance = positions[-1, 0] - positions[0, 0] if fine else np.nan
        targets = np.concatenate([np.empty((0, len(self._joints))), *(part[0] for part in controls)])
        return Walk(positions, speeds, targets, float(distance), over)

    def _controls(self, motors: Motors, steps: int) -> np.ndarray:
        """Return the targets of the motors in the next steps, `(n, steps, motors)`: angles with speed feedforward."""
        angles, speeds = motors.drive(steps)
        targets = joint_angles(angles + (KV / KP) * speeds)[..., self._joints] * self._moved
        return np.ascontiguousarray(np.swapaxes(targets, 0, 1))

    def _walk_batch(self, gaits: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the distances of at most `_ROWS` walks."""
        number = len(gaits)
        fine = self._begin(lengths)
        poses = self._batch.bind("qpos")[:number, :7]
        start = poses.copy()
        found = np.full(number, np.nan)
        walking = np.flatnonzero(fine)
        motors = Motors(gaits[walking])
        for _ in range(0, STEPS, _CHUNK):
            if len(walking) == 0:
                break
            warned, before = self._warned(walking), poses[walking]
            seen = self._batch.rollout(_CHUNK, self._controls(motors, _CHUNK), record=("qpos",), ids=walking)["qpos"]
            seen = np.concatenate([before[:, None], seen[..., :7]], axis=1)
            broken = self.rules.broken(seen[:, 1:], start[walking, None])
            leapt = ~self.rules.plausible(seen[:, 1:], seen[:, :-1])
            over = broken.any(axis=1)
            # A divergence before the first broken rule is a failure and gives NaN; after it, it does not matter.
            fell = over & (_first(broken) < _first(leapt))
            ended = walking[fell]
            found[ended] = seen[fell, 1 + _first(broken[fell]), 0] - start[ended, 0]
            on = ~over & ~leapt.any(axis=1) & (self._warned(walking) == warned)
            walking = walking[on]
            motors.keep(on)
        found[walking] = poses[walking, 0] - start[walking, 0]
        return found

    def _begin(self, lengths: np.ndarray) -> np.ndarray:
        """Load settled bodies, one per row; return which of them settled without divergence, `(n,)`."""
        number = len(lengths)
        for name, values in fields(self.model, lengths, self.damage).items():
            self._fields[name][:number] = values
        self._batch.set_const(np.arange(number))
        keys = [row.tobytes() for row in lengths]
        new = [i for i, key in enumerate(keys) if key not in self._settled]
        if new:
            self._settle(np.array(new), lengths[new])
            for i in new:
                self._settled[keys[i]] = self._batch.state[i].copy()
        for i, key in enumerate(keys):
            self._batch.state[i] = self._settled[key]
            self._settled.move_to_end(key)
        while len(self._settled) > _CACHE_SIZE:
            self._settled.popitem(last=False)
        return np.isfinite(self._batch.state[:number]).all(axis=1)

    def _warned(self, rows: Any) -> np.ndarray:
        """Return the number of MuJoCo's warnings per simulation, `(n,)`."""
        return self._batch.warning[rows, :, 1].sum(axis=1)

    def _settle(self, rows: np.ndarray, lengths: np.ndarray) -> None:
        """Drop bodies from just above the ground with all motors at zero; the result depends on the body only."""
        self._batch.reset(rows, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        self._batch.bind("qpos")[rows, 2] = spawn_height(lengths, self.damage)
        warned = self._warned(rows)
        self._batch.rollout(SETTLE, None, record=(), ids=rows)
        self._batch.state[rows[self._warned(rows) > warned]] = np.nan


def _first(flags: np.ndarray) -> np.ndarray:
    """Return the index of the first true flag along the last axis, or the length of the axis if there is none."""
    return np.where(flags.any(axis=-1), flags.argmax(axis=-1), flags.shape[-1])


@lru_cache(maxsize=8)
def engine(rules: Rules, damage: tuple[tuple[int, str], ...], threads: int | None) -> MujocoEngine:
    """Return the cached engine of this process for these settings."""
    return MujocoEngine(rules, damage, threads)
