"""Simulation of walks in MuJoCo Warp, thousands at once on a GPU, with one compiled model for all bodies.

Model, motors and rules are the same as in `mujoco_engine`, in 32 bits. One step of all walks (motor law, physics,
rules) is one CUDA graph, launched 720 times without work on the host in between. The fields and the settled state of a
body are cached on the device from its first walk on. Every 120 steps, walks that have ended are dropped if fewer
simulations take less time.

Results are not bitwise reproducible on a GPU, because contacts are found in no fixed order.
"""

import dataclasses
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from taskelites.domains.hexapod import warp_kernels
from taskelites.domains.hexapod.body import LEGS, spawn_height
from taskelites.domains.hexapod.episode import SETTLE, Rules
from taskelites.domains.hexapod.gait import STEPS, table
from taskelites.domains.hexapod.mujoco_engine import FEW_ITERATIONS, compile_model, fields, powered_joints
from taskelites.errors import DeviceMemoryError
from taskelites.process import shows_progress

_SIGNALS = 2 * LEGS  # a coxa and a femur per leg; the tibia copies the femur
_CHUNK = 120  # steps between two checks for walks that have ended
_CACHE_SIZE = 32_768  # bodies whose fields and settled state are cached, or `worlds` if that is more; 1.5 kB each
_LEAST = 32  # simulations of the smallest graph
# Fields that depend on the body; `mjw.set_const` derives the last two from the others.
_OF_BODY = ("body_pos", "body_ipos", "body_inertia", "geom_pos", "body_invweight0", "dof_invweight0")
_OF_STATE = ("qpos", "qvel", "qacc_warmstart")


class _Batch:
    """The arrays of `size` simulations on the current device.

    Attributes:
        size: the number of simulations.
        model: MuJoCo Warp's model, with the fields of each body.
        data: the state of each simulation.
        own: the fields of `model` and `data` that belong to a body, as rows of plain numbers.
        amplitude, angle, speed, up, first: of each signal of the controller, `(size, signals)`.
        rows: the row of the gait that each simulation walks, `(size,)`; -1 for none.
        walking: 1 while the walk goes on, `(size,)`.
        aside, start, reached, last: positions of each walk, `(size,)`.
    """

    def __init__(self, host: mujoco.MjModel, size: int) -> None:
        contacts = 4 + int((host.geom_type == mujoco.mjtGeom.mjGEOM_SPHERE).sum())  # corners of the base, and feet
        limits = 4 * contacts + int(host.jnt_limited.sum())
        signals = (size, _SIGNALS)
        self.size = size
        self.model = mjw.put_model(host, batch_sizes=dict.fromkeys(_OF_BODY, size))
        self.model.opt.warn_overflow = 0  # the GPU would print each limit that the solver reaches
        self.data = mjw.put_data(host, mujoco.MjData(host), nworld=size, nconmax=contacts, njmax=limits)
        self.own = {name: _flat(getattr(self.model, name)) for name in _OF_BODY}
        self.own |= {name: _flat(getattr(self.data, name)) for name in _OF_STATE}
        self.amplitude, self.angle, self.speed = (wp.zeros(signals, dtype=float) for _ in range(3))
        self.up, self.first = (wp.zeros(signals, dtype=int) for _ in range(2))
        self.rows, self.walking = (wp.zeros(size, dtype=int) for _ in range(2))
        self.aside, self.start, self.reached = (wp.zeros(size, dtype=float) for _ in range(3))
        self.last = wp.zeros(size, dtype=wp.vec3)


class WarpEngine:
    """Simulates walks.

    Args:
        rules: rules that end a walk early.
        damage: as returned by `as_damage`.
        device: Warp's name of the device, such as "cuda:0" or "cpu".
        worlds: maximum number of simulations at a time; more rows are split into parts of about the same size.
    """

    def __init__(self, rules: Rules, damage: tuple[tuple[int, str], ...], device: str, worlds: int) -> None:
        self.rules = rules
        self.damage = damage
        self.worlds = worlds
        self._host = compile_model(damage, FEW_ITERATIONS)
        self._lock = threading.Lock()  # the simulations are shared by all Python threads
        self._graphs: dict[int, Any] = {}
        self._kept: OrderedDict[bytes, int] = OrderedDict()
        self._places = max(_CACHE_SIZE, worlds)
        with silent():
            self._device = wp.get_device(device)
        if self._device.is_cuda and shows_progress(None):
            print("hexapod: Warp loads its kernels; it compiles them first on a new machine", file=sys.stderr)
        with self._ours():
            self._wave = self._array(table(), wp.float32)
            self._motors = self._array(_motors(damage), wp.int32)
            self._now = wp.zeros(1, dtype=int)
            with self._fitting(self._places):
                self._batch = _Batch(self._host, self._rounded(1))
                self._store = {
                    name: wp.zeros((self._places, array.shape[1]), dtype=array.dtype)
                    for name, array in self._batch.own.items()
                }
            # Load all kernels, which is impossible while a graph is captured.
            self._step(self._batch.size)

    def distances(self, gaits: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the distance that each gait walks on its body, `(n,)` m; NaN where the simulation diverged.

        Args:
            gaits: `(n, 36)`.
            lengths: `(n, 12)`, m.
        """
        number = len(gaits)
        found = np.empty(number)
        parts = -(-number // self.worlds)
        with self._lock, self._ours():
            for i in range(parts):
                part = slice(i * number // parts, (i + 1) * number // parts)
                found[part] = self._walk_batch(np.asarray(gaits[part], float), np.asarray(lengths[part], float))
        return found

    def _walk_batch(self, gaits: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the distances of at most `worlds` walks."""
        number = len(gaits)
        self._reserve(number)
        bodies = self._bodies(lengths)
        size = self._rounded(number)
        self._place(bodies, np.arange(number), size)
        self._begin_walks(gaits, size)
        for done in range(0, STEPS, _CHUNK):
            self._run(size, min(_CHUNK, STEPS - done))
            walking = np.flatnonzero(self._batch.walking.numpy()[:size])
            if len(walking) == 0:
                break
            smaller = self._rounded(len(walking))
            if smaller < size:
                self._squeeze(walking, smaller)
                size = smaller
        return self._batch.reached.numpy()[:number].astype(float) - self._batch.start.numpy()[:number]

    def _rounded(self, number: int) -> int:
        """Return the number of simulations to run for `number` walks.

        On a GPU each size needs a graph. Sizes are 4 to 7 times a power of two: few graphs, and at most a fifth of the
        simulations idle.
        """
        if not self._device.is_cuda:
            return number
        step = max(_LEAST, 1 << max(number - 1, 1).bit_length()) // 8
        return max(_LEAST, -(-number // step) * step)

    def _reserve(self, number: int) -> None:
        """Allocate simulations for `number` walks, unless there are enough."""
        if number <= self._batch.size:
            return
        self._graphs.clear()
        size = self._rounded(number)
        with self._fitting(size):
            self._batch = _Batch(self._host, size)
        self._step(size)  # the kernels of the new model

    @contextmanager
    def _fitting(self, size: int) -> Iterator[None]:
        """Raise a helpful error if the allocation of `size` simulations fails."""
        try:
            yield
        except RuntimeError as error:
            raise DeviceMemoryError(
                f"{size:,} simulations do not fit into the memory of {self._device.alias!r} ({error}): make the domain "
                "with a smaller worlds=, and leave JAX less of the GPU (XLA_PYTHON_CLIENT_PREALLOCATE=false)"
            ) from None

    def _bodies(self, lengths: np.ndarray) -> np.ndarray:
        """Return the places of bodies in the store; settle and store those that are new."""
        keys = [row.tobytes() for row in np.ascontiguousarray(lengths)]
        for key in keys:
            if key in self._kept:
                self._kept.move_to_end(key)
        new = {key: i for i, key in enumerate(keys) if key not in self._kept}
        if new:
            # Evict the least recently used bodies; those of this call were just moved to the end.
            free = list(range(len(self._kept), min(self._places, len(self._kept) + len(new))))
            while len(free) < len(new):
                free.append(self._kept.popitem(last=False)[1])
            try:
                self._settle(lengths[list(new.values())], np.array(free))
            except BaseException:
                self._kept.clear()  # evicted places must not be assigned twice
                raise
            self._kept.update(zip(new, free, strict=True))
        return np.array([self._kept[key] for key in keys])

    def _settle(self, lengths: np.ndarray, places: np.ndarray) -> None:
        """Set bodies up, drop them from just above the ground with all motors at zero, and store their state."""
        number = len(lengths)
        size = self._rounded(number)
        padded = lengths[np.minimum(np.arange(size), number - 1)]
        for name, values in fields(self._host, padded, self.damage).items():
            self._fill(name, values.reshape(size, -1))
        mjw.set_const(self._batch.model, self._part(size))
        state = np.tile(self._host.qpos0, (size, 1))
        state[:, 2] = spawn_height(padded, self.damage)
        self._fill("qpos", state)
        for name in ("qvel", "qacc_warmstart"):
            self._batch.own[name].zero_()
        self._begin_walks(None, size)
        self._run(size, SETTLE)
        self._move(self._batch.own, np.arange(number), self._store, places)

    def _fill(self, name: str, values: np.ndarray) -> None:
        """Set the first rows of a field of the simulations."""
        source = self._array(values, wp.float32)
        wp.copy(self._batch.own[name], source, count=source.size)

    def _place(self, bodies: np.ndarray, rows: np.ndarray, size: int) -> None:
        """Load settled bodies into the first simulations, one per row; spare simulations get copies and no row."""
        spare = size - len(bodies)
        self._move(self._store, np.pad(bodies, (0, spare), mode="edge"), self._batch.own, np.arange(size))
        wp.copy(self._batch.rows, self._array(np.pad(rows, (0, spare), constant_values=-1), wp.int32), count=size)

    def _begin_walks(self, gaits: np.ndarray | None, size: int) -> None:
        """Start the walks of the first simulations; without gaits, stand still and apply no rules."""
        if gaits is None:
            self._batch.rows.fill_(-1)
            gaits = np.zeros((1, _SIGNALS, 3))
        read = self._array(gaits.reshape(-1, _SIGNALS, 3), wp.float64)
        batch = self._batch
        signals = [batch.amplitude, batch.up, batch.first, batch.angle, batch.speed]
        wp.launch(warp_kernels.read, dim=(size, _SIGNALS), inputs=[read, batch.rows], outputs=signals)
        seen = [batch.walking, batch.last, batch.aside, batch.start, batch.reached, self._now]
        wp.launch(warp_kernels.begin, dim=size, inputs=[batch.rows, batch.data.qpos], outputs=seen)

    def _run(self, size: int, steps: int) -> None:
        """Run steps of the first simulations."""
        if not self._device.is_cuda:
            for _ in range(steps):
                self._step(size)
            return
        if size not in self._graphs:
            with wp.ScopedCapture(self._device) as capture:
                self._step(size)
            self._graphs[size] = capture.graph
        for _ in range(steps):
            wp.capture_launch(self._graphs[size])

    def _step(self, size: int) -> None:
        """Launch one step of the first simulations."""
        batch, data = self._batch, self._part(size)
        signals = [batch.amplitude, batch.up, batch.first, self._motors, self._now]
        driven = [batch.angle, batch.speed, data.ctrl]
        wp.launch(warp_kernels.drive, dim=(size, _SIGNALS), inputs=[self._wave, *signals], outputs=driven)
        mjw.step(batch.model, data)
        walked = [data.qpos, batch.rows, batch.aside, self.rules.yaw]
        judged = [batch.last, batch.walking, batch.reached, self._now]
        wp.launch(warp_kernels.judge, dim=size, inputs=walked, outputs=judged)

    def _part(self, size: int) -> Any:
        """Return a view of the first simulations: the same arrays, of which Warp uses fewer rows."""
        return dataclasses.replace(self._batch.data, nworld=size)

    def _squeeze(self, walking: np.ndarray, size: int) -> None:
        """Move the walks that are not over to free places among the first simulations."""
        beyond = walking[walking >= size]
        free = np.setdiff1d(np.arange(size), walking, assume_unique=True)[: len(beyond)]
        if not len(beyond):
            return
        batch = self._batch
        signals = [batch.amplitude, batch.up, batch.first, batch.angle, batch.speed]
        single = [batch.rows, batch.walking, batch.aside, batch.last]
        arrays = {str(i): array for i, array in enumerate([*signals, *map(_flat, single)])} | batch.own
        self._move(arrays, beyond, arrays, free)

    def _move(self, source: Any, sources: np.ndarray, target: Any, targets: np.ndarray) -> None:
        """Copy rows of the arrays of `source` to rows of the arrays of the same name in `target`."""
        where = [self._array(rows, wp.int32) for rows in (sources, targets)]
        for name, array in source.items():
            dim = (len(sources), array.shape[1])
            wp.launch(warp_kernels.copy, dim=dim, inputs=[array, where[0]], outputs=[target[name], where[1]])

    def _array(self, values: np.ndarray, dtype: Any) -> Any:
        return wp.array(values, dtype=dtype, device=self._device)

    @contextmanager
    def _ours(self) -> Iterator[None]:
        """Use this device, and keep Warp from printing what it loads."""
        with silent(), wp.ScopedDevice(self._device):
            yield


@contextmanager
def silent() -> Iterator[None]:
    """Let Warp print errors only, within the block."""
    before = wp.config.log_level
    wp.config.log_level = wp.LOG_ERROR
    try:
        yield
    finally:
        wp.config.log_level = before


def _flat(array: Any) -> Any:
    """Return a view of an array of vectors as an array of scalars, `(n, width)`."""
    plain = getattr(array.dtype, "_wp_scalar_type_", array.dtype)
    width = array.strides[0] // 4
    return wp.array(ptr=array.ptr, shape=(len(array), width), dtype=plain, device=array.device)


def _motors(damage: tuple[tuple[int, str], ...]) -> np.ndarray:
    """Return the motors that each signal drives, `(signals, 2)`, as indices in the model; -1 for none."""
    found = np.full((_SIGNALS, 2), -1)
    joints, moved = powered_joints(damage)
    for motor, (joint, moves) in enumerate(zip(joints, moved, strict=True)):
        leg, segment = divmod(int(joint), 3)
        if moves:
            found[2 * leg + min(segment, 1), max(segment - 1, 0)] = motor
    return found


@lru_cache(maxsize=4)
def engine(rules: Rules, damage: tuple[tuple[int, str], ...], device: str, worlds: int) -> WarpEngine:
    """Return the cached engine of this process for these settings."""
    return WarpEngine(rules, damage, device, worlds)
