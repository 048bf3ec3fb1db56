"""quintile_share_ratio(x): what the richest fifth has over what the poorest fifth has (S80/S20).

The derivatives of the two sums hold no density: what moves over the edge q counts q on both sides
(Langel and Tille 2011). For the sum S of w x up to the quantile q of p,

    d S/d w_k = x_k 1[x_k <= q] + q (p - 1[x_k <= q])
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import numpy as np

from understudy.tables.record_statistic import Floats, Mask, RecordStatistic, weighted_quantile


@dataclass(frozen=True)
class QuintileShareRatio(RecordStatistic):
    name = "quintile_share_ratio"
    form = "quintile_share_ratio(x)"
    empty = nan
    intervals = ("log", "t")
    averages = False
    of_counts = False

    def value(self, x: Floats, w: Floats, cell: Mask) -> float:
        (low, below), (high, above) = _fifths(x[cell], w[cell])
        del low, high
        return above / below if below > 0 else nan

    def derivative(self, x: Floats, w: Floats, cell: Mask) -> Floats:
        out = np.zeros(len(x))
        x, w = x[cell], w[cell]
        (low, below), (high, above) = _fifths(x, w)
        poorer, richer = x <= low, x > high
        down = x * poorer + low * (0.2 - poorer)
        up = x * richer + high * (0.2 - richer)
        out[cell] = (up - above / below * down) / below
        return out


def _fifths(x: Floats, w: Floats) -> tuple[tuple[float, float], tuple[float, float]]:
    """The edge of the poorest fifth and what it has, and of the richest."""
    low, high = weighted_quantile(x, w, 0.2), weighted_quantile(x, w, 0.8)
    return (low, float(w @ (x * (x <= low)))), (high, float(w @ (x * (x > high))))
