"""What chains of a mixture are judged on: what generates the synthetic data, or these themselves.

Nothing of it changes when components change their places.

Where components are drawn from pi (`assignments="prior"`, for any claim), over evenly chosen
records and over all,

    F(c) = mean_i sum_k pi_k Phi((c - theta_k q_i) / sigma_k),   coefficient = sum_k pi_k theta_k

With mean_i q_i q_i' = I the latter is the regression of expected log incomes on the whitened
columns.

Where the record's own value decides (R supplement eq. 7, kind `risk` alone), a synthetic file is
drawn for each kept draw, with a fixed key, and judged by the same numbers of that file, of all
records: its distribution function and its regression (docs/proofs/diagnostics.md). Each has a
sampling variance in such a file, as a user would state it: F (1 - F) / n, or least squares'.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import ndtr

Numbers = dict[str, Array]

RECORDS = 400
PLACES = (-2.0, -1.0, -0.4, 0.0, 0.4, 1.0, 1.6)  # of log(y / typical)


def generating_quantities(
    key: Array, parameters: Mapping[str, Array], arrays: Mapping[str, Any]
) -> tuple[Numbers, Numbers | None]:
    """F at fixed points and the coefficients, by name, and their sampling variances where they are
    a file's; `arrays` are those of `Mixture.prepare`."""
    if "confidential" not in arrays:
        return _named(*_expected(parameters, arrays)), None
    size, Q = _drawn_sizes(key, parameters, arrays), jnp.asarray(arrays["Q"])
    n = len(size)
    below, regression = [(size <= point).mean() for point in PLACES], size @ Q / n
    residual = ((size - Q @ regression) ** 2).mean() / n
    spread = [share * (1.0 - share) / n for share in below]
    return _named(below, regression), _named(spread, jnp.full(len(regression), residual))


def _named(below: list[Array], regression: Array) -> Numbers:
    places = {f"F({point:g})": value for point, value in zip(PLACES, below, strict=True)}
    return places | {f"coefficient[{r}]": c for r, c in enumerate(regression)}


def _expected(
    parameters: Mapping[str, Array], arrays: Mapping[str, Any]
) -> tuple[list[Array], Array]:
    share, sigma, theta = (parameters[name] for name in ("share", "sigma", "theta"))
    step = max(1, arrays["Q"].shape[0] // RECORDS)
    mean, spread = theta @ arrays["Q"][::step].T, sigma[:, None]
    below = [share @ ndtr((point - mean) / spread).mean(axis=1) for point in PLACES]
    return below, share @ theta


def _drawn_sizes(key: Array, parameters: Mapping[str, Array], arrays: Mapping[str, Any]) -> Array:
    """Log incomes drawn as those of a release are, before signs and bounds."""
    of_component, of_size = jax.random.split(key)
    share, sigma, theta = (parameters[name] for name in ("share", "sigma", "theta"))
    Q, y = jnp.asarray(arrays["Q"]), arrays["confidential"]
    mean = theta @ Q.T
    z = (jnp.log(jnp.where(y > 0, y, 1.0)) - arrays["centre"] - mean) / sigma[:, None]
    prior = jnp.broadcast_to(jnp.log(share)[:, None], mean.shape)
    own = prior - jnp.log(sigma)[:, None] - 0.5 * z * z
    component = jax.random.categorical(of_component, jnp.where(y > 0, own, prior), axis=0)
    size = jnp.take_along_axis(mean, component[None], axis=0)[0]
    return jnp.asarray(size + sigma[component] * jax.random.normal(of_size, size.shape))
