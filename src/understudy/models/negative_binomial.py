"""Negative binomial regression for a count (R §2.4), by mean and overdispersion.

y_i ~ NB(mu_i, phi): mean mu_i, variance mu_i + mu_i^2 / phi, log mu_i = x_i beta (an intercept
alone without predictors), 1/phi ~ half-Cauchy(0, 5). R leaves the prior of the mean open. Here:
intercept Normal(0, 5), so that means from 1e-4 to 2e4 are within two standard deviations, other
coefficients Normal(0, 1) with numeric predictors standardised by public constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import polars as pl
from jax import Array
from numpy.typing import NDArray
from numpyro.distributions import constraints

from understudy.errors import Refused, UnknownName
from understudy.models.contract import Arrays
from understudy.models.design_matrix import design_matrix
from understudy.models.log_gamma import log_gamma
from understudy.models.outcome import SingleOutcome
from understudy.survey.codebook import Codebook
from understudy.survey.survey import Survey

INTERCEPT_SCALE = 5.0
SLOPE_SCALE = 1.0
OVERDISPERSION_SCALE = 5.0


class CountDensity(dist.Distribution):  # type: ignore[misc]
    """NB(mu, phi): C(y + phi - 1, y) (mu/(mu + phi))^y (phi/(mu + phi))^phi (R §2.4.1)."""

    support = constraints.nonnegative_integer

    def __init__(self, log_mean: Array, phi: Array) -> None:
        self.log_mean, self.phi = log_mean, phi
        super().__init__(batch_shape=jnp.shape(log_mean), event_shape=())

    def log_prob(self, value: Array) -> Array:
        phi, y = self.phi, jnp.asarray(value, dtype=jnp.float64)
        total = jnp.logaddexp(self.log_mean, jnp.log(phi))
        ways = log_gamma(y + phi) - log_gamma(phi) - log_gamma(y + 1.0)
        return ways + y * (self.log_mean - total) + phi * (jnp.log(phi) - total)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        of_rate, of_count = jax.random.split(key)
        shape = sample_shape + self.batch_shape
        rate = jnp.exp(self.log_mean) / self.phi * jax.random.gamma(of_rate, self.phi, shape)
        return jnp.asarray(jax.random.poisson(of_count, rate, shape))


@dataclass(frozen=True)
class NegativeBinomial(SingleOutcome):
    """`NegativeBinomial("employees")`, or with predictors: `("visits", "region + age")`."""

    generates_from_records = False
    deepest_tree = 10

    outcome: Annotated[str, "The column that is synthesized."]
    predictors: Annotated[str | None, "A formula over public columns."] = None

    def prepare(self, survey: Survey, like: Survey | None = None) -> Arrays:
        y = counts(survey, self.outcome)
        if self.predictors is None:
            return {"X": np.ones((len(y), 1)), "y": y}
        return {"X": design_matrix(survey, self.predictors, self.sensitive, like), "y": y}

    def function(self, X: Any, y: Any = None) -> None:
        scales = jnp.full(X.shape[1], SLOPE_SCALE).at[0].set(INTERCEPT_SCALE)
        beta = numpyro.sample("beta", dist.Normal(0.0, scales).to_event(1))
        overdispersion = numpyro.sample("overdispersion", dist.HalfCauchy(OVERDISPERSION_SCALE))
        with numpyro.plate("record", X.shape[0]):
            numpyro.sample("y", CountDensity(X @ beta, 1.0 / overdispersion), obs=y)

    def units(self, codebook: Codebook) -> str:  # noqa: ARG002 (a count has one unit)
        return f"Log-likelihoods are log-probabilities of the count `{self.outcome}`"


def counts(survey: Survey, outcome: str) -> NDArray[np.float64]:
    """The outcome as whole numbers of at least 0, or refused."""
    if outcome not in survey.columns:
        raise UnknownName("outcome column", outcome, survey.columns)
    values = survey.frame([outcome])[outcome]
    if not values.dtype.is_numeric():
        raise Refused(f"The outcome `{outcome}` is not numeric; a count model needs numbers.")
    numbers = values.cast(pl.Float64).to_numpy()
    if np.isnan(numbers).any():
        raise Refused(f"`{outcome}` has missing values; choose `missing='drop'` or `'model'`.")
    if (numbers < 0).any() or (numbers != np.floor(numbers)).any():
        raise Refused(
            f"`{outcome}` is not a count: some values are negative or not whole; use another "
            "model, such as Mixture."
        )
    return numbers
