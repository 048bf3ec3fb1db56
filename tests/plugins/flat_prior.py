"""Draws of (B, Sigma) of a bivariate regression under the flat prior, by NumPy, and what weighs
them: FBS's prior written with SciPy. Weighted, they are an exact reference for its posteriors."""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy.stats
from monte_carlo import Matrix

FLAT_DRAWS = 400_000


def flat_draws(X: Matrix, Y: Matrix, alpha: Matrix, m: int = FLAT_DRAWS) -> tuple[Matrix, Matrix]:
    """B (m, K, 2) and Sigma (m, 2, 2) under the flat prior, by NumPy. An inverse Wishart of two
    dimensions is put together from independent parts: a variance, a slope, a residual variance."""
    rng = np.random.default_rng(4)
    K = X.shape[1]
    XX = (X.T * alpha) @ X
    centre = np.linalg.solve(XX, (X.T * alpha) @ Y)
    R = ((Y - X @ centre).T * alpha) @ (Y - X @ centre)
    freedom = alpha.sum() - K
    first = R[0, 0] / rng.chisquare(freedom - 1, m)
    left = (R[1, 1] - R[0, 1] ** 2 / R[0, 0]) / rng.chisquare(freedom, m)
    slope = R[0, 1] / R[0, 0] + np.sqrt(left / R[0, 0]) * rng.standard_normal(m)
    Sigma = np.stack([first, slope * first, slope * first, left + slope**2 * first], axis=1)
    rows = np.linalg.cholesky(np.linalg.inv(XX)) @ rng.standard_normal((m, K, 2))
    factor = np.linalg.cholesky(Sigma.reshape(m, 2, 2))
    return centre + rows @ factor.transpose(0, 2, 1), Sigma.reshape(m, 2, 2)


@cache
def scale_mixture_grid() -> tuple[Matrix, Matrix]:
    """N(0, s^2) with s half-t(3, 0, 10) kept from 0 by exp(-(0.1 / s)^2 / 2), summed over s: the
    logarithms of beta and of its density."""
    s = np.geomspace(1e-4, 1e5, 4001)
    mass = scipy.stats.t.pdf(s, 3, scale=10) * np.exp(-0.5 * (0.1 / s) ** 2) * s
    grid = np.geomspace(1e-5, 1e4, 2001)
    density = np.exp(-0.5 * (grid[:, None] / s) ** 2) @ (mass / s / np.sqrt(2 * np.pi))
    return np.log(grid), np.log(density)


def log_scale_mixture(beta: Matrix) -> Matrix:
    return np.asarray(np.interp(np.log(np.abs(beta)), *scale_mixture_grid()))


def fbs_reference(B: Matrix, Sigma: Matrix) -> tuple[Matrix, Matrix]:
    """B, log scales and artanh rho of each draw; log prior of (B, Sigma), T appendix C."""
    scale = np.sqrt(np.diagonal(Sigma, axis1=1, axis2=2))
    rho = Sigma[:, 0, 1] / scale.prod(axis=1)
    log_prior = log_scale_mixture(B).sum(axis=(1, 2))
    log_prior += scipy.stats.t.logpdf(scale, 3, scale=10).sum(axis=1) + 5 * np.log1p(-(rho**2))
    log_prior -= 2 * np.log(scale).sum(axis=1)  # dSigma = 4 s1^2 s2^2 ds1 ds2 drho
    return np.c_[B.reshape(len(B), -1), np.log(scale), np.arctanh(rho)], log_prior


def fbs_numbers(draws: dict[str, Matrix]) -> Matrix:
    B, scale = draws["coefficients"], draws["scale"]
    rho = draws["correlation"][..., 1, 0]
    flat = B.reshape(*B.shape[:2], -1)
    return np.concatenate([flat, np.log(scale), np.arctanh(rho)[..., None]], axis=2)
