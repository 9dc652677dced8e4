"""The best solution for every task: many-task optimisation by quality diversity.

>>> import numpy as np, taskelites as te
>>> def fitness(solution, task):
...     return -np.abs(solution - task[0]).sum()
>>> te.solve(fitness, np.linspace(0, 1, 200)[:, None], bounds=(0, 1), dim=2, evaluations=1000)
<Result: ... of 200 tasks solved, mean fitness -..., 1,000 evaluations>
"""

from taskelites import callbacks, show, tasks
from taskelites.algorithms import CmaEs, MapElitesAll, MapElitesRandom, MultiTaskMapElites, RandomSampling
from taskelites.domains import domain
from taskelites.errors import FitnessError, FitnessWarning, Interrupted, RunInUseError, TaskWarning
from taskelites.evaluation import RayExecutor
from taskelites.experiments import Comparison, compare
from taskelites.problem import Domain, Problem
from taskelites.result import Result, load
from taskelites.runs import read_failures as failures
from taskelites.search import Optimizer, Target, solve
from taskelites.tasks import Box, Tasks
from taskelites.variation import SBX, Gaussian, IsoLine, Polynomial

__version__ = "0.1.0"

__all__ = [
    "SBX",
    "Box",
    "CmaEs",
    "Comparison",
    "Domain",
    "FitnessError",
    "FitnessWarning",
    "Gaussian",
    "Interrupted",
    "IsoLine",
    "MapElitesAll",
    "MapElitesRandom",
    "MultiTaskMapElites",
    "Optimizer",
    "Polynomial",
    "Problem",
    "RandomSampling",
    "RayExecutor",
    "Result",
    "RunInUseError",
    "Target",
    "TaskWarning",
    "Tasks",
    "callbacks",
    "compare",
    "domain",
    "failures",
    "load",
    "show",
    "solve",
    "tasks",
]
