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
    from taskelites import show
    from taskelites.algorithms import (
        Auto,
        CmaEs,
        MapElitesAll,
        MapElitesRandom,
        Monet,
        MultiTaskMapElites,
        MultiTaskMultiBehaviour,
        ParametricTaskMapElites,
        RandomSampling,
    )
    from taskelites.analysis import Cover, Transfer, cover, reevaluate, transfer
    from taskelites.core.variation import SBX, Gaussian, IsoLine, Polynomial
    from taskelites.domains import domain
    from taskelites.errors import (
        FitnessError,
        FitnessWarning,
        Interrupted,
        RunInUseError,
        StorageError,
        TaskelitesError,
        TaskWarning,
        UserError,
    )
    from taskelites.evaluation import RayExecutor
    from taskelites.experiments import Bench, Comparison, bench, compare
    from taskelites.problem import tasks
    from taskelites.problem.problem import Domain, Problem
    from taskelites.problem.sketch import Sketch, Stroke
    from taskelites.problem.tasks import Box, Tasks
    from taskelites.results.prediction import Prediction
    from taskelites.results.repertoire import Repertoire
    from taskelites.results.result import Result, load
    from taskelites.runs import callbacks, failures
    from taskelites.search import Optimizer, Target, solve

__version__ = "0.1.0"

__all__ = [
    "SBX",
    "Auto",
    "Bench",
    "Box",
    "CmaEs",
    "Comparison",
    "Cover",
    "Domain",
    "FitnessError",
    "FitnessWarning",
    "Gaussian",
    "Interrupted",
    "IsoLine",
    "MapElitesAll",
    "MapElitesRandom",
    "Monet",
    "MultiTaskMapElites",
    "MultiTaskMultiBehaviour",
    "Optimizer",
    "ParametricTaskMapElites",
    "Polynomial",
    "Prediction",
    "Problem",
    "RandomSampling",
    "RayExecutor",
    "Repertoire",
    "Result",
    "RunInUseError",
    "Sketch",
    "StorageError",
    "Stroke",
    "Target",
    "TaskWarning",
    "TaskelitesError",
    "Tasks",
    "Transfer",
    "UserError",
    "bench",
    "callbacks",
    "compare",
    "cover",
    "domain",
    "failures",
    "load",
    "reevaluate",
    "show",
    "solve",
    "tasks",
    "transfer",
]

# Where each name is, found when it is first used: a worker imports the user's module, which imports this one for its
# `te.Domain`, and JAX in every worker would cost a second and a hundred megabytes each.
_ROOMS = {
    "algorithms": (
        *("Auto", "CmaEs", "MapElitesAll", "MapElitesRandom", "Monet", "MultiTaskMapElites"),
        *("MultiTaskMultiBehaviour", "ParametricTaskMapElites", "RandomSampling"),
    ),
    "analysis": ("Cover", "Transfer", "cover", "reevaluate", "transfer"),
    "domains": ("domain",),
    "errors": (
        *("FitnessError", "FitnessWarning", "Interrupted", "RunInUseError"),
        *("StorageError", "TaskWarning", "TaskelitesError", "UserError"),
    ),
    "evaluation": ("RayExecutor",),
    "experiments": ("Bench", "Comparison", "bench", "compare"),
    "problem.problem": ("Domain", "Problem"),
    "problem.sketch": ("Sketch", "Stroke"),
    "problem.tasks": ("Box", "Tasks"),
    "results.prediction": ("Prediction",),
    "results.repertoire": ("Repertoire",),
    "results.result": ("Result", "load"),
    "runs": ("failures",),
    "search": ("Optimizer", "Target", "solve"),
    "core.variation": ("SBX", "Gaussian", "IsoLine", "Polynomial"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}
_MODULES = {"callbacks": "runs.callbacks", "show": "show", "tasks": "problem.tasks"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{_MODULES[name]}")
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
