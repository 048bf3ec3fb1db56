"""Gini's coefficient of weighted numbers: sum_jk w_j w_k |x_j - x_k|/(2 N sum w x)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def gini_coefficient(values: Floats, weight: Floats) -> float:
    """NaN where the total is not above 0: 2 sum w x F/(N sum w x) - 1 with F the weight below a
    record and half of its own, in the order of the values."""
    order = np.argsort(values, kind="stable")
    x, w = values[order], weight[order]
    size, total = float(w.sum()), float(w @ x)
    if not size * total > 0:
        return float("nan")
    return float(2 * (w * x) @ (np.cumsum(w) - w / 2) / (size * total) - 1)
