"""How much the clusters of a sample add to variances, measured at a price.

Records of one PSU resemble each other. A synthetic file has no PSUs, so that a variance from it
lacks a factor: the variance with PSUs over the variance with the same weights and strata alone.
Which PSUs there are, and the stratum of each, is public. For each column the distance

    D = sum over strata h, PSUs g of h, levels l   |S_gl - a_g S_hl|,   a_g = 1/(PSUs of h)

is measured, with S the sums over the records of g and of h of what a record adds to the error of an
estimate: z_l = w (1 - p_l) for its own level and -w p_l for the others, or w (y - mean) over its
root mean square for a number. p, the mean and the root mean squares come from the fit; y is cut at
2, and so is w over its root mean square. A record moves D by at most twice the sum of its |z_l|: 4,
or 8 with weights (docs/proofs/whole-file.md). PSUs of few records are taken together, as many of a
stratum as have about 25, and a_g is their share.

Without clusters S_gl - a_g S_hl has the variance e = a_g (1 - a_g) n_h v_hl, v the variance of z in
the stratum, which the fit knows, as it does n_h. Clusters add a part with variance t e. It is taken
as double exponential: few PSUs may hold most of what they add, and a normal law would make too
little of it. t is the one that gives D with half a standard deviation of its noise on top
(misfit.py), and 1 + t is the design effect, 1 at the least. A column's own is drawn to that of all
columns as far as noise is large beside their differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, pi, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from understudy.dp.choice import UNITS
from understudy.mechanisms.whole_file.budget import TableBudget
from understudy.mechanisms.whole_file.distance_figures import Groups, common_and_own
from understudy.mechanisms.whole_file.fit import Fit, fine_shares
from understudy.mechanisms.whole_file.noisy_file import MeasuredClusters, NoisyFile
from understudy.survey.cells import ColumnCells
from understudy.tables.coded_records import AnyCoded, Psus

Vector = NDArray[np.float64]
Whole = NDArray[np.int64]

A_GROUP = 25  # records at least, on average
MOST_GROUPS = 1024
RARE = 2  # records of a level in a group, on average: sums of fewer are far from normal
CUT = 2  # of a number, and of a weight, over their root mean squares
WHOLE = 1 << 20  # shares of PSUs are whole multiples of one part in so many
ROUNDING = 1e-6  # figures that differ by less are one
LARGEST = 20_000_000  # cells of groups, weights and a column


@dataclass(frozen=True)
class Clustered:
    """Where the stratum and the weight are among the columns; None where they are not drawn."""

    strata: int | None = None
    weight: int | None = None

    @property
    def moved(self) -> int:
        """The most that one record moves a distance by, in units."""
        return 2 * UNITS * CUT * (1 if self.weight is None else CUT)


@dataclass(frozen=True, eq=False)
class PsuGroups:
    """PSUs, or several of a stratum together: the group of each PSU, the stratum of each group, and
    its share of the stratum's PSUs in parts of WHOLE."""

    of_psu: Whole
    stratum: Whole
    share: Whole

    @property
    def spread(self) -> Vector:
        """a (1 - a) of each group."""
        part = self.share / WHOLE
        return np.asarray(part * (1 - part), dtype=np.float64)

    def distance(self, sums: Whole) -> int:
        """WHOLE times the distance, a whole number, from the sums of each group and level."""
        strata = np.zeros((int(self.stratum.max()) + 1, sums.shape[1]), dtype=np.int64)
        np.add.at(strata, self.stratum, sums)
        return int(np.abs(WHOLE * sums - self.share[:, None] * strata[self.stratum]).sum())


def psu_groups(stratum_of_psu: Whole, records: float) -> PsuGroups:
    """Groups of about 25 records or more, from the stratum of each PSU and the file's size."""
    psus = stratum_of_psu.size
    together = ceil(max(A_GROUP * psus / max(records, 1.0), psus / MOST_GROUPS, 1.0))
    of_psu = np.empty(psus, dtype=np.int64)
    strata: list[int] = []
    shares: list[int] = []
    for h in range(int(stratum_of_psu.max()) + 1):
        members = np.flatnonzero(stratum_of_psu == h)
        count = min(members.size, max(2, members.size // together))
        dealt = np.arange(members.size) % count
        of_psu[members] = len(strata) + dealt
        parts = (WHOLE * np.bincount(dealt, minlength=count)) // members.size
        parts[0] += WHOLE - parts.sum()
        strata += [h] * count
        shares += parts.tolist()
    return PsuGroups(of_psu, np.array(strata, dtype=np.int64), np.array(shares, dtype=np.int64))


def measured_clusters(
    coarse: AnyCoded,
    clusters: Psus,
    noisy: NoisyFile,
    fit: Fit,
    cells: Sequence[ColumnCells],
    sensitive: Sequence[int],
    clustered: Clustered,
    budget: TableBudget,
    share: Fraction,
) -> MeasuredClusters:
    """The design effects of all columns together and of each, from the records in coarse cells."""
    groups = psu_groups(clusters.stratum_of_psu, fit.total)
    count, weight = groups.stratum.size, clustered.weight
    grouped = clusters.grouped(coarse, groups.of_psu, count)
    look = _Look(noisy, fit, cells, clustered)
    size = float(fit.total / clusters.stratum_of_psu.size)
    cell_of_psu = np.zeros(groups.of_psu.size, dtype=np.int64)
    if clustered.strata is not None:
        cell_of_psu = clusters.cells(coarse, clustered.strata)
    distances, tables, columns = [], [], []
    for j in sensitive:
        names = (0, *(() if weight is None else (1 + weight,)), 1 + j)
        if j in (clustered.strata, weight) or prod(grouped.sizes[k] for k in names) > LARGEST:
            continue
        scores, variances = look.scores(j, float(RARE * count))
        (table,) = grouped.count([names])
        sums = np.rint(table).astype(np.int64).reshape(count, -1) @ scores
        in_strata = of_strata(variances, cell_of_psu, clusters.stratum_of_psu)
        expected = (groups.spread[:, None] * in_strata[groups.stratum]).ravel()
        if not expected.any():
            continue
        columns.append(noisy.columns[j])
        distances.append(groups.distance(sums))
        tables.append(Groups(expected, expected, 0.0))
    if not columns:
        return MeasuredClusters(1.0, 0.0, {}, size)
    moved = [clustered.moved * WHOLE] * len(columns)
    measured, noise = budget.noisy_numbers(np.array(distances, dtype=np.int64), moved, share)
    unit = float(UNITS * WHOLE)
    t, error, own = common_and_own(measured / unit, noise / unit, tables)
    if np.ptp(own) < ROUNDING:  # noise outweighs all differences
        return MeasuredClusters(1 + t, error, {}, size)
    effects = dict(zip(columns, (1 + figure for figure in own), strict=True))
    return MeasuredClusters(1 + t, error, effects, size)


def of_strata(variances: Vector, cell_of_psu: Whole, stratum_of_psu: Whole) -> Vector:
    """n_h v_hl of each stratum, from those of the cells that strata are drawn in: strata of one
    cell, as all are where they are not drawn, share in it by their numbers of PSUs."""
    in_cell = np.bincount(cell_of_psu, minlength=len(variances))
    result = np.zeros((int(stratum_of_psu.max()) + 1, variances.shape[1]))
    np.add.at(result, stratum_of_psu, variances[cell_of_psu] / in_cell[cell_of_psu][:, None])
    return result


class _Look:
    """What the fit knows of the columns: z of every cell, for each level, and its variance."""

    def __init__(
        self, noisy: NoisyFile, fit: Fit, cells: Sequence[ColumnCells], clustered: Clustered
    ) -> None:
        self.noisy, self.fit, self.cells, self.clustered = noisy, fit, cells, clustered
        each = fine_shares(noisy, fit, [column.grid_size for column in cells])
        self.shares = [np.mean(share, axis=0) for share in zip(*each, strict=True)]

    def scores(self, j: int, rare: float) -> tuple[Whole, Vector]:
        """z of each cell by weight and column, (cells, levels), in whole units, 0 for levels of
        fewer records than `rare`; and n_h v_hl, (strata, levels)."""
        strata, weight = self.clustered.strata, self.clustered.weight
        names = tuple(k for k in (strata, weight, j) if k is not None)
        sizes = [1 if k is None else self.noisy.sizes[k] for k in (strata, weight, j)]
        table = self.fit.expected(names).reshape(sizes)
        both = table.sum(axis=0)
        w = np.ones(1) if weight is None else np.nan_to_num(self._values(weight))
        rms = sqrt(float((both.sum(axis=1) @ w**2) / both.sum()))
        w = np.minimum(w / rms, CUT) if weight is not None else w
        of_column = w @ both
        if self.cells[j].levels:
            x, known = np.eye(sizes[2]), np.ones(sizes[2], dtype=np.bool_)
        else:
            y = self._values(j)
            known = ~np.isnan(y)
            x = np.where(known, y, 0.0)[:, None]
        mean = (of_column * known) @ x / max(float((of_column * known).sum()), 1e-9)
        apart = (x - mean) * known[:, None]
        if self.cells[j].levels:
            apart = apart * (both.sum(axis=0) >= rare)
        else:
            size = sqrt(float(both.sum(axis=0) @ apart[:, 0] ** 2 / both.sum()))
            apart = np.clip(apart / max(size, 1e-12), -CUT, CUT)
        z = w[:, None, None] * apart[None]
        records = np.maximum(table.sum(axis=(1, 2)), 1e-9)[:, None]
        mean = np.einsum("hwx,wxl->hl", table, z) / records
        square = np.einsum("hwx,wxl->hl", table, z**2) / records
        whole = np.trunc(UNITS * z).astype(np.int64).reshape(-1, x.shape[1])
        return whole, records * np.maximum(square - mean**2, 0.0)

    def _values(self, j: int) -> Vector:
        """The number that each coarse cell stands for; none where it holds no answer."""
        merged, value, share = self.noisy.coarse[j], self.cells[j].expected, self.shares[j]
        count = self.noisy.sizes[j]
        sums = np.bincount(merged, share * np.nan_to_num(value), minlength=count)
        size = np.bincount(merged, share, minlength=count)
        plain = np.bincount(merged, value, minlength=count) / np.bincount(merged, minlength=count)
        return np.divide(sums, size, out=plain.copy(), where=(size > 0) & ~np.isnan(plain))


def expected_error(
    cells: Sequence[ColumnCells],
    sensitive: Sequence[int],
    clustered: Clustered,
    stratum_of_psu: Whole,
    records: float,
    budget: TableBudget,
    share: Fraction,
) -> float:
    """The standard error by noise of the figure of all columns, where there are no clusters, levels
    are equally frequent and weights are alike (the more of them lie beyond the cut, the larger)."""
    groups = psu_groups(stratum_of_psu, records)
    columns = [j for j in sensitive if j not in (clustered.strata, clustered.weight)]
    noise = budget.deviation([clustered.moved] * len(columns), share) / UNITS
    n_h = np.bincount(groups.stratum[groups.of_psu]) / groups.of_psu.size * records
    sizes = np.sqrt(groups.spread * n_h[groups.stratum]).sum()
    levels = (max(len(cells[j].levels), 1) for j in columns)
    expected = sqrt(2 / pi) * sizes * sum(sqrt(max(count - 1, 1)) for count in levels)
    return float(2 * noise * sqrt(len(columns)) / max(expected, 1e-9))
