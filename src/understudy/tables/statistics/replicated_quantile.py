"""replicated_quantile(x, p): a quantile whose variance is that of the replicates' quantiles.

quantile(x, p) has Woodruff's interval under every design; this is R survey's svyquantile with
interval.type = "quantile", which the makers of jackknife weights do not recommend.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

from understudy.errors import Refused
from understudy.tables.record_statistic import Floats, Mask, RecordStatistic, weighted_quantile
from understudy.tables.statistic import Reader


@dataclass(frozen=True)
class ReplicatedQuantile(RecordStatistic):
    name = "replicated_quantile"
    form = "replicated_quantile(x, 0.5)"
    empty = nan
    intervals = ("t",)
    averages = False
    of_counts = False

    probability: float = 0.5

    @classmethod
    def arguments(cls, reader: Reader) -> dict[str, Any]:
        reader.sign("(")
        x = reader.expression()
        reader.sign(",")
        probability = reader.probability()
        reader.sign(")")
        return {"x": x, "probability": probability}

    def value(self, x: Floats, w: Floats, cell: Mask) -> float:
        return weighted_quantile(x[cell], w[cell], self.probability)

    def derivative(self, x: Floats, w: Floats, cell: Mask) -> Floats:  # noqa: ARG002
        raise Refused(f"{self.text} needs replicate weights; use quantile without them.")
