"""Warp kernels before and after MuJoCo Warp's step: read gaits, drive motors, apply the rules."""

import math
from typing import Any

import warp as wp

from taskelites.domains.hexapod.body import SPEED
from taskelites.domains.hexapod.episode import CORRIDOR, LEAN, LEAP
from taskelites.domains.hexapod.gait import AHEAD, COXA_SHARE, DRAG, HOLD, RATE, SAMPLES, STIFFNESS
from taskelites.domains.hexapod.mujoco_engine import KP, KV

_TICKS = SAMPLES // AHEAD  # per period
# In 64 bits, as in `gait.signals`, so that a gait gets the same samples.
_PERIOD, _FULL, _COXA, _NOTHING = (wp.float64(value) for value in (SAMPLES, math.pi / 4, COXA_SHARE, 0.0))

wp.set_module_options({"enable_backward": False})


@wp.kernel
def read(
    gaits: wp.array3d[wp.float64],
    rows: wp.array[int],
    amplitude: wp.array2d[float],
    up: wp.array2d[int],
    first: wp.array2d[int],
    angle: wp.array2d[float],
    speed: wp.array2d[float],
):
    """Read gaits and set all motors to rest at zero; a row of -1 gets a gait that stands still."""
    i, j = wp.tid()
    amplitude[i, j] = 0.0
    up[i, j] = 0
    first[i, j] = 0
    angle[i, j] = 0.0
    speed[i, j] = 0.0
    row = rows[i]
    if row >= 0:
        share = _FULL
        if j % 2 == 0:
            share = _FULL * _COXA
        amplitude[i, j] = wp.float32(gaits[row, j, 0] * share)
        # A gait with NaN must give NaN, and must not read beyond the table.
        angle[i, j] = wp.float32(_NOTHING * (gaits[row, j, 0] + gaits[row, j, 1] + gaits[row, j, 2]))
        first[i, j] = wp.clamp(int(wp.floor(_PERIOD * gaits[row, j, 1])), 0, SAMPLES)
        up[i, j] = wp.clamp(int(wp.ceil(_PERIOD * gaits[row, j, 2])), 0, SAMPLES)


@wp.kernel
def drive(
    wave: wp.array2d[float],
    amplitude: wp.array2d[float],
    up: wp.array2d[int],
    first: wp.array2d[int],
    motors: wp.array2d[int],
    now: wp.array[int],
    angle: wp.array2d[float],
    speed: wp.array2d[float],
    ctrl: wp.array2d[float],
):
    """Apply one step of the motor law (`gait.motor`), and set the targets of the motors."""
    i, j = wp.tid()
    tick = (now[0] // HOLD) % _TICKS
    target = amplitude[i, j] * wave[up[i, j], (AHEAD * tick + first[i, j]) % SAMPLES]
    step = 1.0 / float(RATE)
    v = speed[i, j]
    v = wp.clamp(v + step * (STIFFNESS * (target - angle[i, j]) - DRAG * v), -SPEED, SPEED)
    speed[i, j] = v
    angle[i, j] = angle[i, j] + step * v
    for k in range(2):
        motor = motors[j, k]
        if motor >= 0:
            ctrl[i, motor] = angle[i, j] + (KV / KP) * v


@wp.kernel
def begin(
    rows: wp.array[int],
    qpos: wp.array2d[float],
    walking: wp.array[int],
    last: wp.array[wp.vec3],
    aside: wp.array[float],
    start: wp.array[float],
    reached: wp.array[float],
    now: wp.array[int],
):
    """Record where each walk begins."""
    i = wp.tid()
    if i == 0:
        now[0] = 0
    row = rows[i]
    walking[i] = wp.where(row >= 0, 1, 0)
    last[i] = wp.vec3(qpos[i, 0], qpos[i, 1], qpos[i, 2])
    aside[i] = qpos[i, 1]
    if row >= 0:
        start[row] = qpos[i, 0]
        reached[row] = qpos[i, 0]


@wp.kernel
def judge(
    qpos: wp.array2d[float],
    rows: wp.array[int],
    aside: wp.array[float],
    yaw_counts: bool,
    last: wp.array[wp.vec3],
    walking: wp.array[int],
    reached: wp.array[float],
    now: wp.array[int],
):
    """Apply `Rules` to the poses after a step."""
    i = wp.tid()
    if i == 0:
        now[0] = now[0] + 1
    if walking[i] == 0:
        return
    p = wp.vec3(qpos[i, 0], qpos[i, 1], qpos[i, 2])
    w = qpos[i, 3]
    x = qpos[i, 4]
    y = qpos[i, 5]
    z = qpos[i, 6]
    if not (wp.length_sq(p - last[i]) < LEAP * LEAP):  # NaN, too
        reached[rows[i]] = wp.nan
        walking[i] = 0
        return
    last[i] = p
    reached[rows[i]] = p[0]
    roll = wp.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = wp.asin(wp.clamp(2.0 * (w * y - z * x), -1.0, 1.0))
    yaw = wp.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    over = wp.abs(roll) > LEAN or wp.abs(pitch) > LEAN or wp.abs(p[1] - aside[i]) > CORRIDOR
    if over or (yaw_counts and wp.abs(yaw) > LEAN):
        walking[i] = 0


@wp.kernel
def copy(source: wp.array2d[Any], sources: wp.array[int], target: wp.array2d[Any], targets: wp.array[int]):
    """Copy rows of one array to rows of another, or of the same array if the rows are disjoint."""
    i, j = wp.tid()
    target[targets[i], j] = source[sources[i], j]
