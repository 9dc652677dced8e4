"""Peak memory over the number of tasks, for numbers at which a square table of neighbours does not fit.

    python benchmarks/memory.py

Each number of tasks runs in its own process. The peak with 20,000 tasks is subtracted, so that the memory of Python,
JAX and the compiler does not count.
"""

import resource
import subprocess
import sys

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


if __name__ == "__main__":
    if len(sys.argv) > 1:
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
