"""When chains run on and when a fit is refused: one rule for every sampler, fixed in advance.

The diagnostics of a seeded fit differ from one processor to the next, since rounding differs and
chains amplify it. A fit that misses them narrowly is therefore run on instead of refused
(docs/proofs/diagnostics.md has the rule, its reasons and what it leaves open).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from understudy.fitting.diagnostics import LARGEST_RHAT, LEAST_ESS, Diagnostics, diagnose
from understudy.fitting.fit_settings import MOST
from understudy.models.contract import Judged

Positions = NDArray[np.float64]  # (chains, draws, d)

PATIENCE = 8  # times the asked length that any chains may take, however far they miss


def run_until_good(
    run: Callable[[int], tuple[Positions, int]],
    judged: Callable[[Positions], Judged],
    most: int = MOST,
) -> tuple[Positions, Diagnostics]:
    """Double the run until its diagnostics pass or `goes_on` says no; the draws that are kept.

    `run(k)` makes the chains k times as long as asked and gives every k-th draw, always as many
    as were asked for, with the number of divergences over the whole run; a longer run begins with
    the shorter one. `judged` says what chains are judged on.
    """
    times = 1
    while True:
        positions, divergences = run(times)
        names, numbers, variance = judged(positions)
        diagnostics = diagnose(numbers, divergences, names, times, variance)
        if not diagnostics.misses or not goes_on(diagnostics, times, most):
            return positions, diagnostics
        times *= 2


def goes_on(diagnostics: Diagnostics, times: int, most: int = MOST) -> bool:
    """Whether a run that missed, `times` as long as asked, is to be made twice as long.

    After `PATIENCE` files that are good enough for their users are taken as they are.
    R-hat - 1 falls and ESS grows in proportion to the length, so a miss is narrow where the
    longest run, `most / times` as long, can be expected to pass.
    """
    left = most / times
    if left < 2 or diagnostics.diverged:
        return False
    if times < PATIENCE:
        return True
    if not diagnostics.failures:
        return False
    attainable = diagnostics.draws > LEAST_ESS  # kept draws are worth about their number at most
    agree = diagnostics.largest_rhat - 1.0 < left * (LARGEST_RHAT - 1.0)
    return attainable and agree and diagnostics.least_ess_bulk > LEAST_ESS / left
