"""Agreement (V §3.1): how many partitions give an estimate inside an interval.

r ~ Uniform and S | r ~ Binomial(M, r) make S uniform on 0..M, so p(r | S^R) is a mixture of
Beta(s+1, M-s+1) with weights proportional to P(S^R | s) (V eq. 4). The paper's Gibbs sampler
draws from the same distribution.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln, ndtr, xlog1py, xlogy

from understudy.errors import Refused
from understudy.verify.intervals import check_noise_level, tail_of
from understudy.verify.measure import (
    Floats,
    Measure,
    PosteriorPicture,
    QuestionTerms,
    Steps,
    report_quantiles,
    zero_width,
)

__public__ = (
    "agreement_flags",
    "agreement_posterior",
    "beta_medians as agreement_medians",
    "log_likelihood as agreement_loglik",
)

Noise = Literal["geometric", "laplace"]


@dataclass(frozen=True)
class Agreement(Measure):
    """A_k = 1 where tau_k lies in C(tau_0, alpha, gamma), else 0."""

    name = "agreement"
    title = "Agreement: how often does a part of the confidential file agree?"
    rank = 2
    tells = (
        "The server splits the confidential file into parts at random and counts, with noise, "
        "how many parts give an estimate inside an interval around yours. You get the chance "
        "that a part falls inside. This is the measure of the published method."
    )
    cannot = (
        "It hardly tells whether the estimate of the whole confidential file is inside your "
        "tolerance: parts scatter more than the whole, so the interval is widened, and a "
        "difference of several standard errors can pass. In our trials it told inside from "
        "outside little better than a coin. Choose discrepancy unless you need the published "
        "measure."
    )
    divides = True
    partitions = 25  # V §3.4
    bounds = (0, 1)
    noises = ("geometric", "laplace")
    held = True
    needs_se = False
    uses_interval = True
    reports = "reported chance"
    report_reach = (0.0, 1.0)
    reports_difference = False

    def refusal(self, terms: QuestionTerms) -> str:
        return zero_width(terms)

    def numbers(self, terms: QuestionTerms, estimates: Floats) -> Steps:
        return agreement_flags(estimates, terms.estimate, half_width(terms))

    def posterior(self, terms: QuestionTerms, noisy: float) -> AgreementPosterior:
        noise: Noise = "laplace" if terms.noise == "laplace" else "geometric"
        return agreement_posterior(noisy, terms.partitions, terms.epsilon, noise)

    def facts(self, _posterior: AgreementPosterior) -> dict[str, float | bool]:
        return {}

    def sentence(self, _terms: QuestionTerms, posterior: AgreementPosterior) -> str:
        low, high = posterior.interval(0.9)
        return (
            f"The chance that a part of the confidential file gives an estimate inside the "
            f"interval is about {posterior.median:.2f} (90 % from {low:.2f} to {high:.2f}). "
            "This speaks of parts of the file; it hardly tells whether the estimate of the "
            "whole file is inside your tolerance."
        )

    def headline(self, posterior: AgreementPosterior) -> str:
        return f"A part agrees with chance {posterior.median:.2f}"

    def picture(self, _terms: QuestionTerms, posterior: AgreementPosterior) -> PosteriorPicture:
        low, high = posterior.interval(0.9)
        return PosteriorPicture(
            across="chance that a part is inside",
            reach=(0.0, 1.0),
            tolerance=None,
            seen=(
                f"The chance is most likely near {posterior.median:.2f}; nine times in ten "
                f"between {low:.2f} and {high:.2f}."
            ),
            caption="Where the chance plausibly is, given the noisy answer.",
        )

    def law(self, terms: QuestionTerms, offset: Floats, sigma: Floats) -> dict[str, Floats]:
        """p is a difference of two normal probabilities, S is binomial, and the noisy S is a
        product with the noise's matrix. Exact but for a table of posterior medians (1e-5)."""
        from scipy.stats import binom  # slow to load, and an answer needs no plan

        count, epsilon = terms.partitions, terms.epsilon
        chance = inside_chance(offset, sigma, half_width(terms), count)
        counts = np.arange(count + 1)
        chance = np.where(chance < 1e-200, 0.0, chance)  # SciPy overflows for smaller ones
        true = np.asarray(binom.pmf(counts, count, chance[:, None]))  # (cells, M+1)
        noise: Noise = "laplace" if terms.noise == "laplace" else "geometric"
        if noise == "geometric":
            answers = counts.astype(float)
            noisy = true @ np.exp(log_likelihood(answers, count, epsilon, noise)).T
            reached = np.cumsum(noisy, axis=1)
        else:
            reach = 25 / epsilon
            steps = min(int(16 * (count + 2 * reach)) + 1, 20_001)
            answers = np.linspace(-reach, count + reach, steps)
            gap = answers[:, None] - counts
            tail = np.exp(-epsilon * np.abs(gap)) / 2
            reached = true @ np.where(gap < 0, tail, 1 - tail).T
        medians = beta_medians(answers, count, epsilon, noise)
        mass = np.diff(reached, axis=1, prepend=0.0)
        mean = mass @ answers
        return {
            **report_quantiles(reached, medians),
            "noisy_mean": mean / count,
            "noisy_sd": np.sqrt(np.maximum(mass @ answers**2 - mean**2, 0)) / count,
            "says_inside": mass @ (medians >= 0.5),
        }


def half_width(terms: QuestionTerms) -> float:
    """Of the interval for a partition: gamma = sqrt(M) where it is adjusted (V §3.3)."""
    gamma = math.sqrt(terms.partitions) if terms.interval == "adjusted" else 1.0
    return gamma * terms.tolerance


def agreement_flags(estimates: Floats, centre: float, half_width: float) -> NDArray[np.int64]:
    """A_k: whether tau_k lies in C(tau_0, alpha, gamma) (V §3.1)."""
    # A comparison with NaN is false, so a missing estimate is outside.
    return (np.abs(estimates - centre) <= half_width).astype(np.int64)


def inside_chance(offset: Floats, sigma: Floats, half_width: float, count: int) -> Floats:
    """p = Phi((w - d)/(sqrt(M) sigma)) - Phi((-w - d)/(sqrt(M) sigma)), d = tau - tau_0."""
    spread = math.sqrt(count) * sigma
    # The smaller tail keeps its digits.
    near = np.abs(offset)
    return np.asarray(ndtr((half_width - near) / spread) - ndtr((-half_width - near) / spread))


def beta_medians(
    answers: Floats, count: int, epsilon: float, noise: Noise, points: int = 2001
) -> Floats:
    """The posterior median for every possible answer, from one table of Beta distributions at
    `points` values of r, by a straight line between two of them."""
    log_weights = log_likelihood(answers, count, epsilon, noise)
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    r = np.linspace(0.0, 1.0, points)
    counts = np.arange(count + 1)[:, None]
    reached = weights @ betainc(counts + 1, count - counts + 1, r)  # (answers, r)
    return np.array([np.interp(0.5, row, r) for row in reached])


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
        tail = tail_of(probability)
        return self.quantile(tail), self.quantile(1 - tail)

    def quantile(self, probability: float) -> float:
        from scipy.optimize import brentq

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

    def draws(self, count: int = 1000) -> Floats:
        """Draws of r, as V §3.1 releases them: S by its posterior, then r | S ~ Beta. They use the
        noisy answer alone, and cost nothing."""
        chance = secrets.SystemRandom()
        counts = chance.choices(range(self.partitions + 1), list(self.weights), k=count)
        return np.array([chance.betavariate(s + 1, self.partitions - s + 1) for s in counts])

    def density(self, points: int = 201) -> tuple[Floats, Floats]:
        """Places and heights for a plot."""
        x = np.linspace(0.0, 1.0, points)
        return x, self.pdf(x)


def agreement_posterior(
    noisy_count: float, partitions: int, epsilon: float, noise: Noise = "geometric"
) -> AgreementPosterior:
    """The posterior of r given the noisy count (V §3.1, in closed form).

    `noise` is "geometric" (whole numbers, held in 0..M) or "laplace" (as in the paper).
    """
    check_noise_level(partitions, epsilon)
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
