"""proportion(x == "level"): the mean of 1 where x is the level and 0 where it is another.

proportion(age > 64) is the share of those for whom a condition holds. proportion(x) stands for the
proportions of all levels: those that the codebook has, else those that occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir

from understudy.errors import Refused
from understudy.tables.expression import Expression
from understudy.tables.first_look import Linear
from understudy.tables.numbers import as_float
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
    intervals = ("logit", "beta", "t")
    averages = False
    of_counts = True

    x: Expression
    level: str | float | bool | None = None  # None: each of them, or those of a condition

    @classmethod
    def arguments(cls, reader: Reader) -> dict[str, Any]:
        reader.sign("(")
        words = [word for _, word, _ in reader.tokens[reader.next : reader.next + 4]]
        if words[1:2] == ["=="] and words[3:] not in (["and"], ["or"]):
            column = reader.column()
            reader.sign("==")
            level = reader.value()
            reader.sign(")")
            return {"x": Expression(column), "level": level}
        x = reader.expression()
        reader.sign(")")
        if x.computed and not x.is_condition:
            raise Refused(f"proportion({x.text}) needs a condition, such as proportion(age > 64).")
        return {"x": x}

    def spread_out(self, survey: Survey) -> Sequence[Statistic]:
        if self.level is not None or self.x.computed:
            return [self]
        column = self.x.text
        book = survey.declared  # a draft would have the levels that occur
        levels = book[column].levels if column in book else None
        if levels is None:
            x = survey.table[column]
            values = survey.table.select(x=x).filter(lambda t: t.x.notnull()).distinct()
            levels = values.order_by("x").limit(MOST + 1).to_polars()["x"].to_list()
        if not levels:
            raise Refused(f"`{column}` has no known value, and so no proportions; leave it out.")
        if len(levels) > MOST:
            raise Refused(
                f"`{column}` has more than {MOST} levels; name those that you want, as in "
                f'proportion({column} == "level").'
            )
        return [
            Proportion(f"proportion({self.x.written} == {_written(v)})", self.x, v) for v in levels
        ]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.x.columns

    def linear(self, table: ir.Table) -> Linear:
        if self.x.computed:
            met = self.x.condition(table)
            share = ibis.cases((met, 1.0), (~met, 0.0), else_=ibis.null("float64"))
            return Linear(share, 1.0, pivoted=False)
        x, level = table[self.x.text], self.level
        text = x.type().is_string()
        if text != isinstance(level, str):
            kind = (
                'text; put its level in quotes: "..."' if text else "not text; leave the quotes out"
            )
            raise Refused(f"In {self.text}, column `{self.x.text}` is {kind}.")
        known = as_float(x).notnull() if x.type().is_floating() else x.notnull()
        if x.type().is_boolean():
            level = bool(level)
        a = ibis.cases((~known, ibis.null("float64")), (x == level, 1.0), else_=0.0)
        return Linear(a, 1.0, pivoted=False)

    def r_call(self, number: int) -> str:
        if self.level is None and not self.x.computed:
            return ""  # a table shows its levels one by one
        return f"svyby(~share{number}, cell, design, svymean, na.rm = TRUE)"

    def r_column(self, number: int) -> str:  # noqa: ARG002
        if self.x.computed:
            return f"as.numeric({self.x.r_value})"
        if self.level is None:
            return ""
        return f"as.numeric(data[[{r_text(self.x.text)}]] == {r_value(self.level)})"


def _written(level: str | float | bool) -> str:
    """A level as the text of a statistic has it."""
    if not isinstance(level, str):
        return str(level)
    return '"' + level.replace("\\", "\\\\").replace('"', '\\"') + '"'
