"""Local linear regression over neighbouring tasks, in NumPy."""

import numpy as np


def plane_weights(away: np.ndarray, distances: np.ndarray, trust: np.ndarray | float = 1.0) -> np.ndarray:
    """Return the weights of the neighbours in a local linear prediction at each query point, shape `(m, k)`.

    The fit uses tricube weights, which decrease with distance. A tiny ridge makes the slope zero in directions in which
    the neighbours do not differ.

    Args:
        away: vectors from each query point to its neighbours, shape `(m, k, p)`.
        distances: distances to the neighbours, ascending, shape `(m, k)`.
        trust: additional weights of the neighbours, shape `(m, k)`.

    Example:
        >>> import numpy as np
        >>> plane_weights(np.array([[[1.0], [2.0]]]), np.array([[1.0, 2.0]])).round(3).tolist()
        [[2.0, -1.0]]
    """
    reach = 1.1 * span(distances)
    weights = (1 - (distances / reach) ** 3) ** 3 * trust
    weights /= weights.sum(axis=1, keepdims=True)
    away = away / reach[..., None]
    centre = np.einsum("mk,mkp->mp", weights, away)
    away = away - centre[:, None]
    spread = (away * weights[..., None]).transpose(0, 2, 1) @ away
    ridge = 1e-9 * np.trace(spread, axis1=1, axis2=2) + np.finfo(float).tiny ** 0.5
    slope = np.linalg.solve(spread + ridge[:, None, None] * np.eye(spread.shape[1]), centre[..., None])
    return np.asarray(weights * (1 - (away @ slope)[..., 0]))


def span(distances: np.ndarray) -> np.ndarray:
    """Return the distance to the furthest neighbour, shape `(m, 1)`; 1 where it is zero.

    Args:
        distances: distances to the neighbours, ascending, shape `(m, k)`.
    """
    furthest = distances[:, -1:]
    return np.where(furthest > 0, furthest, 1.0)
