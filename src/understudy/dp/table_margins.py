"""One table and its margins: the product of given ones, and raking to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

RAKINGS = 25  # sweeps over one small table
SETTLED = 1e-12  # the largest step of a sweep that ends it, over the total


def outer_product(margins: Sequence[Vector]) -> Vector:
    """The table of independent columns with these margins; 1 without any."""
    outer = np.ones(())
    for margin in margins:
        outer = np.multiply.outer(outer, margin)
    return outer


def rake(table: Vector, margins: Sequence[Vector]) -> Vector:
    """Iterative proportional fitting of one table to its one-way margins."""
    fitted = table.copy()
    for _ in range(RAKINGS):
        moved = 0.0
        for axis, margin in enumerate(margins):
            sums = fitted.sum(axis=others(fitted, axis))
            moved = max(moved, float(np.abs(sums - margin).max()))
            factor = np.divide(margin, sums, out=np.zeros_like(margin), where=sums > 0)
            fitted *= along(factor, axis, fitted.ndim)
        if moved < SETTLED * fitted.sum():
            break
    return fitted


def others(table: Vector, axis: int) -> tuple[int, ...]:
    """All axes but one."""
    return tuple(other for other in range(table.ndim) if other != axis)


def along(vector: Vector, axis: int, dimensions: int) -> Vector:
    """A vector as a table of so many dimensions that lies along one of them."""
    shape = [1] * dimensions
    shape[axis] = vector.size
    return vector.reshape(shape)
