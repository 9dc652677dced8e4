"""The hexapod's simulators: how fast, how much alike, and what the search around them costs.

    python benchmarks/hexapod.py                                  all that this machine can do
    python benchmarks/hexapod.py --part warp --sizes 2048 16384   on an NVIDIA GPU
    python benchmarks/hexapod.py --part mjx --sizes 4096 16384    on an accelerator
    python benchmarks/hexapod.py --part elites --run FOLDER       what the elites of a run do, and in other simulators
    python benchmarks/hexapod.py --part limit --run FOLDER        how much further single bodies get

Parts: `speed` (MuJoCo against PyBullet, in turns), `fidelity` (ranks of MuJoCo, and of PyBullet with a finer step,
against PyBullet), `chaos` (MuJoCo against itself with lengths that differ in the last digits), `overhead` (the search
without its simulations), `warp`, `mjx` (against MuJoCo: ranks, and walks per second), `elites`, `limit`.
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


def pairs(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaits and bodies: 40 % of the gaits random, 30 % near the reference gait, 30 % near the forward one."""
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

    gaits, bodies = pairs(40 if quick else 200, 2)
    one, two = (MujocoEngine(Rules(), threads=threads) for threads in (1, 2))
    bullet = PybulletEngine(Rules())
    whole = np.array([not one.walk(g, b).ended for g, b in zip(gaits, bodies, strict=True)])
    ratios: dict[str, list[float]] = {}
    for kind, chosen in (("whole walks", np.flatnonzero(whole)), ("with early stop", np.arange(len(gaits)))):
        for turn in range(2 if quick else ROUNDS):
            # Few walks of the slow one, all of the fast ones: as many seconds, about.
            some = np.random.default_rng(turn).choice(chosen, 4 if quick else 12, replace=False)
            slow = seconds(lambda some=some: [bullet.distance(gaits[i], bodies[i]) for i in some]) / len(some)
            for name, engine in (("1 thread", one), ("2 threads", two)):
                engine._settled.clear()  # each body is new to it
                fast = seconds(lambda engine=engine, chosen=chosen: engine.distances(gaits[chosen], bodies[chosen]))
                ratios.setdefault(f"{kind}, {name}", []).append(slow / (fast / len(chosen)))
    for name, found in ratios.items():
        low, middle, high = min(found), statistics.median(found), max(found)
        print(f"speed: {name}: MuJoCo {middle:.1f} times as fast as PyBullet ({low:.1f} to {high:.1f})")


def in_bullet(gait: np.ndarray, body: np.ndarray, options: dict[str, Any]) -> tuple[float, int]:
    from taskelites.domains.hexapod.pybullet_engine import PybulletEngine

    return PybulletEngine(**options).walk(gait, body)


def part_fidelity(quick: bool) -> None:
    gaits, bodies = pairs(20 if quick else 200, 1)
    variants = {
        "PyBullet": {},
        "step / 4, the same motors": {"finer": 4},
        "step / 4, the same gains": {"finer": 4, "same_gains": True},
        "from 0.15 m, as in the paper's code": {"height": 0.15},
        "from 0.15 m, step / 4, the same gains": {"height": 0.15, "finer": 4, "same_gains": True},
    }

    def ranks(first: Any, second: Any) -> float:
        return float(spearmanr(first, second).statistic)

    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for yaw in (False, True):
            walks = [MujocoEngine(Rules(yaw=yaw)).walk(g, b) for g, b in zip(gaits, bodies, strict=True)]
            ours, ended = np.array([walk.distance for walk in walks]), np.mean([walk.ended for walk in walks])
            # A finer step takes four times as long: with the paper's rules only.
            found = {}
            for name, options in list(variants.items())[: 1 if yaw else None]:
                given = repeat({"rules": Rules(yaw=yaw), **options})
                found[name] = np.array(list(pool.map(in_bullet, gaits, bodies, given, chunksize=5))).T
            its, steps = found.pop("PyBullet")
            title = f"fidelity, {'with' if yaw else 'without'} the rule on yaw, {len(gaits)} pairs"
            print(f"{title}: ended MuJoCo {ended:.1%}, PyBullet {np.mean(steps < STEPS):.1%}")
            print(f"{title}: ranks against PyBullet: MuJoCo {ranks(ours, its):.3f}", end="")
            print("".join(f"; PyBullet, {name}, {ranks(other, its):.3f}" for name, (other, _) in found.items()))
            if not yaw:
                first, second = (found[name][0] for name in list(variants)[3:])
                print(f"{title}: both from 0.15 m: step against step / 4 {ranks(first, second):.3f}", end="")
                print(f"; MuJoCo, from above the ground, against that of 0.15 m {ranks(ours, first):.3f}")
    for name, gait in (("reference", REFERENCE), ("forward", FORWARD)):
        ours = MujocoEngine(Rules()).walk(gait, NOMINAL).distance
        its, _ = in_bullet(gait, NOMINAL, {"rules": Rules()})
        print(f"fidelity: {name} gait on the nominal body: MuJoCo {ours:+.3f} m, PyBullet {its:+.3f} m")


def part_chaos(quick: bool) -> None:
    gaits, bodies = pairs(32 if quick else 256, 1)
    engine = MujocoEngine(Rules())
    its = engine.distances(gaits, bodies)
    rng = np.random.default_rng(0)
    for part in (1e-12, 1e-9, 1e-7, 1e-6):
        other = engine.distances(gaits, bodies * (1 + part * rng.standard_normal(bodies.shape)))
        middle, most = np.quantile(np.abs(other - its), [0.5, 1.0])
        print(
            f"chaos: lengths changed by {part:g} of themselves: ranks {spearmanr(other, its).statistic:.4f}, apart by "
            f"{middle:.1e} m in the median, {most:.1e} at most"
        )


def engine_of(result: te.Result) -> MujocoEngine:
    options = result.settings["options"]
    damage = as_damage({int(leg): kind for leg, kind in options["damage"].items()})
    return MujocoEngine(Rules(yaw=options["yaw"]), damage)


def part_limit(quick: bool, run: str) -> None:
    """What CMA-ES makes of single elites of a run, with many evaluations for each body alone."""
    cma = import_cma()
    result = te.load(run)
    engine = engine_of(result)
    bodies, evaluations = (2, 56) if quick else (4, 20_000)
    found = []
    for body in range(bodies):  # bodies are random, so the first of them are
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
        print(f"limit: body {body}: {_course(found[-1], evaluations)}", flush=True)
    print(f"limit: all bodies in the mean {result.fitness.mean():.3f} m; these {bodies}:", end=" ")
    print(_course(np.mean(found, axis=0), evaluations))


def _course(metres: Sequence[float], evaluations: int) -> str:
    before, early, after = metres
    return f"{before:.3f} m, {evaluations // 5:,} evaluations later {early:.3f} m, {evaluations:,} later {after:.3f} m"


def part_elites(quick: bool, run: str) -> None:
    """Whether the elites of a run do what legs can do."""
    result = te.load(run)
    engine = engine_of(result)
    solutions, fitness, lengths = (
        part[result.solved] for part in (result.solutions, result.fitness, result.tasks.descriptors)
    )
    again = engine.distances(solutions, lengths)
    apart = again - fitness
    print(f"elites: {len(fitness)}, stored with a mean of {fitness.mean():.4f} m, walk {again.mean():.4f} m here")
    print(
        f"elites: within 5 cm {np.mean(abs(apart) < 0.05):.1%}; difference {np.median(apart):+.3f} m in the median",
        end="",
    )
    print(f", {np.quantile(apart, 0.05):+.3f} m for the twentieth that lose most")
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
            "base rises by, m, mean": np.mean(rise),
            "base rises by, m, most": np.max(rise),
            "speed of the base, m/s, most": np.max([one.speed.max() for one in found]),
            "walks whose base touches the ground": np.mean([one.base_touches.any() for one in found]),
            "feet in the ground, m, most": np.max([one.penetration.max() for one in found]),
            "touches and lifts, a second and foot": np.mean([one.switches for one in found]),
            "weight that the ground carries": np.mean([one.forces.sum(axis=1).mean() for one in found]) / weight,
            "motors, W": np.mean([one.power.mean() for one in found]),
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
    """What of a run is not simulation: its time without the fitness's own."""
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
    # Compilation of a second run is a look into a table; what is left of it counts as overhead.
    print(f"overhead: {1 - sum(inside) / whole:.2%} of a run of {whole:.1f} s is not simulation")


def part_warp(quick: bool, sizes: Sequence[int]) -> None:
    """MuJoCo Warp, all of it: gaits in, distances out, on 2,000 bodies that it has met before."""
    import warp

    device = "cuda" if warp.is_cuda_available() else "cpu"
    walked = Walked("warp", Rules(), device=device, worlds=max(sizes))
    where = f"warp on {warp.get_device(device).name}"
    number = 8 if quick else 256
    gaits, bodies = pairs(number, 3)
    first = seconds(lambda: walked(gaits[:1], bodies[:1]))
    ours, again, its = walked(gaits, bodies), walked(gaits, bodies), MujocoEngine(Rules()).distances(gaits, bodies)
    apart = np.abs(ours - its)
    print(f"{where}: {first:.0f} s for the first walk, compilation included")
    print(
        f"{where}, {number} walks: ranks against MuJoCo {spearmanr(ours, its).statistic:.4f}, apart by "
        f"{np.median(apart):.1e} m in the median, {apart.max():.3f} at most, {int(np.isnan(ours).sum())} NaN; "
        f"repeated, apart by {np.abs(ours - again).max():.3f} at most",
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
    gaits, bodies = (array.astype(np.float32) for array in pairs(number, 3))
    ours = np.asarray(batch(jnp.asarray(gaits), jnp.asarray(bodies)))
    its = MujocoEngine(Rules()).distances(gaits, bodies)
    apart = np.abs(ours - its)
    print(
        f"mjx on {where}, {number} walks: ranks against MuJoCo {spearmanr(ours, its).statistic:.4f}, apart by "
        f"{np.median(apart):.1e} m in the median, {apart.max():.3f} at most, {int(np.isnan(ours).sum())} NaN",
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
            f"mjx on {where}: {size} at once: {size / took:,.0f} walks a second ({compiled:.0f} s the first time)",
            flush=True,
        )


PARTS = {
    "speed": part_speed,
    "fidelity": part_fidelity,
    "chaos": part_chaos,
    "overhead": part_overhead,
}
OF_SIZES = {"warp": part_warp, "mjx": part_mjx}
OF_A_RUN = {"elites": part_elites, "limit": part_limit}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=[*PARTS, *OF_SIZES, *OF_A_RUN], default=[*PARTS, "mjx"])
    parser.add_argument("--run", help="of parts elites and limit: a run on the hexapod")
    parser.add_argument("--sizes", nargs="+", type=int, default=[64], help="of parts warp and mjx: walks per call")
    parser.add_argument("--quick", action="store_true", help=argparse.SUPPRESS)  # whether it runs at all
    chosen = parser.parse_args()
    if not chosen.run and any(name in OF_A_RUN for name in chosen.part):
        parser.error("--part elites and --part limit need --run FOLDER, a run on the hexapod")
    warnings.simplefilter("ignore", te.errors.TaskWarning)
    for name in chosen.part:
        if name in OF_SIZES:
            OF_SIZES[name](chosen.quick, chosen.sizes)
        elif name in OF_A_RUN:
            OF_A_RUN[name](chosen.quick, chosen.run)
        else:
            PARTS[name](chosen.quick)
