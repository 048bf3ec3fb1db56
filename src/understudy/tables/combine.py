"""Combining m data sets into one estimate (Reiter 2003; Raghunathan, Reiter, Rubin 2003; Rubin
1987 with Barnard and Rubin 1999; M eq. 3.2).

qbar is the mean of the m estimates, b their variance, ubar the mean of their sampling variances,
and nu the degrees of freedom that each sampling variance has by its design.

    partial synthesis   T = ubar + b/m            df = T^2 / ((b/m)^2/(m-1) + ubar^2/nu)
    full synthesis      T = (1 + 1/m) b - ubar    df = T^2 / (((1+1/m) b)^2/(m-1) + ubar^2/nu)
    imputed values      T = ubar + (1 + 1/m) b    1/df = r^2/(m-1) + 1/(nu (nu+1)/(nu+3) (1-r))

with r = (1 + 1/m) b / T. For nu = inf the first two are the papers' (m-1) (1 + ubar/(b/m))^2 and
(m-1) (1 - ubar/((1+1/m) b))^2, the third is Rubin's (m-1)/r^2; docs/decisions/014 says why nu
matters. A full-synthesis T that is not positive is replaced by Reiter's adjusted form, which is
ubar for synthetic files of the confidential file's size, with the design's degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.errors import Refused

__public__ = ("combine as combine_estimates",)

Floats = NDArray[np.float64]
RULES = ("partial", "full", "imputed")

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
    if kind not in RULES:
        raise Refused(
            'Data sets are combined by combine="partial", combine="full" or combine="imputed".'
        )
    m, qbar, ubar = len(q), q.mean(axis=0), u.mean(axis=0)
    if m == 1:
        return Combined(qbar, ubar, design_df.copy(), [ONE_DATASET] * q.shape[1])
    b = np.where(np.ptp(q, axis=0) > ROUNDING * np.abs(qbar), q.var(axis=0, ddof=1), 0.0)
    between = b / m if kind == "partial" else (1 + 1 / m) * b
    if kind == "imputed":
        variance = ubar + between
        return Combined(qbar, variance, _barnard_rubin(variance, between, m, design_df), _none(q))
    variance = ubar + between if kind == "partial" else between - ubar
    degrees = _satterthwaite(variance, between, ubar, m, design_df)
    if kind == "partial":
        return Combined(qbar, variance, degrees, _none(q))
    positive = variance > 0
    degrees = np.where(positive, degrees, design_df)
    variance = np.where(positive | np.isnan(variance), variance, ubar)
    note = ["" if ok or np.isnan(v) else ADJUSTED for ok, v in zip(positive, variance, strict=True)]
    return Combined(qbar, variance, degrees, note)


def _satterthwaite(variance: Floats, between: Floats, ubar: Floats, m: int, nu: Floats) -> Floats:
    """Of between +- ubar, whose parts have m - 1 and nu degrees of freedom; nu for no variance."""
    spread = between**2 / (m - 1) + ubar**2 / nu
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(variance == 0, nu, variance**2 / spread)


def _barnard_rubin(variance: Floats, between: Floats, m: int, nu: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.where(variance == 0, 0.0, between / variance)
        observed = np.where(np.isinf(nu), np.inf, (nu + 1) / (nu + 3) * nu) * (1 - r)
        return np.asarray(1 / (r**2 / (m - 1) + 1 / observed))


def _none(q: Floats) -> list[str]:
    return [""] * q.shape[1]
