"""Time of many replicates of the arm in parallel, on the default JAX device (`pip install taskelites[cuda]` for a GPU).

    python benchmarks/replicates.py --replicates 30 --evaluations 1e6

Prints the time of the first run (with compilation) and of three further runs, the gaps to the optimum, and whether a
replicate is bit-identical to a single run.
"""

import argparse
import statistics
import time

import jax
import numpy as np

import taskelites as te


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=30)
    parser.add_argument("--evaluations", type=lambda text: int(float(text)), default=1_000_000)
    options = parser.parse_args()
    print(f"device: {jax.devices()[0].device_kind}, jax {jax.__version__}")
    domain = te.domain("arm")
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        results = te.solve(
            domain,
            algorithm="mt-map-elites",
            evaluations=options.evaluations,
            replicates=options.replicates,
            progress=False,
        )
        times.append(time.perf_counter() - begin)
    print(f"{options.replicates} replicates of {options.evaluations:,} evaluations: first run {times[0]:.2f} s")
    print(f"after compilation: {', '.join(f'{value:.2f}' for value in times[1:])} s")
    gaps = sorted(result.gap for result in results)
    print(f"gap to the optimum: median {statistics.median(gaps):.3g}, best {gaps[0]:.3g}, worst {gaps[-1]:.3g}")
    alone = te.solve(domain, algorithm="mt-map-elites", evaluations=options.evaluations, seed=3, progress=False)
    same = np.array_equal(alone.solutions, results[3].solutions) if options.replicates > 3 else None
    print(f"replicate 3 is bit-identical to a single run: {same}")


if __name__ == "__main__":
    main()
