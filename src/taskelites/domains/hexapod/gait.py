"""The controller: maps 36 numbers in [0, 1] to the angles of 18 joints over time.

There are six numbers per leg: amplitude, phase and duty cycle of the coxa, and the same of the femur, which the tibia
copies (its axis is opposite, so it stays vertical). A signal is a square wave with a period of 1 s, smoothed by a
circular Gaussian: Cully, Clune, Tarapore, Mouret, "Robots that can adapt like animals" (Nature, 2015), supplementary
methods.

The motors are the velocity constraints of the paper's simulator, a recursion that does not depend on the load. So the
trajectory of each motor is a function of the gait alone and known before the simulation.

Deviations from the paper: the third parameter is the duty cycle, as in its code, not an offset; and the controller's
clock is exact, whereas the clock of the code drifts and reads some samples one late.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from taskelites.domains.hexapod.body import LEGS, SPEED

DIM = 6 * LEGS
SAMPLES = 100  # samples per period of 1 s
RATE = 240  # steps per second
STEPS = 3 * RATE
HOLD = RATE // 20  # steps per target, 50 ms
AHEAD = SAMPLES // 20  # samples per target
_HALF_WIDTH = 10
COXA_SHARE = 0.5
# Coefficients of the motor law, q'' = STIFFNESS (target - q) - DRAG q' in continuous time.
STIFFNESS, DRAG = 4800.0, 96.0


# A tripod gait by the robot's builders, which walks backwards, and the same gait with every coxa half a period later.
REFERENCE = np.tile([1.0, 0.0, 0.5, 0.25, 0.25, 0.5], (LEGS, 1))
REFERENCE[[1, 4], 1] = 0.5
REFERENCE[[1, 3, 5], 4] = 0.75
FORWARD = REFERENCE.copy()
FORWARD[:, 1] = (REFERENCE[:, 1] + 0.5) % 1.0
REFERENCE, FORWARD = REFERENCE.reshape(-1), FORWARD.reshape(-1)


@cache
def table() -> np.ndarray:
    """Return the smoothed square waves, `(101, 100)`, indexed by the number of samples that are up, and by sample.

    Example:
        >>> table()[[0, 50, 100], 25].tolist()
        [-1.0, 1.0, 1.0]
    """
    sample = np.arange(SAMPLES)
    square = np.where(sample < np.arange(SAMPLES + 1)[:, None], 1.0, -1.0)
    offset = np.arange(-_HALF_WIDTH, _HALF_WIDTH + 1)
    weight = np.exp(-0.5 * (offset / (_HALF_WIDTH / 3)) ** 2)
    weight /= weight.sum()
    smoothed = sum(w * np.roll(square, shift, axis=1) for w, shift in zip(weight, offset, strict=True))
    return np.clip(np.asarray(smoothed), -1.0, 1.0)


def signals(gaits: Any, xp: Any = np) -> Any:
    """Return the targets of coxas and femurs over one period, rad, `(..., 20, 6, 2)`, one row per 50 ms.

    Args:
        gaits: `(..., 36)`.
        xp: numpy or jax.numpy.

    Example:
        >>> still = np.zeros(36)
        >>> bool((signals(still) == 0).all())
        True
    """
    amplitude, phase, duty = xp.moveaxis(gaits.reshape(*gaits.shape[:-1], LEGS, 2, 3), -1, 0)
    up = xp.ceil(SAMPLES * duty).astype(int)
    first = xp.floor(SAMPLES * phase).astype(int)
    tick = xp.arange(0, SAMPLES, AHEAD).reshape(-1, 1, 1)
    wave = xp.asarray(table())[up[..., None, :, :], (tick + first[..., None, :, :]) % SAMPLES]
    scale = xp.asarray([COXA_SHARE, 1.0]) * (math.pi / 4)
    return wave * (amplitude * scale)[..., None, :, :]


def motor(target: Any, angle: Any, speed: Any, xp: Any = np, step: float = 1 / RATE) -> tuple[Any, Any]:
    """Return angle and speed of joints after one step of the motor law.

    Args:
        target: target angle, rad.
        angle: current angle, rad.
        speed: current speed, rad/s.
        xp: numpy or jax.numpy.
        step: duration of the step, s.

    Example:
        >>> motor(np.array(1.0), np.array(0.0), np.array(0.0))[1].item()  # the maximum speed
        7.0
    """
    wanted = speed + step * (STIFFNESS * (target - angle) - DRAG * speed)
    speed = xp.clip(wanted, -SPEED, SPEED)
    return angle + step * speed, speed


class Motors:
    """The state of the motors of coxas and femurs over time, from rest at zero.

    Args:
        gaits: `(n, 36)`.

    Example:
        >>> motors = Motors(np.random.default_rng(0).random((5, 36)))
        >>> angles, speeds = motors.drive(60)
        >>> angles.shape, bool(np.abs(speeds).max() <= 7)
        ((60, 5, 6, 2), True)
    """

    def __init__(self, gaits: np.ndarray) -> None:
        self._period = np.ascontiguousarray(np.moveaxis(signals(gaits), -3, 0))
        self._angle = self._speed = np.zeros(self._period.shape[1:])
        self._now = 0

    def drive(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Advance by `steps` steps; return angles, rad, and speeds, rad/s, each `(steps, n, 6, 2)`."""
        angles = np.empty((steps, *self._angle.shape))
        speeds = np.empty_like(angles)
        for i in range(steps):
            target = self._period[self._now // HOLD % len(self._period)]
            self._angle, self._speed = motor(target, self._angle, self._speed)
            angles[i], speeds[i] = self._angle, self._speed
            self._now += 1
        return angles, speeds

    def keep(self, rows: np.ndarray) -> None:
        """Drop all gaits except these rows."""
        self._period, self._angle, self._speed = self._period[:, rows], self._angle[rows], self._speed[rows]


def joint_angles(pairs: Any, xp: Any = np) -> Any:
    """Return the values of all 18 joints, `(..., 18)`, leg by leg, given those of coxas and femurs, `(..., 6, 2)`."""
    both = xp.concatenate([pairs, pairs[..., 1:]], axis=-1)
    return both.reshape(*both.shape[:-2], 3 * LEGS)
