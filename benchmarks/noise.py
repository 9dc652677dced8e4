"""Measure the effect of `samples` at a fixed number of calls of a noisy fitness: `python benchmarks/noise.py`."""

import numpy as np

import taskelites as te

CALLS, NOISE, SEEDS = 90_000, 0.1, 5
TASKS = te.tasks.grid((20, 20), lower=[0, 0], upper=[1, 1])


def without_noise(solutions, tasks):
    return -np.abs(solutions - tasks).sum(axis=1)


def main() -> None:
    print(f"{CALLS:,} calls, {len(TASKS)} tasks, noise with standard deviation {NOISE}, medians of {SEEDS} seeds")
    print(f"{'samples':>7} {'evaluations':>12} {'believed':>9} {'corrected':>9} {'true':>9}")
    for samples in (1, 3, 10, 30):
        found = []
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)

            def noisy(solutions, tasks, rng=rng):
                return without_noise(solutions, tasks) + rng.normal(0, NOISE, len(solutions))

            options = {"bounds": (0, 1), "dim": 2, "call": "batch", "samples": samples, "seed": seed}
            options["algorithm"] = "mt-map-elites"
            result = te.solve(noisy, TASKS, evaluations=CALLS // samples, **options)
            result = te.reevaluate(result, noisy, samples=30)
            true = without_noise(result.solutions, TASKS.descriptors)
            found.append([np.nanmean(values) for values in (result.fitness, result.corrected, true)])
        believed, corrected, true = np.median(found, axis=0)
        print(f"{samples:>7} {CALLS // samples:>12,} {believed:>9.4f} {corrected:>9.4f} {true:>9.4f}", flush=True)


if __name__ == "__main__":
    main()
