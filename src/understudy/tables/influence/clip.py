"""How far one unit may move an answer: the clip, chosen from the synthetic files alone.

The noise grows with the clip C, and what the clip cuts off grows as C falls. The synthetic files
show both: for units with influences d_i (in standard errors, a vector for several estimates),

    error(C) = k v C^2  +  (1 + 1/m) n (mean |e_i|^2 - |mean e_i|^2),    e_i = d_i - clip(d_i)

with v C^2 the variance of the noise of one estimate. The mean of what is cut off is taken off the
answer, so its spread is what stays: once for the confidential file and 1/m for m synthetic ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Norm = Literal[1, 2]

CANDIDATES = 400


@dataclass(frozen=True)
class Clip:
    """The clip and what it does; all in standard errors of the estimates."""

    size: float  # C
    noise_variance: float  # of one estimate
    cut_variance: float  # of what is cut off, over all estimates
    touched: float  # share of units

    @property
    def error(self) -> float:
        """The expected distance between the answer and the file's own difference, squared."""
        return self.noise_variance + self.cut_variance


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


def choose_clip(influences: Floats, units: float, files: int, noise: float, norm: Norm = 1) -> Clip:
    """The clip of least error for a file of `units` units.

    `influences` are (units of all files, k), in standard errors; `noise` is the variance of the
    noise of one estimate at C = 1.
    """
    lengths = norms(influences, norm)
    order = np.argsort(lengths)[::-1]
    lengths = lengths[order]
    largest = float(lengths[0]) if lengths.size else 0.0
    if not largest > 0:
        return Clip(1.0, noise, 0.0, 0.0)
    candidates = largest * np.geomspace(1.0, 1e-6, CANDIDATES)
    above = np.searchsorted(-lengths, -candidates, side="left")  # units longer than each
    ranked = influences[order]
    with np.errstate(invalid="ignore", divide="ignore"):
        directions = np.where(lengths[:, None] > 0, ranked / lengths[:, None], 0.0)
    euclidean = (directions**2).sum(axis=1)  # 1 for the Euclidean norm

    def upto(values: Floats) -> Floats:
        zero = np.zeros((1, *values.shape[1:]))
        return np.asarray(np.concatenate([zero, np.cumsum(values, axis=0)])[above])

    # e = (length - C) direction: its squares and its sum, for every candidate at once
    squares = (
        upto(euclidean * lengths**2)
        - 2 * candidates * upto(euclidean * lengths)
        + candidates**2 * upto(euclidean)
    )
    sums = upto(ranked) - candidates[:, None] * upto(directions)
    count = len(lengths)
    spread = np.maximum(squares / count - ((sums / count) ** 2).sum(axis=1), 0.0)
    cut = (1 + 1 / files) * units * spread
    drawn = noise * candidates**2
    best = int(np.argmin(influences.shape[1] * drawn + cut))
    return Clip(
        float(candidates[best]), float(drawn[best]), float(cut[best]), float(above[best] / count)
    )
