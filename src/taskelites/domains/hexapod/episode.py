"""The rules that end a walk."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

LEAN = math.pi / 8
CORRIDOR = 0.5
SETTLE = 100  # steps before the walk, with all motors at zero
# A base that moves further in a step of 1/240 s (5 m/s) was thrown by a simulation that diverged.
LEAP = 5.0 / 240


@dataclass(frozen=True)
class Rules:
    """The rules that end a walk early: the robot leans over, leaves its corridor or, optionally, turns.

    Args:
        yaw: whether turning by more than 22.5 degrees ends a walk, as in the paper's code; its text has no such rule.
    """

    yaw: bool = False

    def broken(self, pose: Any, start: Any, xp: Any = np) -> Any:
        """Return whether a rule is broken, `(...)`.

        Args:
            pose: position of the base, m, and its orientation as a quaternion, scalar first, `(..., 7)`.
            start: the first pose of the walk, broadcast against `pose`.
            xp: numpy or jax.numpy.

        Example:
            >>> upright = np.array([0.0, 0.0, 0.15, 1.0, 0.0, 0.0, 0.0])
            >>> aside = upright + np.array([0.0, 0.6, 0.0, 0.0, 0.0, 0.0, 0.0])
            >>> Rules().broken(np.stack([upright, aside]), upright).tolist()
            [False, True]
        """
        roll, pitch, yaw = euler(pose[..., 3:], xp)
        over = (abs(roll) > LEAN) | (abs(pitch) > LEAN) | (abs(pose[..., 1] - start[..., 1]) > CORRIDOR)
        return over | (abs(yaw) > LEAN) if self.yaw else over

    def reason(self, pose: Any, start: Any) -> str:
        """Return in words which rules a pose `(7,)` breaks; empty if none.

        Example:
            >>> upright = np.array([0.0, 0.0, 0.15, 1.0, 0.0, 0.0, 0.0])
            >>> Rules().reason(upright - np.array([0.0, 0.6, 0.0, 0.0, 0.0, 0.0, 0.0]), upright)
            'it left its corridor'
        """
        roll, pitch, yaw = (abs(float(angle)) > LEAN for angle in euler(np.asarray(pose)[3:]))
        aside = abs(pose[1] - start[1]) > CORRIDOR
        broken = {
            "it leaned to the side": roll,
            "it leaned forward or back": pitch,
            "it left its corridor": aside,
            "it turned": self.yaw and yaw,
        }
        return " and ".join(words for words, so in broken.items() if so)

    def plausible(self, pose: Any, before: Any, xp: Any = np) -> Any:
        """Return whether a pose can follow the one of the step before, `(...)`; False for NaN.

        Example:
            >>> upright = np.array([0.0, 0.0, 0.15, 1.0, 0.0, 0.0, 0.0])
            >>> bool(Rules().plausible(upright + 0.001, upright)), bool(Rules().plausible(upright + 1, upright))
            (True, False)
        """
        return xp.square(pose[..., :3] - before[..., :3]).sum(axis=-1) < LEAP**2


def euler(quaternion: Any, xp: Any = np) -> tuple[Any, Any, Any]:
    """Return roll, pitch and yaw, radians, of quaternions `(..., 4)`, scalar first.

    Example:
        >>> half = math.sqrt(0.5)
        >>> [round(float(angle), 4) for angle in euler(np.array([half, 0.0, 0.0, half]))]
        [0.0, 0.0, 1.5708]
    """
    w, x, y, z = (quaternion[..., i] for i in range(4))
    roll = xp.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = xp.arcsin(xp.clip(2 * (w * y - z * x), -1, 1))
    yaw = xp.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return roll, pitch, yaw
