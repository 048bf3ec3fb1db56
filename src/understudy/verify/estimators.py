"""One estimate per partition.

Totals, means, proportions, ratios and differences come from one GROUP BY pass: each record
contributes a decimal, and decimals add up exactly, in any order (`exact_sums`). Quantiles and
coefficients are fitted by workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import Any, Literal

import ibis
import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from understudy.survey.codebook import Codebook
from understudy.verify.confidential import EXACT_WEIGHT, WEIGHT, ConfidentialData, level_code
from understudy.verify.exact_sums import exact_decimal
from understudy.verify.partition_fit import Task
from understudy.verify.partitions import (
    PARTITION,
    equal_size_shuffle,
    new_key,
    with_partition,
    with_shuffle,
)
from understudy.verify.query import Condition, Query

Floats = NDArray[np.float64]

_FITTED: Mapping[str, Literal["quantile", "linear", "logistic"]] = {
    "quantile": "quantile",
    "linear": "linear",
    "logistic": "logistic",
}


def assign_partitions(data: ConfidentialData, query: Query) -> tuple[ir.Table, Floats]:
    """The records with their partition under a new key, and each partition's total factor.

    The factor turns a partition's sum into a total: M under the keyed hash, n/n_k under
    the equal-size shuffle (V eq. 3).
    """
    if query.partitioning == "hash":
        table = with_partition(data.records, new_key(), query.count)
        return table, np.full(query.count, float(query.count))
    dealt = equal_size_shuffle(data.units, query.count)
    sizes = np.bincount(dealt, minlength=query.count)
    with np.errstate(divide="ignore"):
        return with_shuffle(data.records, dealt), data.units / sizes


def partition_estimates(
    data: ConfidentialData, query: Query, table: ir.Table, factor: Floats, size: float
) -> Floats:
    """tau_k for k = 1..M, NaN where it does not exist. `size` is a public magnitude of the
    estimate by which contributions are scaled before they become decimals."""
    if query.estimator in _FITTED:
        return _fitted(data, query, table)
    if query.estimator == "total":
        return _total(data, query, table, factor, size)
    return _means(data, query, table, size)


def _total(
    data: ConfidentialData, query: Query, table: ir.Table, factor: Floats, size: float
) -> Floats:
    """N sum(wx)/sum(w) where the population size N is public, else factor * sum(wx)."""
    value = _number(table, query.variable)
    counted = inside_domain(table, query.domain, data.codebook) & value.notnull()
    if data.population is None:
        scale = size / 1e6
        sums = _sums(data, query, table, counted, top=table[WEIGHT] * value / scale)
        return factor * scale * np.nan_to_num(sums["top"])
    scale = size / data.population
    top = ibis.ifelse(counted, table[WEIGHT] * value / scale, 0.0)
    sums = _sums(data, query, table, None, top=top, bottom=table[EXACT_WEIGHT])
    return data.population * scale * _divide(sums["top"], sums["bottom"])


def _means(data: ConfidentialData, query: Query, table: ir.Table, size: float) -> Floats:
    """sum(wx)/sum(w) (V eq. 8), sum(wx)/sum(wy), or the difference of two means."""
    weight = table[WEIGHT]
    if query.level is not None:
        holds: Any = table[query.variable] == query.level
        value, size = holds.cast("float64"), 1.0
    else:
        value = _number(table, query.variable)
    first = inside_domain(table, query.domain, data.codebook) & value.notnull()
    other = table[EXACT_WEIGHT]
    if query.denominator is not None:
        below = _number(table, query.denominator)
        first = first & below.notnull()
        other = weight * below
    if query.estimator != "difference":
        top = weight * value / size
        sums = _sums(data, query, table, first, top=top, bottom=other)
        return size * _divide(sums["top"], sums["bottom"])
    second = inside_domain(table, query.versus, data.codebook) & value.notnull()
    parts = {
        f"{name}{place}": ibis.ifelse(domain, part, 0.0)
        for place, domain in enumerate((first, second))
        for name, part in (("top", weight * value / size), ("bottom", weight))
    }
    sums = _sums(data, query, table, first | second, **parts)
    one, two = (_divide(sums[f"top{i}"], sums[f"bottom{i}"]) for i in (0, 1))
    return size * (one - two)


def _sums(
    data: ConfidentialData,
    query: Query,
    table: ir.Table,
    keep: ir.BooleanValue | None,
    **parts: Any,
) -> dict[str, Floats]:
    """Exact sums by partition in one pass; NaN for a partition without a record."""
    columns = {
        name: part if part.type().is_decimal() else exact_decimal(part)
        for name, part in parts.items()
    }
    kept = table if keep is None else table.filter(keep)
    rows = kept.select(kept[PARTITION], **columns)
    found = data.run(
        rows.group_by(PARTITION).aggregate(**{name: rows[name].sum() for name in columns})
    )
    place = np.array(found.column(PARTITION).to_pylist(), dtype=np.int64)
    sums = {}
    for name in columns:
        sums[name] = np.full(query.count, np.nan)
        sums[name][place] = [float(value) for value in found.column(name).to_pylist()]
    return sums


def _divide(top: Floats, bottom: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Floats = np.where(bottom != 0, top / bottom, np.nan)
    return quotient


def _fitted(data: ConfidentialData, query: Query, table: ir.Table) -> Floats:
    """Quantile or coefficient by workers, each partition on its own."""
    outcome = (
        (table[query.variable] == query.level).cast("float64")
        if query.level is not None
        else _number(table, query.variable)
    )
    columns = {"outcome": outcome, "weight": table[WEIGHT]}
    levels = []
    for place, name in enumerate(query.predictors):
        columns[f"predictor{place}"], count = _predictor(table, name, data.codebook)
        levels.append(count)
    rows = table.filter(inside_domain(table, query.domain, data.codebook)).select(
        table[PARTITION], **columns
    )
    found = data.run(rows.drop_null())
    matrix = np.array([found.column(name).to_numpy() for name in columns], dtype=np.float64)
    place = found.column(PARTITION).to_numpy()
    order = np.argsort(place, kind="stable")
    edges = np.searchsorted(place[order], np.arange(query.count + 1))
    matrix = matrix[:, order]
    column, level = _wanted(query, data.codebook)
    tasks = [
        Task(
            kind=_FITTED[query.estimator],
            columns=matrix[:, edges[k] : edges[k + 1]],
            probability=query.probability or 0.5,
            levels=tuple(levels),
            column=column,
            level=level,
        )
        for k in range(query.count)
    ]
    return data.pool.run(tasks)


def _predictor(table: ir.Table, name: str, codebook: Codebook) -> tuple[Any, int]:
    """A number, or the code of the public level (null for anything else)."""
    column = codebook[name]
    if column.type != "categorical" or column.levels is None:
        return _number(table, name), 0
    codes = [(level, float(code)) for code, level in enumerate(column.levels)]
    return table[name].cases(*codes).cast("float64"), len(column.levels)


def _wanted(query: Query, codebook: Codebook) -> tuple[int, int]:
    if query.coefficient is None:
        return 0, 0
    levels = codebook[query.coefficient].levels
    place = query.predictors.index(query.coefficient)
    if query.coefficient_level is None or levels is None:
        return place, 0
    return place, levels.index(query.coefficient_level)


def _number(table: ir.Table, name: str) -> Any:
    return table[name].cast("float64")


def inside_domain(
    table: ir.Table, domain: tuple[Condition, ...], codebook: Codebook
) -> ir.BooleanValue:
    """Whether a record is in the domain; a missing value is outside."""
    parts: list[Any] = [
        _has_level(table, condition, codebook).fill_null(False) for condition in domain
    ]
    return reduce(and_, parts) if parts else ibis.literal(True)


def _has_level(table: ir.Table, condition: Condition, codebook: Codebook) -> Any:
    """By the level's code where the table has codes: comparing texts takes twice as long."""
    code, levels = level_code(condition.column), codebook[condition.column].levels
    if code not in table.columns or levels is None:
        return table[condition.column].isin(list(condition.levels))
    return table[code].isin([levels.index(level) for level in condition.levels])
