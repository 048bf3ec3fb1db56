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
from numpy.typing import NDArray
from scipy import special

from understudy.tables.collect import Linear, collect
from understudy.tables.linear import linear_estimates
from understudy.tables.numbers import as_float
from understudy.tables.taylor import DomainEstimates

if TYPE_CHECKING:
    from understudy.tables.statistic import Cells

Floats = NDArray[np.float64]


def quantile_estimates(
    cells: Cells, x: ir.NumericValue, probabilities: Sequence[float]
) -> list[DomainEstimates]:
    """Quantiles of x in each cell; its distribution is asked twice for all of them."""
    survey, inside, kept = cells.survey, cells.inside, cells.kept
    table, names = survey.table, cells.names
    y = as_float(x)
    domain = _domain_number(table, names, kept, cells.levels)
    known = y.notnull() if inside is None else y.notnull() & inside
    weight = as_float(table[survey.design.weight]) if survey.design.weight else ibis.literal(1.0)
    records = table.select(d=domain, y=y, w=weight, known=known).filter(lambda t: t.known)
    distribution = _distribution(records)
    values = _inverse(distribution, *(np.full(cells.count, p) for p in probabilities))
    below = []
    for value in values:
        reached = ibis.ifelse(y <= _by_domain(domain, value), 1.0, 0.0)
        share = ibis.ifelse(y.notnull(), reached, ibis.null("float64"))
        below.append(Linear(share, 1.0, pivoted=False))
    sums = collect(survey, below, [table[names[k]] for k in kept], inside)
    cell_of_row, levels = sums.cells(range(len(kept)))
    t = float(special.stdtrit(cells.df, 0.5 + cells.level / 2)) if cells.df > 0 else float("nan")
    proportions: list[Floats] = []
    notes: list[tuple[str, ...]] = []
    behind: list[Floats | None] = []
    for j in range(len(values)):
        below_value = linear_estimates(sums, j, cell_of_row, max(levels.height, 1))
        notes.append(below_value.notes)
        behind.append(below_value.records)
        half = t * np.sqrt(below_value.variance)
        low, high = below_value.value - half, below_value.value + half
        proportions += [np.where(low >= 0, low, np.nan), np.where(high <= 1, high, np.nan)]
    limits = _inverse(distribution, *proportions)
    return [
        DomainEstimates(value, ((upper - lower) / (2 * t)) ** 2, (lower, upper), note, used)
        for value, lower, upper, note, used in zip(
            values, limits[::2], limits[1::2], notes, behind, strict=True
        )
    ]


def _distribution(records: ir.Table) -> ir.Table:
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
    branches = [(domain == d, float(v)) for d, v in enumerate(values) if not np.isnan(v)]
    if not branches:
        return ibis.null("float64")
    return ibis.cases(*branches, else_=ibis.null("float64"))
