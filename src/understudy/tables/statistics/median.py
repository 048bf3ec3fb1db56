"""median(x): quantile(x, 0.5) in a word."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

from understudy.tables.statistic import Reader
from understudy.tables.statistics.quantile import Quantile


@dataclass(frozen=True)
class Median(Quantile):
    name = "median"
    form = "median(x)"
    empty = nan
    interval = "own"
    intervals = ("t",)
    averages = False
    of_counts = False

    @classmethod
    def arguments(cls, reader: Reader) -> dict[str, Any]:
        return {"x": reader.only_expression(), "probability": 0.5}
