"""Record weights alpha in [0, 1] from record bounds (C §2.1, §2.2, §4.4, §4.5).

A record weight is not a design weight: it says how much of a record's log-likelihood enters
the pseudo posterior. Record bounds are D_i = max over draws of |f_i(theta)|.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.errors import Refused

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PlacedBounds:
    """Record bounds of records that are elsewhere: how a record's own values give its bound (the
    draws' quadratics by cell, dp/record_blocks), and what is known of all records."""

    quadratics: Vector  # (draws, cells, q)
    low: float  # the least bound of any record,
    high: float  # and the largest


@dataclass(frozen=True, eq=False)
class PlacedWeights:
    """Record weights of records that are elsewhere, as a function of their bounds."""

    bounds: PlacedBounds
    of_bounds: Callable[[Vector], Vector]


@overload
def linear_weights(bounds: PlacedBounds, c1: float = 1.0, c2: float = 0.0) -> PlacedWeights: ...
@overload
def linear_weights(
    bounds: ArrayLike,
    c1: float = 1.0,
    c2: float = 0.0,
    low: float | None = None,
    high: float | None = None,
) -> Vector: ...
def linear_weights(
    bounds: ArrayLike | PlacedBounds,
    c1: float = 1.0,
    c2: float = 0.0,
    low: float | None = None,
    high: float | None = None,
) -> Vector | PlacedWeights:
    """alpha_i = clip(c1 (1 - (D_i - low)/(high - low)) + c2, 0, 1): the map that reproduces C.

    `low` and `high` are the least and the largest finite bound of this file, or fixed numbers
    from a historical file (C §4.5); then a bound above `high` gets less than `high` itself does.
    A bound that is not finite gives 0, whatever c2 is (C §2.1).

    When all bounds are equal (high = low) the map is 0/0. Its limit is a step: bounds up to
    `low` get alpha = 1 before c1 and c2, larger ones 0. With the file's own bounds all records
    then weigh 1: none is riskier than another, and the claim states the bound that results.
    """
    if isinstance(bounds, PlacedBounds):
        return PlacedWeights(bounds, _Linear(c1, c2, bounds.low, bounds.high))
    bounds = _bounds(bounds)
    if not (np.isfinite(c1) and np.isfinite(c2) and c1 >= 0):
        raise Refused("c1 must be a finite number of at least 0 and c2 a finite number.")
    finite = np.isfinite(bounds)
    if not finite.any():
        return np.zeros_like(bounds)
    low = float(bounds[finite].min()) if low is None else float(low)
    high = float(bounds[finite].max()) if high is None else float(high)
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise Refused("`low` and `high` must be finite with low <= high; take both from one file.")
    known = np.where(finite, bounds, high)
    step = (known <= low).astype(np.float64)
    alpha = 1.0 - (known - low) / (high - low) if high > low else step
    return np.where(finite, np.clip(c1 * alpha + c2, 0.0, 1.0), 0.0)


@overload
def inverse_weights(bounds: PlacedBounds, target: float, c2: float = 0.0) -> PlacedWeights: ...
@overload
def inverse_weights(bounds: ArrayLike, target: float, c2: float = 0.0) -> Vector: ...
def inverse_weights(
    bounds: ArrayLike | PlacedBounds, target: float, c2: float = 0.0
) -> Vector | PlacedWeights:
    """alpha_i = clip(target / D_i + c2, 0, 1); without c2 each weighted bound is at most `target`
    on these draws.

    It is the map that T §1.4.1 prints, clip(c1 alpha_i + c2, 0, 1) with alpha_i proportional to
    1/D_i and 1 at most: alpha_i = min D / D_i and c1 = target / min D. A bound of 0 gives 1, one
    that is not finite 0, whatever c2 is.
    """
    if isinstance(bounds, PlacedBounds):
        return PlacedWeights(bounds, _Inverse(target, c2))
    bounds = _bounds(bounds)
    if not (np.isfinite(target) and target > 0 and np.isfinite(c2)):
        raise Refused(
            "The target of the weighted bounds must be a finite number above 0, and c2 finite."
        )
    with np.errstate(divide="ignore", over="ignore"):
        alpha = np.clip(target / bounds + c2, 0.0, 1.0)
    return np.where(np.isfinite(bounds), alpha, 0.0)


@dataclass(frozen=True)
class _Linear:
    c1: float
    c2: float
    low: float
    high: float

    def __call__(self, bounds: Vector) -> Vector:
        return linear_weights(bounds, self.c1, self.c2, self.low, self.high)


@dataclass(frozen=True)
class _Inverse:
    target: float
    c2: float

    def __call__(self, bounds: Vector) -> Vector:
        return inverse_weights(bounds, self.target, self.c2)


def truncate_weights(alpha: ArrayLike, weighted_bounds: ArrayLike, limit: float) -> Vector:
    """alpha*_i = alpha_i, or 0 where max_s |alpha_i f_i| > limit = epsilon/2 (Weighted-e, C §2.2).

    `weighted_bounds` are the bounds after weighting. One that is not finite gives 0.
    """
    alpha = np.asarray(alpha, dtype=np.float64)
    weighted_bounds = _bounds(weighted_bounds)
    if alpha.shape != weighted_bounds.shape:
        raise Refused("There must be one weighted bound per record weight.")
    if not ((alpha >= 0) & (alpha <= 1)).all():
        raise Refused("Record weights must lie between 0 and 1.")
    if not (np.isfinite(limit) and limit > 0):
        raise Refused("The limit of the weighted bounds (epsilon/2) must be finite and above 0.")
    return np.where(np.isfinite(weighted_bounds) & (weighted_bounds <= limit), alpha, 0.0)


def _bounds(bounds: ArrayLike) -> Vector:
    array = np.asarray(bounds, dtype=np.float64)
    if array.ndim != 1:
        raise Refused("Record bounds must be one number per record, in one dimension.")
    if (array < 0).any():
        raise Refused("Record bounds are absolute values; take the maximum of |log-likelihood|.")
    return array
