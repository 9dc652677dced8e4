"""Plots. Each takes matplotlib axes to draw on, and returns those it drew on."""

from taskelites.show.contest import comparison, curves, finals
from taskelites.show.drawing import map, maps

__all__ = ["comparison", "curves", "finals", "map", "maps"]
