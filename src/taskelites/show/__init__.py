"""Plots, each of which takes matplotlib axes to draw on and returns those it drew on; and films."""

from taskelites.show.contest import comparison, curves, finals
from taskelites.show.drawing import map, maps
from taskelites.show.film import write_film
from taskelites.show.report import report

__all__ = ["comparison", "curves", "finals", "map", "maps", "report", "write_film"]
