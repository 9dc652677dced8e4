"""One elite per niche, and the only `insert`.

A niche is a task in every algorithm that keeps one elite a task. An empty niche has fitness -inf, which no evaluation
can store, so nothing else needs to say that it is empty.
"""

import jax.numpy as jnp
from jax import Array, lax

from taskelites.core.pytree import record

# Rows are compared pairwise within a chunk, and chunk after chunk: the work per row stays the same for any batch.
_CHUNK = 64


@record
class Archive:
    """The elites and the counts.

    Attributes:
        solutions: `(niches, dim)`; zeros where empty.
        fitness: `(niches,)`; -inf where empty.
        evaluations: `(niches,)`, how many results were told of each.
        last_improved: `(niches,)`, the number of the evaluation that gave the elite, counted from 1; 0 where empty.
        solved: `(niches,)`; its first `solved_count` entries are the niches that have an elite, in the order in which
            they got their first one. It makes a uniform draw among them cost the same for any number of niches.
        solved_count: how many niches have an elite.
        told: how many results were told in all.
        failed: how many of them were NaN or +inf.
        infeasible: how many of them were -inf.
    """

    solutions: Array
    fitness: Array
    evaluations: Array
    last_improved: Array
    solved: Array
    solved_count: Array
    told: Array
    failed: Array
    infeasible: Array


def empty(niches: int, dim: int) -> Archive:
    """An archive without elites, in the precision that JAX has now.

    Example:
        >>> from taskelites.core import archive
        >>> archive.empty(5, 2).fitness.tolist()
        [-inf, -inf, -inf, -inf, -inf]
    """
    zeros = jnp.zeros(niches, jnp.int32)
    zero = jnp.int32(0)
    return Archive(
        solutions=jnp.zeros((niches, dim)),
        fitness=jnp.full(niches, -jnp.inf),
        evaluations=zeros,
        last_improved=zeros,
        solved=zeros,
        solved_count=zero,
        told=zero,
        failed=zero,
        infeasible=zero,
    )


def insert(
    archive: Archive, solutions: Array, niches: Array, fitness: Array, *, ties: bool = False
) -> tuple[Archive, Array]:
    """Insert a batch with the outcome of inserting its rows one by one, in order.

    A row succeeds if its fitness is strictly greater than that of its niche's elite at its turn, rows before it
    included. NaN and both infinities never succeed. A row whose niche is not below the number of niches is padding: it
    changes nothing and is not counted; padding stands at the end.

    Args:
        archive: the elites so far.
        solutions: `(rows, dim)`.
        niches: `(rows,)`, where each competes.
        fitness: `(rows,)`.
        ties: whether a row of equal fitness succeeds as well, as some papers have it.

    Returns:
        The archive, and which rows succeeded, `(rows,)`.

    Example:
        >>> import jax.numpy as jnp
        >>> from taskelites.core import archive
        >>> solutions = jnp.array([[0.1], [0.2], [0.3]])
        >>> after, success = archive.insert(
        ...     archive.empty(2, 1), solutions, jnp.array([0, 0, 1]), jnp.array([1.0, 2.0, jnp.nan])
        ... )
        >>> success.tolist(), after.fitness.tolist()
        ([True, True, False], [2.0, -inf])
    """
    rows = len(niches)
    if rows <= _CHUNK:
        return _insert_chunk(archive, solutions, niches, fitness, ties)
    chunks = -(-rows // _CHUNK)
    padding = chunks * _CHUNK - rows

    def cut(values: Array, fill: float) -> Array:
        padded = jnp.pad(values, [(0, padding)] + [(0, 0)] * (values.ndim - 1), constant_values=fill)
        return padded.reshape(chunks, _CHUNK, *values.shape[1:])

    batch = (cut(solutions, 0), cut(niches, len(archive.fitness)), cut(fitness, 0))
    archive, success = lax.scan(lambda carry, chunk: _insert_chunk(carry, *chunk, ties), archive, batch)
    return archive, success.reshape(-1)[:rows]


def inserted(before: Archive, after: Archive, niches: Array) -> Array:
    """Where `insert` wrote each row, `(rows,)`: its niche, or a number past all niches if it is no elite afterwards.

    For what an algorithm keeps beside an elite: `array.at[inserted(...)].set(rows, mode="drop")`.

    Example:
        >>> import jax.numpy as jnp
        >>> from taskelites.core import archive
        >>> niches = jnp.array([0, 0, 1])
        >>> before = archive.empty(2, 1)
        >>> after, _ = archive.insert(before, jnp.zeros((3, 1)), niches, jnp.array([1.0, 2.0, jnp.nan]))
        >>> archive.inserted(before, after, niches).tolist()
        [2, 0, 2]
    """
    # The number of the evaluation that gave an elite tells the row.
    number = before.told + jnp.arange(1, len(niches) + 1, dtype=jnp.int32)
    gave = after.last_improved.at[niches].get(mode="fill", fill_value=0) == number
    return jnp.where(gave, niches, len(after.fitness))


def _insert_chunk(
    archive: Archive, solutions: Array, niches: Array, fitness: Array, ties: bool
) -> tuple[Archive, Array]:
    number = len(archive.fitness)
    row = jnp.arange(len(niches), dtype=jnp.int32)
    real = niches < number
    usable = jnp.where(real & jnp.isfinite(fitness), fitness, -jnp.inf).astype(archive.fitness.dtype)
    elite = archive.fitness.at[niches].get(mode="fill", fill_value=-jnp.inf)

    rivals = niches[:, None] == niches[None, :]
    earlier = rivals & (row[None, :] < row[:, None])
    best_before = jnp.max(jnp.where(earlier, usable[None, :], -jnp.inf), axis=1)
    best_until = jnp.maximum(elite, best_before)
    success = ((usable >= best_until) & (usable > -jnp.inf)) if ties else usable > best_until
    # Successes in one niche never get worse, so the last of them is the elite: one write per niche.
    superseded = jnp.any(rivals & (row[None, :] > row[:, None]) & success[None, :], axis=1)
    wins = success & ~superseded
    first = success & (best_until == -jnp.inf)

    target = jnp.where(wins, niches, number)  # an index out of range is not written
    place = jnp.where(first, archive.solved_count + jnp.cumsum(first, dtype=jnp.int32) - 1, number)
    after = Archive(
        solutions=archive.solutions.at[target].set(solutions.astype(archive.solutions.dtype), mode="drop"),
        fitness=archive.fitness.at[target].set(usable, mode="drop"),
        evaluations=archive.evaluations.at[niches].add(1, mode="drop"),
        last_improved=archive.last_improved.at[target].set(archive.told + row + 1, mode="drop"),
        solved=archive.solved.at[place].set(niches.astype(jnp.int32), mode="drop"),
        solved_count=archive.solved_count + _count(first),
        told=archive.told + _count(real),
        failed=archive.failed + _count(real & (jnp.isnan(fitness) | (fitness == jnp.inf))),
        infeasible=archive.infeasible + _count(real & (fitness == -jnp.inf)),
    )
    return after, success


def _count(flags: Array) -> Array:
    return jnp.sum(flags, dtype=jnp.int32)
