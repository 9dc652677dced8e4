"""The hexapod's body, gaits and rules against their specification, and invalid arguments."""

import json
import math
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from robots import (
    HIPS,
    INERTIAS,
    MASSES,
    REACH,
    axes,
    compiled,
    driven,
    new_engine,
    some_bodies,
    some_gaits,
    transcribed,
)
from scipy.spatial.transform import Rotation

import taskelites as te
from taskelites.cli import main
from taskelites.domains import hexapod
from taskelites.domains.hexapod.body import NOMINAL, as_damage, links, spawn_height, urdf
from taskelites.domains.hexapod.episode import Rules, euler
from taskelites.domains.hexapod.gait import FORWARD, REFERENCE, Motors, joint_angles, motor, signals


@pytest.fixture(scope="module")
def engine():
    return new_engine()


@pytest.fixture
def working_directory(tmp_path, monkeypatch):
    """A working directory for the file to which MuJoCo writes its warnings."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# The body.


def leg_points(leg, lengths, angles):
    """Return the centres of coxa, femur, tibia and foot in the frame of the base, by trigonometry."""
    side, x, y, yaw = HIPS[leg]
    tibia, femur = lengths[leg], lengths[6 + leg]
    coxa_angle, lift, knee = angles
    down = lift - knee  # angle of the tibia from the vertical; its axis is opposite
    local = [  # along the x-axis of the leg, outwards, upwards
        (0.01, 0.03, 0.0),
        (0.01, 0.06 + femur / 2 * math.cos(lift), femur / 2 * math.sin(lift)),
    ]
    for shaft in (tibia / 2, tibia - 0.0125):
        local.append(
            (
                0.0125,
                0.06 + femur * math.cos(lift) + shaft * math.sin(down),
                femur * math.sin(lift) - shaft * math.cos(down),
            )
        )
    turn = yaw + coxa_angle
    return [
        (
            x + math.cos(turn) * along - math.sin(turn) * side * out,
            y + math.sin(turn) * along + math.cos(turn) * side * out,
            up,
        )
        for along, out, up in local
    ]


def test_kinematics_equal_trigonometry(engine):
    rng = np.random.default_rng(0)
    bodies = some_bodies(10, 3)
    engine._begin(bodies)
    for row, lengths in enumerate(bodies):
        model = engine._batch.get_model(row)
        data = mujoco.MjData(model)
        for _ in range(5):
            turn, place = Rotation.random(random_state=int(rng.integers(2**31))), rng.normal(size=3)
            angles = rng.uniform(-1, 1, (6, 3)) * list(REACH.values())
            x, y, z, w = turn.as_quat()
            data.qpos[:] = [*place, w, x, y, z, *angles.reshape(-1)]
            mujoco.mj_kinematics(model, data)
            for leg in range(6):
                expected = place + turn.apply(leg_points(leg, lengths, angles[leg]))
                found = [data.xipos[model.body(f"{part}_{leg}").id] for part in ("coxa", "femur", "tibia")]
                found.append(data.geom_xpos[model.geom(f"foot_{leg}").id])
                assert np.abs(found - expected).max() < 1e-12


def test_model_has_parameters_of_robot(engine):
    model = engine.model
    assert (model.nbody, model.nv, model.nu, model.ngeom) == (20, 24, 18, 8)
    assert np.isclose(model.body_mass.sum(), 2.495)
    assert model.opt.timestep == 1 / 240
    assert model.opt.gravity.tolist() == [0, 0, -9.81]
    assert (model.geom_friction[:, 0] == 0.5).all()
    assert (model.geom_condim == 3).all()
    assert (model.body_iquat == [1, 0, 0, 0]).all()
    for leg, (side, x, y, yaw) in enumerate(HIPS):
        for part, axis in axes(side).items():
            body, joint = model.body(f"{part}_{leg}"), model.joint(f"{part}_{leg}")
            assert body.mass == MASSES[part]
            assert np.allclose(body.inertia, INERTIAS[part], rtol=1e-6, atol=0)
            assert joint.axis.tolist() == list(axis)
            assert (joint.damping, joint.frictionloss, joint.armature) == (0, 0, 0.005)
            motor_of = model.actuator(f"{part}_{leg}")
            assert motor_of.trnid[0] == joint.id
            assert motor_of.forcerange.tolist() == [-30, 30]
            assert motor_of.gainprm[0] == 60
            assert motor_of.biasprm[:3].tolist() == [0, -60, -1.2]
        turned = Rotation.from_euler("z", yaw).as_quat()[[3, 0, 1, 2]]
        assert np.allclose(model.body(f"coxa_{leg}").pos, [x, y, 0])
        assert np.allclose(model.body(f"coxa_{leg}").quat, turned)
        assert np.allclose(model.body(f"femur_{leg}").pos, [0, side * 0.06, 0])
        assert np.allclose(model.body(f"tibia_{leg}").pos, [0, side * 0.085, 0])
        foot = model.geom(f"foot_{leg}")
        assert foot.size[0] == 0.025
        assert np.allclose(foot.pos, [0.0125, side * 0.1275, 0])
    assert model.body("base").mass == MASSES["base"]
    assert np.allclose(model.body("base").inertia, INERTIAS["base"], rtol=1e-6, atol=0)
    assert np.allclose(2 * model.geom("base").size, [0.24, 0.20, 0.04])


def test_only_contacts_with_floor_are_possible(engine):
    model = engine.model
    floor = model.geom("floor").id
    for one in range(model.ngeom):
        for other in range(one):
            touch = (model.geom_contype[one] & model.geom_conaffinity[other]) | (
                model.geom_contype[other] & model.geom_conaffinity[one]
            )
            assert bool(touch) == (floor in (one, other))


def test_inertias_but_not_masses_depend_on_lengths():
    (lengths,) = some_bodies(1, 4)
    model = compiled(lengths)
    assert np.isclose(model.body_mass.sum(), 2.495)
    for leg in range(6):
        e, m = lengths[leg], lengths[6 + leg]
        femur = [0.184 / 12 * (m**2 + 0.02**2), 0.184 / 12 * 2 * 0.02**2]
        tibia = [0.04 / 12 * (0.052**2 + (e + 0.0145) ** 2), 0.04 / 12 * 2 * 0.052**2]
        assert np.allclose(model.body(f"femur_{leg}").inertia, [femur[0], femur[1], femur[0]], rtol=1e-12, atol=0)
        assert np.allclose(model.body(f"tibia_{leg}").inertia, [tibia[0], tibia[1], tibia[0]], rtol=1e-12, atol=0)


def numbers(element, path, name):
    return [float(number) for number in element.find(path).get(name).split()]


def test_urdf_has_parameters_of_robot():
    robot = ElementTree.fromstring(urdf(links(NOMINAL)))
    found_links = {link.get("name"): link for link in robot.findall("link")}
    found_joints = {joint.get("name"): joint for joint in robot.findall("joint")}
    assert len(found_links) == 19
    assert len(found_joints) == 18
    boxes = {"base": (0.24, 0.2, 0.04), "coxa": (0.02, 0.06, 0.02), "femur": (0.02, 0.085, 0.02)}
    boxes["tibia"] = (0.025, 0.14, 0.025)
    for name, link in found_links.items():
        part = name.split("_")[0]
        assert numbers(link, "inertial/mass", "value") == [MASSES[part]]
        inertia = link.find("inertial/inertia")
        assert np.allclose([float(inertia.get(i)) for i in ("ixx", "iyy", "izz")], INERTIAS[part], rtol=1e-6, atol=0)
        assert [inertia.get(i) for i in ("ixy", "ixz", "iyz")] == ["0", "0", "0"]
        assert np.allclose(numbers(link, "collision/geometry/box", "size"), boxes[part])
        assert numbers(link, "collision/origin", "xyz") == numbers(link, "inertial/origin", "xyz")
        assert len(link.findall("collision")) == (2 if part == "tibia" else 1)
    for leg, (side, x, y, yaw) in enumerate(HIPS):
        centres = {"coxa": (0.01, 0.03), "femur": (0.01, 0.0425), "tibia": (0.0125, 0.07)}
        origins = {"coxa": (x, y, 0), "femur": (0, side * 0.06, 0), "tibia": (0, side * 0.085, 0)}
        turns = {"coxa": (0, 0, yaw), "femur": (0, 0, 0), "tibia": (-side * math.pi / 2, 0, 0)}
        parents = {"coxa": "base", "femur": f"coxa_{leg}", "tibia": f"femur_{leg}"}
        for part in REACH:
            link, joint = found_links[f"{part}_{leg}"], found_joints[f"{part}_{leg}"]
            assert np.allclose(
                numbers(link, "inertial/origin", "xyz"), [centres[part][0], side * centres[part][1], 0], atol=1e-12
            )
            assert joint.get("type") == "revolute"
            assert joint.find("parent").get("link") == parents[part]
            assert joint.find("child").get("link") == f"{part}_{leg}"
            assert np.allclose(numbers(joint, "origin", "xyz"), origins[part], atol=1e-12)
            assert np.allclose(numbers(joint, "origin", "rpy"), turns[part])
            assert numbers(joint, "axis", "xyz") == list(axes(side)[part])
            limit = {name: float(value) for name, value in joint.find("limit").attrib.items()}
            assert limit == {"lower": -REACH[part], "upper": REACH[part], "effort": 30.0, "velocity": 7.0}
        foot = found_links[f"tibia_{leg}"].findall("collision")[1]
        assert numbers(foot, "geometry/sphere", "radius") == [0.025]
        assert np.allclose(numbers(foot, "origin", "xyz"), [0.0125, side * 0.1275, 0])


@pytest.mark.parametrize("damage", [{}, {0: "dead", 2: "no-tibia", 3: "no-leg", 4: "stuck"}], ids=["whole", "broken"])
def test_model_with_lengths_set_in_place_equals_compiled_model(damage):
    """Includes derived values (body_invweight0, dof_invweight0); stale ones would change distances by decimetres."""
    engine = new_engine(damage=damage)
    bodies = some_bodies(6, 5)
    engine._begin(some_bodies(6, 6))  # reuse the rows of other bodies
    engine._begin(bodies)
    for row, lengths in enumerate(bodies):
        own, fresh = engine._batch.get_model(row), compiled(lengths, as_damage(damage))
        compared = [
            name
            for name in dir(fresh)
            if isinstance(getattr(fresh, name), np.ndarray) and getattr(fresh, name).dtype.kind == "f"
        ]
        assert {"body_pos", "body_ipos", "body_inertia", "geom_pos", "body_invweight0", "dof_invweight0"} <= {*compared}
        for name in compared:
            assert np.allclose(getattr(own, name), getattr(fresh, name), rtol=0, atol=1e-10), name
    assert not np.allclose(engine._batch.get_model(0).dof_invweight0, engine.model.dof_invweight0, rtol=1e-3)


def test_visual_boxes_do_not_change_physics(engine):
    model = compiled(NOMINAL, drawn=True)
    assert model.ngeom == 8 + 18
    for name in ("body_mass", "body_inertia", "body_ipos", "body_invweight0", "dof_invweight0"):
        assert np.array_equal(getattr(model, name), getattr(engine.model, name)), name
    touching = [model.geom(i).name for i in np.flatnonzero(model.geom_contype | model.geom_conaffinity)]
    assert touching == [engine.model.geom(i).name for i in range(engine.model.ngeom)]


def test_robot_starts_one_millimetre_above_ground(engine):
    bodies = some_bodies(20, 7)
    assert np.allclose(spawn_height(bodies), bodies[:, :6].max(axis=1) + 0.0125 + 0.001)
    for lengths in bodies[:5]:
        model = compiled(lengths)
        data = mujoco.MjData(model)
        data.qpos[2] = spawn_height(lengths)
        mujoco.mj_kinematics(model, data)
        lowest = min(data.geom(f"foot_{leg}").xpos[2] - 0.025 for leg in range(6))
        assert np.isclose(lowest, 0.001, atol=1e-9)


# The gait.


def edge_gaits():
    rng = np.random.default_rng(8)
    hundredths = rng.integers(0, 101, (6, 36)) / 100
    corners = rng.integers(0, 2, (6, 36)).astype(float)
    every_duty = np.tile([1.0, 0.0, 0.0], 12 * 9).reshape(9, 36)
    every_duty[:, 2::3] = np.minimum(np.arange(108).reshape(9, 12), 100) / 100
    return np.concatenate([np.zeros((1, 36)), np.ones((1, 36)), corners, hundredths, every_duty])


@pytest.mark.parametrize("gaits", [some_gaits(20, 9), edge_gaits()], ids=["random", "edges"])
def test_signals_equal_transcribed_controller(gaits):
    expected = np.array([transcribed(gait) for gait in gaits])
    assert np.abs(signals(gaits) - expected).max() < 1e-14
    assert np.array_equal(signals(gaits)[3], signals(gaits[3]))
    with jax.enable_x64(True):
        assert np.abs(signals(jnp.asarray(gaits), jnp) - expected).max() < 1e-14


def test_reference_gaits_are_tripods():
    """Legs 0, 2, 4 and legs 1, 3, 5 alternate. FORWARD is REFERENCE with every coxa half a period later."""
    lift = signals(REFERENCE)[..., 1]
    for together in ([0, 2, 4], [1, 3, 5]):
        assert np.ptp(lift[:, together], axis=1).max() < 1e-15
    assert np.allclose(lift[:, 0], np.roll(lift[:, 1], 10))
    assert np.array_equal(np.roll(signals(REFERENCE)[..., 0], 10, axis=0), signals(FORWARD)[..., 0])
    assert np.array_equal(signals(REFERENCE)[..., 1], signals(FORWARD)[..., 1])


def test_motors_equal_recursion():
    gaits = np.concatenate([some_gaits(3, 10), [FORWARD, np.ones(36)]])
    angles, speeds = Motors(gaits).drive(720)
    for row, gait in enumerate(gaits):
        expected = driven(gait, 720)
        assert np.abs(angles[:, row] - expected[0]).max() < 1e-11
        assert np.abs(speeds[:, row] - expected[1]).max() < 1e-10
    assert np.abs(speeds).max() == 7.0
    assert (np.abs(speeds[:, 3]) == 7.0).any()  # a walking gait reaches the speed limit
    assert np.array_equal(motor(np.float64(0.1), np.float64(0.0), np.float64(0.0)), [0.1 * 20 / 240, 0.1 * 20])


def test_motors_continue_between_calls_and_after_dropping_rows():
    gaits = some_gaits(5, 11)
    whole = Motors(gaits).drive(720)
    for parts in ([60] * 12, [1, 11, 12, 13, 7, 676]):
        motors = Motors(gaits)
        pieces = [motors.drive(steps) for steps in parts]
        for i in range(2):
            assert np.array_equal(np.concatenate([piece[i] for piece in pieces]), whole[i])
    motors = Motors(gaits)
    motors.drive(100)
    motors.keep(np.array([True, False, True, True, False]))
    motors.drive(50)
    motors.keep(np.array([2, 0]))
    for i, found in enumerate(motors.drive(570)):
        assert np.array_equal(found, whole[i][150:, [3, 0]])


def test_tibia_has_angle_of_femur():
    pairs = np.arange(12.0).reshape(6, 2)
    assert joint_angles(pairs).tolist() == [
        number for leg in range(6) for number in (2 * leg, 2 * leg + 1, 2 * leg + 1)
    ]


# The rules.


def pose(roll=0.0, pitch=0.0, yaw=0.0, x=0.0, y=0.0, z=0.15):
    i, j, k, w = Rotation.from_euler("ZYX", [yaw, pitch, roll]).as_quat()
    return np.array([x, y, z, w, i, j, k])


def test_euler_angles_equal_scipy():
    turns = Rotation.random(500, random_state=0)
    yaw, pitch, roll = turns.as_euler("ZYX").T
    found = euler(turns.as_quat()[:, [3, 0, 1, 2]])
    assert np.abs(np.array(found) - [roll, pitch, yaw]).max() < 1e-9  # arcsin is steep near a pitch of 90 degrees


@pytest.mark.parametrize("sign", [-1, 1])
def test_rules_that_end_a_walk(sign):
    limit = sign * math.pi / 8
    start = pose(y=0.2)
    free, strict = Rules(), Rules(yaw=True)
    for rules in (free, strict):
        for angle in ("roll", "pitch"):
            assert rules.broken(pose(y=0.2, **{angle: 1.001 * limit}), start)
            assert not rules.broken(pose(y=0.2, **{angle: 0.999 * limit}), start)
        assert rules.broken(pose(y=0.2 + sign * 0.501), start)  # the corridor is relative to the start
        assert not rules.broken(pose(y=0.2 + sign * 0.499), start)
        assert not rules.broken(pose(y=0.2, x=9.0, z=2.0), start)
    assert strict.broken(pose(y=0.2, yaw=1.001 * limit), start)
    assert not strict.broken(pose(y=0.2, yaw=0.999 * limit), start)
    assert not free.broken(pose(y=0.2, yaw=3.0 * sign), start)
    many = np.array([pose(), pose(roll=limit * 1.1), pose(yaw=limit * 1.1)])
    assert strict.broken(many, many[0]).tolist() == [False, True, True]
    assert np.asarray(strict.broken(jnp.asarray(many), jnp.asarray(many[0]), jnp)).tolist() == [False, True, True]


def test_too_fast_or_non_finite_steps_are_implausible():
    rules = Rules()
    before = pose()
    for axis in range(3):
        assert rules.plausible(before + 0.999 * 5 / 240 * np.eye(7)[axis], before)
        assert not rules.plausible(before - 1.001 * 5 / 240 * np.eye(7)[axis], before)
    assert not rules.plausible(before * np.nan, before)
    assert not rules.plausible(before, before * np.nan)
    assert not rules.plausible(before + np.inf, before)


# The domain and its arguments.


def test_defaults_equal_paper():
    domain = te.domain("hexapod")
    assert (domain.name, domain.dim, domain.call, len(domain.tasks)) == ("hexapod", 36, "batch", 2000)
    lengths = domain.tasks.descriptors
    assert domain.tasks.names == tuple(f"{part}_{leg}" for part in ("tibia", "femur") for leg in range(6))
    assert lengths[:, :6].min() >= 0.10
    assert lengths[:, :6].max() <= 0.18
    assert lengths[:, 6:].min() >= 0.045
    assert lengths[:, 6:].max() <= 0.125
    assert np.allclose(lengths.mean(axis=0), NOMINAL, atol=0.002)  # 4 standard errors
    assert np.array_equal(lengths, te.domain("hexapod").tasks.descriptors)
    assert not np.array_equal(lengths, te.domain("hexapod", seed=1).tasks.descriptors)
    assert domain.options["engine"] == "mujoco"
    assert domain.options["simulator"] == f"mujoco {mujoco.__version__}"
    assert domain.fitness.rules == Rules(yaw=False)


def test_tasks_may_be_array_or_file(tmp_path):
    own = some_bodies(3, 29)
    for given in (own, own.tolist(), te.Tasks(own)):
        assert te.domain("hexapod", tasks=given).tasks.descriptors.tolist() == own.tolist()
    np.save(tmp_path / "own.npy", own)
    for given in (tmp_path / "own.npy", str(tmp_path / "own.npy")):
        assert te.domain("hexapod", tasks=given).tasks.descriptors.tolist() == own.tolist()
    edges = np.array([[0.10] * 6 + [0.125] * 6, [0.18] * 6 + [0.045] * 6])
    assert len(te.domain("hexapod", tasks=edges).tasks) == 2


def changed(column, value):
    lengths = np.stack([NOMINAL] * 3)
    lengths[1, column] = value
    return lengths


LEG_KINDS = "damage of leg 2 must be one of 'dead', 'no-leg', 'no-tibia', 'stuck'"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"engine": "mujocoo"},
            r"engine must be one of 'mjx', 'mujoco', 'pybullet', 'warp', not 'mujocoo'; did you mean 'muj",
        ),
        ({"engine": None}, r"engine must be one of 'mjx', 'mujoco', 'pybullet', 'warp', not None"),
        ({"tasks": np.ones((3, 11))}, r"tasks of the hexapod must be a number, or lengths \(n, 12\): six tibias, then"),
        ({"tasks": te.Tasks(["a", "b"])}, r"tasks of the hexapod must be a number, or lengths \(n, 12\)"),
        (
            {"tasks": te.Tasks(["a", "b"], descriptors=[NOMINAL, NOMINAL])},
            r"tasks of the hexapod must be a number, or lengths \(n, 12\)",
        ),
        ({"tasks": te.Box([0.1] * 12, [0.12] * 12)}, r"tasks of the hexapod must be a number, or lengths \(n, 12\)"),
        ({"tasks": NOMINAL}, r"descriptors must have shape \(n, k\), one row per task, not \(12,\)"),
        (
            {"tasks": changed(2, 0.19)},
            r"tibias in \[0.1, 0.18\] and femurs in \[0.045, 0.125\] m, but tibia_2 of task 1 is 0.19",
        ),
        ({"tasks": changed(11, 0.02)}, r"femurs in \[0.045, 0.125\] m, but femur_5 of task 1 is 0.02"),
        ({"tasks": changed(0, -0.14)}, r"but tibia_0 of task 1 is -0.14"),
        ({"tasks": changed(0, np.nan)}, r"descriptors must be finite, but descriptors\[1, 0\] is nan"),
        ({"tasks": 0}, r"tasks must be a whole number of at least 1, not 0"),
        ({"tasks": -5}, r"tasks must be a whole number of at least 1, not -5"),
        ({"tasks": 2.5}, r"tasks must be a whole number of at least 1, not 2.5"),
        ({"tasks": True}, r"tasks must be a whole number of at least 1, not True"),
        ({"tasks": None}, r"tasks must be an array of descriptors, te.Tasks or te.Box, not NoneType"),
        ({"tasks": "nowhere.npy"}, r"there is no task file 'nowhere.npy'"),
        ({"yaw": "no"}, r"yaw must be True or False, not 'no'"),
        ({"threads": 0}, r"threads must be a whole number of at least 1, not 0"),
        ({"threads": 1.5}, r"threads must be a whole number of at least 1, not 1.5"),
        ({"threads": "all"}, r"threads must be a whole number of at least 1, not 'all'"),
        (
            {"damage": [2]},
            r"damage must be a dict of legs \(0 to 5\) and what is wrong with each, such as .2: .dead.., not \[2\]",
        ),
        (
            {"damage": "dead"},
            r"damage must be a dict of legs \(0 to 5\) and what is wrong with each, such as .2: .dead.., not 'dead'",
        ),
        ({"damage": {6: "dead"}}, r"a leg in damage must be 0 to 5, not 6"),
        ({"damage": {-1: "dead"}}, r"a leg in damage must be a whole number of at least 0, not -1"),
        ({"damage": {"left": "dead"}}, r"a leg in damage must be a whole number of at least 0, not 'left'"),
        ({"damage": {2: "ded"}}, rf"{LEG_KINDS}, not 'ded'; did you mean 'dead'\?"),
        ({"damage": {2: None}}, rf"{LEG_KINDS}, not None"),
        ({"seed": -1}, r"seed must be a whole number of at least 0, not -1"),
        ({"thread": 2}, r"an option of 'hexapod' must be one of .*, not 'thread'; did you mean 'threads'\?"),
    ],
)
def test_invalid_arguments_raise_errors(options, message):
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
        te.domain("hexapod", **options)


@pytest.mark.parametrize(
    ("engine", "module", "version", "hint"),
    [
        ("mujoco", "mujoco", (3, 13), r"install it with `pip install 'taskelites\[hexapod\]'`"),
        ("mjx", "mujoco.mjx", (3, 13), r"install it with `pip install 'taskelites\[mjx\]'`"),
        ("pybullet", "pybullet", (3, 11), r"install it with `pip install 'taskelites\[pybullet\]'`"),
        (
            "pybullet",
            "pybullet",
            (3, 12),
            r"wheels for Python up to 3.11 only; use engine='mujoco' instead",
        ),
    ],
)
def test_missing_simulator_raises_error(engine, module, version, hint, monkeypatch):
    def missing(name):
        assert name == module
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(hexapod, "importlib", SimpleNamespace(import_module=missing))
    monkeypatch.setattr(hexapod, "sys", SimpleNamespace(version_info=version))
    with pytest.raises(ImportError, match=rf"this engine of the hexapod needs {module}, .*{hint}$"):
        te.domain("hexapod", engine=engine)


def test_unused_engines_are_not_imported(monkeypatch):
    for module in ("mujoco.mjx", "pybullet"):
        monkeypatch.setitem(sys.modules, module, None)
    assert te.domain("hexapod", tasks=3).options["engine"] == "mujoco"


# The command.


def test_command_runs_hexapod(working_directory, capsys):
    arguments = ["run", "hexapod", "--tasks", "20", "--evaluations", "64", "--out", "run"]
    arguments += ["--algorithm", "mt-map-elites"]
    more = ["--set", "yaw=true", "--set", "threads=1", "--set", "damage={2: 'dead'}"]
    with warnings.catch_warnings(action="ignore"):
        assert main([*arguments, *more]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "hexapod: 20 tasks, 64 evaluations, mt-map-elites, seed 0"
    settings = json.loads((working_directory / "run" / "settings.json").read_text())
    options = settings["options"]
    assert (options["engine"], options["yaw"]) == ("mujoco", True)
    domain = te.domain("hexapod", tasks=20, yaw=True, damage={2: "dead"})
    straight = te.solve(domain, evaluations=64)
    assert np.array_equal(te.load("run").solutions, straight.solutions, equal_nan=True)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "engine=mujocoo",
            "engine must be one of 'mjx', 'mujoco', 'pybullet', 'warp', not 'mujocoo'; did you mean 'mujoco'?",
        ),
        ("threads=0", "threads must be a whole number of at least 1, not 0"),
        ("yaw=maybe", "yaw must be True or False, not 'maybe'"),
        ("damage={2: 'ded'}", f"{LEG_KINDS}, not 'ded'; did you mean 'dead'?"),
    ],
)
def test_invalid_setting_of_command_gives_one_line_and_status_2(setting, message, working_directory, capsys):
    assert main(["run", "hexapod", "--tasks", "20", "--evaluations", "64", "--set", setting]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"taskelites: error: {message}"
    assert not (working_directory / "runs").exists()
