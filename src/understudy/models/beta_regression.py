"""Beta regression for a bounded outcome with public predictors (C §5).

y_i ~ Beta(lambda phi_i, lambda (1 - phi_i)), logit phi_i = x_i beta, lambda ~ Pareto(0.1, 1.5) as
in C §4. C leaves the prior of beta open. Here: intercept Normal(0, 2.5), other coefficients
Normal(0, 1), with numeric predictors standardised by their public mean and standard deviation.
One standard deviation or one category then moves the logit by less than 2 with probability .95:
proper and not vast, because under clipping a wide prior's volume wins over bounded evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpy.typing import NDArray

from understudy.models.beta import beta_log_density
from understudy.models.contract import Arrays, Columns, OutcomeModel, array_column
from understudy.models.design_matrix import design_matrix
from understudy.models.unit_interval import Bounds, checked_bounds, unit_outcome, unit_scale
from understudy.survey.codebook import Codebook
from understudy.survey.survey import Survey


@dataclass(frozen=True)
class BetaRegression(OutcomeModel):
    """`BetaRegression("salary", "gender + age + weeks", bounds=(0, 400_000))`."""

    outcome: Annotated[str, "The column that is synthesized."]
    predictors: Annotated[str, "A formula over public columns."]
    bounds: Annotated[Bounds | None, "Public bounds, if the codebook has none."] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))

    @property
    def sensitive(self) -> tuple[str, ...]:
        return (self.outcome,)

    @property
    def targets(self) -> tuple[str, ...]:
        return ("y",)

    def prepare(self, survey: Survey, like: Survey | None = None) -> Arrays:
        scale = unit_scale(self.outcome, self.bounds, (like or survey).codebook)
        y = unit_outcome(survey, scale)
        return {"X": design_matrix(survey, self.predictors, self.sensitive, like), "y": y}

    def function(self, X: Any, y: Any = None) -> None:
        spread = jnp.ones(X.shape[1]).at[0].set(2.5)  # the first column is the intercept
        coefficients = numpyro.sample("beta", dist.Normal(0.0, spread).to_event(1))
        lam = numpyro.sample("lambda", dist.Pareto(0.1, 1.5))
        logit = X @ coefficients
        first, second = lam * jax.nn.sigmoid(logit), lam * jax.nn.sigmoid(-logit)
        with numpyro.plate("record", X.shape[0]):
            if y is None:
                numpyro.sample("y", dist.Beta(first, second))
            else:
                numpyro.factor("y", beta_log_density(y, first, second, lam))

    def restore(self, generated: Mapping[str, NDArray[Any]], survey: Survey) -> Columns:
        scale = unit_scale(self.outcome, self.bounds, survey.codebook)
        values = scale.from_unit(generated["y"])
        return {self.outcome: array_column(values, self.outcome, survey)}

    def units(self, codebook: Codebook) -> str:
        return f"Log-likelihoods are of {unit_scale(self.outcome, self.bounds, codebook)}"

    def rests_on(self, survey: Survey) -> dict[str, str]:  # noqa: ARG002
        return {} if self.bounds is not None else {self.outcome: "bounds"}

    def bounded_target(self, codebook: Codebook) -> tuple[str, Bounds]:
        unit_scale(self.outcome, self.bounds, codebook)  # refused unless bounds are declared
        return "y", (0.0, 1.0)
