"""Weighted sums of values and of their products, by cell: one pass, a few records at a time.

An addition to a sum waits for the one before it to the same sum. Where cells are few, so that
records one after another are often of one cell, each cell has several sums, which records take in
turns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

IN_CACHE = 2**13  # records of which sums are made together
TURNS = 8  # sums of a cell
FEW_CELLS = 2**7  # with which all sums of a block are much fewer than its records

Floats = NDArray[np.float64]


def moment_sums(
    cell: NDArray[np.int64], cells: int, Y: Sequence[Floats] | Floats, alpha: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Sums of alpha (cells,) and of alpha y (cells, d) within numbered cells, and Y'AY (d, d) over
    all records. Y are d columns (n,)."""
    weights = np.broadcast_to(np.asarray(alpha, dtype=np.float64), cell.shape)
    turns = TURNS if cells <= FEW_CELLS else 1
    turn = np.arange(IN_CACHE) % turns * cells
    size, sums = np.zeros(turns * cells), np.zeros((len(Y), turns * cells))
    products = np.zeros((len(Y), len(Y)))
    for first in range(0, len(cell), IN_CACHE):
        part = slice(first, first + IN_CACHE)
        columns, weight = [y[part] for y in Y], weights[part]
        number = cell[part] + turn[: len(weight)] if turns > 1 else cell[part]
        size += np.bincount(number, weight, turns * cells)
        for j, column in enumerate(columns):
            weighed = weight * column
            sums[j] += np.bincount(number, weighed, turns * cells)
            products[j, : j + 1] += [weighed @ other for other in columns[: j + 1]]
    by_cell = sums.reshape(len(Y), turns, cells).sum(axis=1).T
    return size.reshape(turns, cells).sum(axis=0), by_cell, products + np.tril(products, -1).T
