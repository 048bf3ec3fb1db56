"""Balls of two sensitive variables: rectangles, counted offline in O(n log n).

Sorted by the first variable inside its pattern, the points that a rectangle can hold are a
range of positions; among them those with the second variable between two ranks are counted
by a wavelet matrix: one pass per bit of the rank, all rectangles at once.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from understudy.risk.patterns import (
    Floats,
    Integers,
    Patterns,
    ball_ranges,
    keys_of,
    patterns_of,
    sort_points,
)

_Edge = tuple[Floats, Literal["left", "right"], int]  # corner coordinate, side, sign


def rectangle_sums(
    points: Floats,
    patterns: Patterns,
    lower: Floats,
    upper: Floats,
    code: Integers,
    weights: Integers | None = None,
) -> Integers:
    """For each rectangle, the sum of the weights (or the number) of the points it holds.

    points (2, n) with their patterns; lower, upper (2, q) and code (q,) of the rectangles.
    """
    sorted_points = sort_points(points[0], patterns)
    first, past = ball_ranges(sorted_points, lower[0], upper[0], code)
    rank, ascending = _ranks(points[1])
    point_weights = np.ones(len(rank), np.int64) if weights is None else weights
    bounds = np.concatenate(
        [
            np.searchsorted(ascending, upper[1], "right"),
            np.searchsorted(ascending, lower[1], "left"),
        ]
    )
    below = sums_below(
        rank[sorted_points.order],
        point_weights[sorted_points.order],
        np.concatenate([first, first]),
        np.concatenate([past, past]),
        bounds,
    )
    return below[: len(code)] - below[len(code) :]


def rectangle_holders(
    points: Floats, patterns: Patterns, lower: Floats, upper: Floats, code: Integers
) -> Integers:
    """m_h: for each point, the number of rectangles of its pattern that hold it.

    A rectangle holds (x, y) when [lower_1 <= x] - [upper_1 < x] times the same in y is 1:
    four dominance counts over the rectangles' corners.
    """
    owners = patterns_of(code, len(patterns.size))
    keys = keys_of(patterns.code, points[0])
    ones = np.ones(len(code), np.int64)
    edges_x: tuple[_Edge, _Edge] = ((lower[0], "right", 1), (upper[0], "left", -1))
    edges_y: tuple[_Edge, _Edge] = ((lower[1], "right", 1), (upper[1], "left", -1))
    total = np.zeros(points.shape[1], np.int64)
    for edge_x, side_x, sign_x in edges_x:
        corners = sort_points(edge_x, owners)
        first = corners.start[patterns.code]
        past = np.searchsorted(corners.key, keys, side_x)
        for edge_y, side_y, sign_y in edges_y:
            rank, ascending = _ranks(edge_y)
            bound = np.searchsorted(ascending, points[1], side_y)
            total += sign_x * sign_y * sums_below(rank[corners.order], ones, first, past, bound)
    return total


def sums_below(
    rank: Integers, weights: Integers, first: Integers, past: Integers, bound: Integers
) -> Integers:
    """Sum of weights[h] over first <= h < past with rank[h] < bound, for all queries at once.

    Wavelet matrix: at each bit, from the highest, positions are parted stably by that bit of
    their rank. A query whose bound has the bit takes all of the zeros and goes on among the
    ones; any other goes on among the zeros. Additions of integers only.
    """
    total = np.zeros(len(first), np.int64)
    if len(rank) == 0 or len(first) == 0:
        return total
    nothing = np.zeros(1, np.int64)
    highest = max(int(rank.max()), int(bound.max()))
    for bit in reversed(range(highest.bit_length())):
        zero = ((rank >> bit) & 1) == 0
        zeros_before = np.concatenate([nothing, np.cumsum(zero)])
        weight_before = np.concatenate([nothing, np.cumsum(np.where(zero, weights, 0))])
        takes = ((bound >> bit) & 1) == 1
        total += np.where(takes, weight_before[past] - weight_before[first], 0)
        zeros_first, zeros_past = zeros_before[first], zeros_before[past]
        first = np.where(takes, zeros_before[-1] + first - zeros_first, zeros_first)
        past = np.where(takes, zeros_before[-1] + past - zeros_past, zeros_past)
        parted = np.concatenate([np.flatnonzero(zero), np.flatnonzero(~zero)])
        rank, weights = rank[parted], weights[parted]
    return total


def _ranks(values: Floats) -> tuple[Integers, Floats]:
    """Distinct ranks 0..n-1 (ties in any order) and the values ascending."""
    order = np.argsort(values)
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    return rank, values[order]
