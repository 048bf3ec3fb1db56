"""Sums and products of clipped values within public cells, on a grid, with noise from OpenDP.

A record's values z (d,) lie in [-1, 1] after clipping. What is summed over records are whole
numbers, so that integer noise is exact:

    first    round(G z_j)                                for its cell, d numbers
    second   round(G (z_j^2 - 1/2)), round(G z_j z_k)    over all cells, d (d + 1)/2 numbers

A record that is blanked takes its own part out of the sums: at most G d from the first and
G (d/2 + d (d - 1)/2) = G d^2/2 from the second, in absolute values added up (the squares are
centred, which halves what they can move). The proof is in docs/proofs/noisy-moments.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from understudy.dp.noise import Counts, exact_scale, integer_laplace

GRID = 2**20  # steps of 1: even, so that half of it is whole; n * GRID stays far below 2^63

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExactCellSums:
    """Exact sums over records whose values, clipped, lie in [-1, 1]: (Y - centre) / half. And what
    is public about them."""

    first: Counts  # (cells, d), on the grid
    second: Counts  # in the order of `pairs(d)`
    sizes: NDArray[np.int64]  # (cells,) the number of records of each
    X: Matrix  # (cells, K), one row of predictors each
    centre: Vector  # (d,)
    half: Vector  # (d,) half of the distance between the bounds
    per_unit: int  # the most records of what is protected

    @property
    def cells(self) -> int:
        return len(self.X)

    def noisy(self, epsilon: float, share: float) -> NoisyCellSums:
        """Both kinds of sums with noise: `share` of epsilon for the first, the rest for the
        second."""
        n, d = self.sizes.sum(), len(self.half)
        parts = divided(epsilon, share)
        limits = sensitivities(d, self.per_unit)
        first, second = (
            integer_laplace(exact.ravel(), limit, part) / GRID
            for exact, limit, part in zip((self.first, self.second), limits, parts, strict=True)
        )
        scales = [exact_scale(a, part) / GRID for a, part in zip(limits, parts, strict=True)]
        j, k = pairs(d)
        return NoisyCellSums(first.reshape(-1, d), second + np.where(j == k, 0.5 * n, 0.0), *scales)


def cell_sums(
    values: Matrix,
    cell: NDArray[np.int64],
    X: Matrix,
    centre: Vector,
    half: Vector,
    per_unit: int,
) -> ExactCellSums:
    """Sums of values (n, d), clipped to [-1, 1], of records in numbered cells."""
    sums = first_sums(values, cell, len(X)), second_sums(values)
    return ExactCellSums(*sums, np.bincount(cell, minlength=len(X)), X, centre, half, per_unit)


@dataclass(frozen=True, eq=False)
class NoisyCellSums:
    """Noisy sums in units of the clipped values, and the scales of their Laplace noise."""

    first: Matrix  # (cells, d)
    second: Vector  # in the order of `pairs(d)`; squares are no longer centred
    first_scale: float
    second_scale: float


def pairs(d: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places j <= k of the second moments of d values."""
    return np.triu_indices(d)


def first_sums(values: Matrix, cell: NDArray[np.int64], cells: int) -> Counts:
    """Sums on the grid of values clipped to [-1, 1], (cells, d), for each cell."""
    whole = np.rint(GRID * np.clip(values, -1.0, 1.0)).astype(np.int64)
    sums = np.zeros((cells, values.shape[1]), dtype=np.int64)
    np.add.at(sums, cell, whole)
    return sums


def second_sums(values: Matrix) -> Counts:
    """Sums on the grid of squares less 1/2 and of products of clipped values, over all records."""
    z = np.clip(values, -1.0, 1.0)
    j, k = pairs(values.shape[1])
    centred = z[:, j] * z[:, k] - np.where(j == k, 0.5, 0.0)
    return np.asarray(np.rint(GRID * centred).astype(np.int64).sum(axis=0))


def sensitivities(d: int, records_per_unit: int) -> tuple[int, int]:
    """How far blanking a unit of so many records moves the first and the second sums, in L1."""
    return GRID * d * records_per_unit, GRID * d * d * records_per_unit // 2


def divided(epsilon: float, share: float) -> tuple[Fraction, Fraction]:
    """Epsilon of the first and of the second sums, which add up exactly to what a claim prints."""
    total = Fraction(repr(float(epsilon)))
    first = total * Fraction(repr(float(share)))
    return first, total - first
