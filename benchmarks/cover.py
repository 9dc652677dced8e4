"""Which candidates te.cover should choose from: the loss of 8 elites for all tasks, by how candidates are taken.

    python benchmarks/cover.py arm
    python benchmarks/cover.py hexapod        (needs the extra hexapod; some minutes)

All elites are tried on all tasks once; then each way of taking candidates is given a part of the table.
"""

import argparse
from dataclasses import replace

import numpy as np

import taskelites as te
from taskelites.analysis.covering import make_cover
from taskelites.analysis.elites import best_elites, spread_elites

SIZES = {"arm": (2000, 200_000, (50, 100)), "hexapod": (100, 8_000, (10, 20))}
K, DRAWS = 8, 5


def losses(result: te.Result, whole: te.analysis.Transfer, candidates: np.ndarray) -> float:
    places = np.searchsorted(whole.elites, candidates)
    part = replace(whole, elites=whole.elites[places], fitness=whole.fitness[places])
    return float(make_cover(result, part, K).loss().mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("domain", choices=SIZES)
    name = parser.parse_args().domain
    tasks, evaluations, numbers = SIZES[name]
    domain = te.domain(name, tasks=tasks)
    result = te.solve(domain, evaluations=evaluations, algorithm="mt-map-elites", progress=True)
    whole = te.transfer(result, domain, "all", progress=True)
    print(f"{name}: {tasks:,} tasks, {evaluations:,} evaluations, loss of {K} elites against one a task")
    print(f"{'all elites':<30} {losses(result, whole, whole.elites):.4f}")
    rng = np.random.default_rng(0)
    for number in numbers:
        drawn = [rng.choice(whole.elites, number, replace=False) for _ in range(DRAWS)]
        ways = {
            f"{number} at random, mean of {DRAWS}": drawn,
            f"{number} best": [best_elites(result, 0.0, number)],
            f"{number}, half best, half spread": [spread_elites(result, number)],
        }
        for way, many in ways.items():
            print(f"{way:<30} {np.mean([losses(result, whole, each) for each in many]):.4f}")


if __name__ == "__main__":
    main()
