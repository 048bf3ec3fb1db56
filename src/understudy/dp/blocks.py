"""Blocks of neighbouring cells of a noisy table, drawn to a smooth table before the cells are.

A part of a group that lies far away from the rest, such as the old among those who never went to
school, is in many cells, each smaller than its noise. Cell by cell it is lost; in sums over
neighbours it stands out, since noise grows with the root of their number. So a table is looked at
in blocks of its scales first: each scale whole, in halves, in quarters, and so on. What a smooth
table lacks in a block is kept as far as the noise of such sums suggests (`kept_share`) and added to
it, and the next smaller blocks are compared with that.

A block's deviation is taken to vary with the geometric mean of what the smooth table and the
product of the margins expect of it. The smooth table alone would expect nothing of a part that it
lacks, and leave it out; the product alone would expect records everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.dp.kept_share import NOTHING, kept_share
from understudy.dp.table_margins import rake

Vector = NDArray[np.float64]

DIVISIONS = (1, 2, 4, 8)  # blocks of a scale, one after the other


@dataclass(frozen=True, eq=False)
class Blocks:
    """A division of a table: the block of each cell along each axis, what is kept of a change of
    the sum in each block, and the part of it that each cell of the block has."""

    places: list[NDArray[np.intp]]
    slope: Vector  # (blocks)
    profile: Vector  # (cells)

    def added(self, deviation: Vector) -> Vector:
        """What is kept of a deviation."""
        return self.spread(self.slope * sums(deviation, self.places))

    def spread(self, of_blocks: Vector) -> Vector:
        """What each block has, over its cells."""
        return np.asarray(self.profile * of_blocks[np.ix_(*self.places)], dtype=np.float64)

    def noise(self, variance: float) -> Vector:
        """The variance of what is kept where cells have independent noise of this variance."""
        cells = sums(np.ones_like(self.profile), self.places)
        return self.profile * self.spread(self.slope**2 * cells * variance)


def sums(table: Vector, places: Sequence[NDArray[np.intp]]) -> Vector:
    """The table's sums in blocks, which are runs of cells along each axis."""
    for axis, along in enumerate(places):
        starts = np.searchsorted(along, np.arange(int(along[-1]) + 1))
        table = np.add.reduceat(table, starts, axis=axis)
    return table


def expected(smooth: Vector, outer: Vector) -> Vector:
    """What deviations vary with: the geometric mean of a smooth table and of independence."""
    return np.asarray(np.sqrt(smooth * outer), dtype=np.float64)


def drawn_by_blocks(
    table: Vector,
    smooth: Vector,
    outer: Vector,
    margins: Sequence[Vector],
    scales: Sequence[int],
    variance: float,
) -> tuple[Vector, list[Blocks]]:
    """The smooth table with what its blocks lack, and the rules for what is kept of deviations.
    `scales[axis]` cells of an axis lie on a scale, 0 where none do."""
    rules: list[Blocks] = []
    for division in DIVISIONS:
        if division >= max(scales):
            break
        places = [
            _places(cells, on, division) for cells, on in zip(smooth.shape, scales, strict=True)
        ]
        of_smooth = sums(smooth, places)
        if min(of_smooth.shape) < 2:  # margins, which are met
            continue
        lacking = sums(table, places) - of_smooth
        cells = sums(np.ones_like(table), places)
        varies = expected(of_smooth, sums(outer, places))
        # of a block's mean cell, so that all have the same noise
        kept = kept_share(lacking / np.sqrt(cells), varies / cells, variance)
        more = (lacking > 0)[np.ix_(*places)]
        parts = np.where(more, expected(smooth, outer), smooth)
        profile = parts / np.maximum(sums(parts, places), NOTHING**2)[np.ix_(*places)]
        rules.append(Blocks(places, kept.slope, profile))
        moved = np.maximum(smooth + rules[-1].spread(kept.share * lacking), 0.0)
        smooth = rake(moved + NOTHING * outer, margins)
    return smooth, rules


def _places(cells: int, scale: int, division: int) -> NDArray[np.intp]:
    """The block of each cell: a scale in so many runs of cells, and each other cell by itself."""
    runs = min(division, scale)
    on_scale = np.arange(scale) * runs // max(scale, 1)
    return np.concatenate([on_scale, runs + np.arange(cells - scale)]).astype(np.intp)
