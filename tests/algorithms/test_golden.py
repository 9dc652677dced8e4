"""The same seed gives the same results in every version, for every registered algorithm.

A change of these numbers is a "Results change" in the changelog.
"""

import numpy as np
import pytest
from spheres import sphere

import taskelites as te
from taskelites.algorithms import ALGORITHMS

TASKS = np.linspace(0, 1, 40)[:, None]
# Sum of the elites' fitness, and sum of their solutions weighted by the task index.
GOLDEN = {
    "auto": (-0.5388426258290618, 1051.6418063621713),
    "mt-map-elites": (-0.6152964837520634, 1055.6694116699691),
    "map-elites-random": (-2.5404503015165174, 1050.9731041704022),
    "map-elites-all": (-7.217966479906596, 911.9530052613222),
    "monet": (-1.0874626454831078, 1052.8507898707235),
    "mtmb-map-elites": (-6.281763099093142, 1049.2667073413038),
    "pt-map-elites": (-0.6769873515858232, 1042.2045135791664),
    "cma-es": (-3.73505829654815, 1052.66724288991),
    "random": (-8.487387681089333, 994.9441177555228),
}


def described(solutions, tasks):
    return sphere(solutions, tasks), solutions[:, :1]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_results_of_seed_are_unchanged(name):
    paired = name == "mtmb-map-elites"
    options = {"behaviour": [(-1, 1)]} if paired else {}
    result = te.solve(
        described if paired else sphere,
        TASKS,
        bounds=(-1, 1),
        dim=2,
        evaluations=2000,
        call="batch",
        algorithm=name,
        batch_size=16,
        seed=3,
        **options,
    )
    solved = np.flatnonzero(result.solved)
    found = (result.fitness[solved].sum(), (solved @ result.solutions[solved]).sum())
    assert found == pytest.approx(GOLDEN[name], rel=1e-9)
