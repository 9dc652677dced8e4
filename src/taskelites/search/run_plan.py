"""The plan of a run: its arguments as plain values, saved at its start and compared when it resumes."""

import hashlib
import json
from typing import Any

import jax.numpy as jnp
import numpy as np

from taskelites.algorithms import about_algorithm
from taskelites.errors import InvalidValueError
from taskelites.problem.tasks import Tasks
from taskelites.runs.identity import code_of, same_code, text_of
from taskelites.search.job import Job
from taskelites.storage import plain, versions

# A resumed run may differ in these: the budget can be raised, and the others cause a warning.
_MAY_DIFFER = ("evaluations", "versions", "code", "objects")


def problem_of(job: Job) -> dict[str, Any]:
    """Return the problem and how it is evaluated, as plain values that must agree when runs are added or resumed."""
    tasks = job.problem.tasks
    return {
        "problem": job.label,
        "options": plain(job.options),
        "evaluations": job.evaluations,
        "call": job.call,
        **job.problem.about(),
        "versions": versions(),
        "scale": getattr(tasks, "scale", None),
        "objects": text_of(tasks.objects) if isinstance(tasks, Tasks) and tasks.objects is not None else None,
        "code": code_of(job.fitness),
        "bits": jnp.zeros(()).dtype.itemsize * 8 if job.call == "jax" else 64,
        "batch_size": job.batch_size,
        "ahead": job.ahead,
        "behaviour": None if job.problem.behaviour is None else job.problem.behaviour.tolist(),
        "samples": job.evaluation_options.samples,
    }


def plan_of(job: Job, seeds: list[int], *, several: bool) -> dict[str, Any]:
    """Return a job and its seeds as plain values."""
    return {
        **problem_of(job),
        "algorithm": about_algorithm(job.settings),
        "seed": seeds[0],
        "replicates": len(seeds) if several else None,
        "initial": None if job.initial is None else _digest(job.initial.solutions, job.initial.niches),
        "target": None if job.target is None else [_digest(job.target), job.share],
        "mode": job.evaluation_options.mode,
    }


def run_digest(plan: dict[str, Any], replicate: int = 0) -> str:
    """Return a hash of what must agree when a replicate resumes: settings, tasks and its seed.

    Args:
        plan: the plan of the run.
        replicate: the number of the replicate, which is added to the seed.
    """
    kept = {name: value for name, value in plan.items() if name not in (*_MAY_DIFFER, "replicates")}
    kept["seed"] = plan["seed"] + replicate
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def check_plan(before: dict[str, Any], now: dict[str, Any], folder: str) -> list[str]:
    """Compare the plan of a run with the one it resumes with; return warnings, one sentence each.

    Raises:
        ValueError: if they differ in what must agree.
    """
    budget = before.get("evaluations", 0)
    if now["evaluations"] < budget:
        raise InvalidValueError(
            f"evaluations must be at least {budget:,}, the budget of the run in {folder!r}, not "
            f"{now['evaluations']:,}; a budget can only be raised"
        )
    for name, value in now.items():
        kept = before.get(name)
        if name not in _MAY_DIFFER and not equal(kept, value):
            hint = ""
            if name == "bits":
                hint = f" (JAX_ENABLE_X64={int(kept == 64)} in the environment makes it so)"
            raise InvalidValueError(
                f"{folder!r} holds a run with {name} {_short(kept)}, and this one has {_short(value)}{hint}; "
                "make them agree, or name a new folder"
            )
    said = []
    if not same_code(before.get("code"), now["code"]):
        said.append(
            f"the code of the fitness has changed since the run in {folder!r} began, or a value in it (an argument, a "
            "closure variable or an attribute): earlier results come from the old fitness, new ones from the new one. "
            "A counter or a cache of the fitness does no harm"
        )
    if before.get("objects") != now["objects"]:
        said.append(f"the text of the tasks has changed since the run in {folder!r} began: are they the same tasks?")
    changed = [
        f"{name} {old} then, {now['versions'].get(name)} now"
        for name, old in before.get("versions", {}).items()
        if now["versions"].get(name) != old
    ]
    if changed:
        said.append(f"the run continues with other versions ({'; '.join(changed)}), which may round differently")
    return said


def _digest(*arrays: np.ndarray | None) -> str:
    parts = [b"none" if array is None else np.ascontiguousarray(array).tobytes() for array in arrays]
    return hashlib.sha256(b"|".join(parts)).hexdigest()[:12]


def equal(before: Any, now: Any) -> bool:
    """Return whether two values are equal as JSON."""
    return json.dumps(before, sort_keys=True) == json.dumps(now, sort_keys=True)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:400]}..."
