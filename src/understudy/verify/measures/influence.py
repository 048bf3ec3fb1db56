"""Influence (methods §13): the difference itself, from one sum over the confidential file.

The released estimate is public, so the estimating equation can be evaluated there: every unit's
influence on the difference is one number, held by a clip that the synthetic files suggest, and the
sum gets noise. The noise is known exactly, so under a flat prior the posterior of the difference is
the noise turned round, and what clipping leaves. The released estimate plus the difference is the
corrected estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from understudy.dp.additive import AdditiveNoise
from understudy.errors import Refused
from understudy.influence import half_width
from understudy.tables.influence.unit_sums import GRID
from understudy.verify.difference_measure import DifferenceMeasure
from understudy.verify.influence_figures import InfluenceFigures
from understudy.verify.intervals import tail_of
from understudy.verify.measure import (
    QUANTILES,
    Floats,
    QuestionTerms,
    Steps,
    zero_width,
)
from understudy.verify.numbers import percent, short


@dataclass(frozen=True)
class Influence(DifferenceMeasure):
    """The sum of clipped influences at the released estimate."""

    name = "influence"
    title = "Influence: how far apart are the two estimates, and what is the better one?"
    rank = 0
    tells = (
        "Your estimate is public, so the server works out what every confidential record would "
        "change in it, adds that up in one pass, and reports the sum with noise of known size. You "
        "get the difference, the probability that it is within your tolerance, and a corrected "
        "estimate with a standard error that holds sampling, clipping and noise: the number to "
        "publish."
    )
    cannot = (
        "It cannot say more than its noise allows. It is exact to first order: where the released "
        "files are far off, the difference is shown a little too large or too small. What single "
        "records do beyond the clip is judged from the released files, with an allowance for tails "
        "that are a quarter longer; very large weights that these files lack can go unseen."
    )
    divides = False
    partitions = 1  # the file is not divided
    bounds = (-GRID, GRID)
    against = "released"

    def refusal(self, terms: QuestionTerms) -> str:
        if terms.influence is None:
            return (
                "The measure `influence` needs the released files and computes the estimate from "
                "them; leave `estimate` and `se` out, or ask by `discrepancy`."
            )
        return zero_width(terms)

    def numbers(self, terms: QuestionTerms, estimates: Floats) -> Steps:  # noqa: ARG002
        raise Refused("The measure `influence` does not divide the file.")

    def posterior(self, terms: QuestionTerms, noisy: float) -> InfluencePosterior:
        if terms.influence is None:
            raise Refused(self.refusal(terms))
        return InfluencePosterior(
            int(noisy), terms.epsilon, terms.influence, terms.estimate, terms.tolerance
        )

    def facts(self, posterior: InfluencePosterior) -> dict[str, float | bool]:
        low, high = posterior.corrected_interval(0.95)
        return {
            "estimate": posterior.estimate,
            "probability_within": posterior.probability_within(),
            "corrected": posterior.corrected,
            "corrected_se": posterior.corrected_se,
            "corrected_low": low,
            "corrected_high": high,
            "noise_scale": posterior.scale,
            "touched": posterior.figures.touched,
        }

    def sentence(self, terms: QuestionTerms, posterior: InfluencePosterior) -> str:
        first, last = posterior.corrected_interval(0.95)
        text = (
            f"{self.difference_in_words(terms, posterior)} The estimate to publish is the "
            f"corrected one, {short(posterior.corrected)} (95 % from {short(first)} to "
            f"{short(last)}, sampling, clipping and noise)."
        )
        if posterior.figures.note:
            text += f" Note: {posterior.figures.note}."
        return text

    def headline(self, posterior: InfluencePosterior) -> str:
        within = percent(posterior.probability_within())
        return f"{within} likely within your tolerance; corrected: {short(posterior.corrected)}"

    def law(self, terms: QuestionTerms, offset: Floats, sigma: Floats) -> dict[str, Floats]:
        """The answer is the offset plus noise and what clipping leaves, whatever sigma is."""
        report = self.posterior(terms, 0.0)
        quantiles = [report.error_quantile(p) for p in QUANTILES]
        edge = report.farthest_inside()
        ends = report.error_cdf(np.stack([edge - offset, -edge - offset]))
        says = ends[0] - ends[1] if edge > 0 else np.zeros_like(offset)
        return {
            "median_low": offset + quantiles[0],
            "median_mid": offset + quantiles[1],
            "median_high": offset + quantiles[2],
            "noisy_mean": offset.copy(),
            "noisy_sd": np.full_like(sigma, report.figures.error),
            "says_inside": np.asarray(says),
        }


@dataclass(frozen=True)
class InfluencePosterior:
    """The posterior of the difference, in units of the estimate, and the corrected estimate."""

    noisy_sum: int
    epsilon: float
    figures: InfluenceFigures
    released: float
    tolerance: float

    @property
    def scale(self) -> float:
        """Of the noise, in units of the estimate."""
        return self.figures.scale

    @property
    def estimate(self) -> float:
        """The answer itself."""
        return self.noisy_sum * self.figures.step + self.figures.added

    @property
    def median(self) -> float:
        return self.estimate

    @property
    def mean(self) -> float:
        return self.estimate

    @property
    def corrected(self) -> float:
        return self.released + self.estimate

    @property
    def corrected_se(self) -> float:
        return self.figures.corrected_se

    def corrected_interval(self, probability: float = 0.95) -> tuple[float, float]:
        """For the population: sampling, clipping and noise together."""
        half = half_width(
            probability, self.figures.held_se, self.figures.df, self._noise, self.scale
        )
        return self.corrected - half, self.corrected + half

    def interval(self, probability: float = 0.95) -> tuple[float, float]:
        """Of the difference in this file: the noise and what clipping leaves."""
        half = self.error_quantile(1 - tail_of(probability))
        return self.estimate - half, self.estimate + half

    def probability_within(self, tolerance: float | None = None) -> float:
        """P(|difference| <= tolerance) under the flat prior."""
        width = self.tolerance if tolerance is None else tolerance
        ends = self.error_cdf(np.array([width - self.estimate, -width - self.estimate]))
        return float(ends[0] - ends[1])

    def error_cdf(self, value: float | Floats) -> Floats:
        """P(answer - difference <= value)."""
        return self._noise.blurred_cdf(value, self.scale, self.figures.cut_se)

    def error_quantile(self, probability: float) -> float:
        return self._noise.blurred_quantile(probability, self.scale, self.figures.cut_se)

    def farthest_inside(self) -> float:
        """The largest answer whose verdict is "inside": a probability of one half or more."""

        def more(answer: float) -> float:
            ends = self.error_cdf(np.array([self.tolerance - answer, -self.tolerance - answer]))
            return float(ends[0] - ends[1]) - 0.5

        if more(0.0) <= 0:
            return 0.0
        from scipy import optimize

        reach = self.tolerance + 60 * self.scale + 10 * self.figures.cut_se
        return float(optimize.brentq(more, 0.0, reach))

    def density(self, points: int = 201) -> tuple[Floats, Floats]:
        low, high = self.interval(0.999)
        edge = 0.05 * (high - low)
        x = np.linspace(low - edge, high + edge, points)
        return x, self._noise.blurred_pdf(x - self.estimate, self.scale, self.figures.cut_se)

    @cached_property
    def _noise(self) -> AdditiveNoise:
        return self.figures.law(self.epsilon)
