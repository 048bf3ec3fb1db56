"""How far one unit may move an answer: the clip, chosen from the synthetic files alone.

The noise grows with the clip C, and what the clip cuts off grows as C falls. The synthetic files
show both. For units with influences d_i (in scales of the estimates, a vector for several) and
e_i = d_i - clip(d_i), an estimate's answer is off by

    noise    v C^2
    spread   (1 + 1/m) n var(e_i)        the file's own tail, and that of m synthetic files
    tail     A^2 + B^2                   A, B: what more is cut off above and below by longer tails

The mean of what is cut off is put back, so its spread stays. But the tails of the confidential file
need not be those of the synthetic ones: files with smoothed weights have shorter ones. So the
third term allows, as one standard deviation, for influences that are a quarter longer: with L(C)
the sum of what is cut off on one side, A = s L(C/s) - L(C) for s = 1.25. Clips beyond the largest
influences are judged by an exponential tail over the ten largest of each file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Norm = Literal[1, 2]

CANDIDATES = 400
SMALLEST, LARGEST = 1e-6, 8.0  # of the candidates, in largest influences
LONGER = 1.25  # s: by this the confidential file's tails may be longer, as one standard deviation
TOP = 10  # units of each file over which a tail is continued


@dataclass(frozen=True, eq=False)
class Clip:
    """The clip and what it does; all in the scales of the estimates."""

    size: float  # C
    noise_variance: float  # of one estimate
    spread: Floats  # (k,) standard deviation of what is cut off, about its mean
    tail: Floats  # (k,) standard deviation of what the synthetic files' tails may have wrong
    touched: float  # share of units

    @property
    def cut_se(self) -> Floats:
        """(k,) what clipping leaves in the answers."""
        return np.asarray(np.hypot(self.spread, self.tail))


def norms(influences: Floats, norm: Norm) -> Floats:
    """The size of each unit's (k,) influences."""
    if norm == 1:
        return np.asarray(np.abs(influences).sum(axis=1))
    return np.asarray(np.sqrt((influences**2).sum(axis=1)))


def clipped(influences: Floats, size: float, norm: Norm) -> Floats:
    """Each unit's influences, shrunk to the clip where they are larger."""
    lengths = norms(influences, norm)
    factor = np.minimum(1.0, size / np.maximum(lengths, 1e-300))
    return np.asarray(influences * factor[:, None])


def choose_clip(
    influences: Floats,
    units: float,
    files: int,
    noise: float,
    norm: Norm = 1,
    importance: Floats | None = None,
) -> Clip:
    """The clip of least error for a file of `units` units.

    `influences` are (units of all files, k), in the scales of the estimates; `noise` is the
    variance of the noise of one estimate at C = 1. `importance` (k,) are squared scales in squared
    standard errors: errors are added up in the latter.
    """
    count, estimates = influences.shape
    weight = np.ones(estimates) if importance is None else importance
    lengths = norms(influences, norm)
    largest = float(lengths.max(initial=0.0))
    if not largest > 0:
        return Clip(1.0, noise, np.zeros(estimates), np.zeros(estimates), 0.0)
    candidates = largest * np.geomspace(LARGEST, SMALLEST, CANDIDATES)
    tried = np.concatenate([candidates, candidates / LONGER])
    both, second, above = _cut_off(influences, lengths, tried, TOP * files)
    first, longer = both[:, :CANDIDATES], LONGER * both[:, CANDIDATES:]
    second, above = second[:CANDIDATES], above[:CANDIDATES]
    mean = (first[0] - first[1]) / count  # what is cut off above, less what is below
    spread = (1 + 1 / files) * units * np.maximum(second / count - mean**2, 0.0)
    tail = (((longer - first) / count * units) ** 2).sum(axis=0)
    drawn = noise * candidates**2
    best = int(np.argmin(drawn * weight.sum() + (spread + tail) @ weight))
    return Clip(
        float(candidates[best]),
        float(drawn[best]),
        np.sqrt(spread[best]),
        np.sqrt(tail[best]),
        float(above[best] / count),
    )


def _cut_off(
    influences: Floats, lengths: Floats, candidates: Floats, top: int
) -> tuple[Floats, Floats, Floats]:
    """Sums over units of what each candidate cuts off: (2, candidates, k) above and below zero, of
    its squares (candidates, k), and the number of units that are longer (candidates,)."""
    order = np.argsort(lengths)[::-1]
    lengths, ranked = lengths[order], influences[order]
    with np.errstate(invalid="ignore", divide="ignore"):
        directions = np.where(lengths[:, None] > 0, ranked / lengths[:, None], 0.0)
    above = np.searchsorted(-lengths, -candidates, side="left")

    def upto(values: Floats) -> Floats:
        zero = np.zeros((1, values.shape[1]))
        return np.asarray(np.concatenate([zero, np.cumsum(values, axis=0)])[above])

    # e = (length - C) direction: its sums and squares, for every candidate at once
    size = candidates[:, None]
    first = np.stack(
        [
            upto(np.maximum(sign * ranked, 0.0)) - size * upto(np.maximum(sign * directions, 0.0))
            for sign in (1.0, -1.0)
        ]
    )
    second = upto(ranked**2) - 2 * size * upto(ranked * directions) + size**2 * upto(directions**2)
    top = min(top, len(lengths) - 1)
    if top < 1:
        return first, second, above.astype(np.float64)
    # beyond the top units the excess over the last of them is taken as exponential
    start = lengths[top]
    excess = float(lengths[:top].mean() - start)
    far = candidates > start
    if excess > 0:
        beyond = top * np.exp(-(candidates[far] - start) / excess)[:, None]
        for number, sign in enumerate((1.0, -1.0)):
            part = np.maximum(sign * directions[:top], 0.0).mean(axis=0)
            first[number, far] = beyond * excess * part
        second[far] = beyond * 2 * excess**2 * (directions[:top] ** 2).mean(axis=0)
    return first, second, above.astype(np.float64)
