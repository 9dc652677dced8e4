"""CMA-ES on 5000 tasks: ours for all at once against the `cma` package, task after task, in turns.

    python benchmarks/cma_es.py

Ours is a whole compiled run of the arm (1,000,000 evaluations, history included, compilation excluded). The package
runs on some of the tasks, with the same 200 evaluations each and a fitness in NumPy, and its time is scaled to all of
them; beside the whole of it stands what its own `ask` and `tell` take.
"""

import argparse
import time

import numpy as np

import taskelites as te
from taskelites.experiments.comparison.pycma import new_strategy

TASKS, EACH, DIM = 5000, 200, 10


def reach(solutions: np.ndarray, task: np.ndarray) -> np.ndarray:
    heading = np.cumsum((solutions - 0.5) * task[0] * (2 * np.pi / DIM), axis=1)
    x, y = np.cos(heading).sum(axis=1) * task[1] / DIM, np.sin(heading).sum(axis=1) * task[1] / DIM
    return np.hypot(x - 1, y - 1)


def package(settings: te.algorithms.CmaEs, tasks: np.ndarray) -> tuple[float, float, float]:
    """Seconds for these tasks in all, those outside of the fitness, and the mean of the best values."""
    outside, best = 0.0, []
    begin = time.perf_counter()
    for seed, task in enumerate(tasks):
        mark = time.perf_counter()
        strategy = new_strategy(settings, DIM, seed)
        least = np.inf
        for _ in range(EACH // strategy.popsize):
            asked = strategy.ask()
            outside += time.perf_counter() - mark
            values = reach(np.array(asked), task)
            mark = time.perf_counter()
            least = min(least, values.min())
            strategy.tell(asked, values.tolist())
        outside += time.perf_counter() - mark
        best.append(least)
    return time.perf_counter() - begin, outside, float(np.mean(best))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=50, help="tasks that the package runs on, each round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    arm = te.domain("arm", tasks=TASKS, dim=DIM)
    for name, settings in {
        "as the paper had it": te.algorithms.CmaEs(),
        "as cma 4.5 is": te.algorithms.CmaEs(penalty=False, max_std=1 / 3),
    }.items():
        te.solve(arm, evaluations=TASKS * EACH, algorithm=settings)  # compiles
        ratios, own_ratios = [], []
        for turn in range(options.rounds):
            begin = time.perf_counter()
            result = te.solve(arm, evaluations=TASKS * EACH, algorithm=settings, seed=turn)
            ours = time.perf_counter() - begin
            sample = np.random.default_rng(turn).choice(TASKS, options.sample, replace=False)
            whole, outside, _ = package(settings, arm.tasks.descriptors[sample])
            scale = TASKS / options.sample
            ratios.append(whole * scale / ours)
            own_ratios.append(outside * scale / ours)
            print(f"  ours {ours:.2f} s (gap {result.gap:.3g}), the package {whole * scale:.0f} s, "
                  f"of which ask and tell {outside * scale:.0f} s")  # fmt: skip
        print(f"{name}: {np.median(ratios):.0f} times faster ({min(ratios):.0f} to {max(ratios):.0f}); "
              f"than ask and tell alone, {np.median(own_ratios):.0f} times")  # fmt: skip


if __name__ == "__main__":
    main()
