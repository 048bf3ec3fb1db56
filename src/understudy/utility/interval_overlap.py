"""Overlap of two confidence intervals (Karr, Kohnen, Oganian, Reiter and Sanil 2006)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy.errors import Refused

__public__ = ("interval_overlap",)

Floats = npt.NDArray[np.float64]


def interval_overlap(
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    other_lower: npt.ArrayLike,
    other_upper: npt.ArrayLike,
    *,
    below_zero: bool = False,
) -> Floats:
    """J = (share of the first interval that is common + share of the second) / 2.

    1 for equal intervals, 0 for disjoint ones. With `below_zero` disjoint intervals go on
    below zero as they move apart, which tells a near miss from a far one. An interval of no
    length counts as wholly inside another that holds its point. Arrays are taken element by
    element.
    """
    a, b, c, d = np.broadcast_arrays(
        *(np.asarray(edge, dtype=np.float64) for edge in (lower, upper, other_lower, other_upper))
    )
    if not all(np.isfinite(edge).all() for edge in (a, b, c, d)):
        raise Refused("The overlap needs finite interval limits; leave out estimates without them.")
    if (a > b).any() or (c > d).any():
        raise Refused("A lower limit is above its upper limit; give lower, upper in this order.")
    common = np.minimum(b, d) - np.maximum(a, c)
    overlap = (_share(common, b - a) + _share(common, d - c)) / 2
    return overlap if below_zero else np.maximum(overlap, 0.0)


def _share(common: Floats, length: Floats) -> Floats:
    """common / length; a point is wholly common (1) or not at all (0)."""
    point = length == 0
    return np.where(point, (common >= 0).astype(np.float64), common / np.where(point, 1.0, length))
