"""Statistics that are sums over records, or ratios of sums: their estimates and variances."""

from __future__ import annotations

from dataclasses import replace

import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.tables.collect import Sums
from understudy.tables.numbers import as_float
from understudy.tables.replicates import replicate_covariance, replicate_variance
from understudy.tables.taylor import DomainEstimates, taylor

ONE_UNIT = "one {unit}: its variance cannot be estimated"
TOGETHER = (
    "no weight in {without} of {replicates} replicates and the same estimate in the others: its "
    "variance cannot be estimated"
)
SAME = 1e-12  # replicated estimates that differ by less, relatively, are the same


def linear_estimates(sums: Sums, j: int, domain: NDArray[np.int64], count: int) -> DomainEstimates:
    """Statistic j in every domain, by Taylor or by replicate weights.

    The ratio of a domain with one record, or one PSU, has no variance: the formulas would say 0.
    Nor has one whose records are in or out of every replicate together, as those of one PSU are.
    """
    records = sums.records(j, domain, count)
    estimates = _estimates(sums, j, domain, count)
    if sums.terms is not None:
        estimates = replace(estimates, effect=_effects(sums, j, domain, estimates.variance))
    if sums.statistics[j].x is None:
        return replace(estimates, records=records)
    alone = sums.alone(j, domain, count)
    variance = np.where(alone, np.nan, estimates.variance)
    said = ONE_UNIT.format(unit="record" if sums.design.psu is None or sums.replicates else "PSU")
    notes = [
        said if lonely else note
        for lonely, note in zip(alone, estimates.notes or [""] * count, strict=True)
    ]
    return replace(estimates, variance=variance, notes=tuple(notes), records=records)


def joint_estimates(
    sums: Sums, j: int, domain: NDArray[np.int64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Statistic j in all domains, (count,), and their covariance; `sums` has the records' terms."""
    spec = sums.design.replicates
    if sums.replicates and spec is not None:
        values = replicated_values(sums, j, domain, count)
        return values[:, 0], replicate_covariance(values[:, 0], values[:, 1:], spec)
    if sums.terms is None:
        raise Refused("The covariance of cells needs every record.")
    of_record = sums.terms.domain(sums.frame, domain)
    value, z = sums.terms.values(j, of_record, count, _pivot(sums, j))
    apart = sums.terms.apart(z, of_record, np.arange(count))
    return value, sums.terms.design.covariance(apart)


def _effects(
    sums: Sums, j: int, domain: NDArray[np.int64], variance: NDArray[np.float64]
) -> NDArray[np.float64]:
    if sums.terms is None:
        raise Refused("A design effect needs every record.")
    count = len(variance)
    of_record = sums.terms.domain(sums.frame, domain)
    _, z = sums.terms.values(j, of_record, count, _pivot(sums, j))
    return variance / sums.terms.simple_variances(j, z, of_record, count)


def _pivot(sums: Sums, j: int) -> float | None:
    return None if sums.statistics[j].x is None else sums.pivots[j]


def _estimates(sums: Sums, j: int, domain: NDArray[np.int64], count: int) -> DomainEstimates:
    pivot = _pivot(sums, j)
    if sums.design.by_records and sums.terms is not None:
        of_record = sums.terms.domain(sums.frame, domain)
        value, z = sums.terms.values(j, of_record, count, pivot)
        variance = sums.terms.variances(z, of_record, count)
        return DomainEstimates(value, np.where(np.isnan(value), np.nan, variance))
    if not sums.replicates:
        return taylor(sums.rows(j), domain, count, sums.strata, pivot)
    values = replicated_values(sums, j, domain, count)
    spec = sums.design.replicates
    if spec is None:
        raise Refused("The design has no replicate weights.")
    variance, without = replicate_variance(values[:, 0], values[:, 1:], spec)
    ratio = sums.statistics[j].x is not None
    with np.errstate(invalid="ignore"):
        same = ratio & (without > 0) & (np.sqrt(variance) <= SAME * np.abs(values[:, 0]))
    replicates = len(sums.replicates)
    notes = [
        TOGETHER.format(without=number, replicates=replicates)
        if together
        else _left_out(number, replicates)
        for number, together in zip(without, same, strict=True)
    ]
    return DomainEstimates(values[:, 0], np.where(same, np.nan, variance), notes=tuple(notes))


def replicated_values(
    sums: Sums, j: int, domain: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """(domains, 1 + R): statistic j under the full weight and under each replicate weight."""
    inside = domain >= 0
    u, v = sums.replicated(j)
    top, bottom = np.zeros((2, count, u.shape[1]))
    np.add.at(top, domain[inside], u[inside])
    if sums.statistics[j].x is None:
        return top
    np.add.at(bottom, domain[inside], v[inside])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(bottom != 0, sums.pivots[j] + top / bottom, np.nan)


def _left_out(without: int, replicates: int) -> str:
    """What is said of a cell that has no weight in some replicates."""
    if without in (0, replicates):
        return ""
    return f"no weight in {without} of {replicates} replicates: its variance rests on the others"


def numeric(statistic: str, name: str, table: ir.Table) -> ir.FloatingValue:
    """A column as numbers, for the statistic of this text."""
    dtype = table[name].type()
    if not (dtype.is_numeric() or dtype.is_boolean()):
        raise Refused(
            f"{statistic} needs numbers, but column `{name}` is {dtype}; "
            f'use proportion({name} == "level") for a category.'
        )
    return as_float(table[name])
