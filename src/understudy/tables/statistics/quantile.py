"""quantile(x, p): the smallest value whose weighted distribution function reaches p.

quantile(x, 0.1, 0.5, 0.9) stands for the three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

import ibis.expr.types as ir

from understudy.tables.expression import Expression
from understudy.tables.influence.equations.quantile import QuantileEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.tables.statistic import Cells, Reader, Statistic
from understudy.tables.taylor import DomainEstimates
from understudy.tables.woodruff import quantile_estimates

if TYPE_CHECKING:
    from understudy.survey.survey import Survey


@dataclass(frozen=True)
class Quantile(Statistic):
    name = "quantile"
    form = "quantile(x, 0.5)"
    empty = nan
    interval = "own"
    intervals = ("t",)
    averages = False
    of_counts = False

    x: Expression
    probability: float
    others: tuple[float, ...] = ()

    @classmethod
    def arguments(cls, reader: Reader) -> dict[str, Any]:
        reader.sign("(")
        x = reader.expression()
        probabilities: list[float] = []
        while not probabilities or reader.peek()[1] == ",":
            reader.sign(",")
            probabilities.append(reader.probability())
        reader.sign(")")
        first, *others = dict.fromkeys(probabilities)
        return {"x": x, "probability": first, "others": tuple(others)}

    def spread_out(self, survey: Survey) -> Sequence[Statistic]:  # noqa: ARG002
        if not self.others:
            return [self]
        return [
            Quantile(f"quantile({self.x.written}, {p:g})", self.x, p)
            for p in (self.probability, *self.others)
        ]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.x.columns

    def estimates(self, cells: Cells) -> DomainEstimates:
        x = self.x.numbers(self.text, cells.survey.table)
        if self not in cells.done:
            alike = [
                other for other in cells.asked if isinstance(other, Quantile) and other.x == self.x
            ]
            together = quantile_estimates(
                cells, x, self.x.written, [other.probability for other in alike]
            )
            cells.done.update(zip(alike, together, strict=True))
        return cells.done[self]

    def influence_question(self) -> InfluenceQuestion:
        def columns(table: ir.Table) -> dict[str, Any]:
            return {"y": self.x.numbers(self.text, table)}

        return InfluenceQuestion(QuantileEquation(self.probability), columns, names=(self.text,))

    def r_call(self, number: int) -> str:  # noqa: ARG002
        if self.others:
            return ""  # a table shows them one by one
        return (
            f"svyby(~{self.x.r}, cell, design, svyquantile,\n"
            f'         quantiles = {self.probability}, qrule = "math", df = degf(design), '
            'ci = TRUE,\n         vartype = "se", na.rm = TRUE)'
        )
