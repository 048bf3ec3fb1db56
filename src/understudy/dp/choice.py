"""Which tables to measure, chosen in private: the exponential mechanism by OpenDP's noisy top-k.

The score of a candidate table T is how far the fit so far is from it, less what its noise would
add (methods §10):

    |T(D) - n p_hat(T)|_1  -  E|noise| cells(T)

n p_hat(T) is a released figure, fixed when the choice is made. One record more or less moves one
count of T by 1, and the score by at most 1; a record that is replaced moves it by at most 2. The
expected table is rounded to 1/64 of a record first, so that scores are whole numbers of 1/64 and
move by at most 64 times as much: nothing is rounded that depends on a record.

The k best of noisy scores with Gumbel noise of scale 2 Delta / epsilon_0 are k picks of the
exponential mechanism one after the other, without replacement (Durfee and Rogers 2019); a pick
costs epsilon_0^2 / 8 in rho (Cesar and Rogers 2021). Under pure epsilon OpenDP's noise is
exponential, and a pick costs epsilon_0.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.dp.kept_noise import kept
from understudy.errors import Refused

BudgetMeasure = Literal["epsilon", "rho"]
Scores = NDArray[np.int64]

UNITS = 64  # of a score, in one record


def table_score(counts: ArrayLike, expected: ArrayLike, noise: float) -> int:
    """The score of one table in units of 1/64 of a record.

    `expected` is n p_hat of each cell, and `noise` the expected absolute noise of a cell.
    """
    exact = UNITS * np.asarray(counts, dtype=np.int64)
    rounded = np.rint(UNITS * np.asarray(expected, dtype=np.float64)).astype(np.int64)
    return int(np.abs(exact - rounded).sum()) - round(UNITS * noise * exact.size)


def noise_of_a_pick(
    picks: int, sensitivity: int, budget: float | Fraction, measure: BudgetMeasure
) -> float:
    """The scale of the scores' noise, in units, at which `picks` picks cost at most `budget`.

    epsilon: picks 2 Delta / scale; rho: picks Delta^2 / (2 scale^2).
    """
    if picks < 1 or sensitivity < 1 or not 0 < budget < inf:
        raise Refused("A choice needs at least one pick and a budget above 0.")
    delta, exact = UNITS * sensitivity, Fraction(budget)
    if measure == "epsilon":
        scale = float(2 * delta * picks / exact)
    else:
        scale = sqrt(float(Fraction(delta**2 * picks) / (2 * exact)))
    map_of = _top_k(picks, scale, measure).map
    while Fraction(map_of(delta)) > exact:  # OpenDP's own account, rounded up, is what counts
        scale = nextafter(scale, inf)
        map_of = _top_k(picks, scale, measure).map
    return scale


def choose(
    scores: Scores, picks: int, sensitivity: int, budget: float | Fraction, measure: BudgetMeasure
) -> list[int]:
    """The places of `picks` scores, the best ones but for noise that costs `budget` in all."""
    values = np.asarray(scores)
    if not np.issubdtype(values.dtype, np.integer) or values.ndim != 1:
        raise Refused("Scores are a vector of whole numbers.")
    if not 1 <= picks <= values.size:
        raise Refused(f"{picks} tables cannot be chosen from {values.size}.")
    scale = noise_of_a_pick(picks, sensitivity, budget, measure)
    # a run that was killed and goes on must not choose anew for the same payment (kept_noise.py)
    picked = kept(
        f"top {picks} {measure} {scale!r}",
        values.astype(np.int64),
        lambda: np.asarray(_opendp_picks(values, picks, scale, measure), dtype=np.int64),
    )
    return [int(index) for index in picked]


def _opendp_picks(values: Scores, picks: int, scale: float, measure: BudgetMeasure) -> list[int]:
    return [int(index) for index in _top_k(picks, scale, measure)(values.tolist())]


def _top_k(picks: int, scale: float, measure: BudgetMeasure) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    law = dp.max_divergence() if measure == "epsilon" else dp.zero_concentrated_divergence()
    return dp.m.make_noisy_top_k(*space, law, k=picks, scale=scale)
