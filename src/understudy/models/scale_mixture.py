"""Normal coefficients whose own scales have a half-t prior, with the scales integrated out.

T appendix C: beta_k ~ N(0, sigma_k^2), sigma_k ~ half-t(3, 0, s). For three degrees of freedom
the integral over sigma_k exists in closed form, so that nothing but the coefficients is sampled
and there is no funnel between a coefficient and its scale. With x = beta^2/(6 s^2) it is

    p(beta) proportional to (1 + x) e^x E_1(x) - 1,

which has a pole at 0: no gradient sampler passes a coefficient that may be 0. The pole comes from
scales next to 0. Here the prior of sigma_k has a factor exp(-f^2/(2 sigma_k^2)) that leaves out
scales far below a floor f; then x = (beta^2 + f^2)/(6 s^2), and the density is smooth.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, factorial, log, pi, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import constraints
from scipy import stats
from scipy.integrate import quad

EULER = 0.5772156649015329
SWITCH = 2.0  # below: power series; above: continued fraction
# E_1(x) = -gamma - log x - sum_k (-x)^k / (k k!), highest power first
SERIES = np.array([-((-1.0) ** k) / (k * factorial(k)) for k in range(24, 0, -1)] + [-EULER])
FRACTION_DEPTH = 30
TINY = float(np.finfo(np.float64).tiny)
CANDIDATES = 12  # scales of which the first kept one is taken; all but never none


class HalfTScaleNormal(dist.Distribution):  # type: ignore[misc]
    """The marginal of N(0, sigma^2), sigma ~ half-t(3, 0, scale) with scales kept from 0."""

    support = constraints.real

    def __init__(self, scale: float, floor: float) -> None:
        self.scale, self.floor = scale, floor
        super().__init__(batch_shape=(), event_shape=())

    def log_prob(self, value: Array) -> Array:
        """Normalised: the mass of the half-t that the factor leaves is divided out."""
        constant = log(2.0 / (pi * sqrt(3.0) * self.scale)) - 0.5 * log(2.0 * pi)
        x = (jnp.square(value) + self.floor**2) / (6.0 * self.scale**2)
        return constant - log(kept_mass(self.floor / self.scale)) + log_bracket(x)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        of_scale, of_place, of_value = jax.random.split(key, 3)
        shape = (CANDIDATES, *sample_shape)
        sigma = self.scale * jnp.abs(jax.random.t(of_scale, 3.0, shape))
        kept = jax.random.uniform(of_place, shape) < jnp.exp(-0.5 * (self.floor / sigma) ** 2)
        chosen = jnp.take_along_axis(sigma, kept.argmax(axis=0)[None], axis=0)[0]
        return jnp.asarray(chosen * jax.random.normal(of_value, sample_shape))


@lru_cache
def kept_mass(floor: float) -> float:
    """Integral of half-t(3, 0, 1)(u) exp(-floor^2/(2 u^2)) du, by quadrature in log u."""

    def part(log_u: float) -> float:
        u = exp(log_u)
        return float(2.0 * stats.t.pdf(u, 3) * exp(-0.5 * (floor / u) ** 2) * u)

    return float(sum(quad(part, a, a + 2, epsabs=0)[0] for a in range(-16, 16, 2)))


@jax.custom_jvp
def log_bracket(x: Array) -> Array:
    """log((1 + x) e^x E_1(x) - 1) for x >= 0."""
    x = jnp.maximum(x, TINY)
    return jnp.log((1.0 + x) * scaled_e1(x) - 1.0)


@log_bracket.defjvp
def _log_bracket_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """h = e^x E_1(x) has h' = h - 1/x; nothing of the series need be differentiated."""
    x = jnp.maximum(primals[0], TINY)
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
