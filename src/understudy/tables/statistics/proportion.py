"""proportion(x == "level"): the mean of 1 where x is the level and 0 where it is another.

proportion(x) stands for the proportions of all levels: those that the codebook has, else those
that occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir

from understudy.errors import Refused
from understudy.tables.collect import Linear, as_float
from understudy.tables.r_text import r_text, r_value
from understudy.tables.statistic import LinearStatistic, Reader, Statistic

if TYPE_CHECKING:
    from understudy.survey.survey import Survey

MOST = 200  # levels that a table shows at once


@dataclass(frozen=True)
class Proportion(LinearStatistic):
    name = "proportion"
    form = 'proportion(x == "level")'
    empty = nan

    x: str
    level: str | float | bool | None  # None: each of them

    @classmethod
    def arguments(cls, reader: Reader) -> dict[str, Any]:
        reader.sign("(")
        x = reader.column()
        level = None
        if reader.peek()[1] != ")":
            reader.sign("==")
            level = reader.value()
        reader.sign(")")
        return {"x": x, "level": level}

    def spread_out(self, survey: Survey) -> Sequence[Statistic]:
        if self.level is not None:
            return [self]
        levels = survey.codebook[self.x].levels if self.x in survey.codebook else None
        if levels is None:
            x = survey.table[self.x]
            values = survey.table.select(x=x).filter(lambda t: t.x.notnull()).distinct()
            levels = values.order_by("x").limit(MOST + 1).to_polars()["x"].to_list()
        if len(levels) > MOST:
            raise Refused(
                f"`{self.x}` has more than {MOST} levels; name those that you want, as in "
                f'proportion({self.x} == "level").'
            )
        name = self.x if self.x.isidentifier() else f"`{self.x}`"
        return [Proportion(f"proportion({name} == {_written(v)})", self.x, v) for v in levels]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.x,)

    @property
    def of_counts(self) -> bool:
        return True

    @property
    def intervals(self) -> tuple[str, ...]:
        return ("t", "logit", "beta")

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


def _written(level: str | float | bool) -> str:
    """A level as the text of a statistic has it."""
    if not isinstance(level, str):
        return str(level)
    return '"' + level.replace("\\", "\\\\").replace('"', '\\"') + '"'
