"""The archive: one elite per niche, and the only `insert`.

In algorithms that keep one elite per task, a niche is a task. An empty niche has fitness -inf. No evaluation can store
that value, so an empty niche needs no other flag.
"""

import jax.numpy as jnp
from jax import Array, lax

from taskelites.core.pytree import record

# Rows are compared pairwise. Splitting the batch into chunks keeps the work per row independent of the batch size.
_CHUNK = 64


@record
class Archive:
    """Elites and counters.

    Attributes:
        solutions: elites, shape `(niches, dim)`; zeros where empty.
        fitness: fitness of the elites, shape `(niches,)`; -inf where empty.
        evaluations: number of evaluations per niche, shape `(niches,)`.
        last_improved: index of the evaluation that produced the elite, counted from 1, shape `(niches,)`; 0 where
            empty.
        solved: indices of the niches that have an elite, in the order of their first success, shape `(niches,)`. Only
            the first `solved_count` entries are valid. The cost of a uniform draw from this list does not depend on
            the number of niches.
        solved_count: number of niches that have an elite.
        told: total number of evaluations.
        failed: number of evaluations with fitness NaN or +inf.
        infeasible: number of evaluations with fitness -inf.
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
    """Return an archive without elites, in JAX's default precision.

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
    """Insert a batch, with the same outcome as inserting its rows one by one, in order.

    A row succeeds if its fitness is strictly greater than the fitness of its niche's elite, where the elite may come
    from an earlier row of the batch. NaN and both infinities never succeed. Rows whose niche is out of range are
    padding: they change nothing and are not counted. Padding must come last.

    Args:
        archive: the archive before the insertion.
        solutions: candidates, shape `(rows, dim)`.
        niches: the niche of each candidate, shape `(rows,)`.
        fitness: the fitness of each candidate, shape `(rows,)`.
        ties: whether equal fitness also succeeds, as in some papers.

    Returns:
        The new archive, and a boolean mask of the rows that succeeded, shape `(rows,)`.

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
    """Return the niche in which each row of a batch became the elite, shape `(rows,)`; out of range for other rows.

    Use it to store additional data per elite: `array.at[inserted(...)].set(rows, mode="drop")`.

    Example:
        >>> import jax.numpy as jnp
        >>> from taskelites.core import archive
        >>> niches = jnp.array([0, 0, 1])
        >>> before = archive.empty(2, 1)
        >>> after, _ = archive.insert(before, jnp.zeros((3, 1)), niches, jnp.array([1.0, 2.0, jnp.nan]))
        >>> archive.inserted(before, after, niches).tolist()
        [2, 0, 2]
    """
    # `last_improved` identifies the row, since every evaluation has a different index.
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
    # The fitness of successive successes in a niche never decreases, so the last one is the elite. Writing only that
    # one makes each scatter target unique.
    superseded = jnp.any(rivals & (row[None, :] > row[:, None]) & success[None, :], axis=1)
    wins = success & ~superseded
    first = success & (best_until == -jnp.inf)

    target = jnp.where(wins, niches, number)  # mode="drop" ignores out-of-range indices
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
