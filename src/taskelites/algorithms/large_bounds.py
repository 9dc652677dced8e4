"""Binding of an algorithm to a problem whose bounds may be near the largest float.

The width of such a box, or the square of a distance in it, overflows. The algorithm then works in a smaller box: each
large dimension is divided by a power of two, which is exact.
"""

import dataclasses
from typing import Any

import numpy as np
from jax import Array, dtypes

from taskelites.algorithms.interface import Candidates, Core, Elites, Evaluation, Info, Kept, replace
from taskelites.core.pytree import constant, record
from taskelites.problem.problem import Problem


def bind(settings: Any, problem: Problem, batch_size: int) -> Core:
    """Return the core of an algorithm for a problem with any bounds, in JAX's default precision.

    Example:
        >>> import numpy as np, taskelites as te
        >>> problem = te.algorithms.Problem(np.random.rand(300, 2), bounds=(-1e30, 1e30), dim=2)
        >>> type(bind(te.MultiTaskMapElites(), problem, 64)).__name__  # in 32 bits, squares of 1e30 overflow
        'ScaledCore'
    """
    limits = np.finfo(dtypes.canonicalize_dtype(np.float64))
    bounds = np.clip(problem.bounds, float(limits.min), float(limits.max))
    is_large = np.abs(bounds).max(axis=1) > 2.0 ** (limits.maxexp // 2)
    if not is_large.any():
        core: Core = settings.bind(problem, batch_size)
        return core
    unit = np.where(is_large, 2.0 ** (3 * limits.maxexp // 5), 1.0)
    scaled = dataclasses.replace(problem, bounds=bounds / unit[:, None])
    return ScaledCore(core=settings.bind(scaled, batch_size), unit=constant(unit))


@record
class ScaledCore(Core):
    """A core in a smaller box.

    Attributes:
        core: the core of the algorithm.
        unit: the factor of each dimension, shape `(dim,)`.
    """

    core: Any
    unit: Array

    @property
    def any_order(self) -> bool:  # type: ignore[override]
        """Whether candidates can be told in any order and grouping."""
        return bool(self.core.any_order)

    @property
    def behaviour_dim(self) -> int:
        """Number of behaviour values that the core needs."""
        return int(self.core.behaviour_dim)

    @property
    def rows(self) -> int:
        """Number of candidates per `ask`."""
        return int(self.core.rows)

    @property
    def batch_size(self) -> int:
        """Batch size of the core, or its number of candidates."""
        return int(getattr(self.core, "batch_size", self.core.rows))

    def init(self, key: Array) -> Any:
        """Return the initial state."""
        return self.core.init(key)

    def ask(self, state: Any) -> tuple[Candidates, Any]:
        """Return the next candidates and the new state."""
        candidates, state = self.core.ask(state)
        return self._larger(candidates), state

    def tell(self, state: Any, candidates: Candidates, evaluation: Evaluation) -> tuple[Any, Info]:
        """Update the state with evaluated candidates."""
        told: tuple[Any, Info] = self.core.tell(state, self._smaller(candidates), evaluation)
        return told

    def opening(self, state: Any) -> Candidates | None:
        """Return candidates to evaluate before the first step."""
        candidates = self.core.opening(state)
        return None if candidates is None else self._larger(candidates)

    def adopt(self, state: Any, candidates: Candidates, evaluation: Evaluation) -> Any:
        """Update the state with candidates evaluated before the first step."""
        return self.core.adopt(state, self._smaller(candidates), evaluation)

    def elites(self, state: Any) -> Elites:
        """Return the best solution per task."""
        elites = self.core.elites(state)
        archive = replace(elites.archive, solutions=elites.archive.solutions * self.unit)
        return Elites(archive, elites.tasks)

    def kept(self, state: Any) -> Kept | None:
        """Return the solutions for `Result.repertoire`."""
        kept = self.core.kept(state)
        return None if kept is None else Kept(kept.numbers, kept.solutions * self.unit, *kept[2:])

    def diagnostics(self, state: Any) -> dict[str, Any]:
        """Return additional columns of the history."""
        return dict(self.core.diagnostics(state))

    def _larger(self, candidates: Candidates) -> Candidates:
        return replace(candidates, solutions=candidates.solutions * self.unit)

    def _smaller(self, candidates: Candidates) -> Candidates:
        return replace(candidates, solutions=candidates.solutions / self.unit)
