"""Counts, totals, means, proportions and ratios as sums over records, and their variances."""

from __future__ import annotations

from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.tables.collect import Linear, Sums, as_float
from understudy.tables.replicates import replicate_variance
from understudy.tables.statistics import Statistic
from understudy.tables.taylor import DomainEstimates, taylor


def linear_form(statistic: Statistic, table: ir.Table) -> Linear:
    """The statistic as a total or a ratio of totals."""
    if statistic.kind == "count" or statistic.x is None:
        return Linear(ibis.literal(1.0))
    x = table[statistic.x]
    if statistic.kind == "proportion":
        return _proportion(statistic, x)
    a = _numeric(statistic, statistic.x, table)
    if statistic.kind == "total":
        return Linear(a)
    if statistic.kind == "mean":
        return Linear(a, 1.0)
    return Linear(a, _numeric(statistic, str(statistic.y), table))


def domain_estimates(sums: Sums, j: int, domain: NDArray[np.int64], count: int) -> DomainEstimates:
    """Statistic j in every domain, by Taylor or by replicate weights."""
    pivot = None if sums.statistics[j].x is None else sums.pivots[j]
    if not sums.replicates:
        return taylor(sums.rows(j), domain, count, sums.strata, pivot)
    inside = domain >= 0
    u, v = sums.replicated(j)
    top, bottom = np.zeros((2, count, u.shape[1]))
    np.add.at(top, domain[inside], u[inside])
    if pivot is None:
        values = top
    else:
        np.add.at(bottom, domain[inside], v[inside])
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(bottom != 0, pivot + top / bottom, np.nan)
    spec = sums.design.replicates
    if spec is None:
        raise Refused("The design has no replicate weights.")
    return DomainEstimates(values[:, 0], replicate_variance(values[:, 0], values[:, 1:], spec))


def _proportion(statistic: Statistic, x: ir.Value) -> Linear:
    wanted: Any = statistic.level
    text = x.type().is_string()
    if text != isinstance(wanted, str):
        kind = 'a text, so its level stands in quotes: "..."' if text else "not a text: no quotes"
        raise Refused(f"In {statistic.text}, column `{statistic.x}` is {kind}.")
    known = as_float(x).notnull() if x.type().is_floating() else x.notnull()
    if x.type().is_boolean():
        wanted = bool(wanted)
    a = ibis.cases((~known, ibis.null("float64")), (x == wanted, 1.0), else_=0.0)
    return Linear(a, 1.0, pivoted=False)


def _numeric(statistic: Statistic, name: str, table: ir.Table) -> ir.FloatingValue:
    dtype = table[name].type()
    if not (dtype.is_numeric() or dtype.is_boolean()):
        raise Refused(
            f"{statistic.text} needs numbers, but column `{name}` is {dtype}; "
            f'use proportion({name} == "level") for a category.'
        )
    return as_float(table[name])
