"""Quantiles of Student's t, without SciPy: what a table needs of it is this, and loading SciPy
takes a fifth of the time of a first table in a new process.

Below 1,000 degrees of freedom by Newton's steps on the distribution function, which is a
regularised incomplete beta function (its continued fraction: Press et al., Numerical Recipes,
section 6.4); from there on by the expansion in 1/df about the normal quantile (Abramowitz and
Stegun 26.7.5), whose next term is below 1e-12 of the quantile up to a level of .9999.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, isnan, lgamma, log, log1p, nan, pi
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

MANY = 1000.0  # degrees of freedom from which the expansion is used
STEPS = 60  # of Newton and of the continued fraction; both end long before


def t_quantile(df: ArrayLike, probability: float) -> NDArray[np.float64]:
    """The quantile for each of `df`; NaN where df is not above 0."""
    degrees = np.asarray(df, dtype=np.float64)
    each = [_quantile(number, float(probability)) for number in degrees.ravel().tolist()]
    return np.array(each).reshape(degrees.shape)


@lru_cache(maxsize=4096)
def _quantile(df: float, probability: float) -> float:
    if isnan(df) or df <= 0:
        return nan
    if probability < 0.5:
        return -_quantile(df, 1 - probability)
    if df >= MANY:
        return _expansion(NormalDist().inv_cdf(probability), 1 / df)
    if probability == 0.5:
        return 0.0
    return _by_newton(df, 1 - probability)


def _expansion(z: float, over: float) -> float:
    """In powers of 1/df about the normal quantile z."""
    s = z * z
    terms = (
        (s + 1) / 4,
        ((5 * s + 16) * s + 3) / 96,
        (((3 * s + 19) * s + 17) * s - 15) / 384,
        ((((79 * s + 776) * s + 1482) * s - 1920) * s - 945) / 92160,
    )
    return z * (1 + sum(term * over ** (k + 1) for k, term in enumerate(terms)))


def _by_newton(df: float, tail: float) -> float:
    """log P(T > t) is concave in log t, so that steps come down to the root from above."""
    scale = lgamma((df + 1) / 2) - lgamma(df / 2) - 0.5 * log(df * pi)
    log_t = log(NormalDist().inv_cdf(1 - tail))  # log t; t is above the normal quantile
    for _ in range(STEPS):
        t = exp(log_t)
        above = _upper_tail(df, t)
        density = exp(scale - (df + 1) / 2 * log1p(t * t / df))
        step = (log(above) - log(tail)) * above / (t * density)
        log_t += step
        if abs(step) < 1e-14:
            break
    return exp(log_t)


def _upper_tail(df: float, t: float) -> float:
    """P(T > t) = I_x(df/2, 1/2) / 2 with x = df / (df + t^2)."""
    a, b, share = df / 2, 0.5, df / (df + t * t)
    rest = t * t / (df + t * t)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(share) + b * log(rest))
    if share < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, share) / a / 2
    return 0.5 - front * _fraction(b, a, rest) / b / 2


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10 * STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / (1 + even * d), 1 + even / c
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / (1 + odd * d), 1 + odd / c
        value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return value
