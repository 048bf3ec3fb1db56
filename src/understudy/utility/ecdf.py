"""How far apart two empirical distributions are: U_m and U_a (Woo et al. 2009; C §4.3, R §3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.errors import Refused

__public__ = ("ecdf_distance",)

Vector = NDArray[np.float64]


def ecdf_distance(
    a: ArrayLike,
    b: ArrayLike,
    weights_a: ArrayLike | None = None,
    weights_b: ArrayLike | None = None,
) -> tuple[float, float]:
    """(max, mean_square) of F_a - F_b over the pooled values of both files (methods §9).

    max is U_m, the Kolmogorov-Smirnov distance; mean_square is U_a, the mean of the squared
    difference over all records of both files, each counted once. Weights (design weights, any
    scale) enter the two distribution functions, not the mean over records. O(n log n).
    """
    first, second = _values(a), _values(b)
    pooled = np.concatenate([first, second])
    pooled.sort()  # neighbours are looked for side by side, in half the time
    difference = _ecdf(first, weights_a, pooled) - _ecdf(second, weights_b, pooled)
    return float(np.abs(difference).max()), float(np.mean(difference**2))


def _ecdf(values: Vector, weights: ArrayLike | None, at: Vector) -> Vector:
    """The share of weight at or below each point of `at`."""
    if weights is None:
        counts = np.searchsorted(np.sort(values), at, side="right")
        return np.asarray(counts / values.size, dtype=np.float64)
    weight = np.asarray(weights, dtype=np.float64)
    if weight.shape != values.shape:
        raise Refused("There must be one weight per value.")
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
        raise Refused("Weights must be finite, not negative, and not all 0.")
    order = np.argsort(values, kind="stable")
    below = np.concatenate([[0.0], np.cumsum(weight[order])])
    weight_below = below[np.searchsorted(values[order], at, side="right")]
    return np.asarray(weight_below / below[-1], dtype=np.float64)


def _values(values: ArrayLike) -> Vector:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise Refused("The ECDF distance compares two one-dimensional arrays, neither empty.")
    if np.isnan(array).any():
        raise Refused("The ECDF distance is not defined with missing values; drop them first.")
    return array
