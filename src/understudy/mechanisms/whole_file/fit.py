"""Noisy tables to a pool of cells with weights that fit them: all of it post-processing.

The tables of all sets are made to agree (dp/consistent.py), a pool of cells is drawn along the
tree of the strongest dependences, and its weights are raked to the tables of the average, and from
there to those of each set (dp/record_pool.py). With public columns that are kept, the pool is made
from the records' own public rows, and each row keeps its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from understudy.dp.consistent import Agreed, agreed, on_simplex, spread_over_sets
from understudy.dp.raking import Raking
from understudy.dp.record_pool import Pool, cell_table, draw_pool, thinned
from understudy.dp.shrinkage import NOTHING, kept_share
from understudy.errors import Refused
from understudy.mechanisms.whole_file.noisy_file import NoisyFile
from understudy.tables.rule_cells import RuledOut

Vector = NDArray[np.float64]
Codes = NDArray[np.int32]
ColumnNumbers = tuple[int, ...]
Possible = Callable[[Codes], NDArray[np.bool_]]

POOL = 200_000  # cells that are drawn at most; repeats are merged
SMALLEST_POOL, A_RECORD = 60_000, 8  # so many at least, and for each record
SWEEPS = 15
LEAST = 1e-5  # weight of a cell in the pool of several sets
EASING = 1 / 3  # of the steps of the fit, sweep by sweep
TOLERANCE = 2e-4  # mean total variation between the pool's tables and the given ones


@dataclass(frozen=True, eq=False)
class Kept:
    """Public columns that stay as they are: their numbers, and their coarse cells in every row."""

    columns: ColumnNumbers
    codes: Codes = field(repr=False)  # (rows, kept columns)


@dataclass(frozen=True, eq=False)
class Fit:
    """A pool, its weights under the average of all sets, and the total that tables add up to.

    The weights of a set are raked from where those of the average were raked from, in the same
    steps, so that what raking takes of the noise it takes of both.
    """

    pool: Pool  # with the weights before raking
    weights: Vector
    total: float
    sizes: tuple[int, ...]
    sets: list[Agreed]
    tables: tuple[ColumnNumbers, ...]
    groups: NDArray[np.intp] | None = None  # the public row of each cell of the pool
    followed: tuple[float, ...] = ()  # what each table keeps of a deviation

    def expected(self, names: ColumnNumbers) -> Vector:
        """n p_hat of a table."""
        shape = tuple(self.sizes[name] for name in names)
        return self.total * cell_table(self.pool.codes, names, shape, self.weights)

    def weights_of(self, number: int, tolerance: float = TOLERANCE) -> Vector:
        """The pool's weights under one set."""
        if len(self.sets) == 1:
            return self.weights
        tables, start = self.sets[number].tables, self.pool.weights
        kept = _kept_groups(self.pool, self.groups)
        return self._raking(start, tables, SWEEPS, tolerance, kept, EASING)[0]

    @cached_property
    def _raking(self) -> Raking:
        """The same for every set."""
        return Raking(self.pool.codes, self.tables, [table.shape for table in self.sets[0].tables])


def fitted(
    noisy: NoisyFile,
    rng: np.random.Generator,
    size: int | None = None,
    kept: Kept | None = None,
    possible: Possible | None = None,
    grids: Sequence[int] = (),
) -> Fit:
    """The pool and its weights; `possible` says which cells the codebook's rules allow, `grids` how
    many of each column's fine cells lie on a grid (none by default)."""
    columns, variances = tables_of(noisy)
    size = size or min(max(A_RECORD * noisy.records, SMALLEST_POOL), POOL)
    sets = [_with_one_way(noisy, number, columns) for number in range(len(noisy.sets))]
    scales = runs_of(noisy, grids)
    whole, *each = agreed(sets, columns, variances, scales)
    if kept is None:
        pool = draw_pool(whole.tables, columns, size, rng)
        groups = None
    else:
        repeats = max(1, size // len(kept.codes))
        rows = np.tile(np.arange(len(kept.codes)), repeats)
        pool = draw_pool(whole.tables, columns, rows.size, rng, known=_known(kept, rows))
        groups = _groups(pool.codes[:, kept.columns], kept)
    if possible is not None:
        pool, groups = _allowed(pool, groups, possible)
    raking = Raking(pool.codes, columns, [table.shape for table in whole.tables])
    kept_groups = _kept_groups(pool, groups)
    weights, _ = raking(pool.weights, whole.tables, SWEEPS, TOLERANCE, kept_groups, EASING)
    if len(each) > 1 and groups is None:  # fitted again for every set, so a smaller pool pays
        fewer = thinned(weights, LEAST, rng)
        left = fewer > 0
        start = pool.weights[left] * fewer[left] / weights[left]
        pool, weights = Pool(pool.codes[left], start / start.sum()), fewer[left]
        weights /= weights.sum()
    return Fit(pool, weights, whole.total, noisy.sizes, each, columns, groups, whole.followed)


def runs_of(noisy: NoisyFile, grids: Sequence[int]) -> dict[int, int]:
    """How many coarse cells of a column lie on its scale, of the columns that have one."""
    return {j: int(noisy.coarse[j][grid - 1]) + 1 for j, grid in enumerate(grids) if grid}


def allowed_by(rules: Sequence[RuledOut], noisy: NoisyFile) -> Possible | None:
    """Which coarse cells the codebook's rules leave; None where they say nothing."""
    if not rules:
        return None
    maps = dict(zip(noisy.columns, noisy.coarse, strict=True))
    coarse = [rule.coarsened(maps) for rule in rules]

    def possible(codes: Codes) -> NDArray[np.bool_]:
        named = {name: codes[:, j] for j, name in enumerate(noisy.columns)}
        ruled_out: NDArray[np.bool_] = np.any([rule.holds(named) for rule in coarse], axis=0)
        return ~ruled_out

    return possible


def tables_of(noisy: NoisyFile) -> tuple[tuple[ColumnNumbers, ...], list[ArrayLike]]:
    """All tables over coarse cells: the measured ones, then the one-way tables merged into coarse
    cells, with the variances of their noise: that of a coarse cell is the sum over its fine ones,
    so that a tail of a hundred empty cells does not outweigh what pairs say of it."""
    columns = (*noisy.measured, *((j,) for j in range(len(noisy.columns))))
    merged = [
        variance * np.bincount(mapped)
        for variance, mapped in zip(noisy.one_way_variances, noisy.coarse, strict=True)
    ]
    return columns, [*noisy.table_variances, *merged]


def _with_one_way(
    noisy: NoisyFile, number: int, columns: tuple[ColumnNumbers, ...]
) -> list[Vector]:
    single = noisy.sets[number]
    merged: list[Vector] = [
        np.bincount(mapped, table, minlength=int(mapped.max()) + 1).astype(np.float64)
        for mapped, table in zip(noisy.coarse, single.one_way, strict=True)
    ]
    assert len(columns) == len(single.tables) + len(merged)
    return [*single.tables, *merged]


def fine_shares(noisy: NoisyFile, fit: Fit, grids: Sequence[int]) -> list[list[Vector]]:
    """The share of each fine cell within its coarse one: [set][column].

    Within a coarse cell the noisy counts are drawn to a smooth curve as far as their noise suggests
    (`kept_share`), on the average over the sets; a set has its own deviation from that, and its own
    curve. Curves go by the coarse cells' shares in all tables together, which have less noise than
    one-way tables. `grids`: how many of a column's cells lie on a grid.
    """
    shares: list[list[Vector]] = [[] for _ in noisy.sets]
    for j, mapped in enumerate(noisy.coarse):
        average = np.mean([single.one_way[j] for single in noisy.sets], axis=0)
        margins = [of_set.margins[j] for of_set in fit.sets]
        variance = noisy.one_way_variances[j] / len(noisy.sets) / fit.total**2
        pooled = np.mean(margins, axis=0)
        bends = bending(average / fit.total, pooled, mapped, grids[j], variance)
        curve = smoothed(pooled, mapped, grids[j], bends)
        members = np.bincount(mapped).astype(np.float64)
        gap = average / fit.total - curve
        deviation = gap - (np.bincount(mapped, gap) / members)[mapped]
        keep = _kept_within(deviation, curve, variance, members[mapped])
        # what is too much in a coarse cell is taken from cells as far as they may move
        common = np.bincount(mapped, keep * gap) / np.maximum(np.bincount(mapped, keep), NOTHING)
        fine = _projected(curve + keep * (gap - common[mapped]), curve, mapped)
        own = [keep * (single.one_way[j] - average) / fit.total for single in noisy.sets]
        moved = spread_over_sets(fine, own, keep**2 * variance)
        for number, (of_set, margin) in enumerate(zip(moved, margins, strict=True)):
            bent = np.maximum(of_set + smoothed(margin, mapped, grids[j], bends) - curve, 0.0)
            shares[number].append(_within(bent, mapped, members))
    return shares


def _kept_within(deviation: Vector, curve: Vector, variance: float, members: Vector) -> Vector:
    """`kept_share` of deviations from the mean of so many members of a coarse cell: they vary by
    the part 1 - 1/members, and where a fine cell is alone they say nothing."""
    keep, several = np.ones_like(curve), members > 1
    free = np.sqrt(1 - 1 / members[several])
    keep[several] = kept_share(deviation[several] / free, curve[several], variance)
    return keep


def bending(
    fine: Vector, coarse: Vector, mapped: Codes, grid: int, variance: float
) -> tuple[float, float]:
    """How likely the first and the last coarse cell of a grid fall off in a bend, and not by one
    ratio a cell (`falling`), from noisy shares of the fine cells; both are as likely before."""
    runs = int(mapped[grid - 1]) + 1 if grid else 0
    if runs < 2:
        return 1.0, 1.0
    bent, straight = (smoothed(coarse, mapped, grid, (end, end)) for end in (1.0, 0.0))
    chances = []
    for run in (0, runs - 1):
        tail = mapped == run
        apart = [float(np.var((fine - curve)[tail])) for curve in (straight, bent)]
        evidence = tail.sum() * (apart[0] - apart[1]) / (2 * max(variance, NOTHING**2))
        chances.append(float(expit(evidence)))
    return chances[0], chances[1]


def smoothed(
    coarse: Vector, mapped: Codes, grid: int, bends: tuple[float, float] = (1.0, 1.0)
) -> Vector:
    """Each coarse cell's share spread over its fine cells.

    On the grid the log of the share is linear between the middles of coarse cells; the first and
    the last one fall off to the outside (`falling`), in a bend as far as `bends` says. Elsewhere a
    coarse cell is spread evenly.
    """
    members = np.bincount(mapped).astype(np.float64)
    curve = np.ones(mapped.size)
    runs = int(mapped[grid - 1]) + 1 if grid else 0
    if runs > 1:
        height = np.log(np.maximum(coarse[:runs], 1e-3 / mapped.size) / members[:runs])
        position = np.arange(grid, dtype=np.float64)
        middle = np.bincount(mapped[:grid], position)[:runs] / members[:runs]
        logs = np.interp(position, middle, height)
        first, last = int(members[0]), int(members[runs - 1])
        inside = members[:runs]
        logs[:first] = _tail(height, inside, coarse[0], bends[0])[::-1]
        logs[grid - last :] = _tail(height[::-1], inside[::-1], coarse[runs - 1], bends[1])
        curve[:grid] = np.exp(logs - logs.max())
    sums = np.bincount(mapped, curve)
    return np.asarray(curve * (coarse / sums)[mapped], dtype=np.float64)


def _tail(height: Vector, members: Vector, mass: float, bend: float) -> Vector:
    """Logs of the outermost run, which comes first here, from the inside to the outside: falling
    from where the run beside it ends."""
    slope = 0.0
    if height.size > 2:
        slope = min(2 * (height[1] - height[2]) / (members[1] + members[2]), 0.0)
    start = height[1] + slope * members[1] / 2
    edge, cells = float(np.exp(start)), int(members[0])
    bent, straight = (np.exp(falling(mass, edge, cells, steep)) for steep in (slope, 0.0))
    return np.asarray(start + np.log(np.maximum(bend * bent + (1 - bend) * straight, 1e-300)))


def falling(mass: float, start: float, cells: int, slope: float = 0.0) -> Vector:
    """Logs of how a tail of so many cells falls off beside a cell of height `start`, so that they
    hold `mass`: at first by `slope` a cell, then ever more steeply, -c k^2 / 2; where that would
    hold less than the mass also without c, by one ratio r <= 1 a cell instead, r, r^2, ..."""
    steps = np.arange(1, cells + 1, dtype=np.float64)
    if mass >= cells * start:
        return np.zeros(cells)
    bends = slope < 0 and start * np.exp(slope * steps).sum() > mass
    fixed, shape = (slope * steps, steps**2 / 2) if bends else (0 * steps, steps)
    low, high = -50.0, 0.0  # of -c, or of log r
    for _ in range(60):
        middle = (low + high) / 2
        if start * np.exp(fixed + middle * shape).sum() < mass:
            low = middle
        else:
            high = middle
    return np.asarray(fixed + low * shape, dtype=np.float64)


def _projected(values: Vector, smooth: Vector, mapped: Codes) -> Vector:
    """No negative shares, and the sum of each coarse cell as it was: `on_simplex` in each. To cut
    off what is negative alone would leave all that noise added, most of it in tails."""
    result = np.zeros_like(values)
    for cell in range(int(mapped.max()) + 1):
        inside = mapped == cell
        total = float(smooth[inside].sum())
        if total > 0:
            result[inside] = total * on_simplex(values[inside] / total)
    return result


def _within(shares: Vector, mapped: Codes, members: Vector) -> Vector:
    sums = np.bincount(mapped, shares, minlength=members.size)
    spread = np.divide(shares, sums[mapped], out=np.zeros_like(shares), where=sums[mapped] > 0)
    return np.where(sums[mapped] > 0, spread, 1 / members[mapped])


def _known(kept: Kept, rows: NDArray[np.intp]) -> dict[int, Codes]:
    return {column: kept.codes[rows, position] for position, column in enumerate(kept.columns)}


def _groups(codes: Codes, kept: Kept) -> NDArray[np.intp]:
    """The number of the distinct public row of each cell of the pool."""
    rows, numbers = np.unique(codes, axis=0, return_inverse=True)
    assert len(rows) <= len(kept.codes)
    return np.asarray(numbers, dtype=np.intp).ravel()


def _kept_groups(
    pool: Pool, groups: NDArray[np.intp] | None
) -> tuple[NDArray[np.intp], Vector] | None:
    """The public rows with the weight that each has in the pool, and keeps."""
    if groups is None:
        return None
    return groups, np.asarray(np.bincount(groups, pool.weights), dtype=np.float64)


def _allowed(
    pool: Pool, groups: NDArray[np.intp] | None, possible: Possible
) -> tuple[Pool, NDArray[np.intp] | None]:
    allowed = possible(pool.codes)
    if not allowed.any():
        raise Refused("The codebook's `impossible` conditions leave no cell; correct the rules.")
    weights = pool.weights[allowed]
    left = Pool(pool.codes[allowed], weights / weights.sum())
    return left, None if groups is None else groups[allowed]
