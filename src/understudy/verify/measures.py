"""From partition estimates to one bounded whole number.

Each partition gives a number in a fixed range, whatever its records say, and one unit
touches one partition: so the sum moves by at most the range's length. A partition without
an estimate gives the number for "outside" (agreement) or the middle (discrepancy).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__public__ = ("agreement_flags", "discrepancy_steps")

Floats = NDArray[np.float64]

GRID = 1000  # steps on either side of zero
AGREEMENT_SENSITIVITY = 1
DISCREPANCY_SENSITIVITY = 2 * GRID


def agreement_flags(estimates: Floats, centre: float, half_width: float) -> NDArray[np.int64]:
    """A_k: whether tau_k lies in C(tau_0, alpha, gamma) (V §3.1)."""
    # A comparison with NaN is false, so a missing estimate is outside.
    return (np.abs(estimates - centre) <= half_width).astype(np.int64)


def discrepancy_steps(estimates: Floats, centre: float, bound: float) -> NDArray[np.int64]:
    """D_k = clip((tau_k - tau_0)/(c sqrt(M) se_0), -1, 1) on the grid (methods §7)."""
    with np.errstate(over="ignore"):
        share = np.clip((estimates - centre) / bound, -1.0, 1.0)
    return np.rint(np.nan_to_num(share, nan=0.0) * GRID).astype(np.int64)
