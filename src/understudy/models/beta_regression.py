"""Beta regression for a bounded outcome with public predictors (C §5).

y_i ~ Beta(lambda phi_i, lambda (1 - phi_i)), logit phi_i = x_i beta, lambda ~ Pareto(0.1, 1.5) as
in C §4. C leaves the prior of beta open. Here: intercept Normal(0, 2.5), other coefficients
Normal(0, 1), with numeric predictors standardised by their public mean and standard deviation.
One standard deviation or one category then moves the logit by less than 2 with probability .95:
proper and not vast, because under clipping a wide prior's volume wins over bounded evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from understudy.models.beta import BetaDensity
from understudy.models.outcome import BoundedOutcome
from understudy.models.unit_interval import Bounds


@dataclass(frozen=True)
class BetaRegression(BoundedOutcome):
    """`BetaRegression("salary", "gender + age + weeks", bounds=(0, 400_000))`."""

    generates_from_records = False
    deepest_tree = 10

    outcome: Annotated[str, "The column that is synthesized."]
    predictors: Annotated[str, "A formula over public columns."]
    bounds: Annotated[Bounds | None, "Public bounds, if the codebook has none."] = None

    def function(self, X: Any, y: Any = None) -> None:
        spread = jnp.ones(X.shape[1]).at[0].set(2.5)  # the first column is the intercept
        coefficients = numpyro.sample("beta", dist.Normal(0.0, spread).to_event(1))
        lam = numpyro.sample("lambda", dist.Pareto(0.1, 1.5))
        logit = X @ coefficients
        first, second = lam * jax.nn.sigmoid(logit), lam * jax.nn.sigmoid(-logit)
        with numpyro.plate("record", X.shape[0]):
            numpyro.sample("y", BetaDensity(first, second, lam), obs=y)
