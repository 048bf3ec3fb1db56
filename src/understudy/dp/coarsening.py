"""Coarse cells from a noisy one-way table: neighbours merged until each holds enough records.

Tables of two and three columns are measured over these. Only noisy counts and public facts come
in, so this is post-processing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Codes = NDArray[np.int32]


def coarse_cells(noisy: ArrayLike, grid: int, levels: int, least: float, most: int) -> Codes:
    """The coarse cell of each fine one, numbered from 0.

    The first `grid` cells are neighbours on a scale: runs of them are merged so that each holds
    `least` records, and there are at most `most` runs. Of the `levels` that follow, those that hold
    less than `least` share one cell, where there are two or more of them. The rest (values with a
    cell of their own, missing codes, blanks) stay as they are.
    """
    counts = np.maximum(np.asarray(noisy, dtype=np.float64), 0.0)
    mapped = np.zeros(counts.size, dtype=np.int32)
    first = 0
    if grid:
        mapped[:grid] = _runs(counts[:grid], least, most)
        first = int(mapped[grid - 1]) + 1
    number = first
    rare = counts[grid : grid + levels] < least
    shared = -1
    for cell in range(grid, counts.size):
        level = cell - grid
        if level < levels and rare[level] and int(rare.sum()) > 1:
            if shared < 0:
                shared, number = number, number + 1
            mapped[cell] = shared
        else:
            mapped[cell], number = number, number + 1
    return mapped


def _runs(counts: NDArray[np.float64], least: float, most: int) -> Codes:
    """Runs of about equal size, of `least` records or more; cells without any join a neighbour."""
    total = float(counts.sum())
    size = max(least, total / most)
    runs = max(1, min(most, int(total / size))) if size > 0 else most
    if runs >= counts.size:
        return np.arange(counts.size, dtype=np.int32)
    if total == 0:
        return (np.arange(counts.size) * runs // counts.size).astype(np.int32)
    middle = (np.cumsum(counts) - counts / 2) / total
    raw = np.minimum((middle * runs).astype(np.int32), runs - 1)
    return np.unique(raw, return_inverse=True)[1].astype(np.int32)
