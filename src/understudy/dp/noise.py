"""Integer Laplace noise from OpenDP, for every count that is published.

The noise is unseeded: OpenDP draws it from the system's source of randomness, and a seed would
let anyone who learns it subtract the noise. Counts are integers, so the discrete Laplace
distribution (two-sided geometric), P(k) proportional to exp(-|k|/scale), is used: it is sampled
exactly and has no floating-point holes, and it satisfies the same epsilon as the continuous
Laplace of the papers with slightly less variance.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from math import inf, nextafter

import numpy as np
from numpy.typing import NDArray

from understudy.claim import checked_epsilon
from understudy.dp.kept_noise import kept
from understudy.errors import Refused

SMALLEST_EPSILON = 1e-9  # noise of scale 1e9 drowns any file; below it 64-bit counts may saturate

BLOCK = 20_000  # OpenDP draws outside Python's lock, so blocks of a long table run side by side

Counts = NDArray[np.int64]


def exact_scale(sensitivity: int, epsilon: float | Fraction) -> float:
    """The smallest double s with s * epsilon >= sensitivity in exact arithmetic.

    sensitivity / epsilon in doubles may be rounded down, and the noise would then be too small
    for the claim by a rounding. Fractions have none.
    """
    checked_epsilon(epsilon)
    if sensitivity < 1:
        raise Refused("The sensitivity of a table of counts is a whole number of at least 1.")
    exact = Fraction(sensitivity) / Fraction(epsilon)
    try:
        scale = float(exact)  # rounded to the nearest; stepped below to the first not below
    except OverflowError:
        raise Refused(
            f"Noise at epsilon {float(epsilon):g} is out of range; ask for a larger epsilon."
        ) from None
    while Fraction(scale) < exact:
        scale = nextafter(scale, inf)
    while Fraction(nextafter(scale, 0.0)) >= exact:
        scale = nextafter(scale, 0.0)
    return scale


def integer_laplace(counts: Counts, sensitivity: int, epsilon: float) -> Counts:
    """counts + independent integer Laplace noise of scale sensitivity / epsilon, from OpenDP.

    `epsilon`-differentially private for any two vectors of counts whose L1 distance is at most
    `sensitivity`: 2 when one record is replaced, 1 when one is added, removed or blanked.
    """
    if checked_epsilon(epsilon) < SMALLEST_EPSILON:
        raise Refused(
            f"Counts with noise at epsilon {epsilon:g} say nothing; ask for at least "
            f"{SMALLEST_EPSILON:g}."
        )
    counts = np.asarray(counts)
    if not np.issubdtype(counts.dtype, np.integer) or counts.ndim != 1:
        raise Refused("Integer noise is added to a one-dimensional vector of whole counts.")
    scale = exact_scale(sensitivity, epsilon)
    exact = counts.astype(np.int64)
    return kept(f"laplace {scale!r}", exact, lambda: _opendp_laplace(exact, scale))


def _opendp_laplace(counts: Counts, scale: float) -> Counts:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    measurement = dp.m.make_laplace(*space, scale=scale)
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
