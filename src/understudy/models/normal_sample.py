"""FBS, fully Bayes for the observed sample (T §2.1): (log y, log w) jointly normal given x.

    (log y_1, ..., log y_p, log w)_i ~ N(x_i B, Sigma)                               (T eq. 2)

Priors of T appendix C: each coefficient normal with a half-t(3, 0, 10) scale (integrated out, and
kept from 0; models/scale_mixture.py), the standard deviations of Sigma half-t(3, 0, 10), its
correlations LKJ(6). T also gives the coefficients a correlation matrix with an LKJ(6) prior; two
vectors say next to nothing about it, and it is the identity here.

A synthetic weight is the smoothed one, exp(E[log w | y*]) (T §2.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import Array

from understudy.models.balanced import balanced_normals
from understudy.models.covariance import CONCENTRATION, covariance_position, covariance_volume
from understudy.models.gaussian import normal_loglik
from understudy.models.scale_mixture import HalfTScaleNormal
from understudy.models.survey_normal import SurveyNormal

PRIOR_SCALE = 10.0
SCALE_FLOOR = 0.1  # scales of coefficients far below this are left out


@dataclass(frozen=True)
class FBS(SurveyNormal):
    """`FBS("salary", "field + gender")`, or several outcomes: `FBS(["salary", "bonus"], ...)`."""

    generates_from_records = False
    describes = "sample"
    deepest_tree = 10

    def function(self, X: Any, cell: Any, w: Any = None, **outcomes: Any) -> None:
        n, K = X.shape
        d = len(self.targets)
        own_scale = HalfTScaleNormal(PRIOR_SCALE, SCALE_FLOOR).expand([K, d]).to_event(2)
        B = numpyro.sample("coefficients", own_scale)
        half_t = dist.FoldedDistribution(dist.StudentT(3.0, 0.0, PRIOR_SCALE))
        scale = numpyro.sample("scale", half_t.expand([d]).to_event(1))
        correlation = numpyro.sample("correlation", dist.LKJCholesky(d, CONCENTRATION))
        factor = scale[:, None] * correlation
        with numpyro.plate("record", n):
            if w is not None:
                Y = jnp.stack([*(outcomes[name] for name in self.targets[:-1]), w], axis=1)
                numpyro.factor("sample", normal_loglik(Y, X, B, factor))
                return
        mean = X @ B
        y = mean[:, :-1] + self._deviates(cell, d - 1) @ factor[:-1, :-1].T
        for k, name in enumerate(self.targets[:-1]):
            numpyro.deterministic(name, y[:, k])
        numpyro.deterministic("w", _smoothed_log_weight(y, mean, factor))

    def _deviates(self, cell: Any, columns: int) -> Array:
        key = numpyro.prng_key()
        if self.tables == "paper":
            return jax.random.normal(key, (cell.shape[0], columns))
        return balanced_normals(key, cell, columns)

    def position(self, B: Array, Sigma: Array) -> Array:
        return jnp.concatenate([B.ravel(), *covariance_position(Sigma)])

    def log_volume(self, B: Array, Sigma: Array) -> Array:  # noqa: ARG002
        return covariance_volume(Sigma)


def _smoothed_log_weight(outcomes: Array, mean: Array, factor: Array) -> Array:
    """E[log w | y] = mu_w + S_wy S_yy^-1 (y - mu_y) (T §2.1), with Sigma = F F'."""
    Sigma = factor @ factor.T
    slope = jnp.linalg.solve(Sigma[:-1, :-1], Sigma[:-1, -1])
    return jnp.asarray(mean[:, -1] + (outcomes - mean[:, :-1]) @ slope)
