"""quantile(x, p): the smallest value whose weighted distribution function reaches p."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

import ibis.expr.types as ir

from understudy.errors import Refused
from understudy.tables.influence.equations.quantile import QuantileEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.tables.linear import numeric
from understudy.tables.r_text import r_name
from understudy.tables.statistic import Cells, Reader, Statistic
from understudy.tables.taylor import DomainEstimates
from understudy.tables.woodruff import quantile_estimates


@dataclass(frozen=True)
class Quantile(Statistic):
    name = "quantile"
    form = "quantile(x, 0.5)"
    empty = nan
    interval = "own"

    x: str
    probability: float

    @classmethod
    def arguments(cls, reader: Reader) -> dict[str, Any]:
        reader.sign("(")
        x = reader.column()
        reader.sign(",")
        probability = reader.probability()
        reader.sign(")")
        return {"x": x, "probability": probability}

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.x,)

    def estimates(self, cells: Cells) -> DomainEstimates:
        x = cells.survey.table[self.x]
        if not x.type().is_numeric():
            raise Refused(f"{self.text} needs numbers, but column `{self.x}` is {x.type()}.")
        if self not in cells.done:
            alike = [
                other for other in cells.asked if isinstance(other, Quantile) and other.x == self.x
            ]
            together = quantile_estimates(cells, x, [other.probability for other in alike])
            cells.done.update(zip(alike, together, strict=True))
        return cells.done[self]

    def influence_question(self) -> InfluenceQuestion:
        def columns(table: ir.Table) -> dict[str, Any]:
            return {"y": numeric(self.text, self.x, table)}

        return InfluenceQuestion(QuantileEquation(self.probability), columns, names=(self.text,))

    def r_call(self, number: int) -> str:  # noqa: ARG002
        return (
            f"svyby(~{r_name(self.x)}, cell, design, svyquantile,\n"
            f'         quantiles = {self.probability}, qrule = "math", df = degf(design), '
            'ci = TRUE,\n         vartype = "se", na.rm = TRUE)'
        )
