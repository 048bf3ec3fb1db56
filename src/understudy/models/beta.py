"""Beta synthesizer for one bounded outcome (C §4 and the Stan script of its supplement 1).

y ~ Beta(lambda phi, lambda (1 - phi)), phi ~ Beta(1, 1), lambda ~ Pareto(0.1, 1.5), with the
outcome scaled to (0, 1) by declared bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from numpy.typing import NDArray
from numpyro.distributions import constraints

from understudy.models.beta_tail import log_beta_tail
from understudy.models.contract import Arrays, SummedModel
from understudy.models.log_gamma import log_gamma
from understudy.models.outcome import BoundedOutcome
from understudy.models.unit_interval import Bounds


def beta_log_density(y: Array, first: Array, second: Array, total: Array) -> Array:
    """log Beta(y; first, second) with first + second = total, one number for all records.

    The library's density also serves the end points, at twice the price; here they are absent.
    """
    constant = log_gamma(total) - log_gamma(first) - log_gamma(second)
    return constant + (first - 1.0) * jnp.log(y) + (second - 1.0) * jnp.log1p(-y)


class BetaDensity(dist.Distribution):  # type: ignore[misc]
    """Beta(first, second) with first + second = total."""

    support = constraints.unit_interval

    def __init__(self, first: Array, second: Array, total: Array) -> None:
        self.first, self.second, self.total = first, second, total
        super().__init__(batch_shape=jnp.shape(first), event_shape=())

    def log_prob(self, value: Array) -> Array:
        return beta_log_density(value, self.first, self.second, self.total)

    def log_tail(self, value: Array) -> Array:
        return log_beta_tail(value, self.first, self.second)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        return jnp.asarray(dist.Beta(self.first, self.second).sample(key, sample_shape))


@dataclass(frozen=True)
class Beta(BoundedOutcome, SummedModel):
    """`Beta("share")` with bounds from the codebook, or `Beta("share", bounds=(0, 100))`."""

    generates_from_records = False
    deepest_tree = 10

    outcome: Annotated[str, "The column that is synthesized."]
    bounds: Annotated[Bounds | None, "Public bounds, if the codebook has none."] = None

    def function(self, n: int, y: Any = None) -> None:
        phi = numpyro.sample("phi", dist.Beta(1.0, 1.0))
        lam = numpyro.sample("lambda", dist.Pareto(0.1, 1.5))
        with numpyro.plate("record", n):
            numpyro.sample("y", BetaDensity(lam * phi, lam * (1.0 - phi), lam), obs=y)

    def moments(self, arrays: Arrays, alpha: NDArray[np.float64]) -> dict[str, Any]:
        y = arrays["y"]
        parts = {"weight": alpha, "log": alpha * np.log(y), "log1m": alpha * np.log1p(-y)}
        return {name: np.asarray(part.sum()) for name, part in parts.items()}

    def summed_loglik(self, parameters: Mapping[str, Array], moments: Mapping[str, Any]) -> Array:
        lam, phi = parameters["lambda"], parameters["phi"]
        first, second = lam * phi, lam * (1.0 - phi)
        constant = log_gamma(lam) - log_gamma(first) - log_gamma(second)
        powers = (first - 1.0) * moments["log"] + (second - 1.0) * moments["log1m"]
        return jnp.asarray(constant * moments["weight"] + powers)
