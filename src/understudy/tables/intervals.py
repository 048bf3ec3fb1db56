"""Confidence limits that stay where the quantity lives, each a function of estimate, se and df.

    t       estimate -+ t se                                           (every statistic)
    logit   the t interval of log(p/(1-p)), se/(p(1-p)), taken back    (proportions)
    beta    Clopper and Pearson's limits at the effective sample size  (proportions)
    log     the t interval of log(estimate), se/estimate, taken back   (counts and totals above 0);
            where t se is more than the estimate e^(t se/estimate) has no meaning left, and the
            upper limit goes on in a straight line, estimate + (e - 1) t se

Unless another is asked for, a statistic has the first kind of its `intervals`: none of these leaves
the range of what it estimates (docs/decisions/031).

`beta` is Korn and Graubard's (1998): n_eff = p(1-p)/V, times (t(n-1)/t(df))^2 at the asked level,
n the records that the estimate rests on, as R survey's svyciprop has it by the name of beta: n_eff
may exceed n where the design effect is below 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.errors import Refused, UnknownName
from understudy.tables.student_t import t_quantile

Floats = NDArray[np.float64]
Limits = tuple[Floats, Floats]
IntervalKind = Literal["t", "logit", "beta", "log"]
KINDS: tuple[str, ...] = get_args(IntervalKind)


def t_limits(value: Floats, se: Floats, df: Floats, n: Floats, level: float) -> Limits:  # noqa: ARG001
    half = _t(df, level) * se
    return value - half, value + half


def logit_limits(value: Floats, se: Floats, df: Floats, n: Floats, level: float) -> Limits:  # noqa: ARG001
    with np.errstate(divide="ignore", invalid="ignore"):
        half = _t(df, level) * se / (value * (1 - value))
        centre = np.where((value > 0) & (value < 1), scipy.special.logit(value), np.nan)
    return scipy.special.expit(centre - half), scipy.special.expit(centre + half)


def beta_limits(value: Floats, se: Floats, df: Floats, n: Floats, level: float) -> Limits:
    """Korn and Graubard's; for a share of 0 or 1, whose variance is 0, n itself is effective."""
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.where(se > 0, value * (1 - value) / se**2, n)
        effective = effective * (_t(n - 1, level) / _t(df, level)) ** 2
    tail = (1 - level) / 2
    hits, misses = effective * value, effective * (1 - value)
    lower = np.where(hits > 0, scipy.special.betaincinv(hits, misses + 1, tail), 0.0)
    upper = np.where(misses > 0, scipy.special.betaincinv(hits + 1, misses, 1 - tail), 1.0)
    known = np.isfinite(effective)
    lower, upper = np.where(known, lower, np.nan), np.where(known, upper, np.nan)
    certain = (se == 0) & (value > 0) & (value < 1)  # a share that the design fixes
    return np.where(certain, value, lower), np.where(certain, value, upper)


def log_limits(value: Floats, se: Floats, df: Floats, n: Floats, level: float) -> Limits:  # noqa: ARG001
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        half = _t(df, level) * se / value
        above = np.where(half > 1, 1 + (np.e - 1) * half, np.exp(np.minimum(half, 1)))
        lower, upper = value * np.exp(-half), value * above
    return np.where(value > 0, lower, np.nan), np.where(value > 0, upper, np.nan)


_LIMITS: Mapping[str, Callable[[Floats, Floats, Floats, Floats, float], Limits]] = {
    "t": t_limits,
    "logit": logit_limits,
    "beta": beta_limits,
    "log": log_limits,
}
_RANGE = {"t": (-np.inf, np.inf), "logit": (0.0, 1.0), "beta": (0.0, 1.0), "log": (0.0, np.inf)}


def limits_of(kind: str, value: Floats, se: Floats, df: Floats, n: Floats, level: float) -> Limits:
    """The limits of one kind; where it has none (a share of 0 by logit) those of t, cut at the ends
    of the kind's range if the estimate lies in it."""
    lower, upper = _LIMITS[kind](value, se, df, n, level)
    low, high = _RANGE[kind]
    within = (value >= low) & (value <= high)
    plain = [np.where(within, np.clip(x, low, high), x) for x in t_limits(value, se, df, n, level)]
    lacking = np.isnan(lower)
    return np.where(lacking, plain[0], lower), np.where(lacking, plain[1], upper)


def chosen_kinds(
    asked: str | Mapping[str, str] | None, allowed: Mapping[str, tuple[str, ...]]
) -> dict[str, str]:
    """The kind of interval of each statistic by its name: the one asked for (a text is asked for
    all), else its own; refused where a statistic has none of this kind."""
    if isinstance(asked, str):
        asked = dict.fromkeys(allowed, asked)
    for name, kind in (asked or {}).items():
        if name not in allowed:
            raise UnknownName("statistic in `intervals`", name, allowed)
        if kind not in KINDS:
            raise UnknownName("kind of interval", kind, KINDS)
        if kind not in allowed[name]:
            raise Refused(f"A {name} has no {kind} interval; it has {' and '.join(allowed[name])}.")
    return {name: kinds[0] for name, kinds in allowed.items()} | dict(asked or {})


def _t(df: Floats, level: float) -> Floats:
    return t_quantile(df, 0.5 + level / 2)
