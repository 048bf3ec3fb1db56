"""How far the two-way tables of synthetic files are from the confidential ones.

Columns are counted in the codebook's cells, merged into at most eight of about equal size, so that
a distance says something about the joint distribution and not about empty corners. The distance of
a pair is the total variation between its two tables, all synthetic files pooled; beside it stands
what drawing as many records from the confidential table itself would give on average,

    floor = 1/2 sum_c sqrt(2 p_c (1 - p_c) / (pi N))        (mean absolute error of N draws)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.survey.cells import ColumnCells, cells_of
from understudy.survey.codebook import Codebook

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
MOST_CELLS = 8  # of a column
MOST_COLUMNS = 60
OTHER = "other"


@dataclass(frozen=True, eq=False)
class Coded:
    """One column in a few cells: their labels, and the codes of each file, the confidential
    first."""

    name: str
    labels: tuple[str, ...]
    codes: tuple[Codes, ...]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two columns and their tables as shares, (cells, cells)."""

    first: Coded
    second: Coded
    confidential: Floats
    released: Floats
    records: int  # of all synthetic files

    @property
    def distance(self) -> float:
        """Total variation between the two tables."""
        return float(np.abs(self.confidential - self.released).sum() / 2)

    @property
    def floor(self) -> float:
        return resampling_distance(self.confidential, self.records)

    @property
    def excess(self) -> float:
        """The distance beyond what drawing records gives by itself."""
        return max(0.0, self.distance - self.floor)


def resampling_distance(shares: Floats, records: int) -> float:
    """Expected total variation between a table and one of `records` draws from it."""
    spread = np.sqrt(2 * shares * (1 - shares) / (np.pi * max(records, 1)))
    return float(spread.sum() / 2)


def coded_columns(
    confidential: pl.DataFrame, synthetic: Sequence[pl.DataFrame], codebook: Codebook
) -> dict[str, Coded]:
    """The columns that have cells; others are left out."""
    coded = {}
    for name in confidential.columns[:MOST_COLUMNS]:
        try:
            cells = cells_of(codebook[name])
        except Refused:
            continue
        fine = [cells.codes(frame[name]) for frame in (confidential, *synthetic)]
        coarse, labels = few_cells(cells, np.bincount(fine[0], minlength=cells.size))
        coded[name] = Coded(name, labels, tuple(coarse[codes] for codes in fine))
    return coded


def few_cells(cells: ColumnCells, counts: NDArray[np.int64]) -> tuple[Codes, tuple[str, ...]]:
    """The coarse cell of each fine one, and the coarse cells' labels: runs of the grid with about
    equal counts, the most frequent single values, and one cell for the rest of them."""
    grid, alone = counts[: cells.grid_size], counts[cells.grid_size :]
    coarse = np.zeros(cells.size, dtype=np.int32)
    labels: list[str] = []
    if grid.size:
        middle = (np.cumsum(grid) - grid / 2) / max(grid.sum(), 1)
        runs = np.minimum((middle * MOST_CELLS).astype(np.int64), MOST_CELLS - 1)
        for run in np.unique(runs):
            members = np.flatnonzero(runs == run)
            coarse[members] = len(labels)
            first, last = cells.labels[members[0]], cells.labels[members[-1]]
            labels.append(
                first
                if len(members) == 1
                else f"{first.split(' to ')[0]} to {last.split(' to ')[-1]}"
            )
    order = np.argsort(-alone, kind="stable")
    frequent = sorted(order[: MOST_CELLS if len(alone) <= MOST_CELLS else MOST_CELLS - 1])
    for level in frequent:
        coarse[cells.grid_size + level] = len(labels)
        labels.append(cells.labels[cells.grid_size + level])
    rest = [level for level in range(len(alone)) if level not in set(frequent)]
    if rest:
        coarse[cells.grid_size + np.array(rest)] = len(labels)
        labels.append(OTHER)
    return coarse, tuple(labels)


def pairs_of(coded: Mapping[str, Coded], drawn: Sequence[str]) -> list[Pair]:
    """Every pair with at least one drawn column."""
    made = set(drawn)
    return [_pair(coded[a], coded[b]) for a, b in combinations(coded, 2) if a in made or b in made]


def _pair(first: Coded, second: Coded) -> Pair:
    shape = (len(first.labels), len(second.labels))
    tables = [
        np.bincount(a * shape[1] + b, minlength=shape[0] * shape[1]).reshape(shape)
        for a, b in zip(first.codes, second.codes, strict=True)
    ]
    pooled = np.sum(tables[1:], axis=0)
    return Pair(
        first,
        second,
        tables[0] / max(tables[0].sum(), 1),
        pooled / max(pooled.sum(), 1),
        int(pooled.sum()),
    )


def association(shares: Floats) -> float:
    """Cramér's V of a two-way table; 0 where a column has one value."""
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    expected = np.outer(rows, columns)
    there = expected > 0
    chi = float((np.square(shares - expected)[there] / expected[there]).sum())
    least = min((rows > 0).sum(), (columns > 0).sum()) - 1
    return float(np.sqrt(max(chi, 0.0) / least)) if least > 0 else 0.0
