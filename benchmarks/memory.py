"""Peak memory over the number of tasks, and over many runs in one process.

    python benchmarks/memory.py

For the tasks, numbers at which a square table of neighbours does not fit; each runs in its own process. The peak with
20,000 tasks is subtracted, so that the memory of Python, JAX and the compiler does not count. For the runs, each has a
new function: 1,000 Python functions, and 300 JAX functions, each of which is compiled.
"""

import resource
import subprocess
import sys
from typing import Any

import numpy as np

import taskelites as te

SIZES = (20_000, 100_000, 200_000, 400_000)
ALGORITHMS = ("mt-map-elites", "auto")


def peak(algorithm: str, tasks: int) -> float:
    """Return the peak memory, in MB, of a process that solves `tasks` tasks."""
    done = subprocess.run([sys.executable, __file__, algorithm, str(tasks)], check=True, capture_output=True, text=True)
    return float(done.stdout)


def print_peak(algorithm: str, tasks: int) -> None:
    points = np.random.default_rng(0).random((tasks, 2))
    te.solve(te.domain("arm", tasks=points), evaluations=200_000, algorithm=algorithm, progress=False)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def print_runs(kind: str, runs: int) -> None:
    """Print the peak memory after a tenth of the runs and after all of them."""
    tasks = np.random.default_rng(0).random((200, 2))
    for run in range(1, runs + 1):

        def fitness(solution: Any, task: Any, run: int = run) -> Any:
            return -abs(solution[0] - task[0]) / run

        call: Any = "each" if kind == "Python" else "jax"
        te.solve(fitness, tasks, bounds=(0, 1), dim=5, evaluations=640, seed=run, call=call, progress=False)
        if run in (runs // 10, runs):
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{run:,} runs of {kind} functions: {peak:.0f} MB", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["runs"]:
        print_runs(sys.argv[2], int(sys.argv[3]))
    elif len(sys.argv) > 1:
        print_peak(sys.argv[1], int(sys.argv[2]))
    else:
        for name in ALGORITHMS:
            base = peak(name, SIZES[0])
            print(f"{name}, {SIZES[0]:,} tasks: {base:.0f} MB in total", flush=True)
            for size in SIZES[1:]:
                more = peak(name, size) - base
                print(
                    f"{size:,} tasks: {more:.0f} MB more, {1e6 * more / (size - SIZES[0]):.0f} bytes per task",
                    flush=True,
                )
        for kind, runs in (("Python", 1000), ("JAX", 300)):
            subprocess.run([sys.executable, __file__, "runs", kind, str(runs)], check=True)
