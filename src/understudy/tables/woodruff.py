"""Weighted quantiles with Woodruff's interval, as R survey's svyquantile (rule "math").

The quantile is the smallest value whose weighted distribution function reaches p. The
interval of the proportion below it, p_hat +- t se, is carried back through the same function;
se is the interval's width over 2t. A limit that would need a proportion outside [0, 1] is
missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import ibis
import ibis.expr.types as ir
import numpy as np
import polars as pl
from ibis.backends.duckdb import Backend as DuckDB
from numpy.typing import NDArray

from understudy.tables.collect import Sums, collect
from understudy.tables.first_look import Linear
from understudy.tables.linear import linear_estimates
from understudy.tables.numbers import as_float
from understudy.tables.sorted_records import SortedRecords
from understudy.tables.student_t import t_quantile
from understudy.tables.taylor import DomainEstimates

if TYPE_CHECKING:
    from understudy.tables.statistic import Cells

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def quantile_estimates(
    cells: Cells, x: ir.NumericValue, text: str, probabilities: Sequence[float]
) -> list[DomainEstimates]:
    """Quantiles of x, which is written `text`, in each cell."""
    distribution = _distribution(cells, x, text)
    asked = np.tile(np.array(probabilities), (cells.count, 1))
    values = distribution.inverse(asked)
    sums, domain = distribution.shares(values)
    t = float(t_quantile(cells.df, 0.5 + cells.level / 2))
    proportions: list[Floats] = []
    notes: list[tuple[str, ...]] = []
    behind: list[Floats | None] = []
    for j in range(len(probabilities)):
        below_value = linear_estimates(sums, j, domain, cells.count)
        notes.append(below_value.notes)
        behind.append(below_value.records)
        half = t * np.sqrt(below_value.variance)
        low, high = below_value.value - half, below_value.value + half
        proportions += [np.where(low >= 0, low, np.nan), np.where(high <= 1, high, np.nan)]
    limits = distribution.inverse(np.column_stack(proportions)).T
    return [
        DomainEstimates(value, ((upper - lower) / (2 * t)) ** 2, (lower, upper), note, used)
        for value, lower, upper, note, used in zip(
            values.T, limits[::2], limits[1::2], notes, behind, strict=True
        )
    ]


def _distribution(cells: Cells, x: ir.NumericValue, text: str) -> InOrder | InDatabase:
    """The distribution of x: of records sorted in memory, or in a database on other machines."""
    if not isinstance(cells.survey.raw.get_backend(), DuckDB):
        return InDatabase(cells, x)
    if text not in cells.in_order:
        by = [cells.survey.table[name] for name in cells.names]
        cells.in_order[text] = SortedRecords(cells.survey, x, by, cells.inside, cells.sums)
    return InOrder(cells, cells.in_order[text], x)


class InOrder:
    """The distribution of records in order."""

    def __init__(self, cells: Cells, records: SortedRecords, x: ir.NumericValue) -> None:
        self.cells, self.records, self.x = cells, records, x
        self.of_cell = records.domains(cells.domain)

    def inverse(self, shares: Floats) -> Floats:
        return self.records.inverse(self.of_cell, shares)

    def shares(self, values: Floats) -> tuple[Sums, Ints]:
        if self.cells.sums.design.by_records:
            return InDatabase(self.cells, self.x).shares(values)
        return self.records.shares(self.of_cell, values), self.cells.domain


class InDatabase:
    """The distribution as queries."""

    def __init__(self, cells: Cells, x: ir.NumericValue) -> None:
        self.cells, self.y, table = cells, as_float(x), cells.survey.table
        self.domain = _domain_number(table, cells.names, cells.kept, cells.levels)

    def inverse(self, shares: Floats) -> Floats:
        cells, table, name = self.cells, self.cells.survey.table, self.cells.survey.design.weight
        known = self.y.notnull() if cells.inside is None else self.y.notnull() & cells.inside
        weight = as_float(table[name]) if name else ibis.literal(1.0)
        records = table.select(d=self.domain, y=self.y, w=weight, known=known)
        return np.column_stack(_inverse(_shares(records.filter(lambda t: t.known)), *shares.T))

    def shares(self, values: Floats) -> tuple[Sums, Ints]:
        """The sums of the share at or below each value, and the cell of each of their rows."""
        cells, below = self.cells, []
        for value in values.T:
            reached = ibis.ifelse(self.y <= _by_domain(self.domain, value), 1.0, 0.0)
            below.append(Linear(reached, 1.0, pivoted=False, known=self.y.notnull()))
        by = [cells.survey.table[cells.names[k]] for k in cells.kept]
        sums = collect(cells.survey, below, by, cells.inside)
        return sums, sums.cells(range(len(by)))[0]


def _shares(records: ir.Table) -> ir.Table:
    """Distinct values of each domain with the share of the weight at or below them."""
    summed = records.group_by(["d", "y"]).aggregate(w=records.w.sum())
    upto = ibis.window(group_by=summed.d, order_by=summed.y, preceding=None, following=0)
    whole = ibis.window(group_by=summed.d)
    return summed.select(
        d=summed.d, y=summed.y, share=summed.w.sum().over(upto) / summed.w.sum().over(whole)
    )


def _inverse(distribution: ir.Table, *probabilities: Floats) -> list[Floats]:
    """Smallest value of domain d whose share reaches p[d], for each p; NaN where there is none."""
    smallest = {
        # A share that equals p but for rounding counts as reaching it.
        f"q{i}": distribution.y.min(
            where=distribution.share >= _by_domain(distribution.d, p - 1e-12)
        )
        for i, p in enumerate(probabilities)
    }
    values = distribution.group_by("d").aggregate(**smallest).to_polars()
    out = np.full((len(probabilities), len(probabilities[0])), np.nan)
    for i, row in enumerate(out):
        row[values["d"].to_numpy()] = values[f"q{i}"].fill_null(np.nan).to_numpy()
    return list(out)


def _domain_number(
    table: ir.Table, names: Sequence[str], kept: Sequence[int], levels: pl.DataFrame
) -> ir.IntegerValue:
    """The row of `levels` that a record belongs to."""
    if not kept:
        return ibis.literal(0)
    branches = []
    for number, row in enumerate(levels.iter_rows()):
        conditions = [
            table[names[k]].isnull() if value is None else table[names[k]] == value
            for k, value in zip(kept, row, strict=True)
        ]
        branches.append((ibis.and_(*conditions), number))
    return ibis.cases(*branches, else_=-1) if branches else ibis.literal(-1)


def _by_domain(domain: ir.IntegerValue, values: Floats) -> ir.NumericValue:
    """The entry of `values` for a record's domain; missing outside and where it is NaN."""
    branches = [(d, float(v)) for d, v in enumerate(values) if not np.isnan(v)]
    if not branches:
        return ibis.null("float64")
    return domain.cases(*branches, else_=ibis.null("float64"))  # the domain is written once
