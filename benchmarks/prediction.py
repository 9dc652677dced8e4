"""Quality of predictions for unseen tasks, before and after refining them.

python benchmarks/prediction.py --seeds 3

On the arm, for each target and archive size: the mean gap to the optimum on 1000 random new tasks. For each method it
is given relative to copying the nearest elite, after `refine` relative to the automatic choice of the method. The table
shows medians over seeds, with the worst in parentheses.

python benchmarks/prediction.py --part hexapod

On the map of docs/hexapod and 80 random bodies: mean fitness of predictions, and after 20 evaluations per body.
"""

import argparse
from pathlib import Path

import jax
import numpy as np

import taskelites as te
from taskelites.results.prediction import METHODS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["arm", "hexapod"], default="arm")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--evaluations", type=lambda text: int(float(text)), default=1_000_000)
    parser.add_argument("--new", type=int, default=1000)
    parser.add_argument("--per-task", type=int, default=20, help="evaluations of refine per new task")
    options = parser.parse_args()
    if options.part == "hexapod":
        hexapod(options.per_task)
        return
    print("target      archive  nearest   " + "".join(f"{name:>18}" for name in (*METHODS[1:], "automatic", "refine")))
    for target in ((1.0, 1.0), (0.5, 0.5)):
        for number in (5000, 500):
            rows = [measure_gaps(options, target, number, seed) for seed in range(options.seeds)]
            copied = np.median([row["nearest"] for row in rows])
            ratios = [[row[name] / row["nearest"] for row in rows] for name in (*METHODS[1:], "automatic")]
            ratios.append([row["refine"] / row["automatic"] for row in rows])
            cells = "".join(f"{np.median(ratio):>11.2f} ({max(ratio):.2f})" for ratio in ratios)
            print(f"{target!s:<11} {number:<8} {copied:<9.3g} {cells}   chosen: {[row['chosen'] for row in rows]}")


def measure_gaps(options: argparse.Namespace, target: tuple[float, float], number: int, seed: int) -> dict[str, float]:
    """Return the mean gap on new tasks by method, for one archive."""
    domain = te.domain("arm", tasks=number, target=target)
    result = te.solve(domain, evaluations=options.evaluations, algorithm="mt-map-elites", seed=seed, progress=False)
    points = te.tasks.uniform(options.new, [0, 0], [1, 1], seed=1000 + seed).descriptors
    new = te.domain("arm", tasks=points, target=target)
    chosen = result.predict(points, report=True)
    refined = result.refine(new, evaluations=options.per_task * options.new, seed=seed, progress=False)
    gaps = {name: mean_gap(new, result.predict(points, name)) for name in METHODS}
    return gaps | {"automatic": mean_gap(new, chosen.solutions), "refine": refined.gap, "chosen": chosen.method}


def hexapod(per_task: int, bodies: int = 80) -> None:
    """Print the mean fitness on new bodies by method, and after refinement with two algorithms."""
    result = te.load(Path(__file__).parent.parent / "docs" / "hexapod" / "map.npz")
    known = result.tasks.descriptors
    points = te.tasks.uniform(bodies, known.min(axis=0), known.max(axis=0), seed=9).descriptors
    domain = te.domain("hexapod", tasks=points)
    print("leave-one-out errors:", result.predict(points, report=True).errors)
    for name in METHODS:
        print(f"{name:<10} {result.refine(domain, evaluations=bodies, method=name).fitness.mean():.3f}")
    for label, options in {"refine": {}, "by MT-ME": {"algorithm": te.MultiTaskMapElites(random_start=1)}}.items():
        refined = result.refine(domain, evaluations=per_task * bodies, progress=False, **options)
        print(f"{label:<10} {refined.fitness.mean():.3f}")


def mean_gap(domain: te.Domain, solutions: np.ndarray) -> float:
    with jax.enable_x64(True):
        fitness = jax.vmap(domain.fitness)(solutions, domain.tasks.descriptors)
    return float(np.mean(domain.optimum - np.asarray(fitness)))


if __name__ == "__main__":
    main()
