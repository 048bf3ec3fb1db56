"""Noisy tables of the same records, brought to agree with each other. All post-processing.

Tables that share a column must have the same totals for its levels, and no table has negative
counts. Everything here is in shares: each table adds up to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]
ColumnNumbers = tuple[int, ...]

NOTHING = 1e-9  # a share that stands for none
EXACT = 1e12  # weight of a table without noise
FEWEST = 4  # cells from which a spread can be estimated
RAKINGS = 25  # sweeps over one small table; it settles to rounding in far fewer


@dataclass(frozen=True, eq=False)
class Agreed:
    """Tables of shares that agree, and the total that they are shares of."""

    tables: list[Vector]
    margins: dict[int, Vector]  # of each column
    total: float


def consistent(
    noisy: Sequence[ArrayLike],
    columns: Sequence[ColumnNumbers],
    variances: Sequence[float] | None = None,
) -> list[Vector]:
    """Tables with common totals, equal one-way margins and no negative share.

    `noisy[t]` has one axis for each column in `columns[t]`, and cells with noise of variance
    `variances[t]` (all alike by default). The margin of a column is the average of what its tables
    say, each weighted by the inverse variance of its sum (noise adds up over the other axes), and
    tables are moved to it by least squares; then negative shares go and the margins are raked in
    again.
    """
    alike = np.ones(len(noisy)) if variances is None else variances
    return agreed([noisy], columns, alike, shrink=False)[0].tables


def agreed(
    sets: Sequence[Sequence[ArrayLike]],
    columns: Sequence[ColumnNumbers],
    variances: Sequence[float] | Vector,
    shrink: bool = True,
) -> list[Agreed]:
    """Consistent tables of the average over several sets of the same noisy tables, and of each set.

    The average comes first. What depends on the tables in a way that is not linear (which cells are
    empty, how far a table is drawn to independence) is settled on the average; a set is the
    average's fit plus its own deviation from the average (`moved_within`), so that the spread
    between sets is that of their noise, but in cells smaller than it, and their mean is the
    average's fit.
    `variances` are those of one set. With `shrink`, tables are drawn to independence of their
    columns as far as their noise suggests (`kept_share`).
    """
    arrays = [[np.asarray(table, dtype=np.float64) for table in tables] for tables in sets]
    count = len(arrays)
    pooled = [np.mean([tables[t] for tables in arrays], axis=0) for t in range(len(columns))]
    spread = np.asarray(variances, dtype=np.float64) / count
    linear = _margins(pooled, columns, spread)
    margins = {name: on_simplex(margin) for name, margin in linear.margins.items()}
    whole = Agreed([], margins, linear.total)
    kept: list[Vector | float] = []
    plain: list[Vector] = []  # before negative shares go
    for table, names, variance in zip(pooled, columns, spread, strict=True):
        mine = [margins[name] for name in names]
        outer = outer_product(mine)
        moved = _moved(table / whole.total, mine)
        shrinks = shrink and len(names) > 1
        kept.append(kept_share(moved - outer, outer, variance / whole.total**2) if shrinks else 1.0)
        plain.append(outer + kept[-1] * (moved - outer))
        whole.tables.append(_raked(plain[-1], mine))
    return [whole, *(_one_set(t, columns, spread, linear, whole, plain, kept) for t in arrays)]


def _one_set(
    tables: Sequence[Vector],
    columns: Sequence[ColumnNumbers],
    spread: Vector,
    linear: Agreed,
    whole: Agreed,
    plain: Sequence[Vector],
    kept: Sequence[Vector | float],
) -> Agreed:
    own = _margins(tables, columns, spread)
    margins = {
        name: on_simplex(moved_within(margin, own.margins[name] - linear.margins[name]))
        for name, margin in whole.margins.items()
    }
    fitted = []
    for t, (table, names) in enumerate(zip(tables, columns, strict=True)):
        mine = [margins[name] for name in names]
        outer = outer_product(mine)
        moved = outer + kept[t] * (_moved(table / own.total, mine) - outer)
        fitted.append(_raked(moved_within(whole.tables[t], moved - plain[t]), mine))
    return Agreed(fitted, margins, own.total)


def moved_within(shares: Vector, deviation: Vector) -> Vector:
    """Shares moved by a deviation, by no more than their own size either way: none is negative, and
    a deviation that is as likely up as down leaves them unbiased."""
    return np.asarray(shares + np.clip(deviation, -shares, shares), dtype=np.float64)


def kept_share(deviation: Vector, expected: Vector, variance: float) -> Vector:
    """How much of each cell's deviation from what was expected is kept, between 0 and 1.

    Deviations are taken as N(0, t e) of cells with expected share e (departures grow with the
    cell, as those of chi-square do), seen with noise of the given variance; t is the one that makes
    them likeliest. What is kept, t e / (t e + variance), is then the posterior mean (empirical
    Bayes). All of it is post-processing.
    """
    if variance <= 0 or deviation.size < FEWEST:
        return np.ones_like(expected)
    e, squares = np.maximum(expected.ravel(), NOTHING), deviation.ravel() ** 2
    steps = variance / e.mean() * np.exp(np.linspace(-6.0, 12.0, 73))
    spreads = steps[:, None] * e + variance
    likelihood = -(np.log(spreads) + squares / spreads).sum(axis=1)
    t = float(steps[int(np.argmax(likelihood))])
    return np.asarray(t * expected / (t * expected + variance), dtype=np.float64)


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


def outer_product(margins: Sequence[Vector]) -> Vector:
    """The table of independent columns with these margins."""
    outer = margins[0]
    for margin in margins[1:]:
        outer = np.multiply.outer(outer, margin)
    return outer


def _margins(
    tables: Sequence[Vector], columns: Sequence[ColumnNumbers], variances: Sequence[float] | Vector
) -> Agreed:
    """The total and every column's margin in shares, by inverse variance; not yet projected."""
    precise = [1 / (v * t.size) if v > 0 else EXACT for t, v in zip(tables, variances, strict=True)]
    total = sum(w * float(t.sum()) for t, w in zip(tables, precise, strict=True)) / sum(precise)
    total = total if total > 0 else 1.0
    margins = {}
    for column in sorted({column for names in columns for column in names}):
        sums, weights = np.zeros(1), 0.0
        for table, names, variance in zip(tables, columns, variances, strict=True):
            if column in names:
                axis = names.index(column)
                # the noise of a sum has the variance of each of the cells in it
                weight = table.shape[axis] / table.size / variance if variance > 0 else EXACT
                sums = sums + weight * table.sum(axis=_others(table, axis))
                weights += weight
        margins[column] = np.asarray(sums / weights / total, dtype=np.float64)
    return Agreed([], margins, total)


def _moved(table: Vector, margins: Sequence[Vector]) -> Vector:
    """The nearest table (least squares) with these margins."""
    moved = table
    for axis, margin in enumerate(margins):
        gap = margin - moved.sum(axis=_others(moved, axis))
        moved = moved + _along(gap * moved.shape[axis] / moved.size, axis, moved.ndim)
    return moved


def _raked(table: Vector, margins: Sequence[Vector]) -> Vector:
    if len(margins) == 1:
        return margins[0]
    # a level with a positive margin keeps a way to be reached
    return rake(on_simplex(table) + NOTHING * outer_product(margins), margins)


def _others(table: Vector, axis: int) -> tuple[int, ...]:
    return tuple(other for other in range(table.ndim) if other != axis)


def _along(vector: Vector, axis: int, dimensions: int) -> Vector:
    shape = [1] * dimensions
    shape[axis] = vector.size
    return vector.reshape(shape)
