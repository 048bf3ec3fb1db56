"""Numbers on the steps that a column is declared to stand on."""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from understudy.survey.codebook import Column

Floats = NDArray[np.float64]


def on_rounding(values: Floats, column: Column | None) -> Floats:
    """Each number at the nearest multiple of the declared rounding that lies within the declared
    bounds and is not a special value; special values stay as they are."""
    if column is None or not column.declared("rounding") or column.rounding is None:
        return values
    step = column.rounding
    low, high = column.bounds if column.declared("bounds") and column.bounds else (-inf, inf)
    special = column.special if column.declared("special") else ()
    least, most = np.ceil(low / step), np.floor(high / step)
    steps = np.clip(np.rint(values / step), least, most)
    for value in special:
        met = steps == value / step
        beside = np.where(values < value, steps - 1, steps + 1)
        beside = np.where((beside < least) | (beside > most), 2 * steps - beside, beside)
        steps = np.where(met & (least < most), beside, steps)
    inverse = round(1 / step)
    exact = steps / inverse if inverse > 1 and inverse * step == 1 else steps * step
    return np.where(np.isin(values, special), values, exact)
