"""poverty_rate(x): the share of units below 60 % of the median, the at-risk-of-poverty rate.

The threshold is that of the whole table (all records of `where`), also in its cells, as laeken has
it. It is estimated, and its error counts: with R the rate of a cell of size N_d, m the median and
f, f_d the densities of x overall and in the cell,

    d R/d w_k = (1[x_k < t] - R)/N_d - .6 f_d(t)/f(m) (1[x_k <= m] - .5)/N       (Deville 1999)

where the first term is of records in the cell only. The densities are kernel estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import numpy as np

from understudy.tables.record_statistic import (
    Floats,
    Mask,
    RecordStatistic,
    density,
    weighted_quantile,
)

SHARE = 0.6


@dataclass(frozen=True)
class PovertyRate(RecordStatistic):
    name = "poverty_rate"
    form = "poverty_rate(x)"
    empty = nan
    intervals = ("logit", "t")
    averages = False
    of_counts = False

    def value(self, x: Floats, w: Floats, cell: Mask) -> float:
        threshold = SHARE * weighted_quantile(x, w, 0.5)
        return float(w[cell] @ (x[cell] < threshold) / w[cell].sum())

    def derivative(self, x: Floats, w: Floats, cell: Mask) -> Floats:
        median = weighted_quantile(x, w, 0.5)
        threshold, size = SHARE * median, w[cell].sum()
        rate = self.value(x, w, cell)
        slope = SHARE * density(x[cell], w[cell], threshold) / density(x, w, median)
        moved = slope * ((x <= median) - 0.5) / w.sum()
        return np.asarray(np.where(cell, ((x < threshold) - rate) / size, 0.0) - moved)
