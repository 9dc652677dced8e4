"""Compare ways to select the candidates of `te.cover` by the loss of 8 elites for all tasks.

    python benchmarks/cover.py arm
    python benchmarks/cover.py hexapod        (needs the extra `hexapod`, takes a few minutes)

All elites are evaluated on all tasks once. Each way of selecting candidates then uses a part of this table.
"""

import argparse
from dataclasses import replace

import numpy as np

import taskelites as te
from taskelites.analysis.covering import make_cover
from taskelites.analysis.elites import best_elites, spread_elites

SIZES = {"arm": (2000, 200_000, (50, 100)), "hexapod": (100, 8_000, (10, 20))}
K, DRAWS = 8, 5


def losses(result: te.Result, transfer: te.analysis.Transfer, candidates: np.ndarray) -> float:
    rows = np.searchsorted(transfer.elites, candidates)
    selected = replace(transfer, elites=transfer.elites[rows], fitness=transfer.fitness[rows])
    return float(make_cover(result, selected, K).loss().mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("domain", choices=SIZES)
    name = parser.parse_args().domain
    tasks, evaluations, numbers = SIZES[name]
    domain = te.domain(name, tasks=tasks)
    result = te.solve(domain, evaluations=evaluations, algorithm="mt-map-elites", progress=True)
    transfer = te.transfer(result, domain, "all", progress=True)
    print(f"{name}: {tasks:,} tasks, {evaluations:,} evaluations, loss of {K} elites relative to one elite per task")
    print(f"{'all elites':<30} {losses(result, transfer, transfer.elites):.4f}")
    rng = np.random.default_rng(0)
    for number in numbers:
        random_samples = [rng.choice(transfer.elites, number, replace=False) for _ in range(DRAWS)]
        ways = {
            f"{number} at random, mean of {DRAWS}": random_samples,
            f"{number} best": [best_elites(result, 0.0, number)],
            f"{number}, half best, half spread": [spread_elites(result, number)],
        }
        for way, samples in ways.items():
            print(f"{way:<30} {np.mean([losses(result, transfer, each) for each in samples]):.4f}")


if __name__ == "__main__":
    main()
