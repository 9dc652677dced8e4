"""Fitness functions that JAX can trace, written for one solution and called by `vmap`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MethodType
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from taskelites.algorithms import Candidates, Evaluation
from taskelites.algorithms.interface import described
from taskelites.errors import FitnessError


def alone(fitness: Callable[..., Any], behaviour_dim: int) -> Callable[..., Any]:
    """Return a traceable function that returns the fitness without the behaviour."""
    return (lambda solution, task: fitness(solution, task)[0]) if behaviour_dim else fitness


@contextmanager
def compiled_errors() -> Iterator[None]:
    """Raise errors inside a compiled program as a `FitnessError`."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        if not _is_of_jax(error):
            raise
        reason = str(error).split("\n", 1)[0]
        raise FitnessError(f"fitness failed inside the compiled program: {reason}") from error


def _is_of_jax(error: Exception) -> bool:
    """Return whether an error was raised inside a compiled program."""
    # The first call of a program raises a JaxRuntimeError. Later calls raise a ValueError, which only its text tells.
    return isinstance(error, jax.errors.JaxRuntimeError) or str(error).startswith("INTERNAL: ")


@dataclass(frozen=True)
class JaxFitness:
    """A fitness for use inside a compiled program; equal objects share the program.

    Args:
        fitness: `fitness(solution (dim,), descriptor (k,)) -> scalar`, or a pair of the scalar and the behaviour.
        behaviour_dim: the length of a behaviour; 0 if the function returns only the fitness.
        identity: decides whether two objects are equal; `made_of` sets it.
        keeps: whether the behaviour is returned.
    """

    fitness: Callable[..., Any] = field(compare=False)
    behaviour_dim: int = 0
    identity: Any = None
    keeps: bool = True

    @classmethod
    def made_of(cls, fitness: Callable[..., Any], behaviour_dim: int, *, keeps: bool = True) -> "JaxFitness":
        """Wrap a user's fitness.

        Values that a function reads besides its arguments may have changed since it was compiled, so each run compiles
        the function again. Objects with their own `__eq__`, such as frozen dataclasses, share a program if they are
        equal.
        """
        value_like = "__eq__" in vars(type(fitness)) and not isinstance(fitness, MethodType)
        try:
            hash(fitness)
        except TypeError:
            value_like = False
        return cls(fitness, behaviour_dim, fitness if value_like else object(), keeps)

    def __call__(self, candidates: Candidates, rows_told: Array | int) -> Evaluation:
        """Evaluate a batch; only the first `rows_told` rows count."""
        value = jax.vmap(self.fitness)(candidates.solutions, candidates.tasks)
        fitness, behaviour = value if self.behaviour_dim else (value, None)
        fitness = fitness.astype(candidates.solutions.dtype)
        if not self.keeps:
            behaviour = None
        elif behaviour is not None:
            fitness = described(fitness, behaviour)
        return Evaluation(fitness=fitness, told=jnp.arange(len(candidates)) < rows_told, behaviour=behaviour)

    def check(self, dim: int, descriptors: int) -> None:
        """Raise an error if JAX can't trace the function, or if its return value is not a fitness."""
        real = jnp.zeros(()).dtype
        solution, task = (
            jax.ShapeDtypeStruct((length,), real)  # type: ignore[no-untyped-call]
            for length in (dim, descriptors)
        )
        try:
            shape = jax.eval_shape(self.fitness, solution, task)
        except Exception as problem:
            reason = str(problem).split("\n", 1)[0]
            raise FitnessError(
                f"fitness could not be traced by JAX: {type(problem).__name__}: {reason}; "
                "call='batch' or call='each' take any Python function"
            ) from problem
        wanted = ((), (self.behaviour_dim,)) if self.behaviour_dim else ()
        got = jax.tree.map(lambda leaf: leaf.shape, shape)
        if got != wanted:
            meaning = "a pair (scalar, behaviour) of shapes" if self.behaviour_dim else "a scalar, of shape"
            raise FitnessError(f"fitness must return {meaning} {wanted} for one solution and one task, not {got}")
        kinds = {leaf.dtype for leaf in jax.tree.leaves(shape)}
        if any(jnp.issubdtype(kind, jnp.complexfloating) for kind in kinds):
            raise FitnessError("fitness must return a real number, but it returned a complex one")
