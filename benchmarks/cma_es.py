"""Time of CMA-ES on 5000 tasks: all tasks at once in taskelites, against one task after another with `cma`.

    python benchmarks/cma_es.py

For taskelites, the time is a whole compiled run of the arm: 1,000,000 evaluations with history, without compilation.
The `cma` package runs on a sample of the tasks, with 200 evaluations each and a fitness in NumPy, and its time is
scaled to all tasks. The time of its `ask` and `tell` alone is shown as well. Both run in turn.
"""

import argparse
import time

import numpy as np

import taskelites as te
from taskelites.experiments.comparison.pycma import new_strategy

TASKS, EACH, DIM = 5000, 200, 10


def distance(solutions: np.ndarray, task: np.ndarray) -> np.ndarray:
    heading = np.cumsum((solutions - 0.5) * task[0] * (2 * np.pi / DIM), axis=1)
    x, y = np.cos(heading).sum(axis=1) * task[1] / DIM, np.sin(heading).sum(axis=1) * task[1] / DIM
    return np.hypot(x - 1, y - 1)


def time_cma(settings: te.algorithms.CmaEs, tasks: np.ndarray) -> tuple[float, float, float]:
    """Return seconds in total, seconds outside of the fitness, and the mean of the best values."""
    outside, best = 0.0, []
    begin = time.perf_counter()
    for seed, task in enumerate(tasks):
        mark = time.perf_counter()
        strategy = new_strategy(settings, DIM, seed)
        least = np.inf
        for _ in range(EACH // strategy.popsize):
            asked = strategy.ask()
            outside += time.perf_counter() - mark
            values = distance(np.array(asked), task)
            mark = time.perf_counter()
            least = min(least, values.min())
            strategy.tell(asked, values.tolist())
        outside += time.perf_counter() - mark
        best.append(least)
    return time.perf_counter() - begin, outside, float(np.mean(best))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=50, help="number of tasks on which cma runs, per round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    arm = te.domain("arm", tasks=TASKS, dim=DIM)
    for name, settings in {
        "settings of the paper": te.algorithms.CmaEs(),
        "defaults of cma 4.5": te.algorithms.CmaEs(penalty=False, max_std=1 / 3),
    }.items():
        te.solve(arm, evaluations=TASKS * EACH, algorithm=settings)  # compiles
        ratios, ask_tell_ratios = [], []
        for turn in range(options.rounds):
            begin = time.perf_counter()
            result = te.solve(arm, evaluations=TASKS * EACH, algorithm=settings, seed=turn)
            ours = time.perf_counter() - begin
            sample = np.random.default_rng(turn).choice(TASKS, options.sample, replace=False)
            total, outside, _ = time_cma(settings, arm.tasks.descriptors[sample])
            scale = TASKS / options.sample
            ratios.append(total * scale / ours)
            ask_tell_ratios.append(outside * scale / ours)
            print(f"  taskelites {ours:.2f} s (gap {result.gap:.3g}), cma {total * scale:.0f} s, "
                  f"of which ask and tell {outside * scale:.0f} s")  # fmt: skip
        print(f"{name}: {np.median(ratios):.0f} times faster than cma ({min(ratios):.0f} to {max(ratios):.0f}); "
              f"than ask and tell alone, {np.median(ask_tell_ratios):.0f} times")  # fmt: skip


if __name__ == "__main__":
    main()
