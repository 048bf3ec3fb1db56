"""A census-scale categorical file like report M's: N = 1,857,505 records in about 300,625 cells.

Real PUMS records of two states are far too few, so the file is drawn from a tree of two-way
tables (record_pool.py): those of the prepared PUMS records where they are at hand, invented ones
otherwise. Raising the tables to a power above 1 concentrates them; log K falls along a straight
line in that power, which is how K is met. The file is public or invented, never confidential.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.framework import Vector

Pair = tuple[int, int]

RECORDS, CELLS = 1_857_505, 300_625
TWELVE = (
    *("CIT", "HIS", "MAR", "MIL", "OCC", "POB", "SCHL", "SEX"),
    *("AWAG", "HICOV", "CAGE", "HHT"),
)
CLOSE = 0.03  # relative distance from the wanted number of cells at which the search stops


def acs_categories(columns: Sequence[str] = us.ACS_VARIABLES) -> us.Categories:
    """The variables of M Table 3.1 with their declared levels."""
    codebook = us.acs_codebook()
    levels = tuple(tuple(codebook[name].levels or ()) for name in columns)
    return us.Categories(tuple(columns), levels, (pl.Int16(),) * len(columns))


def population(
    tables: Sequence[Vector], pairs: Sequence[Pair], categories: us.Categories,
    records: int = RECORDS, cells: int = CELLS, seed: int = 1,
) -> us.CrossTable:  # fmt: skip
    """About `cells` occupied cells with `records` records; the seed decides all."""

    def drawn(power: float) -> us.CrossTable:
        raised = [table**power for table in tables]
        shares = [table / table.sum() for table in raised]
        pool = us.draw_pool(shares, pairs, records, np.random.default_rng(seed), independent=0.0)
        counts = np.rint(pool.weights * records).astype(np.int64)
        return us.CrossTable(categories, pool.codes, counts)

    power, table = 1.0, drawn(1.0)
    other, slope = 1.4, None
    for _ in range(6):
        if abs(np.log(table.cells / cells)) < CLOSE:
            return table
        if slope is not None:
            other = power + np.log(cells / table.cells) / slope
        tried = drawn(other)
        slope = np.log(tried.cells / table.cells) / (other - power)
        power, table = other, tried
    return table


def pums_tables(survey: us.Survey) -> tuple[list[Vector], list[Pair]]:
    """Shares of all two-way tables of prepared PUMS records."""
    table = us.cross_tabulate(survey, us.categories_of(survey, us.ACS_VARIABLES))
    sizes = table.categories.sizes
    pairs = list(combinations(range(len(sizes)), 2))
    counted = us.marginal_counts(table, pairs)
    shapes = [(sizes[a], sizes[b]) for a, b in pairs]
    return [c.reshape(s) / table.n for c, s in zip(counted, shapes, strict=True)], pairs


def invented_tables(sizes: Sequence[int], seed: int = 1) -> tuple[list[Vector], list[Pair]]:
    """A chain of dependent columns: each row of a table is a draw from Dirichlet(0.4)."""
    rng = np.random.default_rng(seed)
    margin = rng.dirichlet(np.full(sizes[0], 0.8))
    tables, pairs = [], []
    for k in range(len(sizes) - 1):
        rows = rng.dirichlet(np.full(sizes[k + 1], 0.4), sizes[k])
        table = margin[:, None] * rows
        tables.append(table)
        pairs.append((k, k + 1))
        margin = table.sum(axis=0)
    return tables, pairs


def margin_of(table: us.CrossTable, columns: Sequence[str]) -> us.CrossTable:
    """The table of fewer columns."""
    codes = table.codes[:, [table.categories.columns.index(name) for name in columns]]
    kept = acs_categories(columns)
    _, first, cell = np.unique(kept.places(codes), return_index=True, return_inverse=True)
    counts = np.bincount(cell, table.counts)
    return us.CrossTable(kept, codes[first], np.rint(counts).astype(np.int64))
