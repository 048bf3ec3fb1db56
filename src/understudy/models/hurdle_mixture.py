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
HALF_LOG_TWO_PI = 0.9189385332046727


class HurdleMixture(dist.Distribution):  # type: ignore[misc]
    """One value per record. `given` are the confidential values from which components are drawn
    in R's way (eq. 7); without them components are drawn from pi. `sign` keeps each record's
    category where that is public; without it, categories are drawn. `largest` are the sizes of
    the declared bounds (of a positive, of a negative value): drawn sizes stay below them."""

    support = constraints.real

    def __init__(
        self,
        mean: Array,
        sigma: Array,
        log_share: Array,
        zero: Array,
        negative: Array,
        loss: tuple[Array, Array],
        centre: Array,
        largest: Array,
        sign: Array | None = None,
        given: Array | None = None,
    ) -> None:
        self.means, self.sigma, self.log_share = mean, sigma, log_share
        self.zero, self.negative, self.loss = zero, negative, loss
        self.centre, self.largest, self.sign, self.given = centre, largest, sign, given
        super().__init__(batch_shape=(mean.shape[1],), event_shape=())

    def log_prob(self, value: Array) -> Array:
        size = self._size(value)
        positive = mixture_log_density(size, self.means, self.sigma, self.log_share)
        centre, spread = self.loss
        negative = dist.Normal(centre, spread).log_prob(size)
        zero = jnp.zeros_like(positive)
        if self.sign is None:
            positive = positive + jnp.log1p(-self.zero - self.negative)
            # a category that is declared impossible has probability 0 only where it is met
            negative = negative + jnp.log(jnp.where(value < 0, self.negative, 1.0))
            zero = jnp.log(jnp.where(value == 0, self.zero, 1.0))
        return jnp.where(value > 0, positive, jnp.where(value < 0, negative, zero))

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:  # noqa: ARG002
        of_category, of_component, of_size, of_loss = jax.random.split(key, 4)
        n = self.batch_shape[0]
        component = jax.random.categorical(of_component, self._component_logits(), axis=0)
        mean = jnp.take_along_axis(self.means, component[None], axis=0)[0]
        size = normal_below(of_size, mean, self.sigma[component], self.largest[0])
        loss = normal_below(of_loss, self.loss[0] + jnp.zeros(n), self.loss[1], self.largest[1])
        sign = self._signs(of_category) if self.sign is None else self.sign
        return jnp.asarray(sign * jnp.exp(self.centre + jnp.where(sign < 0, loss, size)))

    def _signs(self, key: Array) -> Array:
        uniform = jax.random.uniform(key, self.batch_shape)
        not_negative = jnp.where(uniform < self.negative + self.zero, 0.0, 1.0)
        return jnp.where(uniform < self.negative, -1.0, not_negative)

    def _component_logits(self) -> Array:
        """log of pi_k, times the density of the record's own positive value where it is given."""
        prior = jnp.broadcast_to(self.log_share[:, None], self.means.shape)
        if self.given is None:
            return prior
        z = (self._size(self.given) - self.means) / self.sigma[:, None]
        posterior = prior - jnp.log(self.sigma)[:, None] - 0.5 * z * z
        return jnp.where(self.given > 0, posterior, prior)

    def _size(self, value: Array) -> Array:
        return jnp.log(jnp.where(value == 0, 1.0, jnp.abs(value))) - self.centre


def normal_below(key: Array, mean: Array, sigma: Array, largest: Array) -> Array:
    """N(mean, sigma^2) cut off above `largest`, by the inverse distribution function."""
    mass = jnp.maximum(ndtr((largest - mean) / sigma), 1e-12)
    uniform = jax.random.uniform(key, mean.shape, minval=1e-16)
    return jnp.minimum(mean + sigma * ndtri(uniform * mass), largest)


def mixture_log_density(size: Array, mean: Array, sigma: Array, log_share: Array) -> Array:
    """log sum_k pi_k N(size_i; mean_ki, sigma_k^2), (n,); single precision inside."""
    single = jnp.float32
    scale = (1.0 / sigma).astype(single)[:, None]
    z = (size.astype(single)[None] - mean.astype(single)) * scale
    constant = (log_share - jnp.log(sigma) - HALF_LOG_TWO_PI).astype(single)[:, None]
    return jax.nn.logsumexp(constant - 0.5 * z * z, axis=0).astype(jnp.float64)


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
        # a t beyond `low` by rejection: the floor is small, so a few tries suffice
        tries = jnp.abs(jax.random.t(key, 3.0, (64, *sample_shape, *self.batch_shape)))
        first = jnp.argmax(tries > self.low, axis=0)
        found = jnp.take_along_axis(tries, first[None], axis=0)[0]
        return jnp.asarray(jnp.maximum(found, self.low * (1 + 1e-6)))
