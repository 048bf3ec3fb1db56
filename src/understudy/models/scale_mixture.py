"""Normal coefficients whose own scales have a half-t prior, with the scales integrated out.

T appendix C: beta_k ~ N(0, sigma_k^2), sigma_k ~ half-t(3, 0, s). For three degrees of freedom
the integral over sigma_k exists in closed form. With x = beta^2 / (6 s^2),

    p(beta) = 1/(sqrt(2 pi)) * c/s * [(1 + x) e^x E_1(x) - 1],     c = 2/(pi sqrt(3)),

so each coefficient stands for itself: nothing but the coefficients is sampled, and the funnel
between a coefficient and its scale is gone. The density has a mild (log log) peak at 0.
"""

from __future__ import annotations

from math import log, pi, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import constraints

EULER = 0.5772156649015329
SWITCH = 2.0  # below: power series; above: continued fraction
SERIES_TERMS = 30
FRACTION_DEPTH = 40


class HalfTScaleNormal(dist.Distribution):  # type: ignore[misc]
    """The marginal of N(0, sigma^2) with sigma ~ half-t(3, 0, scale)."""

    support = constraints.real

    def __init__(self, scale: float) -> None:
        self.scale = scale
        super().__init__(batch_shape=(), event_shape=())

    def log_prob(self, value: Array) -> Array:
        x = jnp.square(value) / (6.0 * self.scale**2)
        constant = log(2.0 / (pi * sqrt(3.0) * self.scale)) - 0.5 * log(2.0 * pi)
        return constant + jnp.log(_bracket(x))

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        of_scale, of_value = jax.random.split(key)
        sigma = self.scale * jnp.abs(jax.random.t(of_scale, 3.0, sample_shape))
        return jnp.asarray(sigma * jax.random.normal(of_value, sample_shape))


def _bracket(x: Array) -> Array:
    """(1 + x) e^x E_1(x) - 1 for x >= 0, to full precision everywhere."""
    small = x < SWITCH
    below, above = jnp.where(small, x, 1.0), jnp.where(small, SWITCH, x)
    return jnp.where(small, _by_series(below), _by_fraction(above))


def _by_series(x: Array) -> Array:
    """E_1(x) = -gamma - log x - sum_k (-x)^k / (k k!)."""
    term, total = jnp.ones_like(x), jnp.zeros_like(x)
    for k in range(1, SERIES_TERMS + 1):
        term = -term * x / k
        total = total + term / k
    tiny = jnp.finfo(x.dtype).tiny
    return (1.0 + x) * jnp.exp(x) * (-EULER - jnp.log(jnp.maximum(x, tiny)) - total) - 1.0


def _by_fraction(x: Array) -> Array:
    """e^x E_1(x) = 1/(x+1-d), d = 1/(x+3-4/(x+5-9/(x+7-...))); so the bracket is d/(x+1-d)."""
    tail = x + (2 * FRACTION_DEPTH + 1)
    for k in range(FRACTION_DEPTH, 1, -1):
        tail = x + (2 * k - 1) - k * k / tail
    d = 1.0 / tail
    return d / (x + 1.0 - d)
