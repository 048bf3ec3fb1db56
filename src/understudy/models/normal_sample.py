"""FBS, fully Bayes for the observed sample (T §2.1): (log y, log w) jointly normal given x.

    (log y_1, ..., log y_p, log w)_i ~ N(x_i B, Sigma)                               (T eq. 2)

Priors of T appendix C: each coefficient normal with a half-t(3, 0, 10) scale (integrated out, and
kept from 0; models/scale_mixture.py), the standard deviations of Sigma half-t(3, 0, 10), its
correlations LKJ(6). T also gives the coefficients a correlation matrix with an LKJ(6) prior; two
vectors say next to nothing about it, and it is the identity here.

A synthetic weight is the smoothed one, exp(E[log w | y*]) (T §2.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.scipy.special import log_ndtr
from numpy.typing import NDArray
from numpyro.distributions import constraints

from understudy.models.balanced import balanced_normals
from understudy.models.clustered import clustered
from understudy.models.contract import Arrays, OutcomeModel
from understudy.models.covariance import CONCENTRATION, covariance_position, covariance_volume
from understudy.models.gaussian import normal_loglik
from understudy.models.piled import Piled
from understudy.models.piles import declared_piles
from understudy.models.scale_mixture import HalfTScaleNormal
from understudy.models.survey_normal import LEAST_SPREAD, SurveyNormal
from understudy.survey.survey import Survey

AWAY = 0.1  # of a chain's start from least squares, in standard deviations of a record
PRIOR_SCALE = 10.0
SCALE_FLOOR = 0.1  # scales of coefficients far below this are left out


class SampleDensity(dist.Distribution):  # type: ignore[misc]
    """N(x_i B, F F') of each record, with what is known of one outcome at or beyond a topcode."""

    support = constraints.real_vector

    def __init__(self, X: Array, B: Array, factor: Array) -> None:
        self.X, self.B, self.factor = X, B, factor
        super().__init__(batch_shape=X.shape[:1], event_shape=factor.shape[:1])

    def log_prob(self, value: Array) -> Array:
        return normal_loglik(value, self.X, self.B, self.factor)

    def log_rest(self, value: Array) -> Array:
        """The density of the weight alone."""
        scale = jnp.sqrt(jnp.square(self.factor[-1]).sum())
        return normal_loglik(value[:, -1:], self.X, self.B[:, -1:], scale[None, None])

    def log_tail(self, value: Array) -> Array:
        """That of the weight times P(log y >= value | weight)."""
        Sigma = self.factor @ self.factor.T
        slope = Sigma[0, 1] / Sigma[1, 1]
        left = value - self.X @ self.B
        beyond = (left[:, 0] - slope * left[:, 1]) / jnp.sqrt(Sigma[0, 0] - slope * Sigma[0, 1])
        return self.log_rest(value) + log_ndtr(-beyond)


@dataclass(frozen=True)
class FBS(SurveyNormal):
    """`FBS("salary", "field + gender")`, or several outcomes: `FBS(["salary", "bonus"], ...)`."""

    generates_from_records = False
    describes = "sample"
    deepest_tree = 10

    psu_intercepts: Annotated[
        bool, "Whether each primary sampling unit of the design has an intercept of its own."
    ] = False

    @property
    def needs_records(self) -> bool:  # type: ignore[override]
        """Intercepts of PSUs are drawn by gradients."""
        return self.psu_intercepts

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
                numpyro.sample("sample", SampleDensity(X, B, factor), obs=Y)
                return
        mean = X @ B
        y = mean[:, :-1] + self._deviates(cell, d - 1) @ factor[:-1, :-1].T
        for k, name in enumerate(self.targets[:-1]):
            numpyro.deterministic(name, y[:, k])
        numpyro.deterministic("w", _smoothed_log_weight(y, mean, factor))

    def for_survey(self, survey: Survey) -> OutcomeModel:
        """Piles of several outcomes are not known: their special values count as amounts."""
        bound = self.bound_to(survey)
        piles = declared_piles(survey.codebook.columns.get(self.outcomes[0]), logs=True)
        piles = piles if len(self.outcomes) == 1 else None
        if piles is not None and piles.top is not None and bound.limits[0] is not None:
            bound = replace(bound, limits=((bound.limits[0][0], inf),))  # beyond it: the topcode
        inner = clustered(bound, survey) if self.psu_intercepts else bound
        return inner if piles is None else Piled(inner, piles)

    def rough_start(
        self, arrays: Arrays, alpha: NDArray[np.float64], chain: int
    ) -> dict[str, Any] | None:
        """Least squares; each chain a little elsewhere."""
        X, Y = (np.asarray(part) for part in self.gaussian_data(arrays))
        root = np.sqrt(alpha)[:, None]
        B = np.linalg.lstsq(root * X, root * Y, rcond=None)[0]
        E = root * (Y - X @ B)
        scale = np.sqrt(np.square(E).sum(axis=0) / max(alpha.sum(), 1.0)) + LEAST_SPREAD
        away = np.random.default_rng(chain).normal(size=B.shape)
        correlation = np.eye(len(scale))
        return {
            "coefficients": B + AWAY * scale * away,
            "scale": scale,
            "correlation": correlation,
        }

    def start_scale(
        self, parameters: Mapping[str, Any], arrays: Arrays, alpha: NDArray[np.float64]
    ) -> dict[str, Any]:
        """Standard errors of least squares."""
        n = max(float(alpha.sum()), 1.0)
        root = np.sqrt(np.diag(np.linalg.pinv((arrays["X"].T * alpha) @ arrays["X"])))
        return {
            "coefficients": np.outer(root, parameters["scale"]),
            "scale": 1 / np.sqrt(2 * n),
            "correlation": 1 / np.sqrt(n),
        }

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
