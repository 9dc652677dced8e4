"""Calling the fitness: one solution at a time, a batch at a time, or traced by JAX."""

from taskelites.evaluation.host import HostEvaluator, HostResults
from taskelites.evaluation.traced import TracedFitness

__all__ = ["HostEvaluator", "HostResults", "TracedFitness"]
