"""Balls of three or more sensitive variables: boxes, counted block by block.

No sorting trick stays cheap as the number of variables grows, so the boxes are compared
with the points of their own pattern directly: O(sum of squared pattern sizes), with the
memory of one block of comparisons at any n.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from understudy.risk.patterns import Floats, Integers, Patterns

BLOCK = 4_000_000  # comparisons held in memory at a time


def box_sums(
    points: Floats,
    patterns: Patterns,
    lower: Floats,
    upper: Floats,
    code: Integers,
    weights: Integers | None = None,
) -> Integers:
    """For each box, the sum of the weights (or the number) of the points it holds."""
    total = np.zeros(len(code), np.int64)
    for boxes, members, inside in _blocks(points, patterns, lower, upper, code):
        if weights is None:
            total[boxes] = inside.sum(axis=1)
        else:
            total[boxes] = np.where(inside, weights[members], 0).sum(axis=1)
    return total


def box_holders(
    points: Floats, patterns: Patterns, lower: Floats, upper: Floats, code: Integers
) -> Integers:
    """m_h: for each point, the number of boxes of its pattern that hold it."""
    total = np.zeros(points.shape[1], np.int64)
    for _, members, inside in _blocks(points, patterns, lower, upper, code):
        total[members] += inside.sum(axis=0)
    return total


def _blocks(
    points: Floats, patterns: Patterns, lower: Floats, upper: Floats, code: Integers
) -> Iterator[tuple[Integers, Integers, npt.NDArray[np.bool_]]]:
    """(boxes, points, which box holds which point) for one block of one pattern at a time."""
    count = len(patterns.size)
    by_pattern = np.argsort(patterns.code, kind="stable")
    point_start = np.concatenate([[0], np.cumsum(patterns.size)])
    by_code = np.argsort(code, kind="stable")
    box_start = np.concatenate([[0], np.cumsum(np.bincount(code, minlength=count))])
    for p in range(count):
        members = by_pattern[point_start[p] : point_start[p + 1]]
        boxes = by_code[box_start[p] : box_start[p + 1]]
        rows = max(1, BLOCK // max(1, len(members)))
        for at in range(0, len(boxes), rows):
            chosen = boxes[at : at + rows]
            inside = np.ones((len(chosen), len(members)), np.bool_)
            for values, low, high in zip(points, lower, upper, strict=True):
                inside &= values[members] >= low[chosen, None]
                inside &= values[members] <= high[chosen, None]
            yield chosen, members, inside
