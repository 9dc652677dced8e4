"""Algorithms, one file each, and the registry of their names."""

from typing import Any

from taskelites.algorithms.auto import Auto
from taskelites.algorithms.cma_es import CmaEs
from taskelites.algorithms.interface import Candidates, Core, Elites, Evaluation, Info, Settings
from taskelites.algorithms.map_elites_all import MapElitesAll
from taskelites.algorithms.map_elites_random import MapElitesRandom
from taskelites.algorithms.monet import Monet
from taskelites.algorithms.mt_map_elites import MultiTaskMapElites
from taskelites.algorithms.mtmb_map_elites import MultiTaskMultiBehaviour
from taskelites.algorithms.pt_map_elites import ParametricTaskMapElites
from taskelites.algorithms.random_sampling import RandomSampling
from taskelites.errors import InvalidTypeError, one_of
from taskelites.problem.problem import Problem
from taskelites.storage import plain

ALGORITHMS: dict[str, type[Settings]] = {
    "auto": Auto,
    "mt-map-elites": MultiTaskMapElites,
    "map-elites-random": MapElitesRandom,
    "map-elites-all": MapElitesAll,
    "monet": Monet,
    "mtmb-map-elites": MultiTaskMultiBehaviour,
    "pt-map-elites": ParametricTaskMapElites,
    "cma-es": CmaEs,
    "random": RandomSampling,
}

__all__ = [
    "ALGORITHMS",
    "Auto",
    "Candidates",
    "CmaEs",
    "Core",
    "Elites",
    "Evaluation",
    "Info",
    "MapElitesAll",
    "MapElitesRandom",
    "Monet",
    "MultiTaskMapElites",
    "MultiTaskMultiBehaviour",
    "ParametricTaskMapElites",
    "Problem",
    "RandomSampling",
    "Settings",
    "about_algorithm",
    "as_algorithm",
]


def as_algorithm(algorithm: Any) -> Any:
    """Return the settings of the algorithm of that name, or the given settings object after checking it.

    Example:
        >>> from taskelites.algorithms import as_algorithm
        >>> as_algorithm("mt-map-elites").tournament
        (1, 10, 50, 100, 500)
    """
    if isinstance(algorithm, str):
        return ALGORITHMS[one_of("algorithm", algorithm, ALGORITHMS)]()
    if isinstance(algorithm, type) or not hasattr(algorithm, "bind"):
        raise InvalidTypeError(
            f"algorithm must be a name or a settings object such as te.MultiTaskMapElites(), not {algorithm!r}"
        )
    if not isinstance(getattr(algorithm, "name", None), str):
        raise InvalidTypeError(
            f"algorithm must have a name, but {type(algorithm).__name__} has none; add name: ClassVar[str] = ..."
        )
    return algorithm


def about_algorithm(settings: Any) -> dict[str, Any]:
    """Return the name and the settings of an algorithm as JSON-compatible values.

    Example:
        >>> about_algorithm(RandomSampling())
        {'name': 'random', 'type': 'RandomSampling'}
    """
    about = plain(settings)
    return {"name": settings.name} | (about if isinstance(about, dict) else {"type": about})
