"""The robot: its links as functions of 12 lengths, and the model files for the simulators.

A task is `[tibia of leg 0, ..., tibia of leg 5, femur of leg 0, ..., femur of leg 5]` in metres. Legs 0 to 2 are on the
left, from the rear to the front; legs 3 to 5 are on the right, from the front to the rear. x is forward, y left, z up.
Masses do not depend on the lengths; moments of inertia do.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError, one_of, whole_number

LEGS = 6
LEG_NAMES = ("rear left", "middle left", "front left", "front right", "middle right", "rear right")
TIBIA, FEMUR = (0.10, 0.18), (0.045, 0.125)  # the ranges of the lengths, m
LOWER, UPPER = (np.repeat([TIBIA[end], FEMUR[end]], LEGS) for end in (0, 1))
NOMINAL = np.array([0.14] * LEGS + [0.085] * LEGS)
NAMES = tuple(f"{segment}_{leg}" for segment in ("tibia", "femur") for leg in range(LEGS))

BASE = (0.24, 0.20, 0.04)
BASE_MASS, COXA_MASS, FEMUR_MASS, TIBIA_MASS = 1.031, 0.020, 0.184, 0.040
COXA_LENGTH = 0.06
FOOT_RADIUS, STUMP_RADIUS = 0.025, 0.01
FRICTION = 0.5
GRAVITY = 9.81
TORQUE, SPEED = 30.0, 7.0  # maximum torque and speed of a motor, N m and rad/s
COXA_RANGE, KNEE_RANGE = math.pi / 2, math.pi / 4
# Per leg: side, position of the coxa joint on the base (x, y), and rotation of its frame about z.
_HIPS = (
    (+1, -0.13, 0.04, 0.3),
    (+1, -0.01, 0.08, 0.0),
    (+1, 0.11, 0.04, -0.3),
    (-1, 0.11, -0.04, 0.3),
    (-1, -0.01, -0.08, 0.0),
    (-1, -0.13, -0.04, -0.3),
)
DAMAGES = {
    "dead": "its motors give no torque: the joints swing freely within their range",
    "stuck": "its motors hold it at zero",
    "no-tibia": "the tibia is missing",
    "no-leg": "femur and tibia are missing",
}
_REMAINING_LINKS = {"no-leg": 1, "no-tibia": 2}
_CLEARANCE = 0.001  # initial height of the longest leg above the ground, m


@dataclass(frozen=True, kw_only=True)
class Link:
    """A rigid link and the joint to its parent. `...` are the leading axes of batched lengths.

    Attributes:
        name: name of the link, such as `femur_3`.
        parent: name of the parent link; None for the base.
        origin: origin of its frame in the parent's frame, m, `(..., 3)`.
        turn: rotation of its frame in the parent's frame: roll, pitch, yaw, rad.
        axis: axis of the joint.
        reach: limit of the joint, which turns from `-reach` to `reach`, rad.
        powered: whether the joint has a motor.
        mass: kg.
        centre: centre of mass and of the box, m, `(..., 3)`.
        inertia: moments about the centre along the axes of the frame, kg m^2, `(..., 3)`.
        box: size of the box, m, `(..., 3)`.
        foot: centre of the sphere that touches the ground, m, `(..., 3)`; None without a foot.
        radius: radius of that sphere, m.
    """

    name: str
    parent: str | None = None
    origin: Any = None
    turn: tuple[float, float, float] = (0.0, 0.0, 0.0)
    axis: tuple[int, int, int] = (0, 0, 1)
    reach: float = 0.0
    powered: bool = True
    mass: float = 0.0
    centre: Any = None
    inertia: Any = None
    box: Any = None
    foot: Any = None
    radius: float = 0.0


def as_damage(damage: Any) -> tuple[tuple[int, str], ...]:
    """Check a dict of damage and return it as a hashable value: pairs of leg and kind, ordered by leg.

    Example:
        >>> as_damage({4: "dead", 0: "no-tibia"})
        ((0, 'no-tibia'), (4, 'dead'))
    """
    if damage is None:
        return ()
    if not isinstance(damage, Mapping):
        raise InvalidTypeError(
            f"damage must be a dict of legs (0 to 5) and what is wrong with each, such as {{2: 'dead'}}, not {damage!r}"
        )
    found = {}
    for leg, kind in damage.items():
        number = whole_number("a leg in damage", leg, least=0)
        if number >= LEGS:
            raise InvalidValueError(f"a leg in damage must be 0 to {LEGS - 1}, not {leg!r}")
        found[number] = one_of(f"damage of leg {number}", kind, DAMAGES)
    return tuple(sorted(found.items()))


def check_lengths(lengths: np.ndarray, what: str) -> None:
    """Raise if lengths `(n, 12)` are outside the ranges, where the model has not been tested."""
    wrong = np.argwhere(~((lengths >= LOWER - 1e-7) & (lengths <= UPPER + 1e-7)))
    if len(wrong):
        row, column = wrong[0]
        raise InvalidValueError(
            f"{what} must have tibias in {list(TIBIA)} and femurs in {list(FEMUR)} m, but {NAMES[column]} of "
            f"task {row} is {lengths[row, column]:g}"
        )


def links(lengths: Any, damage: tuple[tuple[int, str], ...] = (), xp: Any = np) -> list[Link]:
    """Return the links of the robot, parents first.

    Args:
        lengths: `(..., 12)`, m; leading axes are a batch of robots.
        damage: as returned by `as_damage`.
        xp: numpy or jax.numpy.

    Example:
        >>> parts = links(NOMINAL)
        >>> len(parts), round(sum(part.mass for part in parts), 3)
        (19, 2.495)
        >>> len(links(NOMINAL, damage=((2, "no-leg"),)))
        17
    """
    broken = dict(damage)
    base = Link(
        name="base",
        mass=BASE_MASS,
        centre=_vector(xp, 0.0, 0.0, 0.0),
        inertia=_solid(xp, BASE_MASS, *BASE),
        box=_vector(xp, *BASE),
    )
    found = [base]
    for leg in range(LEGS):
        wrong = broken.get(leg, "")
        parts = _leg(leg, lengths[..., leg], lengths[..., LEGS + leg], wrong != "dead", xp)
        if wrong in _REMAINING_LINKS:
            *parts, stump = parts[: _REMAINING_LINKS[wrong]]
            # The end of the stump, which is as far from its centre as its origin, can touch the ground.
            end = stump.centre * xp.asarray([1.0, 2.0, 1.0])
            parts.append(replace(stump, foot=end, radius=STUMP_RADIUS))
        found += parts
    return found


def _leg(leg: int, tibia: Any, femur: Any, powered: bool, xp: Any) -> list[Link]:
    side, x, y, yaw = _HIPS[leg]
    return [
        Link(
            name=f"coxa_{leg}",
            parent="base",
            origin=_vector(xp, x, y, 0.0),
            turn=(0.0, 0.0, yaw),
            axis=(0, 0, 1),
            reach=COXA_RANGE,
            powered=powered,
            mass=COXA_MASS,
            centre=_vector(xp, 0.01, side * COXA_LENGTH / 2, 0.0),
            inertia=_solid(xp, COXA_MASS, 0.02, COXA_LENGTH, 0.02),
            box=_vector(xp, 0.02, COXA_LENGTH, 0.02),
        ),
        Link(
            name=f"femur_{leg}",
            parent=f"coxa_{leg}",
            origin=_vector(xp, 0.0, side * COXA_LENGTH, 0.0),
            axis=(side, 0, 0),
            reach=KNEE_RANGE,
            powered=powered,
            mass=FEMUR_MASS,
            centre=_vector(xp, 0.01, side * femur / 2, 0.0),
            inertia=_solid(xp, FEMUR_MASS, 0.02, femur, 0.02),
            box=_vector(xp, 0.02, femur, 0.02),
        ),
        Link(
            name=f"tibia_{leg}",
            parent=f"femur_{leg}",
            origin=_vector(xp, 0.0, side * femur, 0.0),
            turn=(-side * math.pi / 2, 0.0, 0.0),  # it points down
            axis=(-side, 0, 0),
            reach=KNEE_RANGE,
            powered=powered,
            mass=TIBIA_MASS,
            centre=_vector(xp, 0.0125, side * tibia / 2, 0.0),
            # As PyBullet computes it: of the box around shaft and foot, with margins of 1 mm.
            inertia=_solid(xp, TIBIA_MASS, 0.052, tibia + 0.0145, 0.052),
            box=_vector(xp, 0.025, tibia, 0.025),
            foot=_vector(xp, 0.0125, side * (tibia - 0.0125), 0.0),
            radius=FOOT_RADIUS,
        ),
    ]


def _vector(xp: Any, *numbers: Any) -> Any:
    return xp.stack(xp.broadcast_arrays(*(xp.asarray(number) for number in numbers)), axis=-1)


def _solid(xp: Any, mass: float, x: Any, y: Any, z: Any) -> Any:
    """Return the moments of inertia of a box."""
    return _vector(xp, *(mass / 12 * (a * a + b * b) for a, b in ((y, z), (x, z), (x, y))))


def spawn_height(lengths: Any, damage: tuple[tuple[int, str], ...] = (), xp: Any = np) -> Any:
    """Return the initial height of the base, m, `(...)`: the longest leg, stretched down, is just above the ground.

    Example:
        >>> round(float(spawn_height(NOMINAL)), 4)
        0.1535
    """
    whole = [leg for leg in range(LEGS) if dict(damage).get(leg) not in _REMAINING_LINKS]
    least = xp.full(lengths.shape[:-1], BASE[2] / 2)
    if whole:
        least = xp.maximum(least, xp.max(lengths[..., xp.asarray(whole)], axis=-1) + FOOT_RADIUS / 2)
    return least + _CLEARANCE


def mjcf(parts: list[Link], options: str, actuator: str, joint: str = "", *, drawn: bool = False) -> str:
    """Return a model file for MuJoCo.

    Args:
        parts: links of one robot.
        options: attributes of the element `option`.
        actuator: attributes of each motor.
        joint: attributes of each joint.
        drawn: whether to add elements for rendering only: boxes of the legs, light, a floor with tiles.
    """
    children: dict[str | None, list[Link]] = {}
    for part in parts:
        children.setdefault(part.parent, []).append(part)

    def body(part: Link) -> str:
        if part.parent is None:
            place, hinge = "", '<freejoint name="root"/>'
        else:
            place = f' pos="{_text(part.origin)}" euler="{_text(part.turn)}"'
            limits = "" if part.powered else f' limited="true" range="{_text((-part.reach, part.reach))}"'
            hinge = f'<joint name="{part.name}" axis="{_text(part.axis)}"{limits} {joint}/>'
        size = np.asarray(part.box) / 2
        shapes = []
        if drawn or part.parent is None:
            touch = "" if part.parent is None else ' contype="0" conaffinity="0"'
            shapes.append(
                f'<geom name="{part.name}" type="box" pos="{_text(part.centre)}" size="{_text(size)}"{touch}/>'
            )
        if part.foot is not None:
            shapes.append(f'<geom name="foot_{part.name[-1]}" size="{part.radius}" pos="{_text(part.foot)}"/>')
        inertial = f'pos="{_text(part.centre)}" mass="{part.mass}" diaginertia="{_text(part.inertia)}"'
        inside = "".join(map(body, children.get(part.name, [])))
        return f'<body name="{part.name}"{place}>{hinge}<inertial {inertial}/>{"".join(shapes)}{inside}</body>'

    motors = "".join(
        f'<position name="{part.name}" joint="{part.name}" {actuator}/>'
        for part in parts
        if part.parent and part.powered
    )
    seen, light, floor = (_SEEN, _LIGHT, _FLOOR) if drawn else ("", "", "")
    return (
        f'<mujoco model="hexapod"><compiler angle="radian"/><option {options}/>{seen}'
        f'<default><geom type="sphere" contype="0" conaffinity="1" condim="3" friction="{FRICTION} 0.005 0.0001"'
        ' solref="0.01 1"/></default>'
        f'<worldbody>{light}<geom name="floor" type="plane" size="0 0 0.05" contype="1" conaffinity="0"{floor}/>'
        f"{body(parts[0])}</worldbody><actuator>{motors}</actuator></mujoco>"
    )


_SEEN = (
    '<visual><global offwidth="1920" offheight="1080"/><quality shadowsize="2048"/>'
    '<map haze="0.35" shadowscale="0.2"/><rgba haze="0.93 0.95 0.97 1"/>'
    '<headlight ambient="0.38 0.38 0.38" diffuse="0.3 0.3 0.3" specular="0 0 0"/></visual>'
    '<asset><texture name="sky" type="skybox" builtin="gradient" rgb1="0.93 0.95 0.97" rgb2="0.93 0.95 0.97" width="64"'
    ' height="64"/><texture name="tiles" type="2d" builtin="checker" rgb1="0.90 0.91 0.92" rgb2="0.84 0.85 0.87"'
    ' width="256" height="256"/><material name="floor" texture="tiles" texrepeat="5 5" texuniform="true" specular="0"/>'
    "</asset>"
)
_LIGHT = (
    '<light name="sun" pos="-0.9 -1.2 4" dir="0.9 1.2 -4" cutoff="40" exponent="0" diffuse="0.5 0.5 0.5"'
    ' specular="0.1 0.1 0.1" castshadow="true"/>'
)
_FLOOR = ' material="floor"'


def urdf(parts: list[Link]) -> str:
    """Return a model file for PyBullet.

    Example:
        >>> urdf(links(NOMINAL)).count("<joint")
        18
    """
    lines = ['<?xml version="1.0"?>', '<robot name="hexapod">']
    for part in parts:
        shapes = [(part.centre, f'<box size="{_text(part.box)}"/>')]
        if part.foot is not None:
            shapes.append((part.foot, f'<sphere radius="{part.radius}"/>'))
        ixx, iyy, izz = part.inertia
        lines.append(
            f'<link name="{part.name}"><inertial><origin xyz="{_text(part.centre)}"/><mass value="{part.mass}"/>'
            f'<inertia ixx="{ixx}" iyy="{iyy}" izz="{izz}" ixy="0" ixz="0" iyz="0"/></inertial>'
            + "".join(
                f'<collision><origin xyz="{_text(place)}"/><geometry>{shape}</geometry></collision>'
                for place, shape in shapes
            )
            + "</link>"
        )
        if part.parent is not None:
            lines.append(
                f'<joint name="{part.name}" type="revolute"><parent link="{part.parent}"/><child link="{part.name}"/>'
                f'<origin xyz="{_text(part.origin)}" rpy="{_text(part.turn)}"/><axis xyz="{_text(part.axis)}"/>'
                f'<limit lower="{-part.reach}" upper="{part.reach}" effort="{TORQUE}" velocity="{SPEED}"/></joint>'
            )
    return "\n".join([*lines, "</robot>"])


def _text(numbers: Any) -> str:
    return " ".join(repr(float(number)) for number in numbers)
