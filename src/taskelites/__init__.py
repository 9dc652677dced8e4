"""The best solution for every task: many-task optimisation by quality diversity.

>>> import numpy as np, taskelites as te
>>> def fitness(solution, task):
...     return -np.abs(solution - task[0]).sum()
>>> te.solve(fitness, np.linspace(0, 1, 200)[:, None], bounds=(0, 1), dim=2, evaluations=1000)
<Result: ... of 200 tasks solved, mean fitness -..., 1,000 evaluations>
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taskelites import algorithms, show
    from taskelites import analysis as analysis
    from taskelites import errors as errors
    from taskelites import experiments as experiments
    from taskelites.algorithms import Auto, MultiTaskMapElites
    from taskelites.analysis import cover, reevaluate, transfer
    from taskelites.core import variation as variation
    from taskelites.domains import domain
    from taskelites.errors import FitnessError, Interrupted, StorageError, TaskelitesError
    from taskelites.evaluation import RayExecutor
    from taskelites.experiments import Comparison, bench, compare
    from taskelites.problem import tasks
    from taskelites.problem.problem import Domain
    from taskelites.problem.tasks import Box, Tasks
    from taskelites.results.result import Result, load
    from taskelites.runs import callbacks
    from taskelites.search import Optimizer, Target, solve

__version__ = "0.1.0"

__all__ = [
    "Auto",
    "Box",
    "Comparison",
    "Domain",
    "FitnessError",
    "Interrupted",
    "MultiTaskMapElites",
    "Optimizer",
    "RayExecutor",
    "Result",
    "StorageError",
    "Target",
    "TaskelitesError",
    "Tasks",
    "algorithms",
    "bench",
    "callbacks",
    "compare",
    "cover",
    "domain",
    "load",
    "reevaluate",
    "show",
    "solve",
    "tasks",
    "transfer",
]

# The room of each name, imported on first use: a worker imports the user's module, which imports this one for its
# `te.Domain`, and JAX in every worker would cost a second and a hundred megabytes each.
_ROOM_OF = {
    "Auto": "algorithms",
    "Box": "problem.tasks",
    "Comparison": "experiments",
    "Domain": "problem.problem",
    "FitnessError": "errors",
    "Interrupted": "errors",
    "MultiTaskMapElites": "algorithms",
    "Optimizer": "search",
    "RayExecutor": "evaluation",
    "Result": "results.result",
    "StorageError": "errors",
    "Target": "search",
    "TaskelitesError": "errors",
    "Tasks": "problem.tasks",
    "bench": "experiments",
    "compare": "experiments",
    "cover": "analysis",
    "domain": "domains",
    "load": "results.result",
    "reevaluate": "analysis",
    "solve": "search",
    "transfer": "analysis",
}
# Public modules; all names that are not at the top are in one of these.
_MODULES = {
    "algorithms": "algorithms",
    "analysis": "analysis",
    "callbacks": "runs.callbacks",
    "errors": "errors",
    "experiments": "experiments",
    "show": "show",
    "tasks": "problem.tasks",
    "variation": "core.variation",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{_MODULES[name]}")
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
