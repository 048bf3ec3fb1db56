"""proportion(x == "level"): the mean of 1 where x is the level and 0 where it is another."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

import ibis
import ibis.expr.types as ir

from understudy.errors import Refused
from understudy.tables.collect import Linear, as_float
from understudy.tables.r_text import r_text, r_value
from understudy.tables.statistic import LinearStatistic, Reader


@dataclass(frozen=True)
class Proportion(LinearStatistic):
    name = "proportion"
    form = 'proportion(x == "level")'
    empty = nan

    x: str
    level: str | float | bool

    @classmethod
    def arguments(cls, reader: Reader) -> dict[str, Any]:
        reader.sign("(")
        x = reader.column()
        reader.sign("==")
        level = reader.value()
        reader.sign(")")
        return {"x": x, "level": level}

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.x,)

    def linear(self, table: ir.Table) -> Linear:
        x, level = table[self.x], self.level
        text = x.type().is_string()
        if text != isinstance(level, str):
            kind = (
                'text; put its level in quotes: "..."' if text else "not text; leave the quotes out"
            )
            raise Refused(f"In {self.text}, column `{self.x}` is {kind}.")
        known = as_float(x).notnull() if x.type().is_floating() else x.notnull()
        if x.type().is_boolean():
            level = bool(level)
        a = ibis.cases((~known, ibis.null("float64")), (x == level, 1.0), else_=0.0)
        return Linear(a, 1.0, pivoted=False)

    def r_call(self, number: int) -> str:
        return f"svyby(~share{number}, cell, design, svymean, na.rm = TRUE)"

    def r_column(self, number: int) -> str:  # noqa: ARG002
        return f"as.numeric(data[[{r_text(self.x)}]] == {r_value(self.level)})"
