"""count: the estimated number of units, sum w."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.types as ir

from understudy.tables.first_look import Linear
from understudy.tables.statistic import LinearStatistic, Reader


@dataclass(frozen=True)
class Count(LinearStatistic):
    name = "count"
    form = "count"
    empty = 0.0
    intervals = ("log", "t")
    averages = False
    of_counts = True

    @classmethod
    def arguments(cls, reader: Reader) -> dict[str, Any]:  # noqa: ARG003
        return {}

    @property
    def columns(self) -> tuple[str, ...]:
        return ()

    def linear(self, table: ir.Table) -> Linear:  # noqa: ARG002
        return Linear(ibis.literal(1.0))

    def r_call(self, number: int) -> str:  # noqa: ARG002
        return "svyby(~one, cell, design, svytotal)"
