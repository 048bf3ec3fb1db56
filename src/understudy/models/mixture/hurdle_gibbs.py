"""Gibbs sampling of what `HurdleMixture` says about incomes of zero and below, under weights.

All of it is independent of the mixture: shares of zero and of losses have Beta conditionals, the
mean of log losses a normal one, and their standard deviation is walked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from understudy.models.contract import Arrays
from understudy.models.mixture.random_walk import scale_walk

LOSS_SPREAD = 2.0  # prior standard deviation of the mean log loss
EDGE = 1e-12  # reported shares stay at least this far from 0 and 1


def hurdle_sums(arrays: Arrays, alpha: NDArray[np.float64]) -> dict[str, Any]:
    """Weighted counts by group of `zero_by`, and moments of the log losses."""
    y, groups = np.asarray(arrays["y"]), np.asarray(arrays["groups"])
    loss = y < 0
    size = np.log(-y[loss]) - float(arrays["centre"])
    weight = alpha[loss]
    return {
        "zeros": groups.T @ (alpha * (y == 0)),
        "positive": groups.T @ (alpha * (y > 0)),
        # where losses are declared impossible, nothing is learnt of their share
        "possible": np.asarray(float(arrays["losses"])),
        "losses": np.array([weight.sum(), weight @ size, weight @ size**2]),
    }


def sweep_losses(
    key: Array, mean: Array, sigma: Array, sums: Mapping[str, Array], floor: float
) -> tuple[Array, Array]:
    """Mean and standard deviation of log losses; `sigma` has shape (1,)."""
    of_mean, of_sigma = jax.random.split(key)
    number, total, squares = sums["losses"]
    precision = 1.0 / LOSS_SPREAD**2 + number / sigma[0] ** 2
    centre = total / sigma[0] ** 2 / precision
    mean = centre + jax.random.normal(of_mean) / jnp.sqrt(precision)
    left = squares - 2.0 * mean * total + number * mean**2
    return mean, scale_walk(sigma, number[None], left[None], floor, of_sigma)


def draw_shares(key: Array, sums: Mapping[str, Array]) -> dict[str, Array]:
    """P(zero | not negative) by group, and P(negative).

    A Beta variate is G / (G + G') of two gamma variates. All are drawn together: XLA takes two
    thirds of a second to compile a gamma variate, of whatever shape.
    """
    zeros, positive, learnt = sums["zeros"], sums["positive"], sums["possible"]
    others = zeros.sum() + positive.sum()
    inside = jnp.append(zeros, learnt * sums["losses"][0])
    outside = jnp.append(positive, learnt * others)
    log_gamma = jax.random.loggamma(key, 0.5 + jnp.stack([inside, outside]))
    share = jnp.clip(jax.nn.sigmoid(log_gamma[0] - log_gamma[1]), EDGE, 1.0 - EDGE)
    return {"zero": share[:-1], "negative": share[-1]}
