"""log_gamma and digamma against SciPy over sixty orders of magnitude."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

import understudy.models.contract  # noqa: F401 (turns on double precision)
from understudy.models.log_gamma import digamma, log_gamma

X = np.exp(np.linspace(np.log(1e-30), np.log(1e15), 20_001))


def test_log_gamma_is_scipys() -> None:
    expected = scipy.special.gammaln(X)
    error = np.abs(np.asarray(log_gamma(X)) - expected) / np.maximum(1.0, np.abs(expected))
    assert error.max() < 2e-14


def test_digamma_is_scipys() -> None:
    expected = scipy.special.digamma(X)
    error = np.abs(np.asarray(digamma(X)) - expected) / np.maximum(1.0, np.abs(expected))
    assert error.max() < 2e-14


def test_the_derivative_of_log_gamma_is_digamma() -> None:
    points = jnp.asarray([0.03, 0.7, 1.0, 2.0, 9.5, 250.0])
    derivative = jax.vmap(jax.grad(log_gamma))(points)
    np.testing.assert_allclose(derivative, scipy.special.digamma(points), rtol=1e-13, atol=1e-13)
