"""Continue from a result to new tasks: `Result.refine` and `Result.extend`."""

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from taskelites.algorithms import MultiTaskMapElites
from taskelites.algorithms.shared_descent import SharedDescent
from taskelites.errors import InvalidTypeError, InvalidValueError, TaskWarning, whole_number
from taskelites.problem.problem import CALLS, DomainView, Problem, domain_in, is_domain
from taskelites.problem.tasks import Tasks
from taskelites.results.result import Result
from taskelites.search.job import MOST_EVALUATIONS
from taskelites.search.warm_start import warm_initial

__all__ = ["extend", "refine"]

# Prediction errors per task from which its steps are shaped.
_ERRORS = 40


def refine(
    result: Result, new_tasks: Any, fitness: Any, *, evaluations: int, method: str | None, options: Mapping[str, Any]
) -> Result:
    """See `Result.refine`."""
    from taskelites.search import solve

    _refuse(options, "refine")
    budget = whole_number("evaluations", evaluations, least=1, most=MOST_EVALUATIONS)
    if fitness is None and is_domain(new_tasks):
        domain = new_tasks
        problem = DomainView(domain).problem
        stated: dict[str, Any] = {"fitness": domain}
    else:
        stated = {**_how(result, fitness, options), "tasks": _as_new(result, new_tasks)}
        problem = Problem(stated["tasks"], stated["bounds"], stated["dim"])
    tasks = problem.finite_tasks("refine")
    if budget < len(tasks):
        raise InvalidValueError(
            f"evaluations must be at least {len(tasks):,}, one for the prediction of each new task, not {budget:,}"
        )
    # Descent needs results in the order of their candidates, which an asynchronous run does not keep.
    usual = MultiTaskMapElites(random_start=1) if options.get("mode") == "async" else _descent(result, tasks, method)
    initial = _proposals(result, problem, method)
    with warnings.catch_warnings():
        # Few tasks are enough here, since the solutions come from the tasks of the result.
        warnings.filterwarnings("ignore", ".* few for many-task search", TaskWarning)
        return solve(**{"algorithm": usual, **options, **stated}, evaluations=budget, initial=initial)


def _descent(result: Result, tasks: Tasks, method: str | None) -> SharedDescent:
    """Return the search, with steps shaped by the errors of the predictions around each task."""
    chosen = result.predict(tasks, method, report=True).method
    errors, near = result.predictor.errors_around(result.positions_of(tasks), chosen, _ERRORS)
    digest = hashlib.sha256(errors.tobytes() + near.tobytes()).hexdigest()[:12]
    return SharedDescent(errors=errors, near=near, digest=digest)


def _proposals(result: Result, problem: Problem, method: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the solutions to evaluate first and the numbers of their tasks, those of the best method first.

    They do not depend on the budget, so that it can be raised later.
    """
    tasks = problem.tasks
    best = result.predict(tasks, method, report=True)
    others = [name for name in sorted(best.errors, key=lambda name: best.errors[name]) if name != best.method]
    rows = [best.solutions, *(result.predict(tasks, name) for name in others)]
    solutions = np.clip(np.stack(rows), problem.lower, problem.upper)
    fresh = [(solutions[i] != solutions[:i]).any(axis=2).all(axis=0) for i in range(len(solutions))]
    numbers = [np.flatnonzero(each) for each in fresh]
    return np.concatenate([rows[each] for rows, each in zip(solutions, fresh, strict=True)]), np.concatenate(numbers)


def extend(result: Result, new_tasks: Any, fitness: Any, *, evaluations: int, options: Mapping[str, Any]) -> Result:
    """See `Result.extend`."""
    from taskelites.search import solve

    _refuse(options, "extend")
    stated = {**_how(result, fitness, options), "tasks": _joined(result.tasks, _as_new(result, new_tasks))}
    solutions, numbers = warm_initial(result, Problem(stated["tasks"], stated["bounds"], stated["dim"]))
    new_first = np.argsort(numbers < len(result), kind="stable")
    initial = solutions[new_first], numbers[new_first]
    found = solve(**{**options, **stated}, evaluations=evaluations, initial=initial)
    return _no_worse(found, result)


def _no_worse(found: Result, earlier: Result) -> Result:
    """Return `found`, with the elites of `earlier` on its tasks where those are better."""
    kept = np.zeros(len(found), bool)
    kept[: len(earlier)] = earlier.solved & ~(found.fitness[: len(earlier)] >= earlier.fitness)
    if not kept.any():
        return found
    old = np.flatnonzero(kept)
    solutions, fitness, last = found.solutions.copy(), found.fitness.copy(), found.last_improved.copy()
    solutions[old], fitness[old], last[old] = earlier.solutions[old], earlier.fitness[old], 0
    return replace(found, solutions=solutions, fitness=fitness, last_improved=last)


def _refuse(options: Mapping[str, Any], name: str) -> None:
    for taken in ("tasks", "initial", "warm_start", "replicates"):
        if taken in options:
            raise InvalidTypeError(f"{name} takes no {taken}; use te.solve(..., warm_start=result), which takes it")


def _how(result: Result, fitness: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fitness with its bounds, call and behaviour: the user's, else a domain's, else the result's."""
    if fitness is None:
        raise InvalidTypeError("fitness must be given, since a result does not contain the function")
    settings = result.settings
    if (domain := domain_in(fitness)) is not None:
        usual = {name: getattr(domain, name) for name in ("bounds", "dim", "behaviour", "call", "setup")}
        fitness = domain.fitness
    else:
        call = settings.get("call")
        usual = {"bounds": settings.get("bounds"), "dim": None, "call": call if call in CALLS else None}
        usual["behaviour"] = settings.get("behaviour")
    stated = {name: options.get(name, value) for name, value in usual.items()}
    if stated["bounds"] is None:
        raise InvalidTypeError("bounds must be given, since the settings of this result do not have them")
    if stated["dim"] is None and np.ndim(stated["bounds"]) == 1:
        stated["dim"] = result.solutions.shape[1]
    return {"fitness": fitness, **stated}


def _as_new(result: Result, new_tasks: Any) -> Tasks:
    """Return new tasks of the same kind as those of the result."""
    old = result.tasks
    if isinstance(new_tasks, Tasks):
        if (new_tasks.objects is None) != (old.objects is None):
            kinds = ["rows of descriptors" if tasks.objects is None else "objects" for tasks in (new_tasks, old)]
            raise InvalidValueError(f"new_tasks must be {kinds[1]}, as the tasks of the result, not {kinds[0]}")
        return new_tasks
    if old.objects is not None:
        raise InvalidValueError(
            "new_tasks must be te.Tasks(objects, descriptors=...), since the fitness of this result receives objects"
        )
    result.positions_of(new_tasks)  # raises if they do not fit
    return Tasks(descriptors=new_tasks, scale=old.scale, names=old.names)


def _joined(old: Tasks, new: Tasks) -> Tasks:
    """Return all tasks, the old ones first."""
    if isinstance(old.distance, np.ndarray):
        raise InvalidValueError(
            "tasks with a distance matrix can't be extended, since it has no distances to new ones; make te.Tasks of "
            "old and new tasks and call te.solve(..., warm_start=result)"
        )
    if old.descriptors is not None and (new.descriptors is None or new.dim != old.dim):
        raise InvalidValueError(f"new_tasks must have {old.dim} descriptors, as the tasks of the result, not {new.dim}")
    objects = None if old.objects is None or new.objects is None else [*old.objects, *new.objects]
    both = old.descriptors is not None and new.descriptors is not None
    return Tasks(
        objects,
        descriptors=np.concatenate([old.descriptors, new.descriptors]) if both else None,
        distance=old.distance,
        scale=old.scale,
        names=old.names or None,
    )
