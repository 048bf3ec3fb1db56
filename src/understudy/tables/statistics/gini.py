"""gini(x): Gini's coefficient, sum_jk w_j w_k max(x_j, x_k)/(N Y) - 1, between 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

import ibis.expr.types as ir
import numpy as np

from understudy.errors import Refused
from understudy.tables.gini_coefficient import gini_coefficient
from understudy.tables.influence.equations.gini import GiniEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.tables.record_statistic import Floats, Mask, RecordStatistic


@dataclass(frozen=True)
class Gini(RecordStatistic):
    name = "gini"
    form = "gini(x)"
    empty = nan
    intervals = ("logit", "t")
    averages = False
    of_counts = False

    def check(self, x: Floats) -> None:
        if (x < 0).any():
            raise Refused(f"{self.text} needs values that are not negative; restrict `where`.")

    def value(self, x: Floats, w: Floats, cell: Mask) -> float:
        return gini_coefficient(x[cell], w[cell])

    def derivative(self, x: Floats, w: Floats, cell: Mask) -> Floats:
        out = np.zeros(len(x))
        x, w = x[cell], w[cell]
        larger, size, total = _larger(x, w), w.sum(), w @ x
        ratio = (w @ larger) / (size * total)
        out[cell] = 2 * larger / (size * total) - ratio * (1 / size + x / total)
        return out

    def influence_question(self) -> InfluenceQuestion:
        def columns(table: ir.Table) -> dict[str, Any]:
            return {"y": self.x.numbers(self.text, table)}

        return InfluenceQuestion(GiniEquation(), columns, names=(self.text,))


def _larger(x: Floats, w: Floats) -> Floats:
    """sum_j w_j max(x_k, x_j) of each record k."""
    order = np.argsort(x, kind="stable")
    weight, total = np.cumsum(w[order]), np.cumsum((w * x)[order])
    out = np.empty(len(x))
    out[order] = x[order] * weight + (total[-1] - total)
    return out
