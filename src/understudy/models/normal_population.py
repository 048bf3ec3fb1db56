"""FBP, fully Bayes for the population (T §2.2): the exact likelihood of the observed sample.

Population: log y_i ~ N(x_i beta, sigma_y^2), log pi_i ~ N(kappa_y log y_i + x_i kappa_x,
sigma_pi^2) (T eq. 4 and 5). In the sample (T eq. 6, with l = log pi):

    f_i = log N(l_i; kappa_y y_i + x_i kappa_x, sigma_pi^2) + log N(y_i; x_i beta, sigma_y^2)
          - x_i kappa_x - sigma_pi^2/2 - kappa_y x_i beta - kappa_y^2 sigma_y^2/2

This is FBS in other coordinates: f_i = log N((y_i, l_i); x_i B, Sigma) - l_i, with
S_yy = sigma_y^2, S_yl = kappa_y sigma_y^2, S_ll = sigma_pi^2 + kappa_y^2 sigma_y^2,
B_y = beta + e0 S_yl, B_l = kappa_x + kappa_y beta + e0 S_ll (methods §4). The constant -l makes
the bound depend on the unit of the weights, which is N/n.

Priors of T appendix D: N(0, 100) for beta, kappa_y and kappa_x, half-Cauchy(1) for both sigmas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, pi
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import Array

from understudy.errors import Refused
from understudy.models.balanced import balanced_normals
from understudy.models.survey_normal import SurveyNormal

PRIOR_SCALE = 10.0


@dataclass(frozen=True)
class FBP(SurveyNormal):
    """`FBP("salary", "field + gender")`."""

    generates_from_records = False
    deepest_tree = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.outcomes) > 1:
            raise Refused("FBP has one outcome (T §2.3); use FBS for several.")

    def function(self, X: Any, cell: Any, y0: Any = None, w: Any = None) -> None:
        n, K = X.shape
        normal = dist.Normal(0.0, PRIOR_SCALE)
        beta = numpyro.sample("beta", normal.expand([K]).to_event(1))
        kappa_y = numpyro.sample("kappa_y", normal)
        kappa_x = numpyro.sample("kappa_x", normal.expand([K]).to_event(1))
        sigma_y = numpyro.sample("sigma_y", dist.HalfCauchy(1.0))
        sigma_pi = numpyro.sample("sigma_pi", dist.HalfCauchy(1.0))
        mean, design = X @ beta, X @ kappa_x
        with numpyro.plate("record", n):
            if y0 is not None and w is not None:
                f = exact_loglik(y0, -w, mean, design, kappa_y, sigma_y, sigma_pi)
                numpyro.factor("sample", f)
                return
        key = numpyro.prng_key()
        if self.tables == "paper":
            y = mean + sigma_y * jax.random.normal(key, (n,))
            log_weight = -kappa_y * y  # T §2.2: the kappa_y y component only
        else:
            y = mean + sigma_y * balanced_normals(key, cell, 1)[:, 0]
            # 1/E[pi | x], the same for all records of a cell: y is the population's already
            log_weight = -(design + kappa_y * mean)
        numpyro.deterministic("y0", y)
        numpyro.deterministic("w", log_weight)

    def gaussian_data(self, arrays: Mapping[str, Any]) -> tuple[Array, Array]:
        X, Y = super().gaussian_data(arrays)
        return X, Y * jnp.array([1.0, -1.0])  # log pi = -log w

    def position(self, B: Array, Sigma: Array) -> Array:
        y, yl, ll = Sigma[0, 0], Sigma[0, 1], Sigma[1, 1]
        kappa_y = yl / y
        beta = B[:, 0].at[0].add(-yl)
        kappa_x = (B[:, 1] - kappa_y * beta).at[0].add(-ll)
        spread = jnp.array([0.5 * jnp.log(y), 0.5 * jnp.log(ll - kappa_y * yl)])
        return jnp.concatenate([beta, kappa_y[None], kappa_x, spread])

    def log_volume(self, B: Array, Sigma: Array) -> Array:  # noqa: ARG002
        """Given Sigma, B is a shift of (beta, kappa_x); Sigma itself gives 4 s_y^4 s_pi^2."""
        y, yl, ll = Sigma[0, 0], Sigma[0, 1], Sigma[1, 1]
        return log(4.0) + 2.0 * jnp.log(y) + jnp.log(ll - yl**2 / y)


def exact_loglik(
    y: Array,
    log_pi: Array,
    mean: Array,
    design: Array,
    kappa_y: Array,
    sigma_y: Array,
    sigma_pi: Array,
) -> Array:
    """T eq. 6 for all records (n,): mean = x beta, design = x kappa_x."""
    of_y = jnp.square((y - mean) / sigma_y)
    of_l = jnp.square((log_pi - kappa_y * y - design) / sigma_pi)
    shift = design + kappa_y * mean + 0.5 * (sigma_pi**2 + (kappa_y * sigma_y) ** 2)
    return -0.5 * (of_y + of_l) - jnp.log(sigma_y * sigma_pi) - log(2 * pi) - shift
