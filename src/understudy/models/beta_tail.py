"""log P(Y >= t) of a Beta variable, with derivatives in its parameters, which JAX's own lacks.

The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), from the side
on which it converges quickly.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from understudy.models.log_gamma import log_gamma

STEPS = 100  # enough to 1e-10 for parameters up to 1,000


def log_beta_tail(t: Array, first: Array, second: Array) -> Array:
    """log P(Y >= t), Y ~ Beta(first, second), 0 < t < 1."""
    # P(Y >= t) = I_x(a, b) with x = 1 - t, a = second, b = first; or 1 - I_t(b, a)
    x, a, b = jnp.broadcast_arrays(1.0 - t, second, first)
    other = x > (a + 1.0) / (a + b + 2.0)
    x, a, b = jnp.where(other, 1.0 - x, x), jnp.where(other, b, a), jnp.where(other, a, b)
    log_power = a * jnp.log(x) + b * jnp.log1p(-x)
    constant = log_gamma(a + b) - log_gamma(a) - log_gamma(b) - jnp.log(a)
    log_share = log_power + constant - jnp.log(_fraction(x, a, b))
    log_share = jnp.minimum(log_share, -1e-300)
    return jnp.where(other, jnp.log1p(-jnp.exp(jnp.where(other, log_share, -1.0))), log_share)


def _fraction(x: Array, a: Array, b: Array) -> Array:
    """1 + d_1/(1 + d_2/(1 + ...)), from its far end."""

    def step(below: Array, m: Array) -> tuple[Array, None]:
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        return 1.0 + even / (1.0 + odd / below), None

    first = -(a + b) * x / (a + 1.0)
    inner = jax.lax.scan(step, jnp.ones_like(x), jnp.arange(STEPS, 0, -1.0))[0]
    return 1.0 + first / inner
