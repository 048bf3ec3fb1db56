"""Consistent tables: margins that are the sums of their cells, and counts that are not negative.

Noise breaks both. Least squares weighted by the noise, over the innermost cells, restores them:
each noisy number is an unbiased measurement of a sum (counts) or of a weighted average (means) of
cells. It is post-processing, and costs no privacy (T §2.4 names it, after Li et al. 2010).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.errors import Refused

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Consistent:
    """Consistent values of all table entries, and their noise variances (entries,)."""

    value: Floats
    noise_variance: Floats


def membership(entries: list[tuple[str, ...]], every: str) -> Floats:
    """1 where an innermost cell lies in a table entry: (entries, cells).

    Entries are tuples of levels with `every` on margins; the innermost ones have none of it.
    """
    cells = [entry for entry in entries if every not in entry]
    if not cells:
        raise Refused("A consistent table needs its innermost cells; tabulate them too.")
    inside = [
        [all(a in (every, b) for a, b in zip(entry, cell, strict=True)) for cell in cells]
        for entry in entries
    ]
    return np.array(inside, dtype=np.float64)


def consistent_counts(noisy: Floats, noise_variance: Floats, inside: Floats) -> Consistent:
    """min_x sum_e (noisy_e - sum_c inside_ec x_c)^2 / variance_e with x >= 0."""
    from scipy.optimize import nnls  # the outside of a release, which imports this, starts quicker

    root = 1.0 / np.sqrt(noise_variance)
    # one unit for all: nnls stops by an absolute tolerance
    unit = max(float(np.abs(noisy).max()), 1.0)
    scale = float(root.max())
    cells, _ = nnls(inside * (root / scale)[:, None], noisy / unit * root / scale)
    return Consistent(inside @ (cells * unit), left_noise(inside, noise_variance))


def consistent_means(
    noisy: Floats, noise_variance: Floats, inside: Floats, cell_counts: Floats
) -> Consistent:
    """Means of margins as count-weighted averages of cell means, by weighted least squares.

    A margin whose cells all count nothing is their plain average: each was measured by itself.
    """
    weight = inside * cell_counts
    weight = np.where(weight.any(axis=1, keepdims=True), weight, inside)
    shares = weight / weight.sum(axis=1, keepdims=True)
    root = 1.0 / np.sqrt(noise_variance)
    start = float(np.average(noisy, weights=root**2))
    cells = np.linalg.lstsq(shares * root[:, None], (noisy - start) * root, rcond=None)[0]
    return Consistent(shares @ cells + start, left_noise(shares, noise_variance))


def left_noise(design: Floats, variance: Floats) -> Floats:
    """Diagonal of D (D' V^-1 D)^+ D': the noise that least squares leaves in each entry."""
    information = design.T @ (design / variance[:, None])
    return np.asarray(np.einsum("ec,cd,ed->e", design, np.linalg.pinv(information), design))
