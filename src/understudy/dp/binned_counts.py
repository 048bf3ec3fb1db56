"""Counts of one value in public bins, within public cells, with noise from OpenDP once.

A record is in one bin of its cell, so that blanking a unit of k records moves the counts by at most
k in L1. The proof is in docs/proofs/noisy-moments.md.

Many bins show the shape of the values, few have little noise beside their counts. The noise of a
bin has the variance 2/epsilon^2, the count of one of B bins, n/B: of what n records say, a part of
about 2 B / (n epsilon^2) is lost. `bin_number` lets it be a twentieth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.dp.noise import Counts, exact_scale, integer_laplace

FEWEST, MOST = 8, 40  # bins
LOST = 0.05  # of what the records say

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BinnedValues:
    """Exact counts, and what is public about them."""

    counts: Counts  # (cells, bins)
    sizes: Counts  # (cells,) records of each cell, which are public
    edges: Vector  # (bins + 1,): a bin holds its lower one, the last bin both
    rows: NDArray[np.int64]  # (cells,) a record of each cell, for its predictors
    whole: bool  # whether values are whole numbers
    per_unit: int  # the most records of what is protected
    ends: bool = False  # whether the law's whole numbers end, and bins hold all of them

    @property
    def cells(self) -> int:
        return len(self.counts)

    def noisy(self, epsilon: float, share: float) -> NoisyBins:  # noqa: ARG002 (one kind of sums)
        """All of epsilon is for the counts."""
        drawn = integer_laplace(self.counts.ravel(), self.per_unit, epsilon)
        return NoisyBins(drawn.reshape(self.counts.shape), exact_scale(self.per_unit, epsilon))


@dataclass(frozen=True, eq=False)
class NoisyBins:
    counts: Counts  # (cells, bins)
    scale: float  # of their integer Laplace noise


def bin_number(records: float, epsilon: float, per_unit: int) -> int:
    """For cells of so many records on average."""
    scale = per_unit / epsilon
    return int(np.clip(LOST * records / (2 * scale**2), FEWEST, MOST))


def bin_edges(bounds: tuple[float, float], bins: int, whole: bool) -> Vector:
    """Equally wide, or, for whole numbers, by equal steps of log(1 + y) that are not below 1: the
    bins [0, 1), [1, 2) and so on, and wider ones."""
    low, high = bounds
    if not whole:
        return np.linspace(low, high, bins + 1)
    steps = np.expm1(np.linspace(0.0, np.log1p(high + 1 - low), bins + 1))
    return np.asarray(low + np.unique(np.rint(steps)), dtype=np.float64)


def whole_edges(least: int, largest: int, bins: int) -> Vector:
    """Of all whole numbers of a law that has a largest one: as equally wide as may be."""
    return np.unique(np.rint(np.linspace(least, largest + 1, bins + 1)))


def counted(values: Vector, cell: NDArray[np.int64], cells: int, edges: Vector) -> Counts:
    """Records by cell and bin; a value beyond the edges is in the nearest bin."""
    bins = len(edges) - 1
    places = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
    flat = np.bincount(cell * bins + places, minlength=cells * bins)
    return flat.reshape(cells, bins).astype(np.int64)
