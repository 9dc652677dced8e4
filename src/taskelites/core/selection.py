"""Which parents, and which task.

The tournament of the paper takes the nearest of `s` random tasks. Seen from the parent's task, that is a draw of a rank
in the order of distance: the nearest of `s` draws has a rank of at least `r` exactly if all of them have, so its
distribution is known in closed form and one random number decides it, whatever the size (`rank_limits`). A table of
neighbours turns the rank into a task. Where the table would not fit, the tournament is played as it is written.
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
# Opponents drawn at a time when a tournament is played: wide enough to keep the processor busy.
_DRAWS = 64
# What a table of the nearest tasks may hold in all: as many as that of all neighbours at its limit.
TABLE_ENTRIES = TABLE_LIMIT**2
# Tasks whose nearest are looked up at a time, so that the distances, which are not kept, stay small.
_BLOCK = 1024
# The same of points in a box; fewer, since each takes several random words.
_FRESH = 16


def uniform_integers(words: Array, count: Array) -> Array:
    """Whole numbers in `[0, count)` from 32-bit random words: the upper half of the 64-bit product.

    Each number's probability is 1/count to within 2^-32, for any count, without a 64-bit type; a 32-bit float would
    show its rounding from about 1e5 on.

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
    """Numbers of solved niches, uniformly at random (while none is solved: 0).

    Example:
        >>> import jax
        >>> from taskelites.core import archive
        >>> from taskelites.core.selection import uniform_parents
        >>> uniform_parents(jax.random.key(0), archive.empty(5, 2), (2, 3)).shape
        (2, 3)
    """
    return solved_by(random.words(key, shape), archive)


def solved_by(words: Array, archive: Archive) -> Array:
    """The solved niches that random words choose, uniformly (while none is solved: 0); of any shape.

    Example:
        >>> import jax.numpy as jnp
        >>> from taskelites.core import archive
        >>> from taskelites.core.selection import solved_by
        >>> solved_by(jnp.array([0, 2**31], jnp.uint32), archive.empty(5, 2)).tolist()
        [0, 0]
    """
    return archive.solved[uniform_integers(words, archive.solved_count)]


def rank_limits(tasks: int, size: int, *, replacement: bool = True) -> np.ndarray:
    """The distribution of the rank that a tournament gives, as limits on a 32-bit random word, `(tasks - 1,)`.

    The rank is the number of limits below the word (`rank_of`).

    Example:
        >>> from taskelites.core.selection import rank_limits
        >>> (rank_limits(4, 1) / 2**32).round(2).tolist()
        [0.25, 0.5, 0.75]
        >>> (rank_limits(4, 2) / 2**32).round(2).tolist()
        [0.44, 0.75, 0.94]
    """
    rank = np.arange(1, tasks)
    if size == 1:  # in whole numbers, so that it is `uniform_integers` bit for bit
        limits = -(-(rank.astype(np.uint64) << np.uint64(32)).astype(object) // tasks)
        return (limits - 1).astype(np.uint32)
    if replacement:
        below = -np.expm1(size * np.log1p(-rank / tasks))
    else:
        drawn = min(size, tasks)
        others = np.maximum(tasks - rank - drawn, -1)  # -1: fewer tasks are left than are drawn
        with np.errstate(over="ignore", invalid="ignore"):
            log_none = gammaln(tasks - rank + 1) - gammaln(others + 1) - gammaln(tasks + 1) + gammaln(tasks - drawn + 1)
        below = np.where(others < 0, 1.0, -np.expm1(log_none))
    return (np.clip(np.ceil(below * _TWO_32), 1.0, _TWO_32) - 1.0).astype(np.uint32)


def rank_of(words: Array, limits: Array, row: Array) -> Array:
    """How many of `limits[row]`, which ascend, lie below each word: a binary search, unrolled.

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
    """The choice of a task near the parent's, for each of a list of sizes.

    Made by `tournament`. Without a distance, or with size 1 alone, it is a uniform choice among all tasks.

    Attributes:
        sizes: `(sizes,)`.
        limits: `(sizes, tasks - 1)`, see `rank_limits`; None where the tournament is played.
        neighbours: `(tasks, tasks)`, see `Tasks.neighbours`.
        positions: `(tasks, k)`, for playing it.
        tasks: how many there are.
    """

    sizes: Array
    limits: Array | None
    neighbours: Array | None
    positions: Array | None
    tasks: int = static()

    def __call__(self, key: Array, parents: Array, arm: Array) -> Array:
        """A task for each parent's task, `(rows,)`, by a tournament of size `sizes[arm]`."""
        if self.positions is not None:
            return self._play(key, parents, self.sizes[arm])
        words = random.words(key, parents.shape)
        if self.neighbours is None or self.limits is None:
            return uniform_integers(words, jnp.uint32(self.tasks))
        return self.neighbours[parents, rank_of(words, self.limits, arm)].astype(jnp.int32)

    def _play(self, key: Array, parents: Array, size: Array) -> Array:
        """The nearest of `size` tasks drawn with replacement: own task first, then the lower number, among equals."""
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
    """The nearest, to each of these points of the unit box, of `size` fresh random points of it, `(rows, k)`.

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
    """The tournament over these tasks, in the precision that JAX has now.

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
                "replacement=False needs the table of all neighbours, which does not fit for "
                f"{len(tasks):,} tasks; leave replacement=True"
            )
        # Among 64 draws a task, the own one is missing with a probability of e^-64: more change nothing.
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
    """Positions moved and scaled as a whole, so that 32 bits keep their differences wherever they lie."""
    spread = np.ptp(positions, axis=0).max()
    return (positions - positions.mean(axis=0)) / (spread if spread > 0 else 1.0)


def nearest_others(tasks: Tasks, number: int) -> np.ndarray:
    """The nearest other tasks of each task, nearest first, `(n, number)`; fewer columns if there are fewer others.

    Up to `TABLE_LIMIT` tasks the order is that of `Tasks.neighbours`. Beyond, which of several tasks at the distance of
    the last column is left out is not defined.

    Raises:
        ValueError: if so many do not fit, with the number that does.

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
            f"neighbours are {number:,} for each of {len(tasks):,} tasks, and {TABLE_ENTRIES:,} in all fit; give a "
            f"smaller number, such as neighbours={max(1, TABLE_ENTRIES // len(tasks))}"
        )
    table = np.empty((len(tasks), number), np.int32)
    tree = KDTree(tasks.positions)
    for start in range(0, len(tasks), _BLOCK):
        own = np.arange(start, min(start + _BLOCK, len(tasks)))[:, None]
        distances, near = tree.query(tasks.positions[own[:, 0]], k=range(1, number + 2), workers=-1)
        # The own task goes last, and with it out of the table; where enough others lie in one place with it, it may
        # not be among those found, and then the farthest goes.
        distances = np.where(near == own, np.inf, distances)
        order = np.lexsort((near, distances), axis=1)[:, :number]
        table[own[:, 0]] = np.take_along_axis(near, order, axis=1)
    return table
