"""Discrepancy (methods §7): how far the partitions' estimates are from the synthetic one.

The noise is known exactly, so under a flat prior on the sum of grid steps its posterior is the
noise turned round, cut to the possible range. It covers the noise and nothing else: the target
is this file's clipped mean discrepancy, which is tau_hat - tau_0 for totals that no partition
clips, and nearly so for means and ratios. The spread of the D_k is not released, and for this
target it is not needed: the mean over all partitions of a linear estimator is the estimator of
the whole file. V's binomial step is about another target, the probability over samples; the
like of it here needs the standard error of tau_hat, which the analyst may assume by
`sampling_se`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import ndtr

from understudy.errors import Refused
from understudy.verify.difference_measure import DifferenceMeasure
from understudy.verify.discrepancy_law import noisy_steps
from understudy.verify.intervals import check_noise_level, tail_of
from understudy.verify.measure import (
    Floats,
    QuestionTerms,
    Steps,
    zero_width,
)
from understudy.verify.numbers import percent
from understudy.verify.question_fields import NumberBox

__public__ = ("GRID as DISCREPANCY_GRID", "discrepancy_posterior", "discrepancy_steps")

GRID = 1000  # steps on either side of zero
NEAR_CLIP = 0.75  # of the range; beyond it clipping hides how large the discrepancy is


@dataclass(frozen=True)
class Discrepancy(DifferenceMeasure):
    """D_k = clip((tau_k - tau_0)/(c sqrt(M) se_0), -1, 1) on a grid."""

    name = "discrepancy"
    title = "Discrepancy: how far apart are the two estimates?"
    rank = 1
    tells = (
        "The server splits the confidential file into parts at random, measures how far each "
        "part's estimate is from yours, and reports the average with noise of known size. You "
        "get the difference, an interval, and the probability that it is within your tolerance."
    )
    cannot = (
        "It cannot say more than its noise allows, and it cannot show a difference beyond the "
        "range that was set before asking. It compares two estimates; it does not say that "
        "either is close to the truth in the population. For means, ratios, quantiles and "
        "coefficients the average over the parts is close to the estimate of the whole file, "
        "not equal to it. Where a few records have very large weights, the range cuts off what "
        "they do, and a difference that they make can go unseen."
    )
    divides = True
    partitions = 50  # methods §7
    bounds = (-GRID, GRID)
    against = "synthetic"

    clip: Annotated[
        float,
        Field(ge=0.5, le=20),
        NumberBox(
            "Range of a difference", "In units of a part’s standard error; for discrepancy.", "2"
        ),
    ] = 2.0

    def step_range(self, terms: QuestionTerms) -> float:
        """c sqrt(M) se_0: the discrepancy that counts as one (methods §7)."""
        return self.clip * math.sqrt(terms.partitions) * (terms.se or 0.0)

    def refusal(self, terms: QuestionTerms) -> str:
        if message := zero_width(terms):
            return message
        if terms.tolerance <= self.step_range(terms):
            return ""
        return (
            "The tolerance is wider than the range, clip x sqrt(partitions) x se; lower it, or "
            "raise `clip`."
        )

    def numbers(self, terms: QuestionTerms, estimates: Floats) -> Steps:
        return discrepancy_steps(estimates, terms.estimate, self.step_range(terms))

    def posterior(self, terms: QuestionTerms, noisy: float) -> DiscrepancyPosterior:
        return discrepancy_posterior(
            int(noisy), terms.partitions, terms.epsilon, self.step_range(terms), terms.tolerance
        )

    def facts(self, posterior: DiscrepancyPosterior) -> dict[str, float | bool]:
        return {
            "estimate": posterior.estimate,
            "probability_within": posterior.probability_within(),
            "near_clip": posterior.near_clip,
        }

    def sentence(self, terms: QuestionTerms, posterior: DiscrepancyPosterior) -> str:
        text = self.difference_in_words(terms, posterior)
        if posterior.near_clip:
            text += " The answer is near the end of its range: the difference may be larger."
        return text

    def headline(self, posterior: DiscrepancyPosterior) -> str:
        return f"{percent(posterior.probability_within())} likely within your tolerance"

    def law(self, terms: QuestionTerms, offset: Floats, sigma: Floats) -> dict[str, Floats]:
        return noisy_steps(terms, self.step_range(terms), offset, sigma)


def discrepancy_steps(estimates: Floats, centre: float, bound: float) -> NDArray[np.int64]:
    """D_k = clip((tau_k - tau_0)/(c sqrt(M) se_0), -1, 1) on the grid (methods §7)."""
    with np.errstate(over="ignore"):
        share = np.clip((estimates - centre) / bound, -1.0, 1.0)
    return np.rint(np.nan_to_num(share, nan=0.0) * GRID).astype(np.int64)


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
        tail = tail_of(probability)
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
            from scipy.optimize import brentq

            reach = self.bound + 40 * self.sampling_se
            root = brentq(lambda x: float(self.cdf(x)) - probability, -reach, reach, xtol=1e-12)
            return float(root)
        position = int(np.searchsorted(np.cumsum(self._weights), probability, side="left"))
        return float(self._values[min(position, len(self._values) - 1)])

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
        decay = self.epsilon / Discrepancy.sensitivity()
        distance = np.abs(self.noisy_sum - np.arange(-most, most + 1)).astype(float)
        weights = np.exp(-decay * (distance - distance.min()))
        return np.asarray(weights / weights.sum())


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
    check_noise_level(partitions, epsilon)
    if not (math.isfinite(bound) and bound > 0):
        raise Refused("The range of a difference, `bound`, must be a number above 0.")
    if not (math.isfinite(sampling_se) and sampling_se >= 0):
        raise Refused("The assumed standard error must be a number, 0 or more.")
    if isinstance(noisy_sum, bool) or not float(noisy_sum).is_integer():
        raise Refused("The noisy sum of grid steps must be a whole number.")
    return DiscrepancyPosterior(int(noisy_sum), partitions, epsilon, bound, tolerance, sampling_se)
