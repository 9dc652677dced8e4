"""How well the best elites of a map do on all of its tasks: would a copy of one be enough?"""

import hashlib
import json
import math
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from taskelites.errors import FitnessError, Interrupted
from taskelites.evaluation import Caller
from taskelites.problem import Domain
from taskelites.result import Result
from taskelites.runs import Interruption
from taskelites.storage import write_whole

# Rows of one call: enough to keep all threads busy, few enough to answer Ctrl-C soon.
BLOCK = 512
_SAVE_SECONDS = 60.0
_SAY_SECONDS = 10.0

Evaluate = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Transfer:
    """The best elites of a map on all tasks that are solved.

    Attributes:
        elites: `(k,)`, the tasks that they are of, the best one first.
        tasks: `(m,)`, those that they were tried on.
        own: `(m,)`, what each task's own elite gives, evaluated again.
        fitness: `(k, m)`; NaN where the evaluation failed.
    """

    elites: np.ndarray
    tasks: np.ndarray
    own: np.ndarray
    fitness: np.ndarray

    def differences(self, first: int | None = None) -> np.ndarray:
        """Fitness of the first so many elites minus that of each task's own elite, `(first, m)`.

        NaN where one of the two failed, and for an elite on its own task, where there is nothing to transfer.
        """
        elites = self.elites[:first]
        found = self.fitness[: len(elites)] - self.own
        return np.where(elites[:, None] == self.tasks, np.nan, found)

    @property
    def failed(self) -> int:
        """How many evaluations gave no number."""
        return int(np.isnan(self.fitness).sum() + np.isnan(self.own).sum())


def best_elites(result: Result, share: float, least: int = 10) -> np.ndarray:
    """The tasks with the best elites, the best one first: a share of all tasks, and at least so many.

    Example:
        >>> import numpy as np, taskelites as te
        >>> tasks = np.linspace(0, 1, 300)[:, None]
        >>> result = te.solve(lambda x, t: x[0] * t[0], tasks, bounds=(0, 1), dim=1, evaluations=2000)
        >>> len(best_elites(result, 0.05))
        15
    """
    order = np.argsort(np.where(result.solved, -result.fitness, np.inf), kind="stable")
    number = max(least, math.ceil(share * len(result)))
    return order[: min(number, int(result.solved.sum()))]


def evaluate_transfer(
    result: Result, domain: Domain, elites: np.ndarray, path: Path, *, progress: bool = False
) -> Transfer:
    """Evaluate elites on all solved tasks, and each task's own elite again.

    What was found is kept in a file now and then; if that is there, of the same map, it goes on from it.

    Args:
        result: the map.
        domain: with the tasks of the map.
        elites: the tasks whose elites are tried.
        path: of the file.
        progress: whether to say how far it is.

    Raises:
        FitnessError: if the fitness raises.
        Interrupted: after Ctrl-C.
    """
    tasks = np.flatnonzero(result.solved)
    number = len(tasks)
    # First each task's own elite, then elite by elite.
    total = number * (1 + len(elites))
    identity = _identity(result, domain, elites)
    values = _kept(path, identity, total)

    def save() -> None:
        def write(file: BinaryIO) -> None:
            np.savez_compressed(file, identity=np.array(identity), total=np.array(total), values=values)

        write_whole(path, write)

    evaluate = evaluator(domain)
    descriptors = domain.tasks.descriptors
    saved = said = time.monotonic()
    with Interruption() as interruption:
        while len(values) < total:
            rows = np.arange(len(values), min(len(values) + BLOCK, total))
            turn, on = rows // number - 1, tasks[rows % number]
            source = np.where(turn < 0, on, elites[turn])
            found = evaluate(result.solutions[source], descriptors[on])
            values = np.concatenate([values, np.where(np.isfinite(found), found, np.nan)])
            now = time.monotonic()
            if interruption.noted or now - saved > _SAVE_SECONDS or len(values) == total:
                save()
                saved = now
            if progress and (now - said > _SAY_SECONDS or len(values) == total):
                print(f"transfer: {len(values):,} of {total:,} evaluations", file=sys.stderr, flush=True)
                said = now
            if interruption.noted and len(values) < total:
                stop = Interrupted(
                    f"interrupted after {len(values):,} of {total:,} evaluations of the transfer; the same again, into "
                    "that folder, goes on"
                )
                stop.signal = interruption.signal
                raise stop
    table = values.reshape(1 + len(elites), number)
    return Transfer(elites=np.asarray(elites), tasks=tasks, own=table[0], fitness=table[1:])


def evaluator(domain: Domain) -> Evaluate:
    """The fitness of a domain on many rows, however it is called: `evaluate(solutions (n, dim), tasks (n, k)) -> (n,)`.

    Example:
        >>> import numpy as np, taskelites as te
        >>> arm = te.domain("arm", tasks=200)
        >>> evaluator(arm)(np.zeros((3, 10)), arm.tasks.descriptors[:3]).shape
        (3,)
    """
    if domain.call == "jax":
        import jax
        import jax.numpy as jnp

        mapped = jax.jit(jax.vmap(domain.fitness))

        def compiled(solutions: np.ndarray, tasks: np.ndarray) -> np.ndarray:
            # Always as many rows, so that it is compiled once.
            rows = -(-len(solutions) // BLOCK) * BLOCK
            padded = [
                jnp.asarray(np.pad(part, ((0, rows - len(part)), (0, 0)), mode="edge")) for part in (solutions, tasks)
            ]
            return np.asarray(mapped(*padded), dtype=np.float64)[: len(solutions)]

        return compiled
    caller = Caller(domain.fitness, domain.call, setup=domain.setup).prepare()

    def called(solutions: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        fitness, _, troubles, _ = caller(solutions, tasks)
        if troubles:
            _, _, message, trace = troubles[0]
            error = FitnessError(message)
            if trace:
                error.add_note(trace)
            raise error
        return np.asarray(fitness)

    return called


def _identity(result: Result, domain: Domain, elites: np.ndarray) -> str:
    """What values that are kept must be of."""
    about = json.dumps({"options": domain.options, "tasks": domain.tasks.digest}, sort_keys=True, default=str)
    parts = [np.ascontiguousarray(part).tobytes() for part in (result.solutions, np.asarray(elites, np.int64))]
    return hashlib.sha256(b"|".join([about.encode(), *parts])).hexdigest()


def _kept(path: Path, identity: str, total: int) -> np.ndarray:
    """The values that are there already; none, if they are of another map, or damaged: they can be made again."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            values: Any = kept["values"]
            if str(kept["identity"]) == identity and int(kept["total"]) == total and values.dtype == np.float64:
                return np.asarray(values[:total])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        pass
    return np.empty(0)
