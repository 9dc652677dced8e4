"""List the files and functions that one `te.solve` of a Python function goes through, in order.

Run it as a script to read the code in this order. The second of two runs is listed, so imports, compilation and cache
misses are not included. Comprehensions and lambdas are omitted, since they have no name.
"""

import sys
from pathlib import Path

import numpy as np

import taskelites as te

ROOT = Path(te.__file__).parent
ROOMS = ("search", "evaluation", "runs", "results")


def walk():
    """Return the functions of `ROOMS`, by file, in the order of their first call."""
    tasks = np.random.default_rng(0).random((300, 2))

    def solve():
        te.solve(lambda solution, task: -abs(solution[0] - task[0]), tasks, bounds=(0, 1), dim=3, evaluations=1000)

    seen = {}

    def note(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        name = frame.f_code.co_qualname
        if event == "call" and path.is_relative_to(ROOT) and not name.endswith(">"):
            file = path.relative_to(ROOT)
            if file.parts[0] in ROOMS:
                seen.setdefault(file.as_posix(), {}).setdefault(name)

    solve()
    sys.setprofile(note)
    try:
        solve()
    finally:
        sys.setprofile(None)
    return {file: list(names) for file, names in seen.items()}


if __name__ == "__main__":
    found = walk()
    for file, names in found.items():
        print(file, *names, sep="\n    ")
    print(f"{len(found)} files, {sum(map(len, found.values()))} functions")
