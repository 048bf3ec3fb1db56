"""A covariance matrix by its standard deviations and correlations, in a sampler's coordinates."""

from __future__ import annotations

from math import log

import jax.numpy as jnp
from jax import Array
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to

CONCENTRATION = 6.0  # of the LKJ prior of correlations (T appendix C)
_CORRELATION = biject_to(constraints.corr_cholesky)


def covariance_position(Sigma: Array) -> tuple[Array, Array]:
    """Logarithms of the standard deviations, and the free numbers of the correlations."""
    scale, correlation = _scale_and_correlation(Sigma)
    return jnp.log(scale), _free(correlation)


def covariance_volume(Sigma: Array) -> Array:
    """log |dSigma / d position|: Sigma_jk = s_j s_k R_jk gives 2^d prod s^d, log s one s more,
    R = LL' prod L_kk^(d-k), and L what its free numbers give."""
    scale, correlation = _scale_and_correlation(Sigma)
    d = scale.shape[0]
    volume = d * log(2.0) + (d + 1) * jnp.log(scale).sum()
    if d > 1:
        powers = jnp.arange(d - 1, -1, -1)
        volume += (powers * jnp.log(jnp.diagonal(correlation))).sum()
        volume += _CORRELATION.log_abs_det_jacobian(_free(correlation), correlation)
    return jnp.asarray(volume)


def _scale_and_correlation(Sigma: Array) -> tuple[Array, Array]:
    """Standard deviations and the Cholesky factor of the correlation matrix."""
    scale = jnp.sqrt(jnp.diagonal(Sigma))
    return scale, jnp.linalg.cholesky(Sigma / jnp.outer(scale, scale))


def _free(correlation: Array) -> Array:
    return _CORRELATION.inv(correlation) if len(correlation) > 1 else jnp.zeros(0)
