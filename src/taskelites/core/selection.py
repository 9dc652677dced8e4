"""Selection of parents and of tasks.

The paper's tournament selects the nearest of `s` random tasks. This is equivalent to drawing a rank in the order of
distance from the parent's task. The nearest of `s` draws has rank `r` or higher if and only if all `s` draws do, so the
distribution of the rank has a closed form (`rank_limits`). One random number per tournament is enough, for any `s`, and
a table of neighbours converts the rank to a task. If the table is too large, the tournament is simulated instead.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from scipy.spatial import KDTree
from scipy.special import gammaln

from taskelites.core import random
from taskelites.core.archive import Archive
from taskelites.core.pytree import constant, record, static
from taskelites.errors import InvalidValueError
from taskelites.problem.tasks import TABLE_LIMIT, Tasks

_TWO_32 = 2.0**32
# Tasks drawn at once when a tournament is simulated. Enough to use vector instructions well.
_DRAWS = 64
# Maximum number of entries of a table of nearest tasks: the size of the largest full table of neighbours.
TABLE_ENTRIES = TABLE_LIMIT**2
# Tasks per KDTree query, which limits the memory for the distances.
_BLOCK = 1024
# Points drawn at once by `nearest_fresh`. Fewer than `_DRAWS`, since each point takes several random words.
_FRESH = 16


def uniform_integers(words: Array, count: Array) -> Array:
    """Convert random 32-bit words to uniform integers in `[0, count)`: the upper half of the 64-bit product.

    The probability of each integer is 1/count to within 2^-32. This needs no 64-bit type, and is accurate for large
    counts, unlike the product with a 32-bit float, whose rounding shows from about 1e5.

    Example:
        >>> import jax.numpy as jnp
        >>> from taskelites.core.selection import uniform_integers
        >>> uniform_integers(jnp.array([0, 2**31, 2**32 - 1], jnp.uint32), jnp.uint32(10)).tolist()
        [0, 5, 9]
    """
    count = jnp.asarray(count).astype(jnp.uint32)
    low, high = words & 0xFFFF, words >> 16
    count_low, count_high = count & 0xFFFF, count >> 16
    cross_a, cross_b = low * count_high, high * count_low
    carry = ((low * count_low) >> 16) + (cross_a & 0xFFFF) + (cross_b & 0xFFFF)
    return (high * count_high + (cross_a >> 16) + (cross_b >> 16) + (carry >> 16)).astype(jnp.int32)


def uniform_parents(key: Array, archive: Archive, shape: tuple[int, ...]) -> Array:
    """Return random solved niches, drawn uniformly; 0 if none is solved.

    Example:
        >>> import jax
        >>> from taskelites.core import archive
        >>> from taskelites.core.selection import uniform_parents
        >>> uniform_parents(jax.random.key(0), archive.empty(5, 2), (2, 3)).shape
        (2, 3)
    """
    return solved_by(random.words(key, shape), archive)


def solved_by(words: Array, archive: Archive) -> Array:
    """Convert random words, of any shape, to uniformly drawn solved niches; 0 if none is solved.

    Example:
        >>> import jax.numpy as jnp
        >>> from taskelites.core import archive
        >>> from taskelites.core.selection import solved_by
        >>> solved_by(jnp.array([0, 2**31], jnp.uint32), archive.empty(5, 2)).tolist()
        [0, 0]
    """
    return archive.solved[uniform_integers(words, archive.solved_count)]


def rank_limits(tasks: int, size: int, *, replacement: bool = True) -> np.ndarray:
    """Return the distribution of the rank selected by a tournament, as thresholds of a 32-bit word, `(tasks - 1,)`.

    The rank is the number of thresholds below a random word (see `rank_of`).

    Args:
        tasks: number of tasks.
        size: size of the tournament.
        replacement: whether the tournament draws with replacement.

    Example:
        >>> from taskelites.core.selection import rank_limits
        >>> (rank_limits(4, 1) / 2**32).round(2).tolist()
        [0.25, 0.5, 0.75]
        >>> (rank_limits(4, 2) / 2**32).round(2).tolist()
        [0.44, 0.75, 0.94]
    """
    rank = np.arange(1, tasks)
    if size == 1:  # integer arithmetic makes the result identical to `uniform_integers`
        limits = -(-(rank.astype(np.uint64) << np.uint64(32)).astype(object) // tasks)
        return (limits - 1).astype(np.uint32)
    if replacement:
        below = -np.expm1(size * np.log1p(-rank / tasks))
    else:
        drawn = min(size, tasks)
        others = np.maximum(tasks - rank - drawn, -1)  # -1 marks ranks with fewer than `drawn` tasks beyond them
        with np.errstate(over="ignore", invalid="ignore"):
            log_none = gammaln(tasks - rank + 1) - gammaln(others + 1) - gammaln(tasks + 1) + gammaln(tasks - drawn + 1)
        below = np.where(others < 0, 1.0, -np.expm1(log_none))
    return (np.clip(np.ceil(below * _TWO_32), 1.0, _TWO_32) - 1.0).astype(np.uint32)


def rank_of(words: Array, limits: Array, row: Array) -> Array:
    """Return the number of entries of `limits[row]` below each word, by an unrolled binary search.

    Args:
        words: random 32-bit words.
        limits: ascending thresholds, one row per tournament size, shape `(sizes, tasks - 1)`.
        row: the row to search in.

    Example:
        >>> import jax.numpy as jnp
        >>> from taskelites.core.selection import rank_limits, rank_of
        >>> limits = jnp.asarray(rank_limits(4, 1))[None]
        >>> rank_of(jnp.array([0, 2**30, 2**32 - 1], jnp.uint32), limits, 0).tolist()
        [0, 1, 3]
    """
    number = limits.shape[1]
    rank = jnp.zeros(words.shape, jnp.int32)
    for bit in reversed(range(number.bit_length())):
        higher = rank + (1 << bit)
        below = limits[row, jnp.minimum(higher, number) - 1] < words
        rank = jnp.where((higher <= number) & below, higher, rank)
    return rank


@record
class Tournament:
    """Selection of a task near the parent's task, for each of several tournament sizes.

    Created by `tournament`. Without a distance, or if the only size is 1, tasks are selected uniformly.

    Attributes:
        sizes: tournament sizes, shape `(sizes,)`.
        limits: thresholds of the ranks (see `rank_limits`), shape `(sizes, tasks - 1)`; None if the tournament is
            simulated or uniform.
        neighbours: table of neighbours (see `Tasks.neighbours`), shape `(tasks, tasks)`; None in the same cases.
        positions: positions of the tasks, shape `(tasks, k)`, if the tournament is simulated; otherwise None.
        tasks: number of tasks.
    """

    sizes: Array
    limits: Array | None
    neighbours: Array | None
    positions: Array | None
    tasks: int = static()

    def __call__(self, key: Array, parents: Array, arm: Array) -> Array:
        """Return a task for each parent's task, shape `(rows,)`, by tournaments of size `sizes[arm]`."""
        if self.positions is not None:
            return self._play(key, parents, self.sizes[arm])
        words = random.words(key, parents.shape)
        if self.neighbours is None or self.limits is None:
            return uniform_integers(words, jnp.uint32(self.tasks))
        return self.neighbours[parents, rank_of(words, self.limits, arm)].astype(jnp.int32)

    def _play(self, key: Array, parents: Array, size: Array) -> Array:
        """Simulate tournaments with replacement. The parent's task wins ties, then the lowest index."""
        assert self.positions is not None
        positions = self.positions
        here = positions[parents][:, None, :]

        def round_of_draws(turn: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
            words = random.words(random.fold_in(key, turn), (len(parents), _DRAWS))
            drawn = uniform_integers(words, jnp.uint32(self.tasks))
            distance = jnp.sum(jnp.square(positions[drawn] - here), axis=-1)
            distance = jnp.where(drawn == parents[:, None], -1.0, distance)
            counts = turn * _DRAWS + jnp.arange(_DRAWS) < size
            distance = jnp.where(counts, distance, jnp.inf)
            nearest = jnp.min(distance, axis=1)
            task = jnp.min(jnp.where(distance == nearest[:, None], drawn, self.tasks), axis=1)
            better = (nearest < best[0]) | ((nearest == best[0]) & (task < best[1]))
            return jnp.where(better, nearest, best[0]), jnp.where(better, task, best[1])

        start = jnp.full(parents.shape, jnp.inf, positions.dtype), jnp.full(parents.shape, self.tasks, jnp.int32)
        return lax.fori_loop(0, (size + _DRAWS - 1) // _DRAWS, round_of_draws, start)[1]


def nearest_fresh(key: Array, here: Array, size: Array) -> Array:
    """Return, for each of the points `here`, the nearest of `size` random points of the unit box, shape `(rows, k)`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taskelites.core.selection import nearest_fresh
        >>> found = nearest_fresh(jax.random.key(0), jnp.full((3, 1), 0.5), 500)
        >>> bool((abs(found - 0.5) < 0.02).all())
        True
    """
    rows, dim = here.shape

    def round_of_draws(turn: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
        drawn = random.uniform(random.fold_in(key, turn), (rows, _FRESH, dim), here.dtype)
        distance = jnp.sum(jnp.square(drawn - here[:, None, :]), axis=-1)
        distance = jnp.where(turn * _FRESH + jnp.arange(_FRESH) < size, distance, jnp.inf)
        first = jnp.argmin(distance, axis=1)
        nearest = jnp.take_along_axis(distance, first[:, None], axis=1)[:, 0]
        point = jnp.take_along_axis(drawn, first[:, None, None], axis=1)[:, 0]
        better = nearest < best[0]
        return jnp.where(better, nearest, best[0]), jnp.where(better[:, None], point, best[1])

    start = jnp.full(rows, jnp.inf, here.dtype), here
    return lax.fori_loop(0, (size + _FRESH - 1) // _FRESH, round_of_draws, start)[1]


def tournament(tasks: Tasks, sizes: tuple[int, ...], *, replacement: bool = True) -> Tournament:
    """Create the tournament selection for a set of tasks, in JAX's default precision.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np, taskelites as te
        >>> from taskelites.core.selection import tournament
        >>> choose = tournament(te.Tasks(np.arange(9.0)[:, None]), (9,), replacement=False)
        >>> choose(jax.random.key(0), jnp.arange(9), 0).tolist()
        [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """
    sizes_array = constant(sizes, np.int32)
    if sizes == (1,) or not tasks.has_distance:
        return Tournament(sizes=sizes_array, limits=None, neighbours=None, positions=None, tasks=len(tasks))
    if not tasks.fits_table:
        if not replacement:
            raise InvalidValueError(
                f"replacement must be True for more than {TABLE_LIMIT:,} tasks, but it is False for {len(tasks):,} "
                "tasks; leave it at its default"
            )
        # With 64 draws per task, the parent's task is drawn with probability 1 - e^-64, so larger sizes are equivalent.
        return Tournament(
            sizes=constant(np.minimum(sizes, min(64 * len(tasks), 2**31 - _DRAWS)), np.int32),
            limits=None,
            neighbours=None,
            positions=constant(_centred(tasks.positions)),
            tasks=len(tasks),
        )
    limits = np.stack([rank_limits(len(tasks), size, replacement=replacement) for size in sizes])
    return Tournament(
        sizes=sizes_array,
        limits=constant(limits),
        neighbours=jax.device_put(tasks.neighbours, may_alias=True),
        positions=None,
        tasks=len(tasks),
    )


def _centred(positions: np.ndarray) -> np.ndarray:
    """Return the positions centred and scaled by one factor, so that float32 resolves their differences."""
    spread = np.ptp(positions, axis=0).max()
    return (positions - positions.mean(axis=0)) / (spread if spread > 0 else 1.0)


def nearest_others(tasks: Tasks, number: int) -> np.ndarray:
    """Return the nearest other tasks of each task, nearest first, shape `(n, min(number, n - 1))`.

    Up to `TABLE_LIMIT` tasks the order is the same as in `Tasks.neighbours`. Beyond that limit, ties at the distance of
    the last column are broken arbitrarily.

    Raises:
        ValueError: if the table would have more than `TABLE_ENTRIES` entries. The message names the largest `number`.

    Example:
        >>> import numpy as np, taskelites as te
        >>> from taskelites.core.selection import nearest_others
        >>> nearest_others(te.Tasks(np.array([[0.0], [1.0], [3.0], [7.0]])), 2).tolist()
        [[1, 2], [0, 2], [1, 0], [2, 1]]
    """
    number = min(number, len(tasks) - 1)
    if tasks.fits_table:
        return np.ascontiguousarray(tasks.neighbours[:, 1 : number + 1])
    if number * len(tasks) > TABLE_ENTRIES:
        raise InvalidValueError(
            f"neighbours must be at most {max(1, TABLE_ENTRIES // len(tasks)):,} for {len(tasks):,} tasks, not "
            f"{number:,}, since at most {TABLE_ENTRIES:,} neighbours fit in memory; give a smaller number"
        )
    table = np.empty((len(tasks), number), np.int32)
    tree = KDTree(tasks.positions)
    for start in range(0, len(tasks), _BLOCK):
        own = np.arange(start, min(start + _BLOCK, len(tasks)))[:, None]
        distances, near = tree.query(tasks.positions[own[:, 0]], k=range(1, number + 2), workers=-1)
        # The task itself is sorted to the end and dropped. If many others coincide with it, the query may not return
        # it, and the farthest is dropped instead.
        distances = np.where(near == own, np.inf, distances)
        order = np.lexsort((near, distances), axis=1)[:, :number]
        table[own[:, 0]] = np.take_along_axis(near, order, axis=1)
    return table
