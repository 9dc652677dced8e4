"""Plots. Each takes `ax=` and returns the axes."""

from taskelites.show.maps import map

__all__ = ["map"]
