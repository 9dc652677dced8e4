"""Fitness evaluation: per solution, per batch or compiled by JAX, in this process, in workers or on a cluster."""

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
