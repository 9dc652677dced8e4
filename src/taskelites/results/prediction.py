"""Prediction of solutions for unsolved tasks from the elites of solved tasks.

All functions work on plain arrays. Distances between solutions are in units of the box widths, so that all dimensions
count equally.

Neighbouring tasks can have very different elites: if several postures are equally good, their mean may be a poor
solution. The fitted methods (`linear` and `regressor`) therefore give less weight to neighbours whose solution differs
from that of the nearest task (`_similarity_weights`). Methods are compared by an error based on a mean of square roots,
for which a point half-way between two postures is worse than either of them.

Only the fitness can tell whether a mixture of good solutions is good, and predictions do not evaluate it. On the arm,
elites differ little between tasks, and mixtures are better than copies. On a walking robot, elites differ a lot.
Mixtures are then closer to the left-out elites than copies are, yet they walk worse. A method other than copying is
therefore chosen only if its error is small (`ALIKE`) or much smaller than the error of copying (`EXPLAINED`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.spatial import KDTree

from taskelites.core.fits import plane_weights, span
from taskelites.errors import counted, one_of

# From the simplest to the most complex; ties are resolved in favour of the simpler method.
METHODS = ("nearest", "blend", "linear", "regressor")
# Maximum number of elites in the leave-one-out error.
SAMPLE = 500
# Maximum error, in box widths, up to which elites are mixed. The error is 0.01 to 0.02 on the arm, where mixing helps,
# and 0.09 on the hexapod, where it harms.
ALIKE = 0.05
# Elites are also mixed if the error is at most this fraction of the error of copying.
EXPLAINED = 0.5
_MAX_NEIGHBOURS = 512
# The cost of the regressor grows with the cube of its number of neighbours.
_MAX_KRIGING_NEIGHBOURS = 64
# Maximum number of elements of an intermediate array: 32 MB.
_MAX_ARRAY_SIZE = 2**22

# Signature of a method: (predictor, places, distances, neighbours) -> solutions; distances and neighbours are `(m, k)`.
_Method = Callable[["Predictor", np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """Predicted solutions with error estimates.

    Attributes:
        solutions: `(m, dim)`, within the bounds.
        method: the method used, one of "nearest", "blend", "linear" and "regressor".
        error: leave-one-out error of this method, in box widths; NaN if only one task is solved.
        errors: leave-one-out error of each method; empty if only one task is solved or the method was given.
        distances: `(m,)`, distance from each new task to the nearest solved one, in the tasks' metric.
    """

    solutions: np.ndarray
    method: str
    error: float
    errors: dict[str, float]
    distances: np.ndarray

    def __repr__(self) -> str:
        return (
            f"<Prediction: {counted(len(self.solutions), 'solution')} by {self.method!r}, leave-one-out error "
            f"{self.error:.3g} of the box>"
        )


def reaches_local_median(places: np.ndarray, fitness: np.ndarray, known: np.ndarray, elites: np.ndarray) -> np.ndarray:
    """Return a mask `(m,)` of evaluations at least as good as the median of the `2 (k + 1)` nearest elites.

    On a `te.Box`, most tasks are evaluated only once. Predictions from all of these evaluations would be poor.

    Args:
        places: `(m, k)`, positions of the evaluations.
        fitness: `(m,)`, their fitness.
        known: `(n, k)`, positions of the elites.
        elites: `(n,)`, fitness of the elites.

    Example:
        >>> line = np.arange(4.0)[:, None]
        >>> reaches_local_median(line, np.array([0.0, 3.0, 2.5, 1.0]), line, np.array([1.0, 2.0, 3.0, 4.0])).tolist()
        [False, True, True, False]
    """
    size = min(len(known), 2 * (known.shape[1] + 1))
    near = KDTree(known).query(places, k=range(1, size + 1))[1]
    return np.asarray(fitness >= np.median(elites[np.asarray(near)], axis=1))


class Predictor:
    """Predictor of solutions for new tasks from the elites of solved tasks.

    Args:
        positions: `(n, k)`, positions of the solved tasks.
        solutions: `(n, dim)`, their elites.
        fitness: `(n,)`; of several tasks at one position, only the best elite is used.
        lower: `(dim,)`, lower bounds of solutions; None for the minimum over the elites.
        upper: `(dim,)`, upper bounds; None for the maximum over the elites.

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
        """Predict solutions for tasks at given positions.

        Args:
            places: `(m, k)`, positions of the tasks.
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
        """Leave-one-out error of each method, in box widths."""
        return {name: self._tuned(name)[2] for name in METHODS}

    @cached_property
    def choice(self) -> str:
        """Method with the smallest error, or "nearest" if that error is neither small nor much smaller than its own."""
        errors = self.errors
        best = min(errors, key=lambda name: errors[name])
        return best if errors[best] <= max(ALIKE, EXPLAINED * errors["nearest"]) else "nearest"

    @cached_property
    def _sample(self) -> np.ndarray:
        """Indices of the elites that are left out in turn: all, or a fixed random sample."""
        number = len(self.units)
        if number <= SAMPLE:
            return np.arange(number)
        return np.sort(np.random.default_rng(0).choice(number, SAMPLE, replace=False))

    def _tuned(self, method: str) -> tuple[_Method, int, float]:
        """Return the best variant of a method: its function, number of neighbours and error."""
        known = self.__dict__.setdefault("_known", {})
        if method not in known:
            tried = [(rule, size, self._error(rule, size)) for rule, size in self._variants(method)]
            known[method] = min(tried, key=lambda variant: variant[2])
        return known[method]

    def _variants(self, method: str) -> list[tuple[_Method, int]]:
        """Return the variants of a method. Fitting a plane in k dimensions needs at least k + 1 neighbours."""
        plane = self.positions.shape[1] + 1
        most = min(len(self.units), _MAX_NEIGHBOURS)

        def sizes(*times: int) -> list[int]:
            return sorted({min(most, factor * plane) for factor in times})

        if method == "nearest":
            return [(_nearest, 1)]
        if method == "blend":
            return [(_blend, size) for size in sizes(1, 2, 4)]
        if method == "linear":
            return [(_linear, size) for size in sizes(2, 4, 8)]
        size = min(_MAX_KRIGING_NEIGHBOURS, *sizes(8))
        return [(partial(_regressor, noise=noise), size) for noise in (0.001, 0.03, 0.3)]

    def _error(self, rule: _Method, size: int) -> float:
        """Return the leave-one-out error: the typical distance between elites and their predictions.

        The distance is the root mean square over dimensions. The error is the squared mean of its square roots, which
        is robust against outliers.
        """
        apart = np.sqrt(np.square(self._errors_of(rule, size, self._sample)).mean(axis=1))
        return float(np.sqrt(apart).mean() ** 2)

    def _errors_of(self, rule: _Method, size: int, own: np.ndarray) -> np.ndarray:
        """Return elites minus their leave-one-out predictions, in box widths, for the elites with these indices."""
        places = self.positions[own]
        distances, numbers = self._neighbours(places, min(size + 1, len(self.units)))
        others = numbers != own[:, None]
        others[others.all(axis=1), -1] = False  # if distances underflow to 0
        distances, numbers = (array[others].reshape(len(own), -1) for array in (distances, numbers))
        found = (self._solutions(rule, places, distances, numbers) - self.lower) / self.width
        return np.asarray(self.units[own] - found)

    def errors_around(self, places: np.ndarray, method: str, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the leave-one-out errors of a method on the elites near given positions.

        Args:
            places: `(m, k)`, positions of tasks.
            method: one of `METHODS`.
            number: number of elites per position, or all if there are fewer.

        Returns:
            The errors `(e, dim)`, in box widths, and for each position the rows of the errors of its nearest elites,
            `(m, number)`. With a single elite, the error is 0.1 box widths in each dimension.
        """
        dim = self.units.shape[1]
        if len(self.units) == 1:
            return np.sqrt(dim) * 0.1 * np.eye(dim), np.tile(np.arange(dim), (len(places), 1))
        near = self._neighbours(places, min(number, len(self.units)))[1]
        used, rows = np.unique(near, return_inverse=True)
        rule, size, _ = self._tuned(method)
        return self._errors_of(rule, size, used), rows.reshape(near.shape)

    def _neighbours(self, places: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the distances to the nearest solved tasks and their indices, both `(m, size)`."""
        distances, numbers = self.tree.query(places, k=range(1, size + 1))
        return np.asarray(distances), np.asarray(numbers)

    def _solutions(self, rule: _Method, places: np.ndarray, distances: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return predictions within the bounds; a task at the position of a solved one gets its elite."""
        size = numbers.shape[1]
        rows = max(1, _MAX_ARRAY_SIZE // (size * (size + places.shape[1] + self.units.shape[1])))
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
    """Return the mean of the neighbours, weighted by the inverse square of their distances (Shepard, 1968)."""
    weights = np.square(distances[:, :1] / np.maximum(distances, np.finfo(float).tiny))
    weights = np.where(distances[:, :1] > 0, weights, distances == 0)
    return np.einsum("mk,mkd->md", weights / weights.sum(axis=1, keepdims=True), known.units[numbers])


def _linear(known: Predictor, places: np.ndarray, distances: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Evaluate a plane fitted to the neighbours by weighted least squares (Cleveland and Devlin, 1988)."""
    solutions = known.units[numbers]
    weights = plane_weights(known.positions[numbers] - places[:, None], distances, _similarity_weights(solutions))
    return np.einsum("mk,mkd->md", weights, solutions)


def _regressor(
    known: Predictor, places: np.ndarray, distances: np.ndarray, numbers: np.ndarray, noise: float
) -> np.ndarray:
    """Predict by ordinary kriging: a Gaussian process with an unknown mean and a Matérn 3/2 kernel.

    The length scale is three times the span of the neighbours. `noise` is the noise variance as a fraction of the
    signal variance; it is larger for neighbours with dissimilar solutions.
    """
    length = 3 * span(distances)
    points = (known.positions[numbers] - places[:, None]) / length[..., None]
    squares = np.square(points).sum(axis=2)
    between = squares[:, :, None] + squares[:, None, :] - 2 * points @ points.transpose(0, 2, 1)
    solutions = known.units[numbers]
    noise_variances = noise / np.maximum(_similarity_weights(solutions), 1e-9)
    size = numbers.shape[1]
    covariance = _matern(np.sqrt(np.maximum(between, 0.0))) + noise_variances[..., None] * np.eye(size)
    right = np.stack([_matern(distances / length), np.ones_like(distances)], axis=2)
    plain, ones = np.moveaxis(np.linalg.solve(covariance, right), 2, 0)
    weights = plain + ones * ((1 - plain.sum(axis=1)) / ones.sum(axis=1))[:, None]
    return np.einsum("mk,mkd->md", weights, solutions)


def _matern(distances: np.ndarray) -> np.ndarray:
    scaled = np.sqrt(3.0) * distances
    return np.asarray((1 + scaled) * np.exp(-scaled))


def _similarity_weights(solutions: np.ndarray) -> np.ndarray:
    """Return weights `(m, k)` of neighbours by the similarity of their solutions to the first, nearest one.

    The length scale is twice the lower quartile of the distances. Noise then has little effect on the weights, and very
    different solutions get weight 0.

    Args:
        solutions: `(m, k, dim)`, with the solution of the nearest task first.
    """
    apart = np.sqrt(np.square(solutions - solutions[:, :1]).mean(axis=2))
    if apart.shape[1] < 2:
        return np.ones_like(apart)
    scale = 2 * np.quantile(apart[:, 1:], 0.25, axis=1)[:, None] + 1e-12
    trust = np.exp(-0.5 * np.square(apart / scale))
    return np.where(trust > 1e-3, trust, 0.0)
