"""Combining m synthetic data sets (Raghunathan, Reiter, Rubin 2003; Reiter 2003; M eq. 3.2).

qbar is the mean of the m estimates, b their variance, ubar the mean of their sampling
variances.

    partial synthesis   T = ubar + b/m              df = (m-1) (1 + ubar/(b/m))^2
    full synthesis      T = (1 + 1/m) b - ubar      df = (m-1) (1 - ubar/((1+1/m) b))^2

A full-synthesis T that is not positive is replaced by Reiter's adjusted form, which is ubar
for synthetic files of the confidential file's size, with the design's degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.errors import Refused

Floats = NDArray[np.float64]
Kind = Literal["partial", "full", "none"]

ROUNDING = 1e-12  # estimates that differ by less are the same public number
ONE_DATASET = "one data set: the synthesis variance is missing"
ADJUSTED = "variance was not positive: Reiter's adjusted form"


@dataclass(frozen=True)
class Combined:
    """Combined estimates; all arrays have one entry per estimate."""

    value: Floats
    variance: Floats
    df: Floats
    note: list[str]


def combine(values: ArrayLike, variances: ArrayLike, df: ArrayLike, kind: str) -> Combined:
    """(m, k) estimates and sampling variances, (k,) design df -> k combined estimates."""
    q = np.atleast_2d(np.asarray(values, dtype=np.float64))
    u = np.atleast_2d(np.asarray(variances, dtype=np.float64))
    design_df = np.broadcast_to(np.asarray(df, dtype=np.float64), q.shape[1:])
    if kind not in ("partial", "full"):
        raise Refused('Data sets are combined by combine="partial" or combine="full".')
    m, qbar, ubar = len(q), q.mean(axis=0), u.mean(axis=0)
    if m == 1:
        return Combined(qbar, ubar, design_df.copy(), [ONE_DATASET] * q.shape[1])
    b = np.where(np.ptp(q, axis=0) > ROUNDING * np.abs(qbar), q.var(axis=0, ddof=1), 0.0)
    if kind == "partial":
        between = b / m
        with np.errstate(divide="ignore", invalid="ignore"):
            degrees = np.where(between > 0, (m - 1) * (1 + ubar / between) ** 2, np.inf)
        return Combined(qbar, ubar + between, degrees, [""] * q.shape[1])
    between = (1 + 1 / m) * b
    variance = between - ubar
    positive = variance > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        degrees = np.where(positive, (m - 1) * (1 - ubar / between) ** 2, design_df)
    variance = np.where(positive | np.isnan(variance), variance, ubar)
    note = ["" if ok or np.isnan(v) else ADJUSTED for ok, v in zip(positive, variance, strict=True)]
    return Combined(qbar, variance, degrees, note)
