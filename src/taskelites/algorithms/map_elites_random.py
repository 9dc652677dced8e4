"""MAP-Elites with random tasks: children of elites, each evaluated on a task drawn uniformly.

The baseline "vanilla MAP-Elites (random task)" of Mouret and Maguire (GECCO 2020, section 4.1). It is implemented as
Multi-task MAP-Elites with a tournament of size 1. The distance between tasks is not used.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from taskelites.algorithms.interface import valid_random_start
from taskelites.algorithms.mt_map_elites import MultiTaskMapElites, MultiTaskMapElitesCore
from taskelites.core.variation import IsoLine, as_variation
from taskelites.problem.problem import Problem


@dataclass(frozen=True, kw_only=True)
class MapElitesRandom:
    """Settings of MAP-Elites with random tasks.

    Args:
        variation: see `MultiTaskMapElites`.
        random_start: number of initial random solutions, rounded up to full batches, or a share of the number of tasks.

    Example:
        >>> import taskelites as te
        >>> arm = te.domain("arm", tasks=300)
        >>> result = te.solve(arm, evaluations=10_000, algorithm=te.algorithms.MapElitesRandom(variation="sbx"))
        >>> result.coverage
        1.0
    """

    name: ClassVar[str] = "map-elites-random"
    uses_distance: ClassVar[bool] = False

    variation: Any = field(default_factory=IsoLine)
    random_start: int | float = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "variation", as_variation(self.variation))
        object.__setattr__(self, "random_start", valid_random_start(self.random_start))

    def bind(self, problem: Problem, batch_size: int = 64) -> MultiTaskMapElitesCore:
        """Return the core of the algorithm for a problem, in JAX's default precision."""
        problem.finite_tasks(self.name)
        same = MultiTaskMapElites(tournament=1, variation=self.variation, random_start=self.random_start)
        return same.bind(problem, batch_size)
