"""The hexapod in MJX and in PyBullet, compared with MuJoCo."""

import math
import subprocess
import sys
from functools import partial

import jax
import mujoco
import numpy as np
import pytest
from robots import HIPS, INERTIAS, MASSES, REACH, new_engine, some_bodies, some_gaits
from scipy.spatial.transform import Rotation
from scipy.stats import spearmanr

import taskelites as te
from taskelites.domains.hexapod.body import DAMAGES, NOMINAL, as_damage, spawn_height
from taskelites.domains.hexapod.episode import Rules
from taskelites.domains.hexapod.gait import FORWARD, REFERENCE

BROKEN = {0: "dead", 2: "no-tibia", 3: "no-leg", 5: "stuck"}

# MJX. Compilation takes half a minute, so most of these tests are marked slow.


def in_mjx(gaits, bodies, damage=None, rules=None, *, double):
    """Return distances in MJX, in double or single precision."""
    from taskelites.domains.hexapod import mjx_engine

    kind = float if double else np.float32
    # Cached programs of one precision must not be used for the other. Users never change the precision.
    mjx_engine._model.cache_clear()
    if not double:
        jax.clear_caches()
    with jax.enable_x64(double):
        walk = partial(mjx_engine.distance, rules=rules or Rules(), damage=as_damage(damage))
        found = np.asarray(jax.jit(jax.vmap(walk))(gaits.astype(kind), bodies.astype(kind)))
    mjx_engine._model.cache_clear()
    assert found.dtype == kind
    return found


@pytest.fixture(scope="module")
def mjx_walks():
    """Gaits, bodies and distances in MJX: reference and random gaits, a gait with NaN and a body with NaN."""
    gaits = np.concatenate([[REFERENCE, FORWARD], some_gaits(6, 1)])
    bodies = np.concatenate([[NOMINAL, NOMINAL], some_bodies(6, 2)])
    gaits[3, 0] = np.nan
    bodies[5, 8] = np.nan
    return gaits, bodies, in_mjx(gaits, bodies, double=True)


def test_distances_in_mjx_equal_mujoco(mjx_walks):
    """In double precision, 38 of 40 walks differed by less than 1e-12 m, the others by 1e-8 and 2e-8 m."""
    gaits, bodies, found = mjx_walks
    whole = np.delete(np.arange(8), [3, 5])
    assert np.abs(found[whole] - new_engine().distances(gaits[whole], bodies[whole])).max() < 1e-6


def test_diverging_walks_in_mjx_are_nan_and_do_not_affect_others(mjx_walks):
    assert np.isnan(mjx_walks[2]).tolist() == [row in (3, 5) for row in range(8)]


def test_every_damage_is_traceable():
    from taskelites.domains.hexapod import mjx_engine

    walk = partial(mjx_engine.distance, rules=Rules(yaw=True), damage=as_damage(BROKEN))
    mjx_engine._model.cache_clear()
    with jax.enable_x64(True):
        shape = jax.eval_shape(walk, np.zeros(36), NOMINAL)
    mjx_engine._model.cache_clear()
    assert shape.shape == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "yaw"),
    [
        ({1: "dead"}, False),
        (BROKEN, False),
        ({}, True),
    ],
)
def test_damage_and_yaw_rule_in_mjx_equal_mujoco(damage, yaw):
    gaits, bodies = some_gaits(6, 3), some_bodies(6, 4)
    found = in_mjx(gaits, bodies, damage, Rules(yaw=yaw), double=True)
    apart = np.abs(found - new_engine(Rules(yaw=yaw), damage).distances(gaits, bodies))
    assert np.sort(apart)[-2] < 1e-6  # MJX stops its solver after 10 iterations, which may change one walk of six


@pytest.mark.slow
def test_single_precision_ranks_gaits_like_double_precision():
    """Walks amplify rounding: half of 40 pairs differed by less than 1e-6 m, one by 0.03 m."""
    gaits, bodies = (array.astype(np.float32) for array in (some_gaits(40, 5), some_bodies(40, 6)))
    found, expected = in_mjx(gaits, bodies, double=False), new_engine().distances(gaits, bodies)
    assert np.median(np.abs(found - expected)) < 1e-4
    assert spearmanr(found, expected).statistic > 0.97


@pytest.mark.slow
def test_search_in_mjx():
    jax.clear_caches()
    domain = te.domain("hexapod", tasks=10, engine="mjx")
    assert domain.call == "jax"
    result = te.solve(domain, evaluations=16, batch_size=8)
    solved = ~np.isnan(result.fitness)
    assert result.evaluations == 16
    assert result.failed == 0
    assert solved.sum() > 5
    found = new_engine().distances(result.solutions[solved], domain.tasks.descriptors[solved].astype(np.float32))
    assert np.median(np.abs(found - result.fitness[solved])) < 1e-3


def test_importing_mjx_prints_nothing():
    code = "import taskelites as te; te.domain('hexapod', engine='mjx', tasks=300)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


# PyBullet.


@pytest.fixture(scope="module")
def bullet():
    pytest.importorskip("pybullet", reason="PyBullet has no wheels for this Python")
    from taskelites.domains.hexapod import pybullet_engine

    return pybullet_engine


def joint_names(client, robot):
    return {client.getJointInfo(robot, i)[1].decode(): i for i in range(client.getNumJoints(robot))}


def test_kinematics_in_bullet_equal_mujoco(bullet):
    rng = np.random.default_rng(0)
    engine, other = bullet.PybulletEngine(Rules()), new_engine()
    for lengths in some_bodies(3, 7):
        other._begin(lengths[None])
        model = other._batch.get_model(0)
        data = mujoco.MjData(model)
        with bullet._connected() as client:
            robot, columns = engine._load(client, lengths)
            names = joint_names(client, robot)
            assert sorted(columns.values()) == list(range(18))
            for _ in range(3):
                angles = rng.uniform(-1, 1, (6, 3)) * list(REACH.values())
                x, y, z, w = turn = Rotation.random(random_state=int(rng.integers(2**31))).as_quat()
                client.resetBasePositionAndOrientation(robot, [0.1, 0.2, 0.3], turn)
                data.qpos[:] = [0.1, 0.2, 0.3, w, x, y, z, *angles.reshape(-1)]
                mujoco.mj_kinematics(model, data)
                for number, column in columns.items():
                    client.resetJointState(robot, number, angles.reshape(-1)[column])
                for name, number in names.items():
                    centre = client.getLinkState(robot, number, computeForwardKinematics=True)[0]
                    assert np.abs(centre - data.body(name).xipos).max() < 1e-12


def test_bullet_model_has_parameters_of_robot(bullet):
    """PyBullet computes inertias from the shapes; the MuJoCo model must have the same."""
    with bullet._connected() as client:
        robot, columns = bullet.PybulletEngine(Rules())._load(client, NOMINAL)
        names = {"base": -1} | joint_names(client, robot)
        assert len(names) == 19
        for name, number in names.items():
            part = name.split("_")[0]
            mass, friction, inertia = client.getDynamicsInfo(robot, number)[:3]
            assert (mass, friction) == (MASSES[part], 0.5)
            assert np.allclose(inertia, INERTIAS[part], rtol=1e-6, atol=0)
            if number >= 0:
                assert client.getJointInfo(robot, number)[8:12] == (-REACH[part], REACH[part], 30.0, 7.0)
                leg = int(name[-1])
                assert columns[number] == 3 * leg + list(REACH).index(part)
                assert np.sign(client.getLinkState(robot, number)[0][1]) == HIPS[leg][0]
        position, turn = client.getBasePositionAndOrientation(robot)
        assert np.allclose(position, [0, 0, spawn_height(NOMINAL)])
        assert turn == (0, 0, 0, 1)


def test_reference_gaits_walk_in_bullet_as_in_simulation_of_builders(bullet, capfd):
    """The simulation of the robot's builders, which starts higher and lags in time, gives -0.493 and 0.565 m."""
    engine = bullet.PybulletEngine(Rules())
    backward, forward = engine.walk(REFERENCE, NOMINAL), engine.walk(FORWARD, NOMINAL)
    assert -0.60 < backward[0] < -0.45
    assert 0.50 < forward[0] < 0.65
    assert backward[1] == forward[1] == 720
    assert engine.walk(FORWARD, NOMINAL) == forward
    assert engine.distance(FORWARD, NOMINAL) == forward[0]
    assert abs(engine.distance(np.zeros(36), NOMINAL)) < 1e-3
    assert capfd.readouterr().out == ""


def test_rules_end_walks_in_bullet(bullet):
    free, strict = bullet.PybulletEngine(Rules()), bullet.PybulletEngine(Rules(yaw=True))
    for gait, lengths in zip(some_gaits(6, 8), some_bodies(6, 9), strict=True):
        (far, steps), (near, sooner) = free.walk(gait, lengths), strict.walk(gait, lengths)
        assert sooner <= steps <= 720
        assert (near == far) == (sooner == steps)


def test_invalid_gait_or_body_gives_nan_in_bullet(bullet):
    engine = bullet.PybulletEngine(Rules())
    assert math.isnan(engine.distance(FORWARD, np.where(np.arange(12) == 3, np.nan, NOMINAL)))
    assert math.isnan(engine.distance(np.where(np.arange(36) == 0, np.nan, FORWARD), NOMINAL))


def angles_of_joints(bullet, engine, joints):
    """Return the angles of the given joints, numbered over all legs, at each step of a walk."""
    found, pose = [], bullet._pose

    def watched(client, robot):
        numbers = {name: number for number, name in enumerate(leg_joint_names())}
        names = joint_names(client, robot)
        found.extend(client.getJointState(robot, names[name])[0] for name in names if numbers[name] in joints)
        return pose(client, robot)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bullet, "_pose", watched)
        engine.walk(FORWARD, NOMINAL)
    return found


def leg_joint_names():
    return [f"{segment}_{leg}" for leg in range(6) for segment in ("coxa", "femur", "tibia")]


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_in_bullet(bullet, kind):
    engine = bullet.PybulletEngine(Rules(), as_damage({2: kind}))
    whole = bullet.PybulletEngine(Rules()).distance(FORWARD, NOMINAL)
    distance, _ = engine.walk(FORWARD, NOMINAL)
    assert math.isfinite(distance)
    assert distance != whole if kind == "stuck" else distance < whole  # a stuck leg does not always slow the robot down
    with bullet._connected() as client:
        robot, columns = engine._load(client, NOMINAL)
        names = joint_names(client, robot)
        assert len(names) == {"no-tibia": 17, "no-leg": 16}.get(kind, 18)
        assert len(columns) == {"no-tibia": 17, "no-leg": 16, "dead": 15}.get(kind, 18)
        mass = sum(client.getDynamicsInfo(robot, number)[0] for number in range(-1, len(names)))
        assert np.isclose(mass, 2.495 - {"no-tibia": 0.040, "no-leg": 0.224}.get(kind, 0.0))
        for _ in range(100):
            client.stepSimulation()
        torques = {name: client.getJointState(robot, number)[3] for name, number in names.items()}
        if kind == "stuck":
            assert max(abs(angle) for angle in angles_of_joints(bullet, engine, (6, 7, 8))) < 0.1
        if kind == "dead":
            assert [name for name, torque in torques.items() if torque == 0] == ["coxa_2", "femur_2", "tibia_2"]


def test_search_in_bullet(bullet):
    domain = te.domain("hexapod", tasks=5, engine="pybullet")
    assert domain.call == "each"
    result = te.solve(domain, evaluations=8, batch_size=4)
    assert (result.evaluations, result.failed) == (8, 0)
    task = int(np.nanargmax(result.fitness))
    engine = bullet.PybulletEngine(Rules())
    again = engine.distance(result.solutions[task], domain.tasks.descriptors[task])
    assert abs(again - result.fitness[task]) < 1e-6


@pytest.mark.slow
def test_mujoco_and_bullet_rank_gaits_similarly(bullet):
    """Measured: 0.88 to 0.91 on 320 pairs that include good gaits, 0.72 on random gaits, 0.62 at a finer time step."""
    rng = np.random.default_rng(10)
    bodies = some_bodies(90, 11)
    good = np.concatenate([np.tile(REFERENCE, (30, 1)), np.tile(FORWARD, (30, 1))])
    gaits = np.concatenate([(good + 0.1 * rng.normal(size=good.shape)).clip(0, 1), some_gaits(30, 12)])
    engine = bullet.PybulletEngine(Rules())
    found = [engine.distance(*pair) for pair in zip(gaits, bodies, strict=True)]
    assert spearmanr(found, new_engine().distances(gaits, bodies)).statistic > 0.75
