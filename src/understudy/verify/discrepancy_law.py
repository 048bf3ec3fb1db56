"""The distribution of a discrepancy answer, in closed form (V §5).

A partition's grid step has a rounded, clipped normal distribution; the sum of M comes by the
Fourier transform, the noise by a geometric filter. Everything is exact but for the coarser grid
(100 steps instead of 1000 on either side).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr

from understudy.verify.measure import Floats, QuestionTerms, report_quantiles

PLAN_GRID = 100


def noisy_steps(
    terms: QuestionTerms, bound: float, offset: Floats, sigma: Floats
) -> dict[str, Floats]:
    """What is reported, for assumed confidential results; `bound` is the range of a step."""
    count = terms.partitions
    most = PLAN_GRID * count
    decay = math.exp(-terms.epsilon / (2 * PLAN_GRID))
    answers = np.arange(-most, most + 1)
    medians = laplace_medians(answers, most, decay) / most * bound
    tolerated = math.floor(terms.tolerance / bound * most * (1 + 1e-12))
    share = mass(answers, -tolerated, tolerated, decay) / mass(answers, -most, most, decay)
    verdict = share >= 0.5
    rows = []
    for cells in np.array_split(np.arange(len(offset)), max(1, len(offset) * most // 200_000)):
        steps = step_chances(offset[cells], sigma[cells], bound, count)
        pmf = noisy_sum(sum_of(steps, count), decay)
        reached = np.cumsum(pmf, axis=1)
        grid = np.arange(-PLAN_GRID, PLAN_GRID + 1)
        mean = steps @ grid
        variance = count * (steps @ grid**2 - mean**2) + 2 * decay / (1 - decay) ** 2
        rows.append(
            {
                **report_quantiles(reached, medians),
                "noisy_mean": count * mean / most * bound,
                "noisy_sd": np.sqrt(variance) / most * bound,
                "says_inside": pmf @ verdict,
            }
        )
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def step_chances(offset: Floats, sigma: Floats, bound: float, count: int) -> Floats:
    """P(step = j), j = -100..100, of a partition: N(d, M sigma^2) clipped and rounded."""
    edges = (np.arange(-PLAN_GRID, PLAN_GRID) + 0.5) / PLAN_GRID * bound
    reached = ndtr((edges - offset[:, None]) / (math.sqrt(count) * sigma[:, None]))
    return np.asarray(np.diff(reached, axis=1, prepend=0.0, append=1.0))


def sum_of(steps: Floats, count: int) -> Floats:
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


def noisy_sum(sums: Floats, decay: float) -> Floats:
    """With two-sided geometric noise; what falls beyond an end is counted at that end,
    for there every further answer has the same posterior."""
    from scipy.signal import lfilter

    up = lfilter([1.0], [1.0, -decay], sums, axis=1)
    down = lfilter([1.0], [1.0, -decay], sums[:, ::-1], axis=1)[:, ::-1]
    noisy = (1 - decay) / (1 + decay) * (up + down - sums)
    noisy[:, 0] += decay / (1 + decay) * down[:, 0]
    noisy[:, -1] += decay / (1 + decay) * up[:, -1]
    return np.asarray(noisy)


def mass(answers: NDArray[np.int64], low: int, high: int, decay: float) -> Floats:
    """sum of decay^|y - s| over s = low..high, for answers y."""
    y = answers.astype(float)
    inside = 1 - decay ** (np.clip(y, low, high) - low + 1)
    inside += decay * (1 - decay ** (high - np.clip(y, low, high)))
    outside = decay ** np.maximum(np.maximum(low - y, y - high), 0.0)
    return np.asarray(outside * inside / (1 - decay))


def laplace_medians(answers: NDArray[np.int64], most: int, decay: float) -> Floats:
    """The smallest s with half of the flat-prior posterior at or below it, per answer."""
    y = answers.astype(float)
    half = mass(answers, -most, most, decay) / 2
    # Up to s <= y the mass is a geometric series, (decay^(y-s) - decay^(y+most+1))/(1-decay).
    below = half * (1 - decay) + decay ** (y + most + 1)
    left = y - np.floor(np.log(np.maximum(below, 1e-300)) / math.log(decay) + 1e-9)
    rest = mass(answers, -most, most, decay) - half
    above = rest * (1 - decay) + decay ** (most - y + 1)
    right = y + np.ceil(np.log(np.maximum(above, 1e-300)) / math.log(decay) - 1e-9) - 1
    upto = (1 - decay ** (y + most + 1)) / (1 - decay)
    return np.clip(np.where(upto >= half, left, right), -most, most)
