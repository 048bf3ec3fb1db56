"""total(x): sum w x over the records where x is known."""

from __future__ import annotations

from dataclasses import dataclass

import ibis.expr.types as ir

from understudy.tables.first_look import Linear
from understudy.tables.statistic import ColumnStatistic


@dataclass(frozen=True)
class Total(ColumnStatistic):
    name = "total"
    form = "total(x)"
    empty = 0.0
    intervals = ("t", "log")
    averages = False
    of_counts = False

    def linear(self, table: ir.Table) -> Linear:
        return Linear(self.x.numbers(self.text, table))

    def r_call(self, number: int) -> str:  # noqa: ARG002
        return f"svyby(~{self.x.r}, cell, design, svytotal, na.rm = TRUE)"
