"""Calling the fitness: one solution at a time, a batch at a time, or traced by JAX; here, in workers, on clusters."""

from taskelites.evaluation.calling import KINDS, Caller
from taskelites.evaluation.dispatch import Dispatcher, Failure, Outcomes
from taskelites.evaluation.manner import Manner
from taskelites.evaluation.ray_executor import RayExecutor
from taskelites.evaluation.traced import TracedFitness, alone

__all__ = ["KINDS", "Caller", "Dispatcher", "Failure", "Manner", "Outcomes", "RayExecutor", "TracedFitness", "alone"]
