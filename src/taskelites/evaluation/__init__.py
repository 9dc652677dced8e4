"""Calling the fitness: one solution at a time, a batch at a time, or traced by JAX; here, in workers, on clusters."""

from taskelites.evaluation.caller import KINDS, Caller
from taskelites.evaluation.dispatcher import Dispatcher, Failure, Outcomes
from taskelites.evaluation.engines.ray import RayExecutor
from taskelites.evaluation.jax_fitness import JaxFitness, alone, compiled_errors
from taskelites.evaluation.options import EvaluationKeywords, EvaluationOptions, evaluation_signature

__all__ = [
    "KINDS",
    "Caller",
    "Dispatcher",
    "EvaluationKeywords",
    "EvaluationOptions",
    "Failure",
    "JaxFitness",
    "Outcomes",
    "RayExecutor",
    "alone",
    "compiled_errors",
    "evaluation_signature",
]
