"""Plots. Each takes matplotlib axes to draw on, and returns those it drew on."""

from taskelites.show.drawing import map, maps

__all__ = ["map", "maps"]
