"""Normal coefficients whose own scales have a half-t prior, with the scales integrated out.

T appendix C: beta_k ~ N(0, sigma_k^2), sigma_k ~ half-t(3, 0, s). For three degrees of freedom
the integral over sigma_k exists in closed form. With x = beta^2 / (6 s^2),

    p(beta) = 1/(sqrt(2 pi)) * c/s * [(1 + x) e^x E_1(x) - 1],     c = 2/(pi sqrt(3)),

so each coefficient stands for itself: nothing but the coefficients is sampled, and the funnel
between a coefficient and its scale is gone. The density has a mild (log log) peak at 0.
"""

from __future__ import annotations

from math import factorial, log, pi, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import constraints

EULER = 0.5772156649015329
SWITCH = 2.0  # below: power series; above: continued fraction
# E_1(x) = -gamma - log x - sum_k (-x)^k / (k k!), highest power first
SERIES = np.array([-((-1.0) ** k) / (k * factorial(k)) for k in range(24, 0, -1)] + [-EULER])
FRACTION_DEPTH = 30


class HalfTScaleNormal(dist.Distribution):  # type: ignore[misc]
    """The marginal of N(0, sigma^2) with sigma ~ half-t(3, 0, scale)."""

    support = constraints.real

    def __init__(self, scale: float) -> None:
        self.scale = scale
        super().__init__(batch_shape=(), event_shape=())

    def log_prob(self, value: Array) -> Array:
        constant = log(2.0 / (pi * sqrt(3.0) * self.scale)) - 0.5 * log(2.0 * pi)
        return constant + log_bracket(jnp.square(value) / (6.0 * self.scale**2))

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        of_scale, of_value = jax.random.split(key)
        sigma = self.scale * jnp.abs(jax.random.t(of_scale, 3.0, sample_shape))
        return jnp.asarray(sigma * jax.random.normal(of_value, sample_shape))


@jax.custom_jvp
def log_bracket(x: Array) -> Array:
    """log((1 + x) e^x E_1(x) - 1) for x >= 0."""
    x = jnp.maximum(x, jnp.finfo(x.dtype).tiny)
    return jnp.log((1.0 + x) * scaled_e1(x) - 1.0)


@log_bracket.defjvp
def _log_bracket_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """h = e^x E_1(x) has h' = h - 1/x; nothing of the series need be differentiated."""
    x = jnp.maximum(primals[0], jnp.finfo(primals[0].dtype).tiny)
    h = scaled_e1(x)
    bracket = (1.0 + x) * h - 1.0
    slope = h + (1.0 + x) * (h - 1.0 / x)
    return jnp.log(bracket), slope / bracket * tangents[0]


def scaled_e1(x: Array) -> Array:
    """e^x E_1(x), x > 0: by series, or 1/(x+1-1/(x+3-4/(x+5-9/(x+7-...))))."""
    small = x < SWITCH
    low, high = jnp.where(small, x, 1.0), jnp.where(small, SWITCH, x)
    series = jnp.exp(low) * (jnp.polyval(SERIES, low, unroll=len(SERIES)) - jnp.log(low))
    tail = high + (2 * FRACTION_DEPTH + 1)
    for k in range(FRACTION_DEPTH, 0, -1):
        tail = high + (2 * k - 1) - k * k / tail
    return jnp.where(small, series, 1.0 / tail)
