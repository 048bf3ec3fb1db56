"""Whole numbers of records for the cells of a pool, so that low-order tables stay as they are.

Each cell of a pool has an expected number of records, mostly far below one. Whichever cells get a
record, one by one, tables move by the square root of their counts, which is more than the noise of
a usual budget. So cells are rounded together:

1. A cell has the nearest whole number of records or, with twice the chance of its distance from
   it, is free to have the one below or above its expectation: each with a chance of one half.
2. Among free cells, pairs of one above and one below change places where this brings the tables
   nearer to their expectation (least squares; greedy, a random part of the cells at a time).

Only noisy tables come in, so nothing here can see a record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.dp.record_pool import (
    Codes,
    ColumnNumbers,
    Counts,
    Pool,
    Vector,
    cell_table,
    systematic,
)

FEWEST = 4  # free cells that can be balanced
ROUNDS = 500
CONSIDERED = 512  # free cells in a round
FIRST_STEP = 25.0  # pairs that change places in the first round
LONGER, SHORTER = 1.05, 0.5  # the next round's step where a step was good, and where it was not
BLOCK = 4_096  # cells whose places are computed at once
ONE_WAY = 4.0  # a one-way table counts as much as so many others


def balanced(
    pool: Pool,
    weights: Vector,
    size: int,
    tables: Sequence[ColumnNumbers],
    levels: Sequence[int],
    rng: np.random.Generator,
) -> Counts:
    """Whole counts with sum `size`, each within one of size * weight, so that the given tables and
    all one-way tables are nearly those of the weights; `levels` of each column."""
    expected = weights * (size / weights.sum())
    nearest = np.rint(expected)
    chance = 2 * np.abs(expected - nearest)
    if chance.sum() < FEWEST:
        return systematic(weights, size, rng)
    order = np.argsort(expected > nearest, kind="stable")  # about half of either kind is above
    free = order[systematic(chance[order], int(chance.sum()), rng) > 0]
    counts: Counts = nearest.astype(np.int64)
    counts[free] = np.floor(expected[free]).astype(np.int64)
    lacking = size - int(counts.sum())  # half of the free cells, but for less than 1
    above = systematic(np.ones(free.size), lacking, rng) > 0
    names = {*tables, *((column,) for column in range(len(levels)))}
    tried = _Tables(pool, counts + _at(free, above, counts.size) - expected, sorted(names), levels)
    counts[free] += tried.exchanged(free, above, rng)
    return counts


class _Tables:
    """How far the counts' tables are from the expected ones: all in one vector, `gap`.

    `strides` and `starts` give the place in it of a cell's records, for every table.
    """

    def __init__(
        self,
        pool: Pool,
        excess: Vector,
        tables: Sequence[ColumnNumbers],
        levels: Sequence[int],
    ) -> None:
        self.codes = pool.codes
        self.strides = np.zeros((len(levels), len(tables)))
        shapes = [tuple(levels[column] for column in names) for names in tables]
        sizes = [math.prod(shape) for shape in shapes]
        self.starts = np.cumsum([0, *sizes[:-1]])
        for t, (names, shape) in enumerate(zip(tables, shapes, strict=True)):
            for axis, column in enumerate(names):
                self.strides[column, t] = math.prod(shape[axis + 1 :])
        parts = zip(tables, shapes, strict=True)
        self.gap = np.concatenate(
            [cell_table(pool.codes, names, shape, excess).ravel() for names, shape in parts]
        )
        importance = np.array([ONE_WAY if len(names) == 1 else 1.0 for names in tables])
        self.importance = np.repeat(importance, sizes)
        self.own = float(importance.sum())  # what a record adds to the sum of squares by itself

    def exchanged(
        self, free: NDArray[np.intp], above: NDArray[np.bool_], rng: np.random.Generator
    ) -> NDArray[np.bool_]:
        """Which free cells are above their expectation in the end."""
        above, step = above.copy(), FIRST_STEP
        distance, all_places = self._distance(self.gap), self._places(free)
        for _ in range(ROUNDS):
            rows = np.unique(rng.integers(free.size, size=CONSIDERED))
            places = all_places[rows]
            pull = (self.importance * self.gap).take(places).sum(axis=1)
            down, up = np.flatnonzero(above[rows]), np.flatnonzero(~above[rows])
            down, up = down[np.argsort(-pull[down])], up[np.argsort(pull[up])]
            pairs = min(down.size, up.size, max(1, int(step)))
            # a pair by itself changes the sum of squares by 2 (own - the difference of its pulls)
            pairs = int(np.sum(pull[down[:pairs]] - pull[up[:pairs]] > self.own))
            while pairs:
                gap: Vector = self.gap + self._records(places[up[:pairs]])
                gap -= self._records(places[down[:pairs]])
                nearer = self._distance(gap)
                if nearer < distance:
                    self.gap, distance = gap, nearer
                    above[rows[down[:pairs]]], above[rows[up[:pairs]]] = False, True
                    step *= LONGER
                    break
                pairs, step = pairs // 2, step * SHORTER
        return above

    def _places(self, cells: NDArray[np.intp]) -> Codes:
        """Of every cell, (cells, tables); once, for each is considered many times."""
        places = np.empty((cells.size, self.starts.size), dtype=np.int32)
        for start in range(0, cells.size, BLOCK):
            rows = slice(start, start + BLOCK)
            places[rows] = self.codes[cells[rows]] @ self.strides + self.starts
        return places

    def _records(self, places: Codes) -> Counts:
        return np.bincount(places.ravel(), minlength=self.gap.size)

    def _distance(self, gap: Vector) -> float:
        return float((self.importance * gap**2).sum())


def _at(free: NDArray[np.intp], above: NDArray[np.bool_], size: int) -> Counts:
    added = np.zeros(size, dtype=np.int64)
    added[free[above]] = 1
    return added
