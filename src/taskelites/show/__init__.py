"""Plots, each of which takes matplotlib axes to draw on and returns those it drew on; and films."""

from taskelites.show.contest import comparison, curves, finals
from taskelites.show.drawing import map, maps
from taskelites.show.film import write_film

__all__ = ["comparison", "curves", "finals", "map", "maps", "write_film"]
