"""Fitness functions that JAX can trace: written for one solution, `vmap` at the edge."""

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
    """A traceable function that gives the fitness alone, where one gives a behaviour besides."""
    return (lambda solution, task: fitness(solution, task)[0]) if behaviour_dim else fitness


@contextmanager
def compiled_errors() -> Iterator[None]:
    """Raise what goes wrong inside a compiled program as a `FitnessError`."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        # From its second call on, a program raises another type than at the first.
        if not isinstance(error, jax.errors.JaxRuntimeError) and not str(error).startswith("INTERNAL: "):
            raise
        reason = str(error).split("\n", 1)[0]
        raise FitnessError(f"fitness failed inside the compiled program: {reason}") from error


@dataclass(frozen=True)
class JaxFitness:
    """A fitness for use inside a compiled program; equal ones share the program.

    Args:
        fitness: `fitness(solution (dim,), descriptor (k,)) -> scalar`, or a pair with the behaviour.
        behaviour_dim: how many numbers describe a behaviour; 0 if the fitness returns the fitness alone.
        identity: what makes two of them equal; `made_of` sets it.
        keeps: whether anybody wants the behaviour.
    """

    fitness: Callable[..., Any] = field(compare=False)
    behaviour_dim: int = 0
    identity: Any = None
    keeps: bool = True

    @classmethod
    def made_of(cls, fitness: Callable[..., Any], behaviour_dim: int, *, keeps: bool = True) -> "JaxFitness":
        """Around a user's fitness.

        What a function reads besides its arguments may have changed since it was compiled last, and nothing tells; so
        each run compiles it anew, unless it is a value, such as a frozen dataclass, that says itself what it equals.
        """
        value_like = "__eq__" in vars(type(fitness)) and not isinstance(fitness, MethodType)
        try:
            hash(fitness)
        except TypeError:
            value_like = False
        return cls(fitness, behaviour_dim, fitness if value_like else object(), keeps)

    def __call__(self, candidates: Candidates, rows_told: Array | int) -> Evaluation:
        """Evaluate a batch of which the first `rows_told` rows count."""
        value = jax.vmap(self.fitness)(candidates.solutions, candidates.tasks)
        fitness, behaviour = value if self.behaviour_dim else (value, None)
        fitness = fitness.astype(candidates.solutions.dtype)
        if not self.keeps:
            behaviour = None
        elif behaviour is not None:
            fitness = described(fitness, behaviour)
        return Evaluation(fitness=fitness, told=jnp.arange(len(candidates)) < rows_told, behaviour=behaviour)

    def check(self, dim: int, descriptors: int) -> None:
        """Raise a clear error if JAX can't trace the function, or if it returns something that is no fitness."""
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
