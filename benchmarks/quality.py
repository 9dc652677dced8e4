"""Gap to the optimum of the arm over seeds, with details on runs whose gap is much larger than the median.

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
    results = te.solve(
        domain, evaluations=options.evaluations, algorithm="mt-map-elites", replicates=options.seeds, progress=True
    )
    gaps = np.array([result.gap for result in results])
    print(f"gap to the optimum over {options.seeds} seeds: median {np.median(gaps):.3g}, best {gaps.min():.3g}, "
          f"worst {gaps.max():.3g}")  # fmt: skip
    print(f"greatest excess over the optimum on any task: {max((r.fitness - r.optimum).max() for r in results):.2g}")
    for seed in np.flatnonzero(gaps > 3 * np.median(gaps)):
        explain(domain, results[seed], int(seed))


def explain(domain: te.Domain, result: te.Result, seed: int) -> None:
    """Print which tasks cause the gap of a run, the genes of its stiff arms, and the gap after more evaluations."""
    gap = result.optimum - result.fitness
    alpha_max, length = result.tasks.descriptors.T
    stiff = alpha_max < 0.3
    print(f"seed {seed}: gap {result.gap:.3g}, of which {gap[stiff].sum() / gap.sum():.0%} with alpha_max below 0.3")
    genes = result.solutions[stiff & (length > 0.7)].mean(axis=0)
    print(f"  mean genes of those with length above 0.7: {' '.join(f'{gene:.2f}' for gene in genes)}")
    longer = te.solve(domain, evaluations=3 * result.evaluations, algorithm="mt-map-elites", seed=seed, progress=False)
    print(f"  gap after three times the evaluations: {longer.gap:.3g}")


if __name__ == "__main__":
    main()
