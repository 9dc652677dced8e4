"""Walks of the hexapod in MuJoCo: against a plain loop, mirrored, reproducible, in searches, and with damage."""

import math
import signal
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from robots import REACH, compiled, driven, mirrored, mirrored_body, new_engine, some_bodies, some_gaits
from scipy.spatial.transform import Rotation

import taskelites as te
from taskelites.domains.hexapod import mujoco_engine
from taskelites.domains.hexapod.body import DAMAGES, NOMINAL, spawn_height
from taskelites.domains.hexapod.episode import Rules, euler
from taskelites.domains.hexapod.gait import FORWARD, REFERENCE, Motors, signals


@pytest.fixture(scope="module")
def engine():
    return new_engine()


@pytest.fixture(scope="module")
def walks(engine):
    """Gaits, bodies and their distances; more pairs than are simulated at a time."""
    gaits, bodies = some_gaits(140, 1), some_bodies(140, 2)
    return gaits, bodies, engine.distances(gaits, bodies)


@pytest.fixture
def working_directory(tmp_path, monkeypatch):
    """A working directory for the file to which MuJoCo writes its warnings."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Single walks.


def plain_walk(gait, lengths, yaw=False):
    """Return distance and number of steps of a walk, simulated step by step in a model compiled for this body."""
    model = compiled(lengths)
    data = mujoco.MjData(model)
    data.qpos[2] = max(lengths[:6]) + 0.0125 + 0.001
    for _ in range(100):
        mujoco.mj_step(model, data)
    start = data.qpos[:3].copy()
    angles, speeds = driven(gait, 720)
    targets = angles + 1.2 / 60 * speeds
    for i in range(720):
        data.ctrl[:] = [targets[i, leg, joint] for leg in range(6) for joint in (0, 1, 1)]
        mujoco.mj_step(model, data)
        w, x, y, z = data.qpos[3:7]
        turned = Rotation.from_quat([x, y, z, w]).as_euler("ZYX")
        over = any(abs(angle) > math.pi / 8 for angle in (turned if yaw else turned[1:]))
        if over or abs(data.qpos[1] - start[1]) > 0.5:
            break
    return data.qpos[0] - start[0], i + 1


def test_distances_equal_plain_loop(engine):
    """The loop uses a compiled body, a recursion for the motors and single steps. Walks amplify its rounding errors."""
    gaits, bodies = np.concatenate([[FORWARD], some_gaits(9, 12)]), some_bodies(10, 13)
    strict = new_engine(Rules(yaw=True))
    ends = []
    for rules, found in ((False, engine.distances(gaits, bodies)), (True, strict.distances(gaits, bodies))):
        for row in range(len(gaits)):
            expected, steps = plain_walk(gaits[row], bodies[row], yaw=rules)
            assert abs(found[row] - expected) < 1e-9
            ends.append(steps)
    assert min(ends) < 720 == max(ends)


def test_walk_equals_replay_in_compiled_model(engine):
    gaits, bodies = some_gaits(10, 14), some_bodies(10, 15)
    for gait, lengths in zip(gaits, bodies, strict=True):
        walk = engine.walk(gait, lengths)
        model = compiled(lengths)
        data = mujoco.MjData(model)
        data.qpos[2] = spawn_height(lengths)
        for _ in range(100):
            mujoco.mj_step(model, data)
        assert np.abs(data.qpos - walk.positions[0]).max() < 1e-9
        for control in walk.controls:
            data.ctrl[:] = control
            mujoco.mj_step(model, data)
        assert np.abs(data.qpos - walk.positions[-1]).max() < 1e-9
        assert np.abs(data.qvel - walk.speeds[-1]).max() < 1e-6


def test_mirrored_gait_and_body_walk_mirrored_path(engine):
    """The robot is exactly symmetric between left and right.

    Measured paths of 20 gaits differed by at most 3e-14 m, by rounding in 720 steps. An asymmetry of a micrometre would
    exceed the bound.
    """
    for gait, lengths in zip(some_gaits(8, 16), some_bodies(8, 17), strict=True):
        assert np.abs(signals(mirrored(gait)) - signals(gait)[:, ::-1] * [-1, 1]).max() < 1e-15
        one, other = engine.walk(gait, lengths), engine.walk(mirrored(gait), mirrored_body(lengths))
        assert len(one.positions) == len(other.positions)
        assert np.abs(one.positions[:, :3] - other.positions[:, :3] * [1, -1, 1]).max() < 1e-9
        assert np.abs(one.positions[:, 3:7] - other.positions[:, 3:7] * [1, -1, 1, -1]).max() < 1e-9


def test_half_a_millimetre_changes_the_path(engine):
    """The previous test can detect an asymmetry: half a millimetre on one leg changes the path."""
    gait, lengths = FORWARD, NOMINAL.copy()
    straight = engine.walk(gait, lengths)
    lengths[0] += 0.0005
    other = engine.walk(gait, lengths)
    assert np.abs(straight.positions[:, :3] - other.positions[:, :3]).max() > 1e-4


def test_robot_without_motion_stays_in_place(engine):
    """A robot with uneven legs tips at first, sometimes until after the start: 7 cm for one body of 100."""
    still = some_gaits(60, 18)
    still.reshape(60, 6, 2, 3)[..., 0] = 0.0
    even = np.repeat([[0.10, 0.045], [0.14, 0.085], [0.18, 0.125]], 6, axis=1).reshape(3, 12)
    assert np.abs(engine.distances(still[:3], even)).max() < 1e-4
    drift = np.abs(engine.distances(still, some_bodies(60, 19)))
    assert np.median(drift) < 1e-3
    assert drift.max() < 0.15


def test_robot_floats_without_gravity():
    engine = new_engine()
    engine._batch.expand("opt.gravity")[:] = 0.0
    bodies = some_bodies(5, 20)
    assert engine._begin(bodies).all()
    found = engine._batch.bind("qpos")[:5]
    assert np.abs(found[:, 2] - spawn_height(bodies)).max() < 1e-12
    assert np.abs(found[:, :2]).max() < 1e-12
    assert np.abs(found[:, 7:]).max() < 1e-12


def test_robot_stands_on_its_feet_with_gravity(engine):
    engine._begin(NOMINAL[None])
    settled = engine._batch.bind("qpos")[0]
    assert 0.145 < settled[2] < 0.1525  # 0.1525 for a rigid floor and rigid motors
    assert np.abs(settled[7:]).max() < 0.05


@pytest.mark.parametrize(("slope", "slides"), [(0.42, False), (0.58, True)])
def test_robot_slides_on_slopes_above_friction_coefficient(slope, slides):
    """The coefficient is 0.5. Measured: the robot creeps by 0.03 m at a slope of 0.42, and slides by 4 m at 0.58."""
    engine = new_engine()
    angle = math.atan(slope)
    engine._batch.expand("opt.gravity")[:] = [9.81 * math.sin(angle), 0.0, -9.81 * math.cos(angle)]
    distance = engine.walk(np.zeros(36), NOMINAL).distance
    assert distance > 1.0 if slides else 0 <= distance < 0.1


def test_reference_gaits_walk_as_in_simulation_of_builders(engine):
    backward, forward = engine.distances(np.array([REFERENCE, FORWARD]), np.array([NOMINAL, NOMINAL]))
    assert -0.60 < backward < -0.45
    assert 0.50 < forward < 0.65


@pytest.mark.parametrize(("yaw", "least", "most"), [(False, 0.18, 0.45), (True, 0.42, 0.72)])
def test_share_of_random_walks_that_end_early(yaw, least, most):
    """Measured on 200 pairs: 30 % without the yaw rule, 57 % with it. The standard errors of 100 pairs are 5 %."""
    engine = new_engine(Rules(yaw=yaw))
    walks = [engine.walk(*pair) for pair in zip(some_gaits(100, 21), some_bodies(100, 22), strict=True)]
    ended = np.array([walk.ended for walk in walks])
    assert least < ended.mean() < most
    steps = np.array([len(walk.controls) for walk in walks])
    assert (steps[~ended] == 720).all()
    for walk in walks[:20]:
        assert not engine.rules.broken(walk.positions[1:-1, :7], walk.positions[0, :7]).any()
        assert engine.rules.broken(walk.positions[-1, :7], walk.positions[0, :7]) == walk.ended
        assert len(walk.positions) == len(walk.speeds) == len(walk.controls) + 1


def test_turning_ends_walks_only_with_yaw_rule():
    pairs = some_gaits(60, 23), some_bodies(60, 24)
    free = te.domain("hexapod", tasks=3, threads=1).fitness(*pairs)
    strict = te.domain("hexapod", tasks=3, yaw=True, threads=1).fitness(*pairs)
    same = free == strict
    assert 0.2 < same.mean() < 0.9
    engine = new_engine(Rules(yaw=True))
    for row in np.flatnonzero(~same)[:5]:
        turned = euler(engine.walk(pairs[0][row], pairs[1][row]).positions[-1, 3:7])[2]
        assert abs(turned) > math.pi / 8


# Reproducibility.


def test_distances_do_not_depend_on_threads_order_or_batches(engine, walks):
    gaits, bodies, expected = walks
    assert not np.isnan(expected).any()
    assert len(np.unique(expected)) == len(expected)
    assert np.array_equal(engine.distances(gaits, bodies), expected)  # with cached settled states
    engine._settled.clear()
    assert np.array_equal(engine.distances(gaits[::-1], bodies[::-1])[::-1], expected)
    shuffled = np.random.default_rng(0).permutation(len(gaits))
    parallel = new_engine(threads=4)
    assert np.array_equal(parallel.distances(gaits[shuffled], bodies[shuffled]), expected[shuffled])
    pieces = np.split(np.arange(len(gaits)), [1, 3, 40, 41, 90])
    fresh = new_engine(threads=2)
    assert np.array_equal(np.concatenate([fresh.distances(gaits[rows], bodies[rows]) for rows in pieces]), expected)
    for row in (0, 64, 139):
        assert new_engine().distances(gaits[row : row + 1], bodies[row : row + 1])[0] == expected[row]


def test_walk_equals_its_distance_bit_for_bit(engine, walks):
    gaits, bodies, expected = walks
    for row in range(0, 140, 7):
        walk = engine.walk(gaits[row], bodies[row])
        assert walk.distance == expected[row] == walk.positions[-1, 0] - walk.positions[0, 0]


def test_python_threads_can_share_an_engine(straight):
    with ThreadPoolExecutor(4) as pool:
        assert_same(solve(executor=pool), straight)


def test_equal_bodies_or_gaits_in_a_batch(engine, walks):
    gaits, bodies, expected = walks
    same_body = engine.distances(gaits[:20], np.repeat(bodies[:1], 20, axis=0))
    same_gait = engine.distances(np.repeat(gaits[:1], 20, axis=0), bodies[:20])
    assert same_body[0] == same_gait[0] == expected[0]
    assert len(np.unique(same_body)) == len(np.unique(same_gait)) == 20


def test_cache_distinguishes_bodies_that_differ_in_one_length(engine):
    bodies = NOMINAL + np.concatenate([np.zeros((1, 12)), 0.02 * np.eye(12)])
    gaits = np.tile(some_gaits(1, 30), (13, 1))
    found = engine.distances(gaits, bodies)
    assert len(np.unique(found)) == 13
    assert found.tolist() == [new_engine().distances(gaits[:1], body[None])[0] for body in bodies]


def test_evicted_settled_states_are_computed_again(walks, monkeypatch):
    gaits, bodies, expected = walks
    monkeypatch.setattr(mujoco_engine, "_CACHE_SIZE", 3)
    engine = new_engine()
    for _ in range(2):
        assert np.array_equal(engine.distances(gaits[:10], bodies[:10]), expected[:10])
        assert len(engine._settled) == 3


def test_single_precision_and_jax_arrays_are_accepted(engine, walks):
    gaits, bodies, _ = walks
    gaits, bodies = gaits[:5].astype(np.float32), bodies[:5].astype(np.float32)
    expected = engine.distances(gaits.astype(float), bodies.astype(float))
    assert np.array_equal(engine.distances(gaits, bodies), expected)
    assert np.array_equal(engine.distances(jnp.asarray(gaits), jnp.asarray(bodies)), expected)


# Searches.


def solve(evaluations=192, threads=1, tasks=20, **options):
    domain = te.domain("hexapod", tasks=tasks, threads=threads)
    return te.solve(domain, evaluations=evaluations, batch_size=64, seed=3, **options)


def assert_same(one, other):
    for name in ("solutions", "fitness", "task_evaluations", "last_improved"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), name
    assert (one.evaluations, one.failed, one.failures) == (other.evaluations, other.failed, other.failures)
    for name in one.history.keys() - {"seconds"}:
        assert np.array_equal(one.history[name], other.history[name], equal_nan=True), name


@pytest.fixture(scope="module")
def straight():
    return solve()


def press_ctrl_c(row):
    if 64 <= row["evaluations"] < 192:
        signal.raise_signal(signal.SIGINT)


def test_resumed_search_equals_uninterrupted_search(straight, tmp_path):
    assert straight.evaluations == 192
    assert straight.failed == 0
    with pytest.raises(te.Interrupted):
        solve(out=tmp_path / "run", callback=press_ctrl_c)
    assert 64 <= te.load(tmp_path / "run").evaluations < 192
    resumed = solve(out=tmp_path / "run", resume=True, threads=4)
    assert_same(resumed, straight)
    assert_same(te.load(tmp_path / "run"), straight)


def test_search_does_not_depend_on_number_of_threads(straight):
    assert_same(solve(threads=4), straight)


def test_fitness_of_elites_is_reproduced(straight, engine):
    bodies = te.domain("hexapod", tasks=20).tasks.descriptors
    solved = ~np.isnan(straight.fitness)
    assert solved.sum() > 15
    found = engine.distances(straight.solutions[solved], bodies[solved])
    assert np.abs(found - straight.fitness[solved]).max() < 1e-6  # the archive has single precision


class FailingMotors(Motors):
    """Motors that fail for some gaits: from step 90 on, their target is an absurd angle."""

    angle = np.nan

    def __init__(self, gaits):
        super().__init__(gaits)
        self.failing = gaits[:, 0] > 0.75

    def drive(self, steps):
        now = self._now + np.arange(steps)
        angles, speeds = super().drive(steps)
        angles[np.ix_(now >= 90, self.failing)] = self.angle
        return angles, speeds

    def keep(self, rows):
        super().keep(rows)
        self.failing = self.failing[rows]


@pytest.mark.parametrize("angle", [np.nan, np.inf, 1e300, 1e4])
def test_diverging_walks_are_nan_and_do_not_affect_others(angle, walks, monkeypatch, working_directory):
    """With 1e4, MuJoCo gives no warning, but motors at full torque throw the robot implausibly fast."""
    gaits, bodies, expected = (array[:40] for array in walks)
    engine = new_engine()
    steps = np.array([len(engine.walk(*pair).controls) for pair in zip(gaits, bodies, strict=True)])
    # Walks that ended before step 90 are not affected.
    failing = (gaits[:, 0] > 0.75) & (steps > 90)
    monkeypatch.setattr(FailingMotors, "angle", angle)
    with monkeypatch.context() as patched:
        patched.setattr(mujoco_engine, "Motors", FailingMotors)
        found = engine.distances(gaits, bodies)
        shown = [engine.walk(gaits[row], bodies[row]) for row in np.flatnonzero(failing)]
    assert failing.any()
    assert np.array_equal(found[~failing], expected[~failing])
    if angle == 1e4:  # some fall over before they are thrown
        assert np.isnan(found[failing]).any()
        assert np.isnan([walk.distance for walk in shown]).tolist() == np.isnan(found[failing]).tolist()
    else:
        assert np.isnan(found[failing]).all()
        assert np.isnan([walk.distance for walk in shown]).all()
    assert np.array_equal(engine.distances(gaits, bodies), expected)  # the rows are intact


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e3])
def test_invalid_body_gives_nan_and_does_not_affect_others(wrong, walks, working_directory):
    gaits, bodies, expected = (array[:6] for array in walks)
    engine = new_engine()
    broken = bodies.copy()
    broken[2] = wrong
    for _ in range(2):  # the second time with a cached settled state
        found = engine.distances(gaits, broken)
        assert np.isnan(found).tolist() == [row == 2 for row in range(6)]
        assert np.array_equal(np.delete(found, 2), np.delete(expected, 2))
    assert np.isnan(engine.walk(gaits[2], broken[2]).distance)
    assert np.array_equal(engine.distances(gaits, bodies), expected)


def test_diverging_walks_count_as_failures_in_a_search(straight, monkeypatch, working_directory):
    monkeypatch.setattr(mujoco_engine, "Motors", FailingMotors)
    with pytest.warns(te.errors.FitnessWarning, match=r"nan|NaN"):
        result = solve()
    assert result.evaluations == 192
    assert 20 < result.failed < 100
    assert result.failures == {"nan": result.failed}
    assert not np.array_equal(result.solutions, straight.solutions, equal_nan=True)
    # A failing gait can only be an elite if its walk ended within the first 90 steps.
    monkeypatch.undo()
    monkeypatch.chdir(working_directory)
    bodies = te.domain("hexapod", tasks=20).tasks.descriptors
    engine = new_engine()
    solved = np.flatnonzero(~np.isnan(result.fitness))
    assert len(solved) > 10
    for task in solved:
        walk = engine.walk(result.solutions[task], bodies[task])
        assert result.solutions[task, 0] <= 0.75 or len(walk.controls) <= 90
        assert abs(walk.distance - result.fitness[task]) < 1e-6


# Damage.


def leg_joints(model, leg):
    names = [model.joint(i).name for i in range(model.njnt)]
    parts = [part for part in REACH if f"{part}_{leg}" in names]
    return {part: int(model.joint(f"{part}_{leg}").qposadr[0]) for part in parts}


@pytest.mark.parametrize("leg", [1, 3])
def test_dead_leg_swings_freely_within_limits(leg):
    engine = new_engine(damage={leg: "dead"})
    assert engine.model.nu == 15
    assert np.isclose(engine.model.body_mass.sum(), 2.495)
    swings = []
    for gait, lengths in zip(some_gaits(10, 25), some_bodies(10, 26), strict=True):
        walk = engine.walk(gait, lengths)
        joints = leg_joints(engine.model, leg)
        found = np.abs(walk.positions[:, list(joints.values())]).max(axis=0)
        swings.append(found)
        # Joint limits are springs as stiff as the ground; the largest measured overshoot is 0.06 rad.
        assert (found < [REACH[part] + 0.15 for part in joints]).all()
    assert (np.median(swings, axis=0) > 0.1).all()


@pytest.mark.parametrize("leg", [0, 4])
def test_stuck_leg_holds_at_zero(leg):
    engine, whole = new_engine(damage={leg: "stuck"}), new_engine()
    assert engine.model.nu == 18
    for gait, lengths in zip(some_gaits(10, 25), some_bodies(10, 26), strict=True):
        walk = engine.walk(gait, lengths)
        own = list(leg_joints(engine.model, leg).values())
        assert np.abs(walk.positions[:, own]).max() < 0.1  # measured: 0.05, since motors are not rigid
        assert not walk.controls[:, 3 * leg : 3 * leg + 3].any()
        others = np.delete(np.arange(18), np.s_[3 * leg : 3 * leg + 3])
        steps = len(walk.controls)
        assert np.array_equal(walk.controls[:, others], whole._controls(Motors(gait[None]), 720)[0, :steps][:, others])


@pytest.mark.parametrize(("kind", "lost", "joints"), [("no-tibia", 0.040, 1), ("no-leg", 0.224, 2)])
def test_missing_parts_are_not_in_the_model(kind, lost, joints):
    for leg in range(6):
        model = new_engine(damage={leg: kind}).model
        names = {model.body(i).name for i in range(model.nbody)}
        assert f"tibia_{leg}" not in names
        assert (f"femur_{leg}" in names) == (kind == "no-tibia")
        assert len(names) == 20 - joints
        assert model.nu == 18 - joints
        assert np.isclose(model.body_mass.sum(), 2.495 - lost)
        assert model.geom(f"foot_{leg}").size[0] == 0.01  # the stump


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_changes_distance_symmetrically(kind, walks):
    gaits, bodies, whole = (array[:8] for array in walks)
    left, right = new_engine(damage={2: kind}), new_engine(damage={3: kind})
    found = left.distances(gaits, bodies)
    assert np.isfinite(found).all()
    assert (found != whole).all()
    other = right.distances(np.array([mirrored(gait) for gait in gaits]), np.array([*map(mirrored_body, bodies)]))
    assert np.abs(found - other).max() < 1e-7
    assert np.array_equal(found, te.domain("hexapod", tasks=3, damage={2: kind}).fitness(gaits, bodies))


@pytest.mark.parametrize("kind", DAMAGES)
def test_all_legs_may_be_damaged(kind):
    engine = new_engine(damage=dict.fromkeys(range(6), kind))
    found = engine.distances(some_gaits(4, 27), some_bodies(4, 28))
    assert np.isfinite(found).all()
    if kind == "stuck":
        assert np.abs(found).max() < 0.05
    engine._begin(NOMINAL[None])
    height = engine._batch.bind("qpos")[0, 2]
    assert height > 0.1 if kind == "stuck" else 0 < height < 0.15


def test_different_damage_per_leg():
    damage = {0: "dead", 2: "no-tibia", 3: "no-leg", 5: "stuck"}
    engine = new_engine(damage=damage)
    assert engine.model.nu == 18 - 3 - 1 - 2
    result = te.solve(te.domain("hexapod", tasks=20, damage=damage), evaluations=64)
    assert result.failed == 0
    assert result.settings["options"]["damage"] == {str(leg): kind for leg, kind in damage.items()}
