"""The hexapod in MuJoCo Warp on a CPU, compared with MuJoCo."""

import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from robots import new_engine, some_bodies, some_gaits

import taskelites as te
from taskelites.domains import hexapod
from taskelites.domains.hexapod import mujoco_engine
from taskelites.domains.hexapod.body import DAMAGES, NOMINAL, as_damage
from taskelites.domains.hexapod.episode import LEAP, Rules
from taskelites.domains.hexapod.gait import DIM, FORWARD, REFERENCE, Motors

needs_warp = pytest.mark.skipif(not find_spec("mujoco_warp"), reason="MuJoCo Warp is not installed")
# The first compilation of Warp's kernels for the CPU takes about a minute.
compiles = [needs_warp, pytest.mark.slow]
SHORT = 60  # steps, in which two simulators still agree within a millimetre


@pytest.fixture
def short(monkeypatch):
    """Shorten walks to 60 steps, which are checked every 20 steps."""
    from taskelites.domains.hexapod import warp_engine

    monkeypatch.setattr(warp_engine, "STEPS", SHORT)
    monkeypatch.setattr(warp_engine, "_CHUNK", 20)
    monkeypatch.setattr(mujoco_engine, "STEPS", SHORT)
    return warp_engine


@needs_warp
def test_vectors_of_warp_have_required_private_attribute():
    import warp as wp

    for vector in (wp.vec3, wp.quat, wp.mat33):
        scalar = getattr(vector, "_wp_scalar_type_", None)
        assert scalar is wp.float32, "Warp's vectors have no _wp_scalar_type_ any more; adapt `_flat` in warp_engine"


def new_warp(damage=None, rules=None, worlds=64):
    from taskelites.domains.hexapod.warp_engine import WarpEngine

    return WarpEngine(rules or Rules(), as_damage(damage), "cpu", worlds)


def some_walks(number):
    """Return pairs of gaits and bodies: the reference gaits and random ones."""
    gaits = np.concatenate([[REFERENCE, FORWARD], some_gaits(number - 2, 1)])
    return gaits, np.concatenate([[NOMINAL], some_bodies(number - 1, 2)])


class TestPhysics:
    pytestmark = compiles

    def test_distances_equal_mujoco(self, short):
        gaits, bodies = some_walks(10)
        found = new_warp().distances(gaits, bodies)
        assert np.abs(found - new_engine().distances(gaits, bodies)).max() < 1e-3
        assert np.ptp(found) > 0.02

    @pytest.mark.parametrize("kind", DAMAGES)
    def test_distances_with_damage_equal_mujoco(self, short, kind):
        gaits, bodies = some_walks(4)
        damage = {0: kind, 2: "dead", 4: kind}
        found = new_warp(damage).distances(gaits, bodies)
        assert np.abs(found - new_engine(damage=damage).distances(gaits, bodies)).max() < 1e-3
        assert np.abs(found - new_warp().distances(gaits, bodies)).max() > 1e-3

    def test_full_walk_ends_close_to_mujoco(self):
        gaits, bodies = some_walks(8)
        found = new_warp().distances(gaits, bodies)
        assert np.abs(found - new_engine().distances(gaits, bodies)).max() < 0.05

    def test_gait_or_body_with_nan_does_not_affect_others(self, short):
        gaits, bodies = some_walks(6)
        right = new_warp().distances(gaits, bodies)
        gaits[1], bodies[4, 3] = np.nan, np.nan
        found = new_warp().distances(gaits, bodies)
        assert np.isnan(found[[1, 4]]).all()
        np.testing.assert_allclose(np.delete(found, [1, 4]), np.delete(right, [1, 4]), atol=1e-5)


class TestMotors:
    pytestmark = compiles

    def test_motors_equal_motors_in_numpy(self, short):
        edges = np.tile([1.0, 0.29, 0.57, 0.5, 1.0, 0.0], 6)  # 100 x 0.29 is below 29 in 64 bits, but not in 32
        gaits = np.concatenate([[edges, np.ones(DIM), np.zeros(DIM)], some_gaits(5, 3)])
        engine = new_warp()
        engine._squeeze = lambda walking, size: None
        engine._rounded = lambda number: 8
        engine.distances(gaits, np.tile(NOMINAL, (8, 1)))
        angles, speeds = Motors(gaits).drive(SHORT)
        np.testing.assert_allclose(engine._batch.angle.numpy(), angles[-1].reshape(8, 12), atol=2e-6)
        np.testing.assert_allclose(engine._batch.speed.numpy(), speeds[-1].reshape(8, 12), atol=2e-4)

    def test_controls_equal_mujoco(self, short):
        damage = {1: "dead", 3: "stuck", 4: "no-tibia"}
        gaits, bodies = some_gaits(3, 4), some_bodies(3, 5)
        engine, native = new_warp(damage), new_engine(damage=damage)
        engine._rounded = lambda number: 3
        engine.distances(gaits, bodies)
        told = native._controls(Motors(gaits), SHORT)[:, -1]
        np.testing.assert_allclose(engine._batch.data.ctrl.numpy()[:3], told, atol=2e-5)


class TestRules:
    pytestmark = compiles

    @pytest.mark.parametrize("yaw", [False, True])
    def test_kernel_applies_the_rules(self, yaw):
        import warp as wp

        from taskelites.domains.hexapod import warp_kernels

        rng = np.random.default_rng(0)
        number = 400
        before = rng.normal(0, [1.0, 0.4, 0.1], (number, 3))
        turned = rng.normal(0, 0.25, (number, 3))
        quaternion = np.column_stack([np.ones(number), turned])
        quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
        step = rng.normal(0, LEAP / 2, (number, 3))
        poses = np.column_stack([before + step, quaternion])
        poses[::50, 0] = np.nan
        start = np.zeros((number, 7))
        rules = Rules(yaw=yaw)
        with np.errstate(invalid="ignore"):
            leapt = ~rules.plausible(poses, np.column_stack([before, quaternion]))
            ended = rules.broken(poses, start)
        walking = np.ones(number, np.int32)
        walking[1::10] = 0
        arrays = {
            "qpos": wp.array(poses, dtype=float),
            "rows": wp.array(np.arange(number)[::-1].copy(), dtype=int),
            "aside": wp.zeros(number, dtype=float),
            "yaw": yaw,
            "last": wp.array(before, dtype=wp.vec3),
            "walking": wp.array(walking, dtype=int),
            "reached": wp.full(number, 7.0, dtype=float),
            "now": wp.zeros(1, dtype=int),
        }
        wp.launch(warp_kernels.judge, dim=number, inputs=list(arrays.values()))
        np.testing.assert_array_equal(arrays["walking"].numpy() == 1, (walking == 1) & ~leapt & ~ended)
        expected = np.where(walking == 0, 7.0, np.where(leapt, np.nan, poses[:, 0]))[::-1]
        np.testing.assert_allclose(arrays["reached"].numpy(), expected, rtol=1e-6)
        assert leapt.any()
        assert (ended & ~leapt).any()
        assert arrays["now"].numpy() == [1]

    def test_yaw_rule_ends_walks(self):
        gaits, bodies = some_walks(8)
        plain, strict = (new_warp(rules=Rules(yaw=yaw)).distances(gaits, bodies) for yaw in (False, True))
        native = new_engine(rules=Rules(yaw=True)).distances(gaits, bodies)
        assert np.abs(strict - native).max() < 0.05
        assert (np.abs(plain - strict) > 0.005).any()


class TestSimulations:
    """Distances do not depend on how simulations are grouped, padded or moved."""

    pytestmark = compiles

    def test_distances_do_not_depend_on_batch_size(self, short):
        gaits, bodies = some_walks(10)
        whole = new_warp().distances(gaits, bodies)
        np.testing.assert_allclose(new_warp(worlds=3).distances(gaits, bodies), whole, atol=1e-6)
        one_by_one = [new_warp().distances(gaits[[i]], bodies[[i]])[0] for i in (0, 7)]
        np.testing.assert_allclose(one_by_one, whole[[0, 7]], atol=1e-6)
        assert new_warp().distances(gaits[:0], bodies[:0]).shape == (0,)

    def test_distances_do_not_depend_on_padding(self, short, monkeypatch):
        gaits, bodies = some_walks(5)
        whole = new_warp().distances(gaits, bodies)
        monkeypatch.setattr(short.WarpEngine, "_rounded", lambda self, number: 4 * (number // 4 + 1))
        np.testing.assert_allclose(new_warp().distances(gaits, bodies), whole, atol=1e-6)

    def test_distances_do_not_depend_on_moves_of_walks(self, monkeypatch):
        """Checking every 30 steps moves walks often."""
        from taskelites.domains.hexapod import warp_engine

        gaits, bodies = some_walks(10)
        moved = []
        squeeze = warp_engine.WarpEngine._squeeze

        def noted(self, walking, size):
            moved.append(int((walking >= size).sum()))
            squeeze(self, walking, size)

        monkeypatch.setattr(warp_engine, "_CHUNK", 30)
        monkeypatch.setattr(warp_engine.WarpEngine, "_squeeze", noted)
        found = new_warp(rules=Rules(yaw=True)).distances(gaits, bodies)
        assert sum(moved) > 0
        monkeypatch.setattr(warp_engine, "_CHUNK", 720)
        np.testing.assert_allclose(new_warp(rules=Rules(yaw=True)).distances(gaits, bodies), found, atol=1e-6)

    def test_settled_bodies_are_cached_and_the_oldest_replaced(self, short, monkeypatch):
        settled = []
        settle = short.WarpEngine._settle
        monkeypatch.setattr(short, "_CACHE_SIZE", 4)
        monkeypatch.setattr(
            short.WarpEngine,
            "_settle",
            lambda self, lengths, places: settled.append(len(lengths)) or settle(self, lengths, places),
        )
        gaits, bodies = some_walks(6)
        right = new_engine().distances(gaits, bodies)
        engine = new_warp(worlds=4)
        for rows in ([0, 1, 2], [2, 1, 0, 1], [3, 4], [0, 2], [5, 0, 4, 3]):
            assert np.abs(engine.distances(gaits[rows], bodies[rows]) - right[rows]).max() < 1e-3
        # The third call evicts body 2, the fourth settles it again in the place of body 1, the fifth evicts it again.
        assert settled == [3, 2, 1, 1]

    def test_padded_sizes_on_gpu_are_few(self):
        engine = new_warp()
        engine._device = type("Gpu", (), {"is_cuda": True})()
        sizes = {number: engine._rounded(number) for number in range(1, 20_000)}
        assert all(number <= size <= max(32, 1.25 * number) for number, size in sizes.items())
        assert len(set(sizes.values())) < 50
        assert all(sizes[size] == size for size in set(sizes.values()) if size < 20_000)
        assert sizes[10_240] == 10_240


class TestDomain:
    pytestmark = needs_warp

    @pytest.mark.slow
    def test_run_on_cpu(self, short):
        with pytest.warns(UserWarning, match=r"device='cpu' simulates one walk after another, .* for tests only"):
            domain = te.domain("hexapod", tasks=5, engine="warp", device="cpu")
        assert domain.call == "batch"
        assert domain.rows_per_call == 10_240
        assert domain.options["simulator"].startswith("mujoco-warp ")
        result = te.solve(domain, evaluations=64, algorithm="mt-map-elites", progress=False)
        native = te.domain("hexapod", tasks=5).fitness(result.solutions, result.tasks.descriptors)
        assert np.abs(result.fitness - native).max() < 1e-3

    def test_missing_gpu_or_wrong_index_raises_error(self, monkeypatch):
        import warp

        monkeypatch.setattr(warp, "get_cuda_device_count", lambda: 0)
        with pytest.raises(ValueError, match=r"needs an NVIDIA GPU .* use engine='mujoco' on a CPU"):
            te.domain("hexapod", tasks=5, engine="warp")
        monkeypatch.setattr(warp, "get_cuda_device_count", lambda: 2)
        with pytest.raises(ValueError, match=r"device must be one of .*, 'cuda:0' to 'cuda:1', not 'cuda:2'"):
            te.domain("hexapod", tasks=5, engine="warp", device="cuda:2")
        assert te.domain("hexapod", tasks=5, engine="warp", device="cuda:1").call == "batch"

    @pytest.mark.parametrize("device", ["gpu", "cuda:", 0])
    def test_invalid_device_raises_error(self, device):
        with pytest.raises(ValueError, match=r"device must be 'cuda', .* or 'cpu', not"):
            te.domain("hexapod", tasks=5, engine="warp", device=device)

    @pytest.mark.slow
    def test_too_many_simulations_for_memory_raise_error(self, monkeypatch):
        engine = new_warp(worlds=100_000)

        def full(host, size):
            raise RuntimeError("Failed to allocate 5000000000 bytes on device 'cuda:0'")

        monkeypatch.setattr("taskelites.domains.hexapod.warp_engine._Batch", full)
        with pytest.raises(
            MemoryError, match=r"64 simulations do not fit into the memory of 'cpu' .* a smaller worlds="
        ):
            engine.distances(*some_walks(64))


def test_missing_package_raises_error(monkeypatch):
    monkeypatch.setitem(hexapod.ENGINES, "warp", ("batch", "no_such_warp", "warp", ("mujoco",)))
    with pytest.raises(ImportError, match=r"pip install 'taskelites\[warp\]'"):
        te.domain("hexapod", tasks=5, engine="warp")


def test_worlds_must_be_positive():
    with warnings.catch_warnings(), pytest.raises(ValueError, match="worlds must be"):
        te.domain("hexapod", tasks=5, engine="warp", device="cpu", worlds=0)
