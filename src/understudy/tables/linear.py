"""Statistics that are sums over records, or ratios of sums: their estimates and variances."""

from __future__ import annotations

import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.tables.collect import Sums, as_float
from understudy.tables.replicates import replicate_variance
from understudy.tables.taylor import DomainEstimates, taylor


def linear_estimates(sums: Sums, j: int, domain: NDArray[np.int64], count: int) -> DomainEstimates:
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


def numeric(statistic: str, name: str, table: ir.Table) -> ir.FloatingValue:
    """A column as numbers, for the statistic of this text."""
    dtype = table[name].type()
    if not (dtype.is_numeric() or dtype.is_boolean()):
        raise Refused(
            f"{statistic} needs numbers, but column `{name}` is {dtype}; "
            f'use proportion({name} == "level") for a category.'
        )
    return as_float(table[name])
