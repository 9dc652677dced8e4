"""How near runs come to the optimum of the arm, and where the gap is in runs that end further away than most.

python benchmarks/quality.py --seeds 20 --evaluations 1e6
"""

import argparse

import numpy as np

import taskelites as te


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--evaluations", type=lambda text: int(float(text)), default=1_000_000)
    options = parser.parse_args()
    domain = te.domain("arm")
    results = te.solve(domain, evaluations=options.evaluations, replicates=options.seeds, progress=True)
    gaps = np.array([result.gap for result in results])
    print(f"gap to the optimum over {options.seeds} seeds: median {np.median(gaps):.3g}, best {gaps.min():.3g}, "
          f"worst {gaps.max():.3g}")  # fmt: skip
    print(f"greatest excess over the optimum on any task: {max((r.fitness - r.optimum).max() for r in results):.2g}")
    for seed in np.flatnonzero(gaps > 2 * np.median(gaps)):
        explain(results[seed], int(seed))


def explain(result: te.Result, seed: int) -> None:
    """Print how a run's gap is spread over its tasks."""
    gap = result.optimum - result.fitness
    order = np.argsort(gap)[::-1]
    worst = order[: len(gap) // 20]
    share = gap[worst].sum() / gap.sum()
    low, high = (np.quantile(result.tasks.descriptors[worst], q, axis=0) for q in (0.1, 0.9))
    tried = {name[6:]: int(column[-1]) for name, column in result.history.items() if name.startswith("tried_")}
    bound = np.mean((result.solutions < 1e-3) | (result.solutions > 1 - 1e-3), axis=0)
    stuck = np.abs(result.solutions[worst] - np.median(result.solutions[order[len(gap) // 2 :]], axis=0)).mean(axis=0)
    print(f"seed {seed}: gap {result.gap:.3g}; the worst 5 % of tasks hold {share:.0%} of it, most of them with "
          f"alpha_max in [{low[0]:.2f}, {high[0]:.2f}] and length in [{low[1]:.2f}, {high[1]:.2f}]")  # fmt: skip
    print(f"  genes of the worst tasks, distance from those of the better half: {np.round(stuck, 2).tolist()}")
    print(f"  share of genes at a bound: {np.round(bound, 2).tolist()}")
    print(f"  candidates by tournament size: {tried}")


if __name__ == "__main__":
    main()
