"""The density of one income: a category (positive, zero, negative) and a size (R supplement §1).

    P(zero) = zero_i,  P(negative) = negative,  P(positive) = 1 - zero_i - negative
    log y      | positive ~ sum_k pi_k N(mean_ki, sigma_k^2)   (R supplement eq. 1-3)
    log(-y)    | negative ~ N(loss_mean, loss_sigma^2)

Sizes are log |y| less a constant `centre`; densities are with respect to that size, and a zero
has its probability alone. The components lie in rows (K, n) and are evaluated in single
precision, which is several times faster; the records' log-likelihoods are doubles again, so that
their sum over n records keeps its digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gamma, inf, log, pi, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import ndtr, ndtri
from numpyro.distributions import constraints
from scipy.stats import t as student_t

LARGEST_SIZE = 20.0  # without declared bounds: exp(20) times a typical income
TRIES = 16  # of which the first above the floor of a half-t is taken
HALF_LOG_TWO_PI = 0.9189385332046727
SINGLE = jnp.float32


@dataclass(frozen=True)
class Hurdle:
    """P(zero | not negative) by group (G,), the groups (n, G), and P(negative)."""

    at_zero: Array
    groups: Array
    negative: Array

    @property
    def zero(self) -> Array:
        """P(zero) of each record, (n,)."""
        return (1.0 - self.negative) * (self.groups @ self.at_zero)

    def log_shares(self) -> tuple[Array, Array, Array]:
        """log P(positive), log P(zero), (n,), and log P(negative); logarithms by group, not by
        record. Where losses are declared impossible (negative = 0), a loss has -inf."""
        not_negative = jnp.log1p(-self.negative)
        positive = self.groups @ jnp.log1p(-self.at_zero) + not_negative
        zero = self.groups @ jnp.log(self.at_zero) + not_negative
        possible = self.negative > 0
        of_negative = jnp.where(possible, jnp.log(jnp.where(possible, self.negative, 1.0)), -inf)
        return positive, zero, of_negative


class HurdleMixture(dist.Distribution):  # type: ignore[misc]
    """One value per record. `given` are the confidential values from which components are drawn
    in R's way (eq. 7); without them components are drawn from pi. `sign` keeps each record's
    category where that is public; without it, categories are drawn. `largest` are the sizes of
    the declared bounds (of a positive, of a negative value): drawn sizes stay below them."""

    support = constraints.real

    def __init__(
        self,
        theta: Array,
        sigma: Array,
        log_share: Array,
        hurdle: Hurdle,
        loss: tuple[Array, Array],
        centre: Array,
        largest: Array,
        rows: Array,
        sign: Array | None = None,
        confidential: Array | None = None,
    ) -> None:
        self.theta, self.sigma, self.log_share, self.rows = theta, sigma, log_share, rows
        self.hurdle, self.loss = hurdle, loss
        self.centre, self.largest, self.sign = centre, largest, sign
        self.confidential = confidential
        super().__init__(batch_shape=(rows.shape[1],), event_shape=())

    def log_prob(self, value: Array) -> Array:
        size = self._size(value)
        positive = mixture_log_density(self.theta, self.sigma, self.log_share, size, self.rows)
        centre, spread = self.loss
        negative = dist.Normal(centre, spread).log_prob(size)
        zero = jnp.zeros_like(positive)
        if self.sign is None:
            of_positive, of_zero, of_negative = self.hurdle.log_shares()
            positive, zero, negative = positive + of_positive, of_zero, negative + of_negative
        return jnp.where(value > 0, positive, jnp.where(value < 0, negative, zero))

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:  # noqa: ARG002
        of_category, of_component, of_size, of_loss = jax.random.split(key, 4)
        n = self.batch_shape[0]
        means = self.theta @ self.rows
        component = jax.random.categorical(of_component, self._component_logits(means), axis=0)
        mean = jnp.take_along_axis(means, component[None], axis=0)[0]
        size = normal_below(of_size, mean, self.sigma[component], self.largest[0])
        loss = normal_below(of_loss, self.loss[0] + jnp.zeros(n), self.loss[1], self.largest[1])
        sign = self._signs(of_category) if self.sign is None else self.sign
        return jnp.asarray(sign * jnp.exp(self.centre + jnp.where(sign < 0, loss, size)))

    def _signs(self, key: Array) -> Array:
        uniform = jax.random.uniform(key, self.batch_shape)
        negative, zero = self.hurdle.negative, self.hurdle.zero
        not_negative = jnp.where(uniform < negative + zero, 0.0, 1.0)
        return jnp.where(uniform < negative, -1.0, not_negative)

    def _component_logits(self, means: Array) -> Array:
        """log of pi_k, times the density of the record's own positive value where it is given."""
        prior = jnp.broadcast_to(self.log_share[:, None], means.shape)
        if self.confidential is None:
            return prior
        z = (self._size(self.confidential) - means) / self.sigma[:, None]
        posterior = prior - jnp.log(self.sigma)[:, None] - 0.5 * z * z
        return jnp.where(self.confidential > 0, posterior, prior)

    def _size(self, value: Array) -> Array:
        return jnp.log(jnp.where(value == 0, 1.0, jnp.abs(value))) - self.centre


def normal_below(key: Array, mean: Array, sigma: Array, largest: Array) -> Array:
    """N(mean, sigma^2) cut off above `largest`, by the inverse distribution function."""
    mass = jnp.maximum(ndtr((largest - mean) / sigma), 1e-12)
    uniform = jax.random.uniform(key, mean.shape, minval=1e-16)
    return jnp.minimum(mean + sigma * ndtri(uniform * mass), largest)


@jax.custom_jvp
def mixture_log_density(
    theta: Array, sigma: Array, log_share: Array, size: Array, rows: Array
) -> Array:
    """log sum_k pi_k N(size_i; theta_k q_i, sigma_k^2), (n,); single precision inside.

    `rows` are the columns of all records lying down, (R, n). Only the parameters have a
    derivative; it is written out, because with the responsibilities r_ki, which the value has
    computed anyway, it is one product: d value_i = sum_k r_ki d log(pi_k N_ki).
    """
    return _value_and_shares(theta, sigma, log_share, size, rows)[0]


@mixture_log_density.defjvp
def _mixture_log_density_jvp(
    primals: tuple[Array, ...], tangents: tuple[Array, ...]
) -> tuple[Array, Array]:
    sigma, rows = primals[1], primals[4].astype(SINGLE)
    value, responsibility, z = _value_and_shares(*primals)
    d_theta, d_sigma, d_log_share = tangents[:3]
    by_sigma = d_sigma / sigma
    # d log N = z d theta q / sigma + (z^2 - 1) d sigma / sigma
    along = (d_theta / sigma[:, None]).astype(SINGLE) @ rows + z * _column(by_sigma)
    joint = _column(d_log_share - by_sigma) + z * along
    return value, (responsibility * joint).sum(axis=0).astype(jnp.float64)


def _value_and_shares(
    theta: Array, sigma: Array, log_share: Array, size: Array, rows: Array
) -> tuple[Array, Array, Array]:
    """The log density (n,), the responsibilities and the standardised residuals, (K, n)."""
    mean = theta.astype(SINGLE) @ rows.astype(SINGLE)
    z = (size.astype(SINGLE) - mean) * _column(1.0 / sigma)
    joint = _column(log_share - jnp.log(sigma) - HALF_LOG_TWO_PI) - 0.5 * z * z
    top = joint.max(axis=0)
    part = jnp.exp(joint - top)
    total = part.sum(axis=0)
    return (top + jnp.log(total)).astype(jnp.float64), part / total, z


def _column(by_component: Array) -> Array:
    return by_component.astype(SINGLE)[:, None]


class HalfT(dist.Distribution):  # type: ignore[misc]
    """Student t with 3 degrees of freedom and scale 1, above `low` >= 0.

    R's half-t for scales. A floor above 0 is needed where ties would let a component's sigma go
    to 0 and its density to infinity.
    """

    def __init__(self, low: float, shape: tuple[int, ...] = ()) -> None:
        self.low = low
        mass = float(student_t.sf(low, 3))
        constant = gamma(2.0) / (sqrt(3 * pi) * gamma(1.5)) / mass
        self.log_constant = log(constant)
        super().__init__(batch_shape=shape, event_shape=())

    @property
    def support(self) -> Any:
        return constraints.greater_than(self.low)

    def log_prob(self, value: Array) -> Array:
        return jnp.where(
            value > self.low, self.log_constant - 2.0 * jnp.log1p(value * value / 3.0), -inf
        )

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        # a t beyond `low` by rejection: floors are small (all tries below 0.2: 4e-14)
        tries = jnp.abs(jax.random.t(key, 3.0, (TRIES, *sample_shape, *self.batch_shape)))
        first = jnp.argmax(tries > self.low, axis=0)
        draw = jnp.take_along_axis(tries, first[None], axis=0)[0]
        return jnp.asarray(jnp.maximum(draw, self.low * (1 + 1e-6)))
