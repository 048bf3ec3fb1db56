"""Integer noise from OpenDP, for every count that is published: Laplace, or Gaussian under zCDP.

The noise is unseeded: OpenDP draws it from the system's source of randomness, and a seed would
let anyone who learns it subtract the noise. Counts are integers, so the discrete Laplace
distribution (two-sided geometric), P(k) proportional to exp(-|k|/scale), is used: it is sampled
exactly and has no floating-point holes, and it satisfies the same epsilon as the continuous
Laplace of the papers with slightly less variance. The discrete Gaussian, P(k) proportional to
exp(-k^2 / (2 sigma^2)), is (Delta^2 / (2 sigma^2))-zCDP for vectors of whole numbers whose
Euclidean distance is at most Delta (Canonne, Kamath and Steinke 2020, theorem 14).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from math import inf, nextafter

import numpy as np
from numpy.typing import NDArray

from understudy.claim import checked_epsilon
from understudy.dp.kept_noise import kept
from understudy.errors import Refused

SMALLEST_EPSILON = 1e-9  # noise of scale 1e9 drowns any file; below it 64-bit counts may saturate

BLOCK = 5_000  # OpenDP draws outside Python's lock, so blocks of a long table run side by side

Counts = NDArray[np.int64]


def exact_scale(sensitivity: int, epsilon: float | Fraction) -> float:
    """The smallest double s with s * epsilon >= sensitivity in exact arithmetic.

    sensitivity / epsilon in doubles may be rounded down, and the noise would then be too small
    for the claim by a rounding. Fractions have none.
    """
    checked_epsilon(epsilon)
    if sensitivity < 1:
        raise Refused("The sensitivity of a table of counts is a whole number of at least 1.")
    return _smallest_power(Fraction(sensitivity) / Fraction(epsilon), 1, float(epsilon))


def exact_deviation(squared_sensitivity: int, rho: float | Fraction) -> float:
    """The smallest double s with 2 rho s^2 >= Delta^2 in exact arithmetic; Delta is the Euclidean
    sensitivity, whose square is a whole number for counts."""
    if isinstance(rho, bool) or not isinstance(rho, (int, float, Fraction)) or not 0 < rho < inf:
        raise Refused("rho must be a finite number above 0.")
    if squared_sensitivity < 1:
        raise Refused("The sensitivity of a table of counts is a whole number of at least 1.")
    return _smallest_power(Fraction(squared_sensitivity) / (2 * Fraction(rho)), 2, float(rho))


def _smallest_power(exact: Fraction, power: int, budget: float) -> float:
    """The smallest double whose power is not below an exact figure."""
    try:
        scale: float = float(exact) ** (1 / power)  # near; stepped below to the first not below
    except OverflowError:
        raise Refused(
            f"Noise at a budget of {budget:g} is out of range; ask for a larger one."
        ) from None
    while Fraction(scale) ** power < exact:
        scale = nextafter(scale, inf)
    while Fraction(nextafter(scale, 0.0)) ** power >= exact:
        scale = nextafter(scale, 0.0)
    return scale


def integer_laplace(counts: Counts, sensitivity: int, epsilon: float | Fraction) -> Counts:
    """counts + independent integer Laplace noise of scale sensitivity / epsilon, from OpenDP.

    `epsilon`-differentially private for any two vectors of counts whose L1 distance is at most
    `sensitivity`: 2 when one record is replaced, 1 when one is added, removed or blanked.
    """
    if checked_epsilon(epsilon) < SMALLEST_EPSILON:
        raise Refused(
            f"Counts with noise at epsilon {float(epsilon):g} say nothing; ask for at least "
            f"{SMALLEST_EPSILON:g}."
        )
    exact, scale = _whole_counts(counts), exact_scale(sensitivity, epsilon)
    return kept(f"laplace {scale!r}", exact, lambda: _opendp_laplace(exact, scale))


def integer_gaussian(counts: Counts, squared_sensitivity: int, rho: float | Fraction) -> Counts:
    """counts + independent discrete Gaussian noise, from OpenDP: rho-zCDP for any two vectors of
    counts whose squared Euclidean distance is at most `squared_sensitivity`."""
    deviation = exact_deviation(squared_sensitivity, rho)
    if deviation > squared_sensitivity**0.5 / SMALLEST_EPSILON:
        raise Refused(f"Counts with noise at rho {float(rho):g} say nothing; ask for more.")
    exact = _whole_counts(counts)
    return kept(f"gaussian {deviation!r}", exact, lambda: _opendp_gaussian(exact, deviation))


def _whole_counts(counts: Counts) -> Counts:
    counts = np.asarray(counts)
    if not np.issubdtype(counts.dtype, np.integer) or counts.ndim != 1:
        raise Refused("Integer noise is added to a one-dimensional vector of whole counts.")
    return counts.astype(np.int64)


def _opendp_laplace(counts: Counts, scale: float) -> Counts:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return _in_blocks(dp.m.make_laplace(*space, scale=scale), counts)


def _opendp_gaussian(counts: Counts, scale: float) -> Counts:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64")
    return _in_blocks(dp.m.make_gaussian(*space, scale=scale), counts)


def _in_blocks(measurement: Callable[[list[int]], list[int]], counts: Counts) -> Counts:
    if counts.size <= BLOCK:
        return np.asarray(measurement(counts.tolist()), dtype=np.int64)
    blocks = [counts[start : start + BLOCK] for start in range(0, counts.size, BLOCK)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return np.concatenate(
            list(
                pool.map(
                    lambda block: np.asarray(measurement(block.tolist()), dtype=np.int64), blocks
                )
            )
        )
