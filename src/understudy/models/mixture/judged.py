"""What chains of a mixture are judged on: the distribution that generates the synthetic data.

w_ki is the probability with which record i's component is drawn: pi_k, or R supplement eq. 7
where the record's own value decides. Over evenly chosen records,

    F(c) = mean_i sum_k w_ki Phi((c - theta_k q_i) / sigma_k)
    m_i  = sum_k w_ki theta_k q_i,   coefficient = mean_i q_i m_i

With mean_i q_i q_i' = I the latter is the regression of synthetic log incomes on the whitened
columns. None of it changes when components change their places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import ndtr

RECORDS = 400
PLACES = (-2.0, -1.0, -0.4, 0.0, 0.4, 1.0, 1.6)  # of log(y / typical)


def generating_quantities(
    parameters: Mapping[str, Array], arrays: Mapping[str, Any]
) -> dict[str, Array]:
    """F at fixed points and the coefficients, by name; `arrays` are those of `Mixture.prepare`."""
    share, sigma, theta = (parameters[name] for name in ("share", "sigma", "theta"))
    step = max(1, arrays["Q"].shape[0] // RECORDS)
    Q, spread = arrays["Q"][::step], sigma[:, None]
    mean = theta @ Q.T
    drawn = jnp.broadcast_to(share[:, None], mean.shape)
    if "confidential" in arrays:
        y = arrays["confidential"][::step]
        z = (jnp.log(jnp.where(y > 0, y, 1.0)) - arrays["centre"] - mean) / spread
        own = jax.nn.softmax(jnp.log(share / sigma)[:, None] - 0.5 * z * z, axis=0)
        drawn = jnp.where(y > 0, own, drawn)
    quantities = {
        f"F({point:g})": (drawn * ndtr((point - mean) / spread)).sum(axis=0).mean()
        for point in PLACES
    }
    regression = (drawn * mean).sum(axis=0) @ Q / Q.shape[0]
    return quantities | {f"coefficient[{r}]": regression[r] for r in range(theta.shape[1])}
