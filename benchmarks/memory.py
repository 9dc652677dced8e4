"""How memory grows with the number of tasks, where no square table of neighbours fits.

    python benchmarks/memory.py

Each size runs in a process of its own; the peak of one with 20,000 tasks is taken off, so that Python, JAX and the
compiler do not count.
"""

import resource
import subprocess
import sys

import numpy as np

import taskelites as te

SIZES = (20_000, 100_000, 200_000, 400_000)


def peak(tasks: int) -> float:
    """The peak memory in MB of a process that solves so many tasks."""
    done = subprocess.run([sys.executable, __file__, str(tasks)], check=True, capture_output=True, text=True)
    return float(done.stdout)


def solve(tasks: int) -> None:
    points = np.random.default_rng(0).random((tasks, 2))
    te.solve(te.domain("arm", tasks=points), evaluations=200_000, progress=False)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        solve(int(sys.argv[1]))
    else:
        base = peak(SIZES[0])
        print(f"{SIZES[0]:,} tasks: {base:.0f} MB in all")
        for size in SIZES[1:]:
            more = peak(size) - base
            print(f"{size:,} tasks: {more:.0f} MB more, {1e6 * more / (size - SIZES[0]):.0f} bytes a task")
