"""A second description of the hexapod for its tests: the parameters of its builders' files, and plain loops."""

import math

import mujoco
import numpy as np

from taskelites.domains.hexapod import mujoco_engine
from taskelites.domains.hexapod.body import as_damage, links, mjcf
from taskelites.domains.hexapod.episode import Rules

# These parameters are independent of the code under test.
# Per leg: side, position of the coxa joint on the base (x, y), yaw of the frame of the coxa.
HIPS = [
    (+1, -0.13, 0.04, 0.3),
    (+1, -0.01, 0.08, 0.0),
    (+1, 0.11, 0.04, -0.3),
    (-1, 0.11, -0.04, 0.3),
    (-1, -0.01, -0.08, 0.0),
    (-1, -0.13, -0.04, -0.3),
]
MASSES = {"base": 1.031, "coxa": 0.020, "femur": 0.184, "tibia": 0.040}
INERTIAS = {  # about the centre, along the axes of the link, of the nominal body
    "base": (3.574133e-3, 5.086267e-3, 8.385467e-3),
    "coxa": (6.666667e-6, 1.333333e-6, 6.666667e-6),
    "femur": (1.169167e-4, 1.226667e-5, 1.169167e-4),
    "tibia": (8.858083e-5, 1.802667e-5, 8.858083e-5),
}
REACH = {"coxa": math.pi / 2, "femur": math.pi / 4, "tibia": math.pi / 4}
MIRRORED = [5, 4, 3, 2, 1, 0]  # the leg that mirrors leg 0, 1, ... between left and right


def axes(side):
    return {"coxa": (0, 0, 1), "femur": (side, 0, 0), "tibia": (-side, 0, 0)}


def some_bodies(number, seed):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.uniform(0.10, 0.18, (number, 6)), rng.uniform(0.045, 0.125, (number, 6))], axis=1)


def some_gaits(number, seed):
    return np.random.default_rng(seed).random((number, 36))


def new_engine(rules=None, damage=None, threads=1):
    return mujoco_engine.MujocoEngine(rules or Rules(), as_damage(damage), threads)


def compiled(lengths, damage=(), *, drawn=False):
    text = mjcf(links(lengths, damage), mujoco_engine.OPTIONS, mujoco_engine.ACTUATOR, mujoco_engine.JOINT, drawn=drawn)
    return mujoco.MjModel.from_xml_string(text)


def transcribed(gait):
    """Return the targets of a transcription of the original controller, in rad, shape `(20, 6, 2)`: coxa and femur."""
    weights = [math.exp(-0.5 * (k / (10 / 3)) ** 2) for k in range(-10, 11)]
    rows = np.zeros((20, 6, 2))
    for leg in range(6):
        for joint in range(2):
            amplitude, phase, duty = gait[6 * leg + 3 * joint :][:3]
            hat = [1.0 if i < 100 * duty else -1.0 for i in range(100)]
            smooth = [
                sum(w * hat[(i + k) % 100] for w, k in zip(weights, range(-10, 11), strict=True)) / sum(weights)
                for i in range(100)
            ]
            scaled = [amplitude * value for value in smooth]
            first = math.floor(100 * phase)
            turned = [scaled[(i + first) % 100] for i in range(100)]
            for tick in range(20):
                rows[tick, leg, joint] = turned[5 * tick] * math.pi / 4 * (0.5 if joint == 0 else 1.0)
    return rows


def driven(gait, steps):
    """Return the angles and speeds of the motors by a plain recursion, each of shape `(steps, 6, 2)`."""
    targets = transcribed(gait)
    angles, speeds = np.zeros((steps, 6, 2)), np.zeros((steps, 6, 2))
    for leg in range(6):
        for joint in range(2):
            q = v = 0.0
            for i in range(steps):
                target = targets[(i // 12) % 20, leg, joint]
                v = min(max(20.0 * (target - q) + 0.6 * v, -7.0), 7.0)
                q += v / 240
                angles[i, leg, joint], speeds[i, leg, joint] = q, v
    return angles, speeds


def mirrored(gait):
    """Return the mirrored gait: legs change sides, and coxas swing in the opposite direction.

    The negative of a square wave is a square wave that starts where the first one ends.
    """
    legs = gait.reshape(6, 2, 3)[MIRRORED].copy()
    up = np.ceil(100 * legs[:, 0, 2])
    legs[:, 0, 1] = ((np.floor(100 * legs[:, 0, 1]) - up) % 100 + 0.5) / 100
    legs[:, 0, 2] = (100 - up - 0.5).clip(0) / 100
    return legs.reshape(-1)


def mirrored_body(lengths):
    return lengths.reshape(2, 6)[:, MIRRORED].reshape(-1)
