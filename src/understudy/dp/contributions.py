"""The five contributions: what one record adds to the log density that is sampled.

    log prior(theta) + sum_i contribution_i(theta)            (T §1.4.1, C eq. 2.3 and 3.6)

Each function maps record log-likelihoods f_i(theta), shape (..., records), to contributions
of the same shape. They are pure jax.numpy: no state, no checks of traced values.

Where records belong to units (households), a unit's contributions are summed before they are
clipped: then it is the unit that adds at most M, however many records it has.

Two edges are settled here, because a sampler meets both:
- alpha = 0 is legal (a record with an infinite bound) and means "contributes nothing", also
  where f is infinite or NaN: 0 * inf is never computed, neither in the value nor in the
  gradient (the inner `where` hides f from the product).
- Under a clip, f = -inf contributes -M with gradient 0. So does NaN: a clipped contribution
  lies in [-M, M] for every record that anyone could put into the file, or there is no claim.

Reverse mode multiplies the zero that leaves here by the model's own derivative, so a model
must not compute an infinite derivative where f is infinite (0 * inf = NaN again).
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from understudy.claim import checked_epsilon
from understudy.errors import Refused


def unweighted(record_loglik: ArrayLike) -> Array:
    """f_i: the posterior itself (C §2.1, all alpha_i = 1)."""
    return jnp.asarray(record_loglik)


def weighted(record_loglik: ArrayLike, alpha: ArrayLike) -> Array:
    """alpha_i f_i: the pseudo posterior (C eq. 2.3); a record with alpha_i = 0 adds 0."""
    loglik, alpha = jnp.asarray(record_loglik), jnp.asarray(alpha)
    used = alpha > 0
    return jnp.where(used, alpha * jnp.where(used, loglik, 0.0), 0.0)


def truncated(record_loglik: ArrayLike, alpha_star: ArrayLike) -> Array:
    """alpha*_i f_i: Weighted-e (C §2.2); alpha* comes from `record_weights.truncate_weights`."""
    return weighted(record_loglik, alpha_star)


def censored(record_loglik: ArrayLike, alpha: ArrayLike, M: ArrayLike) -> Array:
    """clip(alpha_i f_i, -M, M): the censored likelihood (C eq. 3.5); alpha = 1 is Censor_uw."""
    return _clip(weighted(record_loglik, alpha), M)


def reference_censored(
    record_loglik: ArrayLike,
    reference_loglik: ArrayLike,
    alpha: ArrayLike,
    M: ArrayLike,
    units: ArrayLike | None = None,
) -> Array:
    """clip(alpha_i (f_i(theta) - f_i(theta_ref)), -M, M) (methods §3; docs/proofs).

    `reference_loglik` is f_i(theta_ref), shape (records,). A record that is impossible under
    theta_ref (-inf) contributes M wherever it is possible and -M where it is not. With `units`,
    the sum over a unit's records is clipped, and stands at the unit's number.
    """
    gain = jnp.asarray(record_loglik) - jnp.asarray(reference_loglik)
    return _clip(by_unit(weighted(gain, alpha), units), M)


def by_unit(contributions: ArrayLike, units: ArrayLike | None) -> Array:
    """Sums over the records of each unit, (..., records): unit u's stands at u, the rest is 0.

    `units` (records,) numbers the units from 0 on; None makes each record its own.
    """
    each = jnp.asarray(contributions)
    if units is None:
        return each
    return jnp.zeros_like(each).at[..., jnp.asarray(units)].add(each)


def _clip(contribution: Array, M: ArrayLike) -> Array:
    known = jnp.where(jnp.isnan(contribution), -jnp.inf, contribution)
    return jnp.clip(known, -jnp.asarray(M), jnp.asarray(M))


def clip_bound(epsilon: float, draws: int = 1) -> float:
    """The largest double M with 2 * draws * M <= epsilon, in exact arithmetic.

    M = epsilon / (2 draws) for `draws` posterior draws under the relation `blank` (C eq. 3.5
    with draws = 1). Rounded down, so that the printed epsilon is never exceeded by a rounding.
    """
    epsilon = checked_epsilon(epsilon)
    if draws < 1:
        raise Refused("At least one posterior draw is needed to make a data set.")
    bound = epsilon / (2 * draws)
    while 2 * draws * Fraction(bound) > Fraction(epsilon):
        bound = nextafter(bound, -inf)
    return bound
