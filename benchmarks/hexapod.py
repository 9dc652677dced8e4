"""Simulators of the hexapod: speed, agreement between them, and overhead of the search.

    python benchmarks/hexapod.py                                  speed, fidelity, chaos, overhead and mjx
    python benchmarks/hexapod.py --part warp --sizes 2048 16384   on an NVIDIA GPU
    python benchmarks/hexapod.py --part mjx --sizes 4096 16384    on an accelerator
    python benchmarks/hexapod.py --part elites --run FOLDER       walks of the elites of a run, also in other simulators
    python benchmarks/hexapod.py --part limit --run FOLDER        how much single bodies can be improved

Parts:

- `speed`: MuJoCo against PyBullet, in turn.
- `fidelity`: rank correlation with PyBullet, of MuJoCo and of PyBullet with a smaller step.
- `chaos`: MuJoCo against itself, with lengths that differ in the last digits.
- `overhead`: time of a run without its simulations.
- `warp`, `mjx`: rank correlation with MuJoCo, and walks per second.
- `elites`: statistics of the walks of the elites of a run.
- `limit`: CMA-ES started from single elites of a run.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import spearmanr

import taskelites as te
from taskelites.domains.hexapod import Walked
from taskelites.domains.hexapod.analysis import analyse
from taskelites.domains.hexapod.body import GRAVITY, LOWER, NOMINAL, UPPER, as_damage
from taskelites.domains.hexapod.episode import Rules
from taskelites.domains.hexapod.gait import DIM, FORWARD, REFERENCE, STEPS
from taskelites.domains.hexapod.mujoco_engine import MujocoEngine
from taskelites.experiments.comparison.pycma import import_cma

ROUNDS = 5


def gaits_and_bodies(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random gaits and bodies, one row per pair.

    40 % of the gaits are random, 30 % near the reference gait and 30 % near the forward gait.
    """
    rng = np.random.default_rng(seed)
    bodies = rng.uniform(LOWER, UPPER, (number, len(LOWER)))
    near = np.repeat([REFERENCE, FORWARD], 3 * number // 10, axis=0)
    near = np.clip(near + rng.normal(0, 0.1, near.shape), 0, 1)
    return np.concatenate([rng.random((number - len(near), DIM)), near]), bodies


def seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def part_speed(quick: bool) -> None:
    from taskelites.domains.hexapod.pybullet_engine import PybulletEngine

    gaits, bodies = gaits_and_bodies(40 if quick else 200, 2)
    one, two = (MujocoEngine(Rules(), threads=threads) for threads in (1, 2))
    bullet = PybulletEngine(Rules())
    whole = np.array([not one.walk(g, b).ended for g, b in zip(gaits, bodies, strict=True)])
    ratios: dict[str, list[float]] = {}
    for kind, chosen in (("whole walks", np.flatnonzero(whole)), ("with early stop", np.arange(len(gaits)))):
        for turn in range(2 if quick else ROUNDS):
            # PyBullet gets fewer walks, so that both take about the same time.
            some = np.random.default_rng(turn).choice(chosen, 4 if quick else 12, replace=False)
            slow = seconds(lambda some=some: [bullet.distance(gaits[i], bodies[i]) for i in some]) / len(some)
            for name, engine in (("1 thread", one), ("2 threads", two)):
                engine._settled.clear()  # so that no body is cached
                fast = seconds(lambda engine=engine, chosen=chosen: engine.distances(gaits[chosen], bodies[chosen]))
                ratios.setdefault(f"{kind}, {name}", []).append(slow / (fast / len(chosen)))
    for name, found in ratios.items():
        low, middle, high = min(found), statistics.median(found), max(found)
        print(f"speed: {name}: MuJoCo {middle:.1f} times as fast as PyBullet ({low:.1f} to {high:.1f})")


def walk_in_pybullet(gait: np.ndarray, body: np.ndarray, options: dict[str, Any]) -> tuple[float, int]:
    from taskelites.domains.hexapod.pybullet_engine import PybulletEngine

    return PybulletEngine(**options).walk(gait, body)


def part_fidelity(quick: bool) -> None:
    gaits, bodies = gaits_and_bodies(20 if quick else 200, 1)
    variants = {
        "PyBullet": {},
        "step / 4, the same motors": {"finer": 4},
        "step / 4, the same gains": {"finer": 4, "same_gains": True},
        "from 0.15 m, as in the code of the paper": {"height": 0.15},
        "from 0.15 m, step / 4, the same gains": {"height": 0.15, "finer": 4, "same_gains": True},
    }

    def ranks(first: Any, second: Any) -> float:
        return float(spearmanr(first, second).statistic)

    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for yaw in (False, True):
            walks = [MujocoEngine(Rules(yaw=yaw)).walk(g, b) for g, b in zip(gaits, bodies, strict=True)]
            ours, ended = np.array([walk.distance for walk in walks]), np.mean([walk.ended for walk in walks])
            # A smaller step takes four times as long, so it is tried with the rules of the paper only.
            found = {}
            for name, options in list(variants.items())[: 1 if yaw else None]:
                given = repeat({"rules": Rules(yaw=yaw), **options})
                found[name] = np.array(list(pool.map(walk_in_pybullet, gaits, bodies, given, chunksize=5))).T
            expected, steps = found.pop("PyBullet")
            title = f"fidelity, {'with' if yaw else 'without'} the rule on yaw, {len(gaits)} pairs"
            print(f"{title}: ended early in MuJoCo {ended:.1%}, in PyBullet {np.mean(steps < STEPS):.1%}")
            print(f"{title}: rank correlation with PyBullet: MuJoCo {ranks(ours, expected):.3f}", end="")
            print("".join(f"; PyBullet, {name}, {ranks(other, expected):.3f}" for name, (other, _) in found.items()))
            if not yaw:
                first, second = (found[name][0] for name in list(variants)[3:])
                print(f"{title}: both from 0.15 m: step against step / 4 {ranks(first, second):.3f}", end="")
                print(f"; MuJoCo, from above the ground, against PyBullet from 0.15 m {ranks(ours, first):.3f}")
    for name, gait in (("reference", REFERENCE), ("forward", FORWARD)):
        ours = MujocoEngine(Rules()).walk(gait, NOMINAL).distance
        expected, _ = walk_in_pybullet(gait, NOMINAL, {"rules": Rules()})
        print(f"fidelity: {name} gait on the nominal body: MuJoCo {ours:+.3f} m, PyBullet {expected:+.3f} m")


def part_chaos(quick: bool) -> None:
    gaits, bodies = gaits_and_bodies(32 if quick else 256, 1)
    engine = MujocoEngine(Rules())
    expected = engine.distances(gaits, bodies)
    rng = np.random.default_rng(0)
    for part in (1e-12, 1e-9, 1e-7, 1e-6):
        other = engine.distances(gaits, bodies * (1 + part * rng.standard_normal(bodies.shape)))
        middle, most = np.quantile(np.abs(other - expected), [0.5, 1.0])
        print(
            f"chaos: relative change of lengths {part:g}: rank correlation {spearmanr(other, expected).statistic:.4f}, "
            f"difference {middle:.1e} m in the median, {most:.1e} m at most"
        )


def engine_of(result: te.Result) -> MujocoEngine:
    options = result.settings["options"]
    damage = as_damage({int(leg): kind for leg, kind in options["damage"].items()})
    return MujocoEngine(Rules(yaw=options["yaw"]), damage)


def part_limit(quick: bool, run: str) -> None:
    """Print how far CMA-ES improves single elites of a run, with many evaluations per body."""
    cma = import_cma()
    result = te.load(run)
    engine = engine_of(result)
    bodies, evaluations = (2, 56) if quick else (4, 20_000)
    found = []
    for body in range(bodies):  # bodies are random, so these are a random sample
        options = {"bounds": [0, 1], "popsize": 28, "seed": body + 1, "verbose": -9}
        strategy = cma.CMAEvolutionStrategy(result.solutions[body], 0.1, options)
        best = early = float(result.fitness[body])
        while strategy.countevals < evaluations:
            gaits = strategy.ask()
            distances = engine.distances(np.array(gaits), np.repeat(result.tasks.descriptors[[body]], 28, axis=0))
            strategy.tell(gaits, np.where(np.isfinite(distances), -distances, np.inf).tolist())
            best = max(best, float(np.nanmax(distances)))
            if strategy.countevals <= evaluations / 5:
                early = best
        found.append((float(result.fitness[body]), early, best))
        print(f"limit: body {body}: {_format_distances(found[-1], evaluations)}", flush=True)
    print(f"limit: mean of all bodies {result.fitness.mean():.3f} m; of these {bodies}:", end=" ")
    print(_format_distances(np.mean(found, axis=0), evaluations))


def _format_distances(metres: Sequence[float], evaluations: int) -> str:
    before, early, after = metres
    return f"{before:.3f} m, after {evaluations // 5:,} evaluations {early:.3f} m, after {evaluations:,} {after:.3f} m"


def part_elites(quick: bool, run: str) -> None:
    """Print whether the walks of the elites of a run are physically plausible."""
    result = te.load(run)
    engine = engine_of(result)
    solutions, fitness, lengths = (
        part[result.solved] for part in (result.solutions, result.fitness, result.tasks.descriptors)
    )
    again = engine.distances(solutions, lengths)
    difference = again - fitness
    print(f"elites: {len(fitness)}, stored with a mean of {fitness.mean():.4f} m, walk {again.mean():.4f} m here")
    print(
        f"elites: within 5 cm {np.mean(abs(difference) < 0.05):.1%}; median difference {np.median(difference):+.3f} m",
        end="",
    )
    print(f", {np.quantile(difference, 0.05):+.3f} m at the 5 % quantile")
    order = np.argsort(-fitness)
    number = 2 if quick else 20
    middle = (len(order) - number) // 2
    weight = GRAVITY * engine.model.body_mass.sum()
    for name, some in (
        ("best", order[:number]),
        ("middle", order[middle : middle + number]),
        ("last", order[-number:]),
    ):
        found = [analyse(engine, solutions[i], lengths[i]) for i in some]
        rise = [(one.walk.positions[:, 2] - one.walk.positions[0, 2]).max() for one in found]
        figures = {
            "distance, m": np.mean([one.distance for one in found]),
            "time in flight": np.mean([one.flight for one in found]),
            "rise of the base, m, mean": np.mean(rise),
            "rise of the base, m, maximum": np.max(rise),
            "speed of the base, m/s, maximum": np.max([one.speed.max() for one in found]),
            "walks whose base touches the ground": np.mean([one.base_touches.any() for one in found]),
            "penetration of the ground by feet, m, maximum": np.max([one.penetration.max() for one in found]),
            "touches and lifts, per second and foot": np.mean([one.switches for one in found]),
            "ground force, relative to the weight": np.mean([one.forces.sum(axis=1).mean() for one in found]) / weight,
            "power of the motors, W": np.mean([one.power.mean() for one in found]),
        }
        for title, figure in figures.items():
            print(f"elites, {name} {number}: {title}: {figure:.3g}")
    try:
        from taskelites.domains.hexapod.pybullet_engine import PybulletEngine
    except ImportError:
        print("elites: PyBullet is not installed")
        return
    some = np.random.default_rng(0).permutation(len(fitness))[: 5 if quick else 200]
    walks = np.array([PybulletEngine(engine.rules, engine.damage).walk(solutions[i], lengths[i]) for i in some])
    whole = walks[:, 1] == STEPS
    ours = again[some]
    print(f"elites: {len(some)} of them: {ours.mean():.3f} m in MuJoCo, {walks[:, 0].mean():.3f} m in PyBullet", end="")
    print(f", where {1 - whole.mean():.1%} break a rule; the others {ours[whole].mean():.3f} and", end="")
    print(f" {walks[whole, 0].mean():.3f} m")


def part_overhead(quick: bool) -> None:
    """Print the share of a run that is not spent in the fitness."""
    domain = te.domain("hexapod", tasks=2000)
    inside = []

    def timed(gaits: Any, lengths: Any) -> Any:
        begin = time.perf_counter()
        found = domain.fitness(gaits, lengths)
        inside.append(time.perf_counter() - begin)
        return found

    options: dict[str, Any] = {"bounds": (0, 1), "dim": DIM, "call": "batch", "progress": False}
    options["algorithm"] = "mt-map-elites"
    te.solve(timed, domain.tasks, evaluations=128, **options)  # compiles, and builds the engine
    inside.clear()
    whole = seconds(lambda: te.solve(timed, domain.tasks, evaluations=640 if quick else 6400, **options))
    # The second run takes its compiled programs from the cache; the lookup counts as overhead.
    print(f"overhead: {1 - sum(inside) / whole:.2%} of a run of {whole:.1f} s is not simulation")


def part_warp(quick: bool, sizes: Sequence[int]) -> None:
    """Print the agreement of MuJoCo Warp with MuJoCo, and its walks per second on 2,000 known bodies."""
    import warp

    device = "cuda" if warp.is_cuda_available() else "cpu"
    walked = Walked("warp", Rules(), device=device, worlds=max(sizes))
    where = f"warp on {warp.get_device(device).name}"
    number = 8 if quick else 256
    gaits, bodies = gaits_and_bodies(number, 3)
    first = seconds(lambda: walked(gaits[:1], bodies[:1]))
    ours, again, expected = walked(gaits, bodies), walked(gaits, bodies), MujocoEngine(Rules()).distances(gaits, bodies)
    difference = np.abs(ours - expected)
    print(f"{where}: {first:.0f} s for the first walk, compilation included")
    print(
        f"{where}, {number} walks: rank correlation with MuJoCo {spearmanr(ours, expected).statistic:.4f}, "
        f"median difference {np.median(difference):.1e} m, maximum {difference.max():.3f} m, "
        f"{int(np.isnan(ours).sum())} NaN; repeated: maximum difference {np.abs(ours - again).max():.3f} m",
        flush=True,
    )
    rng = np.random.default_rng(4)
    home = rng.uniform(LOWER, UPPER, (8 if quick else 2000, len(LOWER)))
    for size in sizes:
        gaits, bodies = rng.random((size, DIM)), home[rng.integers(len(home), size=size)]
        walked(gaits, bodies)
        took = statistics.median(seconds(lambda g=gaits, b=bodies: walked(g, b)) for _ in range(1 if quick else 3))
        print(f"{where}: {size:,} per call: {size / took:,.0f} walks per second", flush=True)


def part_mjx(quick: bool, sizes: Sequence[int]) -> None:
    walked = Walked("mjx", Rules())
    where = jax.devices()[0].device_kind
    batch = jax.jit(jax.vmap(walked))
    number = 16 if quick else 256
    gaits, bodies = (array.astype(np.float32) for array in gaits_and_bodies(number, 3))
    ours = np.asarray(batch(jnp.asarray(gaits), jnp.asarray(bodies)))
    expected = MujocoEngine(Rules()).distances(gaits, bodies)
    difference = np.abs(ours - expected)
    print(
        f"mjx on {where}, {number} walks: rank correlation with MuJoCo {spearmanr(ours, expected).statistic:.4f}, "
        f"median difference {np.median(difference):.1e} m, maximum {difference.max():.3f} m, "
        f"{int(np.isnan(ours).sum())} NaN",
        flush=True,
    )
    rng = np.random.default_rng(4)
    for size in sizes:
        gaits = jnp.asarray(rng.random((size, DIM)), jnp.float32)
        bodies = jnp.asarray(rng.uniform(LOWER, UPPER, (size, len(LOWER))), jnp.float32)
        compiled = seconds(lambda gaits=gaits, bodies=bodies: batch(gaits, bodies).block_until_ready())
        took = min(
            seconds(lambda gaits=gaits, bodies=bodies: batch(gaits, bodies).block_until_ready()) for _ in range(2)
        )
        print(
            f"mjx on {where}: {size} per call: {size / took:,.0f} walks per second (first call {compiled:.0f} s)",
            flush=True,
        )


PARTS = {
    "speed": part_speed,
    "fidelity": part_fidelity,
    "chaos": part_chaos,
    "overhead": part_overhead,
}
PARTS_WITH_SIZES = {"warp": part_warp, "mjx": part_mjx}
PARTS_WITH_RUN = {"elites": part_elites, "limit": part_limit}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--part", nargs="+", choices=[*PARTS, *PARTS_WITH_SIZES, *PARTS_WITH_RUN], default=[*PARTS, "mjx"]
    )
    parser.add_argument("--run", help="folder of a run on the hexapod, for parts elites and limit")
    parser.add_argument("--sizes", nargs="+", type=int, default=[64], help="walks per call, for parts warp and mjx")
    parser.add_argument("--quick", action="store_true", help=argparse.SUPPRESS)  # for tests
    chosen = parser.parse_args()
    if not chosen.run and any(name in PARTS_WITH_RUN for name in chosen.part):
        parser.error("--part elites and --part limit need --run FOLDER, a run on the hexapod")
    warnings.simplefilter("ignore", te.errors.TaskWarning)
    for name in chosen.part:
        if name in PARTS_WITH_SIZES:
            PARTS_WITH_SIZES[name](chosen.quick, chosen.sizes)
        elif name in PARTS_WITH_RUN:
            PARTS_WITH_RUN[name](chosen.quick, chosen.run)
        else:
            PARTS[name](chosen.quick)
