"""One pass over the confidential records, split into partitions.

Sums come from one GROUP BY: each record contributes a decimal, and decimals add up exactly, in
any order (`exact_sums`). Estimates that need a fit go to workers, partition by partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from understudy.survey.codebook import Codebook
from understudy.verify.caller import Caller
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
from understudy.verify.query import Query
from understudy.verify.question_fields import Condition, Level

Floats = NDArray[np.float64]


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
    data: ConfidentialData,
    query: Query,
    table: ir.Table,
    factor: Floats,
    size: float,
    caller: Caller | None = None,
) -> Floats:
    """tau_k for k = 1..M, NaN where it does not exist. `size` is a public magnitude of the
    estimate by which contributions are scaled before they become decimals."""
    if data.nonresponse is not None:
        table = data.nonresponse.adjusted(table, WEIGHT, EXACT_WEIGHT)
    records = PartitionPass(data, table, query.domain, query.count, factor, size, caller)
    return query.estimand.partition_estimates(records)


@dataclass(frozen=True)
class PartitionPass:
    """The records with their partition, and what an estimator may compute from them."""

    data: ConfidentialData
    table: ir.Table
    domain: tuple[Condition, ...]
    count: int
    factor: Floats  # (M,)
    size: float
    caller: Caller | None = None  # for whom workers fit

    @property
    def weight(self) -> Any:
        return self.table[WEIGHT]

    @property
    def exact_weight(self) -> Any:
        return self.table[EXACT_WEIGHT]

    @property
    def population(self) -> float | None:
        """The population's size where it is public."""
        return self.data.population

    def number(self, name: str) -> Any:
        return self.table[name].cast("float64")

    def has_level(self, name: str, level: Level) -> Any:
        holds: Any = self.table[name] == level
        return holds.cast("float64")

    def inside(self, domain: tuple[Condition, ...] | None = None) -> ir.BooleanValue:
        """Whether a record is in the question's domain, or in another one."""
        wanted = self.domain if domain is None else domain
        return inside_domain(self.table, wanted, self.data.codebook)

    def sums(self, keep: ir.BooleanValue | None, **parts: Any) -> dict[str, Floats]:
        """Exact sums by partition in one pass; NaN for a partition without a record."""
        columns = {
            name: part if part.type().is_decimal() else exact_decimal(part)
            for name, part in parts.items()
        }
        kept = self.table if keep is None else self.table.filter(keep)
        rows = kept.select(kept[PARTITION], **columns)
        grouped = self.data.run(
            rows.group_by(PARTITION).aggregate(**{name: rows[name].sum() for name in columns})
        )
        partition = np.array(grouped.column(PARTITION).to_pylist(), dtype=np.int64)
        sums = {}
        for name in columns:
            sums[name] = np.full(self.count, np.nan)
            sums[name][partition] = [float(value) for value in grouped.column(name).to_pylist()]
        return sums

    def fit(
        self, fit: str, outcome: Any, predictors: Sequence[str] = (), **settings: Any
    ) -> Floats:
        """One number per partition by workers: `fit` is a function of `partition_fit`, or
        `mine.py:function`; `settings` are those of a Task."""
        columns = {"outcome": outcome, "weight": self.weight}
        levels = []
        for number, name in enumerate(predictors):
            columns[f"predictor{number}"], count = self._predictor(name)
            levels.append(count)
        inside = self.table.filter(self.inside())
        rows = self.data.run(inside.select(self.table[PARTITION], **columns).drop_null())
        matrix = np.array([rows.column(name).to_numpy() for name in columns], dtype=np.float64)
        partition = rows.column(PARTITION).to_numpy()
        order = np.argsort(partition, kind="stable")
        edges = np.searchsorted(partition[order], np.arange(self.count + 1))
        matrix = matrix[:, order]
        tasks = [
            Task(fit, matrix[:, edges[k] : edges[k + 1]], levels=tuple(levels), **settings)
            for k in range(self.count)
        ]
        return self.data.pool.run(tasks, self.caller)

    def coefficient(
        self, predictors: Sequence[str], name: str, level: Level | None
    ) -> Mapping[str, int]:
        """Which coefficient is wanted, as settings of a Task."""
        levels = self.data.codebook[name].levels
        coded = level is not None and levels is not None
        return {
            "column": list(predictors).index(name),
            "level": levels.index(level) if coded else 0,  # type: ignore[union-attr]
        }

    def _predictor(self, name: str) -> tuple[Any, int]:
        """A number, or the code of the public level (null for anything else)."""
        column = self.data.codebook[name]
        if column.type != "categorical" or column.levels is None:
            return self.number(name), 0
        codes = [(level, float(code)) for code, level in enumerate(column.levels)]
        return self.table[name].cases(*codes).cast("float64"), len(column.levels)


def divide(top: Floats, bottom: Floats) -> Floats:
    """The quotient, NaN where the lower part is zero or missing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Floats = np.where(bottom != 0, top / bottom, np.nan)
    return quotient


def inside_domain(
    table: ir.Table, domain: tuple[Condition, ...], codebook: Codebook
) -> ir.BooleanValue:
    """Whether a record is in the domain; a missing value is outside."""
    parts: list[Any] = [
        _has_level(table, condition, codebook).fill_null(False) for condition in domain
    ]
    return reduce(and_, parts) if parts else ibis.literal(True)


def domain_of(domain: tuple[Condition, ...], codebook: Codebook) -> Callable[[ir.Table], Any]:
    """The same, as a function of a table."""
    return lambda table: inside_domain(table, domain, codebook)


def _has_level(table: ir.Table, condition: Condition, codebook: Codebook) -> Any:
    """By the level's code where the table has codes: comparing texts takes twice as long."""
    code, levels = level_code(condition.column), codebook[condition.column].levels
    if code not in table.columns or levels is None:
        return table[condition.column].isin(list(condition.levels))
    return table[code].isin([levels.index(level) for level in condition.levels])
