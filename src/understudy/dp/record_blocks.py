"""Records in blocks that share a cell and lie near each other, so that most is settled by block.

A block is a cell's records in one box of a grid. For quadratic functions of their values (one for
each cell and draw: quadratics.py) it is known from the box alone

- which draws can be the highest or the lowest at any of its records: record bounds look at these
  draws only;
- whether a clip cuts all, none or some of its records: where none, the sum of contributions
  follows from sums of the records' powers, and records are looked at in the blocks between.

Nothing is approximated: all is as by a pass over all records and draws, but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from understudy.dp.quadratics import about, powers, reach
from understudy.one_blas_thread import one_blas_thread

RECORDS = 512  # of a block, on average, within two standard deviations
MOST_KEYS = 2**62  # that are told apart
NUMBERS = 2**20  # coefficients that are looked at together

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Quadratics = Callable[[int], Array]  # of a cell: coefficients (draws, q)


@dataclass(frozen=True, eq=False)
class RecordBlocks:
    """Values are (y - origin) / unit; `offset` (n, d) those of the records in `order`, less the
    centre of their block. Block b has the places starts[b] to starts[b + 1] of the order."""

    order: Whole
    starts: Whole  # (blocks + 1,)
    cell: Whole  # (blocks,), ascending
    centre: Array  # (blocks, d)
    half: Array  # (blocks, d)
    offset: Array
    origin: Array  # (d,)
    unit: Array  # (d,)

    @property
    def n(self) -> int:
        return len(self.order)

    @cached_property
    def powers(self) -> Array:
        """Of the offsets, (n, q)."""
        return powers(self.offset)

    def by_record(self, ordered: Array) -> Array:
        """Numbers in the blocks' order, as the records were."""
        out = np.empty_like(ordered)
        out[self.order] = ordered
        return out

    @one_blas_thread()
    def lowest_and_highest(self, quadratics: Quadratics) -> tuple[Array, Array]:
        """Over the draws, at every record: (n,) each, as the records were."""
        low, high = np.empty(self.n), np.empty(self.n)
        for blocks, functions in self._functions(quadratics):
            apart = functions - functions.mean(axis=0)
            middle, away = apart[..., 0], reach(apart, self.half[blocks])
            least, most = middle - away, middle + away
            # with "not below", draws that are not finite stay: what they make of a record counts
            may_top, may_bottom = ~(most < least.max(axis=0)), ~(least > most.min(axis=0))
            for column, block in enumerate(blocks):
                span = slice(self.starts[block], self.starts[block + 1])
                each = self.powers[span]
                high[span] = (each @ functions[may_top[:, column], column].T).max(axis=1)
                low[span] = (each @ functions[may_bottom[:, column], column].T).min(axis=1)
        return self.by_record(low), self.by_record(high)

    @one_blas_thread()
    def clipped_sums(self, quadratics: Quadratics, alpha: Array, limit: float) -> Array:
        """sum_i clip(alpha_i f(u_i), -limit, limit) for every draw, (draws,); alpha as the records
        were."""
        weight, first, size = alpha[self.order], self.starts[:-1], np.diff(self.starts)
        weighed = weight[:, None] * self.powers
        sums = np.add.reduceat(weighed, first)
        lightest, heaviest = (f.reduceat(weight, first) for f in (np.minimum, np.maximum))
        parts = []
        for blocks, functions in self._functions(quadratics):
            middle, away = functions[..., 0], reach(functions, self.half[blocks])
            inside = heaviest[blocks] * (np.abs(middle) + away) <= limit
            outside = lightest[blocks] * (np.abs(middle) - away) >= limit
            uncut = np.einsum("sbq,bq->sb", functions, sums[blocks])
            cut = np.sign(middle) * limit * size[blocks]
            part = np.where(inside, uncut, np.where(outside, cut, 0.0)).sum(axis=1)
            between = ~(inside | outside)
            for column in np.flatnonzero(between.any(axis=0)):
                span = slice(self.starts[blocks[column]], self.starts[blocks[column] + 1])
                draws = np.flatnonzero(between[:, column])
                each = weighed[span] @ functions[draws, column].T
                # what does not exist counts as -limit (dp/contributions)
                each = np.where(np.isnan(each), -limit, np.clip(each, -limit, limit))
                part[draws] += each.sum(axis=0)
            parts.append(part)
        return np.asarray(np.sum(parts, axis=0))

    def _functions(self, quadratics: Quadratics) -> Iterator[tuple[Whole, Array]]:
        """A few blocks of one cell at a time, and the functions about their centres:
        (draws, blocks, q)."""
        edges = np.flatnonzero(np.diff(self.cell)) + 1
        for blocks in np.split(np.arange(len(self.cell)), edges):
            of_cell = quadratics(int(self.cell[blocks[0]]))
            few = max(1, NUMBERS // of_cell.size)
            for first in range(0, len(blocks), few):
                part = blocks[first : first + few]
                yield part, about(of_cell, self.centre[part])


def record_blocks(cell: Whole, values: Array, origin: Array, unit: Array) -> RecordBlocks:
    """Blocks of records with values (n, d) in numbered cells."""
    n, d = values.shape
    scaled = (values - origin) / unit
    per_cell = n / (int(cell.max()) + 1)
    width = 4.0 / max(1.0, (per_cell / RECORDS) ** (1 / d))
    key = cell
    for step in np.floor(scaled / width).astype(np.int64).T:
        steps = int(step.max() - step.min()) + 1
        if int(key.max() + 1) * steps > MOST_KEYS:  # values far away, and many columns
            key = np.unique(key, return_inverse=True)[1].reshape(-1)
        key = key * steps + (step - step.min())
    order = np.argsort(key)
    key, scaled = key[order], scaled[order]
    starts = np.r_[0, np.flatnonzero(np.diff(key)) + 1, n]
    low, high = (f.reduceat(scaled, starts[:-1]) for f in (np.minimum, np.maximum))
    centre = (low + high) / 2
    offset = scaled - np.repeat(centre, np.diff(starts), axis=0)
    return RecordBlocks(
        order, starts, cell[order][starts[:-1]], centre, (high - low) / 2, offset, origin, unit
    )
