"""What a model says of its one outcome whatever its parameters are: which values can occur, and how
the value whose density it gives follows from the outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from numpyro.distributions import constraints

from understudy.errors import Refused
from understudy.models.contract import Arrays
from understudy.models.density import Density


@dataclass(frozen=True)
class ObservedLaw:
    """For each record, at a value of its outcome."""

    lower: NDArray[np.float64]  # the least and the largest whole number; infinite where there is
    upper: NDArray[np.float64]  # none, and where values are not whole numbers
    inside: NDArray[np.bool_]  # whether the value can occur
    log_slope: NDArray[np.float64]  # by which a density of log y, say, becomes one of y


def observed_law(density: Density, arrays: Arrays, values: NDArray[Any]) -> ObservedLaw:
    """By the support of the observed site, at parameters in the middle of the position's scale."""
    name, n = density.model.targets[0], len(values)

    def site(values: Array) -> Any:
        trace = density._replay(jnp.zeros(density.dimension), {**arrays, name: values})[1]
        sites = [s for s in trace.values() if s["type"] == "sample" and s["is_observed"]]
        if len(sites) > 1 or jnp.size(sites[0]["value"]) != n:
            raise Refused(
                "NoisyMoments is for models that observe one number of each record; this one has "
                f"{' and '.join(s['name'] for s in sites)}: take Censored or ReferenceCensored."
            )
        return sites[0]

    def value_of(values: Array) -> Array:
        return jnp.asarray(site(values)["value"], dtype=jnp.float64).reshape(n)

    def law(values: Array) -> tuple[Array, Array, Array, Array]:
        seen, zero = site(values), jnp.zeros(n)
        support = seen["fn"].support
        inside = jnp.broadcast_to(support(seen["value"]).reshape(-1), (n,))
        if density.whole:
            ends = (0, 1) if support is constraints.boolean else _ends(support)
            shift = values - value_of(values)
            lower, upper = (jnp.asarray(end, dtype=jnp.float64) + shift for end in ends)
            return lower, upper, inside, zero
        slope = jnp.abs(jax.jvp(value_of, (values,), (jnp.ones(n),))[1])
        log_slope = jnp.log(slope)
        return zero - jnp.inf, zero + jnp.inf, inside & jnp.isfinite(log_slope), log_slope

    if not density.whole:
        values = values.astype(np.float64)
    return ObservedLaw(*(np.asarray(part) for part in jax.jit(law)(values)))


def _ends(support: Any) -> tuple[Any, Any]:
    return getattr(support, "lower_bound", -jnp.inf), getattr(support, "upper_bound", jnp.inf)
