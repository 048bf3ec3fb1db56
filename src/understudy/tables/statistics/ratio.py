"""ratio(x / y): sum w x / sum w y over the records where both are known."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

import ibis.expr.types as ir

from understudy.tables.first_look import Linear
from understudy.tables.linear import numeric
from understudy.tables.r_text import r_name
from understudy.tables.statistic import LinearStatistic, Reader


@dataclass(frozen=True)
class Ratio(LinearStatistic):
    name = "ratio"
    form = "ratio(x / y)"
    empty = nan
    intervals = ("t",)
    averages = False
    of_counts = False

    x: str
    y: str

    @classmethod
    def arguments(cls, reader: Reader) -> dict[str, Any]:
        reader.sign("(")
        x = reader.column()
        reader.sign("/")
        y = reader.column()
        reader.sign(")")
        return {"x": x, "y": y}

    @property
    def columns(self) -> tuple[str, ...]:
        return self.x, self.y

    def linear(self, table: ir.Table) -> Linear:
        return Linear(numeric(self.text, self.x, table), numeric(self.text, self.y, table))

    def r_call(self, number: int) -> str:  # noqa: ARG002
        return (
            f"svyby(~{r_name(self.x)}, cell, design, svyratio, denominator = ~{r_name(self.y)}, "
            "na.rm = TRUE)"
        )
