"""Weighted sums of values and of their products, by cell: one pass, a few records at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

IN_CACHE = 2**13  # records of which sums are made together

Floats = NDArray[np.float64]


def moment_sums(
    cell: NDArray[np.int64], cells: int, Y: Sequence[Floats] | Floats, alpha: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Sums of alpha (cells,) and of alpha y (cells, d) within numbered cells, and Y'AY (d, d) over
    all records. Y are d columns (n,)."""
    weights = np.broadcast_to(np.asarray(alpha, dtype=np.float64), cell.shape)
    size, sums, products = np.zeros(cells), np.zeros((cells, len(Y))), np.zeros((len(Y), len(Y)))
    for first in range(0, len(cell), IN_CACHE):
        part = slice(first, first + IN_CACHE)
        columns, number, weight = [y[part] for y in Y], cell[part], weights[part]
        size += np.bincount(number, weight, cells)
        for j, column in enumerate(columns):
            weighed = weight * column
            sums[:, j] += np.bincount(number, weighed, cells)
            products[j, : j + 1] += [weighed @ other for other in columns[: j + 1]]
    return size, sums, products + np.tril(products, -1).T
