"""FBP, fully Bayes for the population (T §2.2): the exact likelihood of the observed sample.

Population: log y_i ~ N(x_i beta, Sigma_y), log pi_i ~ N(log y_i kappa_y + x_i kappa_x, sigma_pi^2)
(T eq. 4 and 5; several outcomes as T §5 has them). In the sample (T eq. 6, with y and l = log pi in
logarithms):

    f_i = log N(l_i; y_i kappa_y + x_i kappa_x, sigma_pi^2) + log N(y_i; x_i beta, Sigma_y)
          - x_i kappa_x - sigma_pi^2/2 - x_i beta kappa_y - kappa_y' Sigma_y kappa_y/2

This is FBS in other coordinates: f_i = log N((y_i, l_i); x_i B, Sigma) - l_i, with
S_yy = Sigma_y, S_yl = Sigma_y kappa_y, S_ll = sigma_pi^2 + kappa_y' Sigma_y kappa_y,
B_y = beta + e0 S_yl', B_l = kappa_x + beta kappa_y + e0 S_ll (methods §4). The constant -l makes
the bound depend on the unit of the weights, which is N/n.

Priors of T appendix D: N(0, 100) for beta, kappa_y and kappa_x, half-Cauchy(1) for all standard
deviations. Correlations of several outcomes are LKJ(6), as those of FBS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, pi
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.scipy.linalg import solve_triangular
from numpy.typing import NDArray

from understudy.models.balanced import balanced_normals
from understudy.models.covariance import CONCENTRATION, covariance_position, covariance_volume
from understudy.models.survey_normal import SurveyNormal

PRIOR_SCALE = 10.0


@dataclass(frozen=True)
class FBP(SurveyNormal):
    """`FBP("salary", "field + gender")`, or several outcomes, as FBS has them."""

    generates_from_records = False
    describes = "population"
    deepest_tree = 10

    def function(self, X: Any, cell: Any, w: Any = None, **outcomes: Any) -> None:
        n, K = X.shape
        p = len(self.outcomes)
        normal = dist.Normal(0.0, PRIOR_SCALE)
        beta = numpyro.sample("beta", normal.expand([K, p]).to_event(2))
        kappa_y = numpyro.sample("kappa_y", normal.expand([p]).to_event(1))
        kappa_x = numpyro.sample("kappa_x", normal.expand([K]).to_event(1))
        sigma_y = numpyro.sample("sigma_y", dist.HalfCauchy(1.0).expand([p]).to_event(1))
        sigma_pi = numpyro.sample("sigma_pi", dist.HalfCauchy(1.0))
        factor = sigma_y[:, None] * (
            numpyro.sample("correlation", dist.LKJCholesky(p, CONCENTRATION))
            if p > 1
            else jnp.ones((1, 1))
        )
        mean, design = X @ beta, X @ kappa_x
        with numpyro.plate("record", n):
            if w is not None:
                y = jnp.stack([outcomes[name] for name in self.targets[:-1]], axis=1)
                f = exact_loglik(y, -w, mean, design, kappa_y, factor, sigma_pi)
                numpyro.factor("sample", f)
                return
        key = numpyro.prng_key()
        if self.tables == "paper":
            y = mean + jax.random.normal(key, (n, p)) @ factor.T
            log_weight = -y @ kappa_y  # T §2.2: the kappa_y y component only
        else:
            y = mean + balanced_normals(key, cell, p) @ factor.T
            # 1/E[pi | x], the same for all records of a cell: y is the population's already
            log_weight = -(design + mean @ kappa_y)
        for k, name in enumerate(self.targets[:-1]):
            numpyro.deterministic(name, y[:, k])
        numpyro.deterministic("w", log_weight)

    def gaussian_values(self, arrays: Mapping[str, Any]) -> list[NDArray[np.float64]]:
        *outcomes, log_weight = super().gaussian_values(arrays)
        return [*outcomes, -log_weight]  # log pi = -log w

    def position(self, B: Array, Sigma: Array) -> Array:
        Sigma_y, yl, ll = Sigma[:-1, :-1], Sigma[:-1, -1], Sigma[-1, -1]
        kappa_y = jnp.linalg.solve(Sigma_y, yl)
        beta = B[:, :-1].at[0].add(-yl)
        kappa_x = (B[:, -1] - beta @ kappa_y).at[0].add(-ll)
        log_scale, correlations = covariance_position(Sigma_y)
        log_sigma_pi = 0.5 * jnp.log(ll - yl @ kappa_y)
        coefficients = [beta.ravel(), kappa_y, kappa_x]
        return jnp.concatenate([*coefficients, log_scale, log_sigma_pi[None], correlations])

    def log_volume(self, B: Array, Sigma: Array) -> Array:  # noqa: ARG002
        """Given Sigma, B is a shift of (beta, kappa_x); S_yl gives |Sigma_y|, S_ll 2 sigma_pi^2."""
        Sigma_y, yl, ll = Sigma[:-1, :-1], Sigma[:-1, -1], Sigma[-1, -1]
        left = ll - yl @ jnp.linalg.solve(Sigma_y, yl)
        volume = covariance_volume(Sigma_y) + jnp.linalg.slogdet(Sigma_y)[1]
        return jnp.asarray(volume + log(2.0) + jnp.log(left))


def exact_loglik(
    y: Array,
    log_pi: Array,
    mean: Array,
    design: Array,
    kappa_y: Array,
    factor: Array,
    sigma_pi: Array,
) -> Array:
    """T eq. 6 for all records (n,): mean = x beta, design = x kappa_x, Sigma_y = factor factor'."""
    inverse = solve_triangular(factor, jnp.eye(len(factor)), lower=True).T
    of_l = (log_pi - y @ kappa_y - design) / sigma_pi
    squares = jnp.square((y - mean) @ inverse).sum(axis=1) + jnp.square(of_l)
    constant = jnp.log(jnp.diagonal(factor)).sum() + jnp.log(sigma_pi)
    constant += 0.5 * (len(factor) + 1) * log(2 * pi)
    shift = design + mean @ kappa_y
    shift += 0.5 * (sigma_pi**2 + jnp.square(factor.T @ kappa_y).sum())
    return -0.5 * squares - constant - shift
