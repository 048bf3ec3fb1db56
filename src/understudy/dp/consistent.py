"""Noisy tables of the same records, brought to agree with each other. All post-processing.

Tables that share a column must have the same totals for its levels, and no table has negative
counts. Everything here is in shares: each table adds up to 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]
ColumnNumbers = tuple[int, ...]

RAKINGS = 25  # sweeps over one small table; it settles to rounding in far fewer


def consistent(noisy: Sequence[ArrayLike], columns: Sequence[ColumnNumbers]) -> list[Vector]:
    """Tables with common totals, equal one-way margins and no negative share.

    `noisy[t]` has one axis for each column in `columns[t]`. The margin of a column is the average
    of what its tables say, each weighted by the inverse variance of its sum (noise adds up over
    the other axes), and tables are moved to it by least squares; then negative shares go and the
    margins are raked in again.
    """
    tables = [np.asarray(table, dtype=np.float64) for table in noisy]
    total = float(np.mean([table.sum() for table in tables]))
    total = total if total > 0 else 1.0
    tables = [table / total for table in tables]
    margins = {
        column: on_simplex(_margin(tables, columns, column))
        for column in sorted({column for table in columns for column in table})
    }
    return [
        _fitted(table, [margins[column] for column in names])
        for table, names in zip(tables, columns, strict=True)
    ]


def on_simplex(values: ArrayLike) -> Vector:
    """The nearest vector (least squares) with no negative entry and sum 1.

    One constant is taken from all entries, and what falls below 0 becomes 0.
    """
    array = np.asarray(values, dtype=np.float64)
    flat = np.sort(array.ravel())[::-1]
    excess = (np.cumsum(flat) - 1) / np.arange(1, flat.size + 1)
    last = int(np.flatnonzero(flat - excess > 0)[-1])
    return np.asarray(np.maximum(array - excess[last], 0), dtype=np.float64)


def rake(table: Vector, margins: Sequence[Vector]) -> Vector:
    """Iterative proportional fitting of one table to its one-way margins."""
    fitted = table.copy()
    for _ in range(RAKINGS):
        for axis, margin in enumerate(margins):
            sums = fitted.sum(axis=_others(fitted, axis))
            factor = np.divide(margin, sums, out=np.zeros_like(margin), where=sums > 0)
            fitted *= _along(factor, axis, fitted.ndim)
    return fitted


def _margin(tables: Sequence[Vector], columns: Sequence[ColumnNumbers], column: int) -> Vector:
    total, weights = np.zeros(1), 0.0
    for table, names in zip(tables, columns, strict=True):
        if column in names:
            axis = names.index(column)
            weight = table.shape[axis] / table.size  # 1 / how many noisy cells are summed
            total = total + weight * table.sum(axis=_others(table, axis))
            weights += weight
    return np.asarray(total / weights, dtype=np.float64)


def _fitted(table: Vector, margins: Sequence[Vector]) -> Vector:
    moved = table
    for axis, margin in enumerate(margins):
        gap = margin - moved.sum(axis=_others(moved, axis))
        moved = moved + _along(gap * moved.shape[axis] / moved.size, axis, moved.ndim)
    # a level with a positive margin keeps a way to be reached
    outer = margins[0]
    for margin in margins[1:]:
        outer = np.multiply.outer(outer, margin)
    return rake(on_simplex(moved) + 1e-9 * outer, margins)


def _others(table: Vector, axis: int) -> tuple[int, ...]:
    return tuple(other for other in range(table.ndim) if other != axis)


def _along(vector: Vector, axis: int, dimensions: int) -> Vector:
    shape = [1] * dimensions
    shape[axis] = vector.size
    return vector.reshape(shape)
