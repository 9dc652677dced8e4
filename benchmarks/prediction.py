"""How near predictions for unseen arms come to their optimum, and what refining them adds.

python benchmarks/prediction.py --seeds 3

For each target and size of archive: the gap to the optimum of 1000 uniformly random new tasks, by each method, as a
ratio to that of copying the nearest elite; then the gap after `refine`, as a ratio to that of the automatic choice.
Medians over seeds, the worst in brackets.
"""

import argparse

import jax
import numpy as np

import taskelites as te
from taskelites.prediction import METHODS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--evaluations", type=lambda text: int(float(text)), default=1_000_000)
    parser.add_argument("--new", type=int, default=1000)
    parser.add_argument("--per-task", type=int, default=20, help="evaluations of refine, for each new task")
    options = parser.parse_args()
    print("target      archive  nearest   " + "".join(f"{name:>18}" for name in (*METHODS[1:], "automatic", "refine")))
    for target in ((1.0, 1.0), (0.5, 0.5)):
        for number in (5000, 500):
            rows = [measure(options, target, number, seed) for seed in range(options.seeds)]
            copied = np.median([row["nearest"] for row in rows])
            ratios = [[row[name] / row["nearest"] for row in rows] for name in (*METHODS[1:], "automatic")]
            ratios.append([row["refine"] / row["automatic"] for row in rows])
            cells = "".join(f"{np.median(ratio):>11.2f} ({max(ratio):.2f})" for ratio in ratios)
            print(f"{target!s:<11} {number:<8} {copied:<9.3g} {cells}   chosen: {[row['chosen'] for row in rows]}")


def measure(options: argparse.Namespace, target: tuple[float, float], number: int, seed: int) -> dict[str, float]:
    """The gaps of new tasks, by method, from one archive."""
    domain = te.domain("arm", tasks=number, target=target)
    result = te.solve(domain, evaluations=options.evaluations, seed=seed, progress=False)
    points = te.tasks.uniform(options.new, [0, 0], [1, 1], seed=1000 + seed).descriptors
    new = te.domain("arm", tasks=points, target=target)
    chosen = result.predict(points, report=True)
    refined = result.refine(new, evaluations=options.per_task * options.new, seed=seed, progress=False)
    gaps = {name: gap(new, result.predict(points, name)) for name in METHODS}
    return gaps | {"automatic": gap(new, chosen.solutions), "refine": refined.gap, "chosen": chosen.method}


def gap(domain: te.Domain, solutions: np.ndarray) -> float:
    with jax.enable_x64(True):
        fitness = jax.vmap(domain.fitness)(solutions, domain.tasks.descriptors)
    return float(np.mean(domain.optimum - np.asarray(fitness)))


if __name__ == "__main__":
    main()
