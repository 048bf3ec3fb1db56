"""What an answer says: exact posteriors by post-processing of the noisy number alone.

Agreement (V eq. 4): r ~ Uniform and S | r ~ Binomial(M, r) make S uniform on 0..M, so
p(r | S^R) is a mixture of Beta(s+1, M-s+1) with weights proportional to P(S^R | s). The
paper's Gibbs sampler draws from the same distribution.

Discrepancy: the noise is known exactly, so under a flat prior on the sum of grid steps its
posterior is the noise turned round, cut to the possible range. It covers the noise and
nothing else: the target is this file's clipped mean discrepancy, which is tau_hat - tau_0
for totals that no partition clips, and nearly so for means and ratios. The spread of the
D_k is not released, and for this target it is not needed: the mean over all partitions of a
linear estimator is the estimator of the whole file. V's binomial step is about another
target, the probability over samples; the like of it here needs the standard error of
tau_hat, which the analyst may assume by `sampling_se`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, betaln, ndtr, xlog1py, xlogy

from understudy.errors import Refused
from understudy.verify.measures import DISCREPANCY_SENSITIVITY, GRID

__public__ = ("log_likelihood as agreement_loglik", "agreement_posterior", "discrepancy_posterior")

Floats = NDArray[np.float64]
Noise = Literal["geometric", "laplace"]

NEAR_CLIP = 0.75  # of the range; beyond it clipping hides how large the discrepancy is


@dataclass(frozen=True)
class AgreementPosterior:
    """p(r | S^R), r the chance that a partition's estimate falls inside the interval."""

    partitions: int
    weights: Floats  # (M+1,), the posterior of S

    @property
    def mean(self) -> float:
        counts = np.arange(self.partitions + 1)
        return float(self.weights @ (counts + 1)) / (self.partitions + 2)

    @cached_property
    def median(self) -> float:
        return self.quantile(0.5)

    def interval(self, probability: float = 0.95) -> tuple[float, float]:
        """The equal-tailed interval."""
        tail = _tail(probability)
        return self.quantile(tail), self.quantile(1 - tail)

    def quantile(self, probability: float) -> float:
        return float(brentq(lambda x: float(self.cdf(x)) - probability, 0.0, 1.0, xtol=1e-12))

    def cdf(self, x: float | Floats) -> Floats:
        counts = np.arange(self.partitions + 1)
        at = np.clip(np.asarray(x, dtype=float), 0.0, 1.0)[..., None]
        return np.asarray(betainc(counts + 1, self.partitions - counts + 1, at) @ self.weights)

    def pdf(self, x: float | Floats) -> Floats:
        counts = np.arange(self.partitions + 1)
        at = np.asarray(x, dtype=float)[..., None]
        within = np.clip(at, 0.0, 1.0)
        log_pdf = xlogy(counts, within) + xlog1py(self.partitions - counts, -within)
        log_pdf = log_pdf - betaln(counts + 1, self.partitions - counts + 1)
        density = np.exp(log_pdf) @ self.weights
        return np.asarray(np.where((at[..., 0] < 0) | (at[..., 0] > 1), 0.0, density))

    def density(self, points: int = 201) -> tuple[Floats, Floats]:
        """Places and heights for a plot."""
        x = np.linspace(0.0, 1.0, points)
        return x, self.pdf(x)


@dataclass(frozen=True)
class DiscrepancyPosterior:
    """The posterior of d = tau_hat - tau_0 in the units of the estimate."""

    noisy_sum: int
    partitions: int
    epsilon: float
    bound: float  # c sqrt(M) se_0, the discrepancy of one whole step range
    tolerance: float | None = None
    sampling_se: float = 0.0

    @property
    def estimate(self) -> float:
        """The answer itself, unbiased up to clipping; noise can carry it past the bound."""
        return self.noisy_sum / (GRID * self.partitions) * self.bound

    @property
    def near_clip(self) -> bool:
        """Whether the answer only says "at least this far, in this direction"."""
        return abs(self.noisy_sum) >= NEAR_CLIP * GRID * self.partitions

    @cached_property
    def median(self) -> float:
        return self.quantile(0.5)

    @cached_property
    def mean(self) -> float:
        return float(self._weights @ self._values)

    def interval(self, probability: float = 0.95) -> tuple[float, float]:
        """The equal-tailed interval; it covers the noise (and `sampling_se` if given)."""
        tail = _tail(probability)
        return self.quantile(tail), self.quantile(1 - tail)

    def probability_within(self, tolerance: float | None = None) -> float:
        """P(|d| <= tolerance) under the flat prior."""
        width = self.tolerance if tolerance is None else tolerance
        if width is None or not width >= 0:
            raise Refused("Give the tolerance as a number that is not negative.")
        below = self.cdf(width)
        return float(below - self.cdf(math.nextafter(-width, -math.inf)))

    def quantile(self, probability: float) -> float:
        if self.sampling_se > 0:
            reach = self.bound + 40 * self.sampling_se
            found = brentq(lambda x: float(self.cdf(x)) - probability, -reach, reach, xtol=1e-12)
            return float(found)
        place = int(np.searchsorted(np.cumsum(self._weights), probability, side="left"))
        return float(self._values[min(place, len(self._values) - 1)])

    def cdf(self, x: float | Floats) -> Floats:
        at = np.asarray(x, dtype=float)
        if self.sampling_se > 0:
            flat = at.reshape(-1)
            parts = [self._weights @ ndtr((v - self._values) / self.sampling_se) for v in flat]
            return np.array(parts).reshape(at.shape)
        reached = np.concatenate([[0.0], np.cumsum(self._weights)])
        return np.asarray(reached[np.searchsorted(self._values, at, side="right")])

    def pdf(self, x: float | Floats) -> Floats:
        """Density: the grid's weights over its step, or their normal mixture."""
        at = np.asarray(x, dtype=float)
        if self.sampling_se > 0:
            scaled = [(v - self._values) / self.sampling_se for v in at.reshape(-1)]
            heights = np.array([self._weights @ np.exp(-(z**2) / 2) for z in scaled])
            return np.asarray(
                heights.reshape(at.shape) / (self.sampling_se * math.sqrt(2 * math.pi))
            )
        step = self.bound / (GRID * self.partitions)
        return np.asarray(np.interp(at, self._values, self._weights / step, left=0.0, right=0.0))

    def density(self, points: int = 201) -> tuple[Floats, Floats]:
        low, high = self.interval(0.999)
        edge = 0.05 * (high - low)
        x = np.linspace(low - edge, high + edge, points)
        return x, self.pdf(x)

    @cached_property
    def _values(self) -> Floats:
        most = GRID * self.partitions
        return np.arange(-most, most + 1) / most * self.bound

    @cached_property
    def _weights(self) -> Floats:
        most = GRID * self.partitions
        decay = self.epsilon / DISCREPANCY_SENSITIVITY
        distance = np.abs(self.noisy_sum - np.arange(-most, most + 1)).astype(float)
        weights = np.exp(-decay * (distance - distance.min()))
        return np.asarray(weights / weights.sum())


def agreement_posterior(
    noisy_count: float, partitions: int, epsilon: float, noise: Noise = "geometric"
) -> AgreementPosterior:
    """The posterior of r given the noisy count (V §3.1, in closed form).

    `noise` is "geometric" (whole numbers, held in 0..M) or "laplace" (as in the paper).
    """
    _check(partitions, epsilon)
    if noise not in ("geometric", "laplace"):
        raise Refused("The noise of an agreement answer is `geometric` or `laplace`.")
    if not math.isfinite(noisy_count):
        raise Refused("The noisy count must be a finite number.")
    if noise == "geometric" and not (
        float(noisy_count).is_integer() and 0 <= noisy_count <= partitions
    ):
        raise Refused(
            "Geometric noise gives a whole number from 0 to the number of partitions; "
            'for another number say noise="laplace".'
        )
    log_weights = log_likelihood(np.array([noisy_count]), partitions, epsilon, noise)[0]
    weights = np.exp(log_weights - log_weights.max())
    return AgreementPosterior(partitions, weights / weights.sum())


def log_likelihood(noisy: Floats, partitions: int, epsilon: float, noise: Noise) -> Floats:
    """log P(S^R | s): rows are noisy answers, columns s = 0..M.

    Laplace: -epsilon |S^R - s| and a constant. Geometric, a = exp(-epsilon): inside
    (1-a)/(1+a) a^|y-s|, at the ends a^s/(1+a) and a^(M-s)/(1+a).
    """
    counts = np.arange(partitions + 1)
    decay = -epsilon * np.abs(np.asarray(noisy, dtype=float)[:, None] - counts)
    if noise == "laplace":
        return decay + math.log(epsilon / 2)
    at_end = (noisy == 0) | (noisy == partitions)
    inside = math.log(-math.expm1(-epsilon)) if epsilon > 0 else -math.inf
    constant = np.where(at_end, 0.0, inside) - math.log1p(math.exp(-epsilon))
    return np.asarray(decay + constant[:, None])


def discrepancy_posterior(
    noisy_sum: int,
    partitions: int,
    epsilon: float,
    bound: float,
    tolerance: float | None = None,
    sampling_se: float = 0.0,
) -> DiscrepancyPosterior:
    """The posterior of the discrepancy given the noisy sum of grid steps (methods §7).

    `bound` is c sqrt(M) se_0. With `sampling_se` = 0 (default) the target is the file's own
    discrepancy. With the assumed standard error of the confidential estimate the target is
    the population's: the answer is then spread by a normal of that size.
    """
    _check(partitions, epsilon)
    if not (math.isfinite(bound) and bound > 0):
        raise Refused("The clip bound must be a number above 0.")
    if not (math.isfinite(sampling_se) and sampling_se >= 0):
        raise Refused("The assumed standard error must be a number, 0 or more.")
    if isinstance(noisy_sum, bool) or not float(noisy_sum).is_integer():
        raise Refused("The noisy sum of grid steps is a whole number.")
    return DiscrepancyPosterior(int(noisy_sum), partitions, epsilon, bound, tolerance, sampling_se)


def _check(partitions: int, epsilon: float) -> None:
    if isinstance(partitions, bool) or partitions < 1 or partitions != int(partitions):
        raise Refused("The number of partitions must be a whole number, 1 or more.")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise Refused("Epsilon must be a number above 0.")


def _tail(probability: float) -> float:
    if not 0 < probability < 1:
        raise Refused("The probability of an interval lies between 0 and 1.")
    return (1 - probability) / 2
