"""Coarse cells from a noisy one-way table: neighbours merged until each holds enough records.

Tables of two and three columns are measured over these. Only noisy counts and public facts come
in, so this is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.dp.consistent import on_simplex

Codes = NDArray[np.int32]

AWAY = 3  # standard deviations of its noise that a run holds at least: a dozen runs are looked at


def coarse_cells(
    noisy: ArrayLike,
    grid: int,
    levels: int,
    least: float,
    most: int,
    cuts: Sequence[int] = (),
    deviation: float = 0.0,
) -> Codes:
    """The coarse cell of each fine one, numbered from 0.

    The first `grid` cells are neighbours on a scale: runs of them are merged so that each holds
    `least` records, and there are at most `most` runs; beyond these a run is divided at the cells
    of `cuts`, where both of its parts hold `least`. `deviation` is that of a fine cell's noise: a
    run has a part that is three standard deviations of its noise away from nothing, so that no tail
    of many empty cells is taken for records. Of the `levels` that follow, those that hold
    less than `least` share one cell, where there are two or more of them. The rest (values with a
    cell of their own, missing codes, blanks) stay as they are.
    """
    counts = np.asarray(noisy, dtype=np.float64)
    mapped = np.zeros(counts.size, dtype=np.int32)
    first = 0
    if grid:
        runs = _joined(_runs(counts[:grid], least, most), counts[:grid], deviation)
        mapped[:grid] = _divided(runs, counts[:grid], least, cuts)
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


def _runs(noisy: NDArray[np.float64], least: float, most: int) -> Codes:
    """Runs of about equal size, of `least` records or more; cells without any join a neighbour."""
    total = max(float(noisy.sum()), 0.0)
    # what noise adds to empty cells is taken from all cells alike
    counts = total * on_simplex(noisy / total) if total > 0 else np.zeros_like(noisy)
    size = max(least, total / most)
    runs = max(1, min(most, int(total / size))) if size > 0 else most
    if runs >= counts.size:
        return np.arange(counts.size, dtype=np.int32)
    if total == 0:
        return (np.arange(counts.size) * runs // counts.size).astype(np.int32)
    middle = (np.cumsum(counts) - counts / 2) / total
    raw = np.minimum((middle * runs).astype(np.int32), runs - 1)
    return np.unique(raw, return_inverse=True)[1].astype(np.int32)


def _joined(runs: Codes, noisy: NDArray[np.float64], deviation: float) -> Codes:
    """The runs, those that may be noise alone joined with the smaller of their neighbours."""
    while deviation > 0 and runs[-1] > 0:
        parts = [noisy[runs == k] for k in range(int(runs[-1]) + 1)]
        lacking = [_lacking(part, deviation) for part in parts]
        worst = int(np.argmax(lacking))
        if lacking[worst] <= 0:
            break
        neighbours = [k for k in (worst - 1, worst + 1) if 0 <= k < len(parts)]
        joined = min(neighbours, key=lambda k: parts[k].sum())
        runs = np.where(runs >= max(worst, joined), runs - 1, runs)
    return runs.astype(np.int32)


def _lacking(run: NDArray[np.float64], deviation: float) -> float:
    """How many records are missing for a part of the run, from either end on, to be `AWAY` standard
    deviations of its noise away from nothing: empty cells at its other end do not matter."""
    noise = AWAY * deviation * np.sqrt(np.arange(1, run.size + 1))
    return float(min((noise - np.cumsum(way)).min() for way in (run, run[::-1])))


def _divided(runs: Codes, counts: NDArray[np.float64], least: float, cuts: Sequence[int]) -> Codes:
    """The runs, divided at cuts that leave enough records on both sides."""
    begins = np.diff(runs, prepend=-1) > 0
    for cut in sorted(cuts):
        if not 0 < cut < runs.size or begins[cut]:
            continue
        first = int(np.flatnonzero(begins[:cut])[-1])
        later = np.flatnonzero(begins[cut:])
        last = cut + int(later[0]) if later.size else runs.size
        begins[cut] = min(counts[first:cut].sum(), counts[cut:last].sum()) >= least
    return (np.cumsum(begins) - 1).astype(np.int32)
