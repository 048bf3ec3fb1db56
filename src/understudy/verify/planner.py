"""What could an answer tell me? V §5 in closed form, without data.

Steps 1-5 of the paper simulate: for every assumed (tau, sigma) of the confidential file,
M partition estimates are drawn from N(tau, M sigma^2), and the answer is computed, many
times. Here the distribution is written down instead. Agreement: the chance p that a
partition is inside is a difference of two normal probabilities, S is binomial, and the
noisy S is a product with the noise's matrix. Discrepancy: a partition's grid step has a
rounded, clipped normal distribution; the sum of M comes by the Fourier transform, the noise
by a geometric filter. Everything is exact but for the coarser grid of the discrepancy
(100 steps instead of 1000 on either side) and a table of posterior medians (1e-5).

As in V, partition estimates scatter independently about the assumed estimate, so their mean
varies by sigma. In a file whose own estimate is exactly tau they are tied to it: there the
discrepancy answer is somewhat sharper than planned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import lfilter
from scipy.special import betainc, ndtr
from scipy.stats import binom

from understudy.errors import Refused
from understudy.ledger.epsilon import exact_epsilon, parse_epsilon
from understudy.verify.posterior import Noise, log_likelihood
from understudy.verify.query import (
    DEFAULT_PARTITIONS,
    FEWEST_PARTITIONS,
    MOST_PARTITIONS,
    Measure,
)

__public__ = ("plan",)

Floats = NDArray[np.float64]

PLAN_GRID = 100
QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Plan:
    """One row per assumed (estimate, se) of the confidential file.

    `inside`: whether that estimate is within the tolerance. `median_low`, `median_mid`,
    `median_high`: the 5 %, 50 % and 95 % points of the posterior median that would be
    reported (r for agreement, the discrepancy itself for discrepancy). `noisy_mean` and
    `noisy_sd`: of the noisy answer before post-processing, on the same scale.
    `says_inside`: the chance that the answer's verdict is "inside" (posterior median of r,
    or probability of being inside, at least one half); `says_right`: that it is true.
    """

    table: pl.DataFrame
    measure: Measure
    estimate: float
    se: float
    tolerance: float  # half width for the whole file, in units of the estimate

    def figure(self) -> str:
        """The plan as an SVG text."""
        from understudy.verify.plan_figure import draw_plan

        return draw_plan(self)


def plan(
    estimate: float,
    se: float,
    *,
    epsilon: str | float = "1",
    measure: Measure = "discrepancy",
    partitions: int | None = None,
    tolerance: float = 2.0,
    tolerance_kind: Literal["se", "percent"] = "se",
    interval: Literal["adjusted", "fixed"] = "adjusted",
    noise: Noise = "geometric",
    clip: float = 2.0,
    estimates: Sequence[float] | None = None,
    ses: Sequence[float] | None = None,
) -> Plan:
    """The exact sampling distribution of an answer over assumed confidential results.

    `estimate` and `se` are the synthetic ones; `estimates` and `ses` the assumed
    confidential ones (default: 20 estimates to twice the tolerance on both sides, 20
    standard errors from half to twice the synthetic one).
    """
    spend = float(exact_epsilon(parse_epsilon(epsilon))) if isinstance(epsilon, str) else epsilon
    count = partitions or DEFAULT_PARTITIONS.get(measure, 0)
    _check(estimate, se, spend, measure, count, tolerance, clip, noise)
    width = tolerance * se if tolerance_kind == "se" else tolerance / 100 * abs(estimate)
    if not (math.isfinite(width) and width > 0):
        raise Refused("The tolerance is zero wide here; give it in standard errors instead.")
    centres = np.linspace(-2 * width, 2 * width, 20) + estimate if estimates is None else estimates
    spreads = np.geomspace(se / 2, 2 * se, 20) if ses is None else ses
    taus, sigmas = _grid(centres, spreads)
    if measure == "agreement":
        gamma = math.sqrt(count) if interval == "adjusted" else 1.0
        found = _agreement(taus - estimate, sigmas, width * gamma, count, spend, noise)
    else:
        bound = clip * math.sqrt(count) * se
        if width > bound:
            raise Refused("The tolerance is wider than clip x sqrt(partitions) x se; raise `clip`.")
        found = _discrepancy(taus - estimate, sigmas, bound, width, count, spend)
    inside = np.abs(taus - estimate) <= width * (1 + 1e-12)
    right = np.where(inside, found["says_inside"], 1 - found["says_inside"])
    columns = {"estimate": taus, "se": sigmas, "inside": inside, **found, "says_right": right}
    return Plan(pl.DataFrame(columns), measure, estimate, se, width)


def inside_chance(offset: Floats, sigma: Floats, half_width: float, count: int) -> Floats:
    """p = Phi((w - d)/(sqrt(M) sigma)) - Phi((-w - d)/(sqrt(M) sigma)), d = tau - tau_0."""
    spread = math.sqrt(count) * sigma
    # The smaller tail keeps its digits.
    near = np.abs(offset)
    return np.asarray(ndtr((half_width - near) / spread) - ndtr((-half_width - near) / spread))


def _agreement(
    offset: Floats, sigma: Floats, half_width: float, count: int, epsilon: float, noise: Noise
) -> dict[str, Floats]:
    chance = inside_chance(offset, sigma, half_width, count)
    counts = np.arange(count + 1)
    true = np.asarray(binom.pmf(counts, count, chance[:, None]))  # (cells, M+1)
    if noise == "geometric":
        answers = counts.astype(float)
        reached = np.cumsum(true @ np.exp(log_likelihood(answers, count, epsilon, noise)).T, axis=1)
    else:
        reach = 25 / epsilon
        places = min(int(16 * (count + 2 * reach)) + 1, 20_001)
        answers = np.linspace(-reach, count + reach, places)
        gap = answers[:, None] - counts
        tail = np.exp(-epsilon * np.abs(gap)) / 2
        reached = true @ np.where(gap < 0, tail, 1 - tail).T
    medians = _beta_medians(answers, count, epsilon, noise)
    mass = np.diff(reached, axis=1, prepend=0.0)
    mean = mass @ answers
    return {
        **_quantiles(reached, medians),
        "noisy_mean": mean / count,
        "noisy_sd": np.sqrt(np.maximum(mass @ answers**2 - mean**2, 0)) / count,
        "says_inside": mass @ (medians >= 0.5),
    }


def _beta_medians(answers: Floats, count: int, epsilon: float, noise: Noise) -> Floats:
    """The posterior median for every possible answer, from one table of Beta distributions."""
    log_weights = log_likelihood(answers, count, epsilon, noise)
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    r = np.linspace(0.0, 1.0, 2001)
    counts = np.arange(count + 1)[:, None]
    reached = weights @ betainc(counts + 1, count - counts + 1, r)  # (answers, r)
    return np.array([np.interp(0.5, row, r) for row in reached])


def _discrepancy(
    offset: Floats, sigma: Floats, bound: float, width: float, count: int, epsilon: float
) -> dict[str, Floats]:
    most = PLAN_GRID * count
    decay = math.exp(-epsilon / (2 * PLAN_GRID))
    answers = np.arange(-most, most + 1)
    medians = _laplace_medians(answers, most, decay) / most * bound
    tolerated = math.floor(width / bound * most * (1 + 1e-12))
    share = _mass(answers, -tolerated, tolerated, decay) / _mass(answers, -most, most, decay)
    verdict = share >= 0.5
    rows = []
    for cells in np.array_split(np.arange(len(offset)), max(1, len(offset) * most // 200_000)):
        steps = _step_chances(offset[cells], sigma[cells], bound, count)
        pmf = _noisy_sum(_sum_of(steps, count), decay)
        reached = np.cumsum(pmf, axis=1)
        grid = np.arange(-PLAN_GRID, PLAN_GRID + 1)
        mean = steps @ grid
        variance = count * (steps @ grid**2 - mean**2) + 2 * decay / (1 - decay) ** 2
        rows.append(
            {
                **_quantiles(reached, medians),
                "noisy_mean": count * mean / most * bound,
                "noisy_sd": np.sqrt(variance) / most * bound,
                "says_inside": pmf @ verdict,
            }
        )
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def _step_chances(offset: Floats, sigma: Floats, bound: float, count: int) -> Floats:
    """P(step = j), j = -100..100, of a partition: N(d, M sigma^2) clipped and rounded."""
    edges = (np.arange(-PLAN_GRID, PLAN_GRID) + 0.5) / PLAN_GRID * bound
    reached = ndtr((edges - offset[:, None]) / (math.sqrt(count) * sigma[:, None]))
    return np.asarray(np.diff(reached, axis=1, prepend=0.0, append=1.0))


def _sum_of(steps: Floats, count: int) -> Floats:
    """The distribution of the sum of `count` independent steps, by Fourier transform."""
    length = (steps.shape[1] - 1) * count + 1
    padded = next_fast_len(length, real=True)
    transformed = rfft(steps, padded, axis=1)
    power = np.ones_like(transformed)
    for bit in f"{count:b}":  # repeated squaring: complex powers are slow
        power *= power
        if bit == "1":
            power *= transformed
    return np.asarray(np.maximum(irfft(power, padded, axis=1)[:, :length], 0.0))


def _noisy_sum(sums: Floats, decay: float) -> Floats:
    """With two-sided geometric noise; what falls beyond an end is counted at that end,
    for there every further answer has the same posterior."""
    up = lfilter([1.0], [1.0, -decay], sums, axis=1)
    down = lfilter([1.0], [1.0, -decay], sums[:, ::-1], axis=1)[:, ::-1]
    noisy = (1 - decay) / (1 + decay) * (up + down - sums)
    noisy[:, 0] += decay / (1 + decay) * down[:, 0]
    noisy[:, -1] += decay / (1 + decay) * up[:, -1]
    return np.asarray(noisy)


def _mass(answers: NDArray[np.int64], low: int, high: int, decay: float) -> Floats:
    """sum of decay^|y - s| over s = low..high, for answers y."""
    y = answers.astype(float)
    inside = 1 - decay ** (np.clip(y, low, high) - low + 1)
    inside += decay * (1 - decay ** (high - np.clip(y, low, high)))
    outside = decay ** np.maximum(np.maximum(low - y, y - high), 0.0)
    return np.asarray(outside * inside / (1 - decay))


def _laplace_medians(answers: NDArray[np.int64], most: int, decay: float) -> Floats:
    """The smallest s with half of the flat-prior posterior at or below it, per answer."""
    y = answers.astype(float)
    half = _mass(answers, -most, most, decay) / 2
    # Up to s <= y the mass is a geometric series, (decay^(y-s) - decay^(y+most+1))/(1-decay).
    below = half * (1 - decay) + decay ** (y + most + 1)
    left = y - np.floor(np.log(np.maximum(below, 1e-300)) / math.log(decay) + 1e-9)
    rest = _mass(answers, -most, most, decay) - half
    above = rest * (1 - decay) + decay ** (most - y + 1)
    right = y + np.ceil(np.log(np.maximum(above, 1e-300)) / math.log(decay) - 1e-9) - 1
    upto = (1 - decay ** (y + most + 1)) / (1 - decay)
    return np.clip(np.where(upto >= half, left, right), -most, most)


def _quantiles(reached: Floats, medians: Floats) -> dict[str, Floats]:
    names = ("median_low", "median_mid", "median_high")
    found = {}
    for name, probability in zip(names, QUANTILES, strict=True):
        place = np.sum(reached < probability, axis=1)
        found[name] = medians[np.minimum(place, len(medians) - 1)]
    return found


def _grid(
    estimates: Sequence[float] | Floats, ses: Sequence[float] | Floats
) -> tuple[Floats, Floats]:
    centres, spreads = np.asarray(estimates, dtype=float), np.asarray(ses, dtype=float)
    for values in (centres, spreads):
        if values.ndim != 1 or not 1 <= len(values) <= 200 or not np.all(np.isfinite(values)):
            raise Refused("The assumed results are lists of 1 to 200 finite numbers.")
    if np.any(spreads <= 0):
        raise Refused("An assumed standard error must be above 0.")
    taus, sigmas = np.meshgrid(centres, spreads, indexing="ij")
    return taus.ravel(), sigmas.ravel()


def _check(
    estimate: float,
    se: float,
    epsilon: float,
    measure: str,
    count: int,
    tolerance: float,
    clip: float,
    noise: str,
) -> None:
    if measure not in DEFAULT_PARTITIONS or noise not in ("geometric", "laplace"):
        raise Refused(
            "The measure is `discrepancy` or `agreement`, the noise `geometric` or `laplace`."
        )
    numbers = {"se": se, "epsilon": epsilon, "tolerance": tolerance, "clip": clip}
    wrong = [name for name, value in numbers.items() if not (math.isfinite(value) and value > 0)]
    if wrong or not math.isfinite(estimate):
        name = wrong[0] if wrong else "estimate"
        raise Refused(f"`{name}` must be a finite number{' above 0' if wrong else ''}.")
    if not FEWEST_PARTITIONS <= count <= MOST_PARTITIONS:
        raise Refused(f"Partitions must be from {FEWEST_PARTITIONS} to {MOST_PARTITIONS}.")
