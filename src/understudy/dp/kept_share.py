"""How much of a noisy deviation is kept: empirical Bayes with deviations of several sizes.

Most cells of a table lie where a smooth table has them, some do not, and few are far away. So the
spread of deviations is not one number: each deviation is taken as N(0, t e), e what was expected of
the cell (departures grow with it, as those of chi-square do), with a t of its own from a law on a
grid, and is seen with noise. The law is the one that makes all deviations together likeliest
(Stephens 2017, "False discovery rates: a new deal": a scale mixture of normal laws, found by EM).
What is kept is the posterior mean: the average of t e / (t e + variance) over the values of t, as
likely as the cell's own deviation makes them. A deviation that is seen a little larger moves the
posterior mean by the posterior variance over that of the noise (Robbins 1956, for normal noise):
this is how noise comes through, and how sets differ that have noise of their own.

Only noisy tables come in: post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

NOTHING = 1e-9  # a share that stands for none
FEWEST = 2  # cells from which a spread can be estimated
SPREADS = np.append(0.0, np.exp(np.linspace(-4.0, 12.0, 17)))  # t e over the noise, on average
STEPS = 60  # of EM
LONGER = 1.8  # the power of each step: below 2 they end where EM does, in nearly half as many


@dataclass(frozen=True, eq=False)
class Keeping:
    """Of each cell: the share of its deviation that is kept, between 0 and 1, and the slope, what
    is kept of a small change of it."""

    share: Vector
    slope: Vector


def kept_share(deviation: Vector, expected: Vector, variance: float) -> Keeping:
    """What is kept of deviations from what was `expected`, seen with noise of this variance."""
    if variance <= 0 or deviation.size < FEWEST:
        return Keeping(np.ones_like(expected), np.ones_like(expected))
    e, seen = np.maximum(expected.ravel(), NOTHING), deviation.ravel()
    true = SPREADS[:, None] * (variance / e.mean() * e)
    spread = true + variance
    logs = -0.5 * (np.log(spread) + seen**2 / spread)
    likelihood = np.exp(logs - logs.max(axis=0))
    weights = np.full(SPREADS.size, 1 / SPREADS.size)
    for _ in range(STEPS):
        weights = weights * (likelihood @ (1 / (weights @ likelihood)) / seen.size) ** LONGER
        weights = weights / weights.sum()
    posterior = weights[:, None] * likelihood / (weights @ likelihood)
    kept = true / spread
    share = (posterior * kept).sum(axis=0)
    # the posterior variance over that of the noise: within each t, and between their means
    between = (posterior * kept**2).sum(axis=0) - share**2
    slope = share + between * seen**2 / variance
    shape = np.shape(expected)
    return Keeping(share.reshape(shape), slope.reshape(shape))
