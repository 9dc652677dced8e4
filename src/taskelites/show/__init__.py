"""Plots, films and reports. Every plot draws on given or new matplotlib axes and returns them."""

from taskelites.problem.sketch import Sketch, Stroke
from taskelites.show.analyses import cover, transfer
from taskelites.show.comparison_plots import comparison, finals
from taskelites.show.curve_plots import bandit, curves
from taskelites.show.elites import distribution, parallel_coordinates
from taskelites.show.film import write_film
from taskelites.show.map_plots import map, maps
from taskelites.show.report import report

__all__ = [
    "Sketch",
    "Stroke",
    "bandit",
    "comparison",
    "cover",
    "curves",
    "distribution",
    "finals",
    "map",
    "maps",
    "parallel_coordinates",
    "report",
    "transfer",
    "write_film",
]
