"""Noisy tables of the same records, brought to agree with each other. All post-processing.

Tables that share a column must have the same totals for its levels, and no table has negative
counts. Everything here is in shares: each table adds up to 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincinv, ndtr

from understudy.dp.shrinkage import NOTHING, Shrunk, outer_product, shrunk

Vector = NDArray[np.float64]
ColumnNumbers = tuple[int, ...]

EXACT = 1e12  # weight of a table without noise
RAKINGS = 25  # sweeps over one small table
SETTLED = 1e-12  # the largest step of a sweep that ends it, over the total
LARGE = 10  # a cell over the noise of its average, from which the noise cannot make it negative
LEAST_SHAPE = 0.05  # of the gamma law of a cell that is smaller than its noise, over all sets


@dataclass(frozen=True, eq=False)
class Agreed:
    """Tables of shares that agree, the total that they are shares of, and how much of a record's
    fluctuation each table follows: 1 where it is not drawn to a smooth one."""

    tables: list[Vector]
    margins: dict[int, Vector]  # of each column
    total: float
    followed: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class _Linear:
    """The total and the margins that noisy tables suggest, and the variances of their levels."""

    total: float
    margins: dict[int, Vector]
    variances: dict[int, Vector]


def consistent(
    noisy: Sequence[ArrayLike],
    columns: Sequence[ColumnNumbers],
    variances: Sequence[ArrayLike] | None = None,
) -> list[Vector]:
    """Tables with common totals, equal one-way margins and no negative share.

    `noisy[t]` has one axis for each column in `columns[t]`, and cells with noise of variance
    `variances[t]` (all alike by default). The margin of a column is the average of what its tables
    say, each weighted by the inverse variance of its sum (noise adds up over the other axes), and
    tables are moved to it by least squares; then negative shares go and the margins are raked in
    again.
    """
    return agreed([noisy], columns, variances or [1.0] * len(noisy))[0].tables


def agreed(
    sets: Sequence[Sequence[ArrayLike]],
    columns: Sequence[ColumnNumbers],
    variances: Sequence[ArrayLike],
    scales: Mapping[int, int] | None = None,
) -> list[Agreed]:
    """Consistent tables of the average over several sets of the same noisy tables, and of each set.

    The average comes first. What depends on the tables in a way that is not linear (which cells are
    empty, how far a table is drawn to a smooth one) is settled on the average; a set is the
    average's fit plus its own deviation from the average, so that the spread between sets is that
    of their noise also in cells where whole deviations would be negative, and their mean is the
    average's fit (`spread_over_sets`).
    `variances` are those of one set, for a table of one column cell by cell where they differ: a
    cell that is the sum of many others has more noise. With `scales`, the number of each column's
    first cells that lie on a scale, tables are drawn to smooth ones as far as their noise suggests
    (`shrunk`).
    """
    arrays = [[np.asarray(table, dtype=np.float64) for table in tables] for tables in sets]
    count = len(arrays)
    pooled = [np.mean([tables[t] for tables in arrays], axis=0) for t in range(len(columns))]
    spread = [np.asarray(variance, dtype=np.float64) / count for variance in variances]
    linear = _margins(pooled, columns, spread)
    margins = {
        name: on_simplex(margin, linear.variances[name]) for name, margin in linear.margins.items()
    }
    whole = Agreed([], margins, linear.total)
    drawn: list[Shrunk | None] = []
    plain: list[Vector] = []  # as noise left them, with common margins
    for table, names, variance in zip(pooled, columns, spread, strict=True):
        mine = [margins[name] for name in names]
        plain.append(_moved(table / whole.total, mine))
        smoother = None
        if scales is not None and len(names) > 1:
            on_scales = [scales.get(name, 0) for name in names]
            smoother = shrunk(plain[-1], mine, on_scales, float(variance) / whole.total**2)
        drawn.append(smoother)
        whole.tables.append(_raked(plain[-1] if smoother is None else smoother.table, mine))
    whole = replace(whole, followed=tuple(1.0 if s is None else s.followed for s in drawn))
    if count == 1:
        return [whole, whole]
    own = [_margins(tables, columns, spread) for tables in arrays]
    of_sets = _margins_of_sets(own, linear, whole)
    fitted: list[list[Vector]] = [[] for _ in arrays]
    for t, (names, variance, smoother) in enumerate(zip(columns, spread, drawn, strict=True)):
        if len(names) == 1:
            for tables_of_set, margins in zip(fitted, of_sets, strict=True):
                tables_of_set.append(margins[names[0]])
            continue
        deviations = []
        noise: ArrayLike = variance / whole.total**2
        if smoother is not None:
            noise = smoother.kept.noise(float(variance) / whole.total**2)
        for tables, of_set, margins in zip(arrays, own, of_sets, strict=True):
            mine = [margins[name] for name in names]
            deviation = _moved(tables[t] / of_set.total, mine) - plain[t]
            if smoother is not None:
                deviation = smoother.deviation(deviation, mine)
            deviations.append(deviation)
        spread_sets = spread_over_sets(whole.tables[t], deviations, noise)
        for number, table in enumerate(spread_sets):
            fitted[number].append(_raked(table, [of_sets[number][name] for name in names]))
    return [
        whole,
        *(Agreed(f, m, o.total) for f, m, o in zip(fitted, of_sets, own, strict=True)),
    ]


def _margins_of_sets(
    own: Sequence[_Linear], linear: _Linear, whole: Agreed
) -> list[dict[int, Vector]]:
    result: list[dict[int, Vector]] = [{} for _ in own]
    for name, margin in whole.margins.items():
        deviations = [each.margins[name] - linear.margins[name] for each in own]
        variances = linear.variances[name]
        sets = spread_over_sets(margin, deviations, variances)
        for mine, shares in zip(result, sets, strict=True):
            mine[name] = on_simplex(shares, variances)
    return result


def spread_over_sets(
    shares: Vector, deviations: Sequence[Vector], variance: ArrayLike
) -> list[Vector]:
    """The shares of m sets: none negative, their mean the given ones, and their variance over m
    that of the average's noise, `variance`, as the combining rule for the sets needs it.

    A large cell is moved by the deviations of the sets as they are. A smaller one, s, is divided
    between the sets by a Dirichlet law, that is by gamma numbers of shape k over their sum, at the
    quantiles of the deviations: it has variance s^2 / (m k + 1), so m k = s^2 / variance - 1. Where
    the noise is larger than the cell, nearly all of it is in one set: m numbers that are not
    negative and have the mean s cannot vary more.
    """
    count = len(deviations)
    if count == 1:
        return [shares]
    noise = np.broadcast_to(np.asarray(variance, dtype=np.float64), shares.shape)
    moved = shares + np.clip(np.array(deviations), -shares, shares)
    small = (shares > NOTHING) & (shares**2 < LARGE**2 * noise)
    if not small.any():
        return [*moved]
    cell, v = shares[small], noise[small]
    shape = np.maximum(cell**2 / v - 1, LEAST_SHAPE) / count
    quantile = ndtr(np.array([deviation[small] for deviation in deviations]) / np.sqrt(v * count))
    parts = gammaincinv(shape, np.minimum(quantile, 1 - 1e-12))
    sums = parts.mean(axis=0)
    parts = np.divide(parts, sums, out=np.ones_like(parts), where=sums > 0)
    moved[:, small] = cell * parts
    return [*moved]


def on_simplex(values: ArrayLike, variances: ArrayLike = 1.0) -> Vector:
    """The nearest vector (least squares over the variances) with no negative entry and sum 1.

    A multiple of its variance is taken from each entry, and what falls below 0 becomes 0.
    """
    array = np.asarray(values, dtype=np.float64)
    noise = np.broadcast_to(np.asarray(variances, dtype=np.float64), array.shape)
    flat, taken = array.ravel(), noise.ravel()
    order = np.argsort(-flat / taken, kind="stable")
    excess = (np.cumsum(flat[order]) - 1) / np.cumsum(taken[order])
    last = int(np.flatnonzero(flat[order] - excess * taken[order] > 0)[-1])
    return np.asarray(np.maximum(array - excess[last] * noise, 0), dtype=np.float64)


def rake(table: Vector, margins: Sequence[Vector]) -> Vector:
    """Iterative proportional fitting of one table to its one-way margins."""
    fitted = table.copy()
    for _ in range(RAKINGS):
        moved = 0.0
        for axis, margin in enumerate(margins):
            sums = fitted.sum(axis=_others(fitted, axis))
            moved = max(moved, float(np.abs(sums - margin).max()))
            factor = np.divide(margin, sums, out=np.zeros_like(margin), where=sums > 0)
            fitted *= _along(factor, axis, fitted.ndim)
        if moved < SETTLED * fitted.sum():
            break
    return fitted


def _margins(
    tables: Sequence[Vector], columns: Sequence[ColumnNumbers], variances: Sequence[Vector]
) -> _Linear:
    """The total and every column's margin in shares, by inverse variance; not yet projected."""
    noise = [np.broadcast_to(v, t.shape) for t, v in zip(tables, variances, strict=True)]
    precise = [float(_precision(each.sum())) for each in noise]
    total = sum(w * float(t.sum()) for t, w in zip(tables, precise, strict=True)) / sum(precise)
    total = total if total > 0 else 1.0
    margins, spreads = {}, {}
    for column in sorted({column for names in columns for column in names}):
        sums, weights = np.zeros(1), np.zeros(1)
        for table, names, variance in zip(tables, columns, noise, strict=True):
            if column in names:
                others = _others(table, names.index(column))
                # the noise of a sum has the variance of each of the cells in it
                weight = _precision(variance.sum(axis=others))
                sums, weights = sums + weight * table.sum(axis=others), weights + weight
        margins[column] = np.asarray(sums / weights / total, dtype=np.float64)
        spreads[column] = np.asarray(1 / weights / total**2, dtype=np.float64)
    return _Linear(total, margins, spreads)


def _precision(variance: Vector) -> Vector:
    exact = np.full(np.shape(variance), EXACT)
    return np.asarray(np.divide(1.0, variance, out=exact, where=variance > 0), dtype=np.float64)


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
