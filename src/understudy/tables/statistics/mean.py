"""mean(x): sum w x / sum w over the records where x is known."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import ibis.expr.types as ir

from understudy.tables.first_look import Linear
from understudy.tables.statistic import ColumnStatistic


@dataclass(frozen=True)
class Mean(ColumnStatistic):
    name = "mean"
    form = "mean(x)"
    empty = nan
    intervals = ("t",)
    averages = True
    of_counts = False

    def linear(self, table: ir.Table) -> Linear:
        return Linear(self.x.numbers(self.text, table), 1.0)

    def r_call(self, number: int) -> str:  # noqa: ARG002
        return f"svyby(~{self.x.r}, cell, design, svymean, na.rm = TRUE)"
