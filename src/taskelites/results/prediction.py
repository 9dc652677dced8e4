"""Solutions for tasks that were not solved, made of the elites of those that were.

All of it works on plain arrays. Solutions are compared in widths of the box, so that each dimension counts the same.

Elites of neighbouring tasks need not be neighbours themselves: where several postures are equally good, one task may
hold one and the next another, and a mean of both is neither. So the two methods that fit (`linear` and `regressor`)
trust a neighbour the less, the further its solution is from that of the nearest task (`_kinship`), and the error by
which a method is chosen is a mean of square roots, to which half-way between two postures is worse than either.

Whether a mixture of good solutions is good, only the fitness knows, and it is not asked. The arm's elites differ little
from task to task, and mixtures of them are better than they are; those of a walking robot differ much, and mixtures of
them stumble, although they are nearer to the elites that were left out than copies are. So a method other than copying
is chosen only if elites are nearly alike (`ALIKE`) or tasks explain most of how they differ (`EXPLAINED`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.spatial import KDTree

from taskelites.core.fits import plane_weights, span
from taskelites.errors import one_of

# From the simplest to the most elaborate; of two that are equally good, the simpler one is chosen.
METHODS = ("nearest", "blend", "linear", "regressor")
# So many elites are left out, one at a time, to measure the error of a method.
SAMPLE = 500
# Elites are mixed where the error of doing so is at most this, in widths of the box: 0.01 to 0.02 on the arm, where it
# helps, 0.09 on the hexapod, where it harms.
ALIKE = 0.05
# Or where it is at most this share of the error of copying.
EXPLAINED = 0.5
_MOST_NEIGHBOURS = 512
# Neighbours of the regressor, at most: its cost grows with their cube.
_MOST_KRIGED = 64
# Numbers of an intermediate array: 32 MB.
_ROOM = 2**22

# How a method is tried out: what makes predictions of (known, places, distances, neighbours), the last two `(m, k)`.
_Rule = Callable[["Predictor", np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """Predicted solutions, and how far they can be trusted.

    Attributes:
        solutions: `(m, dim)`, inside the bounds.
        method: how they were made.
        error: the leave-one-out error of this method, in widths of the box; NaN where only one task is solved.
        errors: the same of all methods; empty where only one task is solved, or a method was asked for by name.
        distances: `(m,)`, from each new task to the nearest solved one, as the tasks' distance sees it.
    """

    solutions: np.ndarray
    method: str
    error: float
    errors: dict[str, float]
    distances: np.ndarray

    def __repr__(self) -> str:
        return (
            f"<Prediction: {len(self.solutions)} solutions by {self.method!r}, leave-one-out error {self.error:.3g} "
            "of the box>"
        )


def as_good(places: np.ndarray, fitness: np.ndarray, known: np.ndarray, elites: np.ndarray) -> np.ndarray:
    """Which evaluations are at least as good as the median of the elites around them: `2 (k + 1)`, the nearest.

    Most evaluations on a task were its only one, and predictions made of all of them are poor.

    Args:
        places: `(m, k)`, of the evaluations.
        fitness: `(m,)`.
        known: `(n, k)`, of the elites.
        elites: `(n,)`, their fitness.

    Example:
        >>> line = np.arange(4.0)[:, None]
        >>> as_good(line, np.array([0.0, 3.0, 2.5, 1.0]), line, np.array([1.0, 2.0, 3.0, 4.0])).tolist()
        [False, True, True, False]
    """
    size = min(len(known), 2 * (known.shape[1] + 1))
    near = KDTree(known).query(places, k=range(1, size + 1))[1]
    return np.asarray(fitness >= np.median(elites[np.asarray(near)], axis=1))


class Predictor:
    """What the elites of solved tasks say about other tasks.

    Args:
        positions: `(n, k)`, of the solved tasks.
        solutions: `(n, dim)`, their elites.
        fitness: `(n,)`; of several tasks in one place, the best elite counts.
        lower: of the box of solutions, `(dim,)`; None for the least among the elites.
        upper: None for the greatest.

    Example:
        >>> import numpy as np
        >>> tasks = np.linspace(0, 1, 20)[:, None]
        >>> predictor = Predictor(tasks, 2 * tasks + 1, np.zeros(20), np.zeros(1), np.full(1, 4.0))
        >>> predictor.predict(np.array([[0.123]]), "linear").solutions.round(6).tolist()
        [[1.246]]
        >>> predictor.predict(np.array([[0.123]])).method
        'linear'
    """

    def __init__(
        self,
        positions: np.ndarray,
        solutions: np.ndarray,
        fitness: np.ndarray,
        lower: np.ndarray | None = None,
        upper: np.ndarray | None = None,
    ) -> None:
        best_first = np.argsort(-np.asarray(fitness, np.float64), kind="stable")
        self.positions, places = np.unique(np.asarray(positions, np.float64)[best_first], axis=0, return_index=True)
        self.solutions = np.asarray(solutions, np.float64)[best_first][places]
        self.lower = self.solutions.min(axis=0) if lower is None else lower
        self.upper = self.solutions.max(axis=0) if upper is None else upper
        width = self.upper - self.lower
        self.width = np.where(width > 0, width, 1.0)
        self.units = (self.solutions - self.lower) / self.width
        self.tree = KDTree(self.positions)

    def predict(self, places: np.ndarray, method: str | None = None) -> Prediction:
        """Solutions for tasks at these places, `(m, k)`.

        Args:
            places: positions of tasks.
            method: one of `METHODS`; None for `choice`.
        """
        if method is not None:
            one_of("method", method, METHODS)
        several = len(self.units) > 1
        errors = self.errors if method is None and several else {}
        chosen = method or (self.choice if several else "nearest")
        rule, neighbours, error = self._tuned(chosen) if several else (_nearest, 1, float("nan"))
        distances, numbers = self._neighbours(places, neighbours)
        return Prediction(
            solutions=self._solutions(rule, places, distances, numbers),
            method=chosen,
            error=error,
            errors=dict(errors),
            distances=distances[:, 0],
        )

    @cached_property
    def errors(self) -> dict[str, float]:
        """The leave-one-out error of each method, in widths of the box."""
        return {name: self._tuned(name)[2] for name in METHODS}

    @cached_property
    def choice(self) -> str:
        """The method with the least error; but "nearest" where that error is neither small nor much less than its."""
        errors = self.errors
        best = min(errors, key=lambda name: errors[name])
        return best if errors[best] <= max(ALIKE, EXPLAINED * errors["nearest"]) else "nearest"

    @cached_property
    def _left_out(self) -> np.ndarray:
        """The numbers of the elites that are left out in turn: all, or a sample, the same one each time."""
        number = len(self.units)
        if number <= SAMPLE:
            return np.arange(number)
        return np.sort(np.random.default_rng(0).choice(number, SAMPLE, replace=False))

    def _tuned(self, method: str) -> tuple[_Rule, int, float]:
        """The variant of a method that has the least error: its rule, its number of neighbours, its error."""
        known = self.__dict__.setdefault("_known", {})
        if method not in known:
            tried = [(rule, size, self._error(rule, size)) for rule, size in self._variants(method)]
            known[method] = min(tried, key=lambda variant: variant[2])
        return known[method]

    def _variants(self, method: str) -> list[tuple[_Rule, int]]:
        """What is tried of a method. A plane through the neighbours needs one more of them than it has dimensions."""
        plane = self.positions.shape[1] + 1
        most = min(len(self.units), _MOST_NEIGHBOURS)

        def sizes(*times: int) -> list[int]:
            return sorted({min(most, factor * plane) for factor in times})

        if method == "nearest":
            return [(_nearest, 1)]
        if method == "blend":
            return [(_blend, size) for size in sizes(1, 2, 4)]
        if method == "linear":
            return [(_linear, size) for size in sizes(2, 4, 8)]
        size = min(_MOST_KRIGED, *sizes(8))
        return [(partial(_regressor, noise=noise), size) for noise in (0.001, 0.03, 0.3)]

    def _error(self, rule: _Rule, size: int) -> float:
        """How far the predictions for solved tasks, each without its own elite, are from their elites.

        The distance is the root of the mean square over dimensions. What is returned is the square of the mean of its
        square roots: a typical error, which some far ones do not decide.
        """
        apart = np.sqrt(np.square(self._errors_of(rule, size, self._left_out)).mean(axis=1))
        return float(np.sqrt(apart).mean() ** 2)

    def _errors_of(self, rule: _Rule, size: int, own: np.ndarray) -> np.ndarray:
        """Elites minus what is predicted without them, in widths of the box, for the elites of these numbers."""
        places = self.positions[own]
        distances, numbers = self._neighbours(places, min(size + 1, len(self.units)))
        others = numbers != own[:, None]
        others[others.all(axis=1), -1] = False  # where distances are too small to be told from 0
        distances, numbers = (array[others].reshape(len(own), -1) for array in (distances, numbers))
        found = (self._solutions(rule, places, distances, numbers) - self.lower) / self.width
        return np.asarray(self.units[own] - found)

    def errors_around(self, places: np.ndarray, method: str, number: int) -> tuple[np.ndarray, np.ndarray]:
        """What a method gets wrong on the elites near some places, each left out in turn.

        Returns:
            The errors `(e, dim)`, in widths of the box, and for each place the rows of those nearest, `(m, number)`, or
            less where there are fewer elites. With one elite, the error is a tenth of the box in each dimension.
        """
        dim = self.units.shape[1]
        if len(self.units) == 1:
            return np.sqrt(dim) * 0.1 * np.eye(dim), np.tile(np.arange(dim), (len(places), 1))
        near = self._neighbours(places, min(number, len(self.units)))[1]
        used, rows = np.unique(near, return_inverse=True)
        rule, size, _ = self._tuned(method)
        return self._errors_of(rule, size, used), rows.reshape(near.shape)

    def _neighbours(self, places: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances to the nearest solved tasks, and their numbers, both `(m, size)`."""
        distances, numbers = self.tree.query(places, k=range(1, size + 1))
        return np.asarray(distances), np.asarray(numbers)

    def _solutions(self, rule: _Rule, places: np.ndarray, distances: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Predictions inside the box; a task in the place of a solved one gets its elite."""
        size = numbers.shape[1]
        rows = max(1, _ROOM // (size * (size + places.shape[1] + self.units.shape[1])))
        parts = []
        for start in range(0, len(places), rows):
            part = slice(start, start + rows)
            parts.append(rule(self, places[part], distances[part], numbers[part]))
        found = np.concatenate(parts) if parts else np.empty((0, self.units.shape[1]))
        found = np.clip(self.lower + found * self.width, self.lower, self.upper)
        copied = (distances[:, :1] == 0) | (rule is _nearest)
        return np.where(copied, self.solutions[numbers[:, 0]], found)


def _nearest(known: Predictor, places: np.ndarray, distances: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    return known.units[numbers[:, 0]]


def _blend(known: Predictor, places: np.ndarray, distances: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The mean of the neighbours, each weighted by the inverse square of its distance (Shepard, 1968)."""
    weights = np.square(distances[:, :1] / np.maximum(distances, np.finfo(float).tiny))
    weights = np.where(distances[:, :1] > 0, weights, distances == 0)
    return np.einsum("mk,mkd->md", weights / weights.sum(axis=1, keepdims=True), known.units[numbers])


def _linear(known: Predictor, places: np.ndarray, distances: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """A plane fitted to the neighbours by weighted least squares, read at the place (Cleveland and Devlin, 1988)."""
    solutions = known.units[numbers]
    weights = plane_weights(known.positions[numbers] - places[:, None], distances, _kinship(solutions))
    return np.einsum("mk,mkd->md", weights, solutions)


def _regressor(
    known: Predictor, places: np.ndarray, distances: np.ndarray, numbers: np.ndarray, noise: float
) -> np.ndarray:
    """A Gaussian process over the neighbours, with an unknown mean (ordinary kriging) and a Matérn 3/2 kernel.

    Its length is three times the reach of the neighbours; `noise` is the variance of the elites around the function, as
    a share of that of the function, and more for those of another kind.
    """
    length = 3 * span(distances)
    points = (known.positions[numbers] - places[:, None]) / length[..., None]
    squares = np.square(points).sum(axis=2)
    between = squares[:, :, None] + squares[:, None, :] - 2 * points @ points.transpose(0, 2, 1)
    solutions = known.units[numbers]
    doubt = noise / np.maximum(_kinship(solutions), 1e-9)
    size = numbers.shape[1]
    covariance = _matern(np.sqrt(np.maximum(between, 0.0))) + doubt[..., None] * np.eye(size)
    right = np.stack([_matern(distances / length), np.ones_like(distances)], axis=2)
    plain, ones = np.moveaxis(np.linalg.solve(covariance, right), 2, 0)
    weights = plain + ones * ((1 - plain.sum(axis=1)) / ones.sum(axis=1))[:, None]
    return np.einsum("mk,mkd->md", weights, solutions)


def _matern(distances: np.ndarray) -> np.ndarray:
    scaled = np.sqrt(3.0) * distances
    return np.asarray((1 + scaled) * np.exp(-scaled))


def _kinship(solutions: np.ndarray) -> np.ndarray:
    """How far each neighbour is to be trusted by its solution `(m, k, dim)` alone: 1 for the nearest, which is first.

    The scale is that of the nearer quarter of them, so that noise changes little and another posture counts for
    nothing.
    """
    apart = np.sqrt(np.square(solutions - solutions[:, :1]).mean(axis=2))
    if apart.shape[1] < 2:
        return np.ones_like(apart)
    scale = 2 * np.quantile(apart[:, 1:], 0.25, axis=1)[:, None] + 1e-12
    trust = np.exp(-0.5 * np.square(apart / scale))
    return np.where(trust > 1e-3, trust, 0.0)
