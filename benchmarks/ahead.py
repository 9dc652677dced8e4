"""Measure the cost of `ahead`: the gap on the arm with several batches of 64 asked from one state of the search.

    python benchmarks/ahead.py                                   1,000,000 evaluations, 5 seeds, 1 and 16 batches
    python benchmarks/ahead.py --evaluations 1e5 --ahead 1 4 16

The area is the mean fitness over all tasks, averaged over the run.
"""

import argparse

import jax
import numpy as np

import taskelites as te


def domain() -> te.Domain:
    """Return the arm as a batch function, since JAX functions run in a compiled loop without `ahead`."""
    arm = te.domain("arm")
    with jax.enable_x64(True):
        rows = jax.jit(jax.vmap(arm.fitness))

    def fitness(solutions: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(rows(solutions, tasks))

    return te.Domain(
        name="arm",
        fitness=fitness,
        tasks=arm.tasks,
        bounds=arm.bounds,
        dim=arm.dim,
        call="batch",
        optimum=arm.optimum,
        worst=arm.worst,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=float, default=1e6)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--ahead", nargs="+", type=int, default=[1, 16])
    chosen = parser.parse_args()
    arm = domain()
    for algorithm in ("mt-map-elites", "auto"):
        for ahead in chosen.ahead:
            found = te.compare(
                arm,
                algorithms=[algorithm],
                evaluations=int(chosen.evaluations),
                replicates=chosen.seeds,
                ahead=ahead,
                progress=False,
            )
            runs = found.replicates()
            gaps, area = runs["gap"], runs["area"].median()
            print(
                f"{algorithm}, ahead {ahead}: gap {gaps.median():.2e} ({gaps.min():.1e} to {gaps.max():.1e}), "
                f"area {area:.4f}, {runs['seconds'].median():.0f} s",
                flush=True,
            )
