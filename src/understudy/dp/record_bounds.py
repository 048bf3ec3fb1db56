"""Record bounds D_i = max over draws of |f_i(theta)|, and the bounds of the contributions (C §2.1).

The maximum is carried along while draws pass in small blocks, so memory is a few vectors of
length n whatever the number of draws: the (draws, records) matrix never exists.

Where records belong to units, all three are maxima of the unit's sums, and each record carries
those of its unit: a claim, and the record weights that it rests on, are then about units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from understudy.dp.contributions import by_unit, reference_censored, weighted

__public__ = ("record_bounds",)

Vector = NDArray[np.float64]
Maxima = tuple[Array, Array, Array]
RecordLoglik = Callable[[Array, Any], Array]  # (position, arrays) -> f_i, shape (n,)

BLOCK_NUMBERS = 2**20  # numbers per block: 8 MB for each temporary of the model
MOST_DRAWS = 64


@dataclass(frozen=True)
class RecordBounds:
    """Maxima over `draws` draws, each of shape (n,).

    `loglik` is max |f_i|, `weighted` is max |alpha_i (f_i - f_i(theta_ref))| before clipping, and
    `contribution` the same after clipping to [-limit, limit], which is what a claim rests on.
    """

    loglik: Vector
    weighted: Vector
    contribution: Vector
    limit: float
    draws: int

    @property
    def overall(self) -> float:
        """The largest contribution of any record: epsilon is twice this for one draw."""
        return float(self.contribution.max())

    @property
    def censored(self) -> int:
        """How many records are clipped at one draw or more (C Table 1)."""
        return int((self.weighted > self.limit).sum())


def record_bounds(
    record_loglik: RecordLoglik,
    positions: ArrayLike,
    arrays: Any,
    alpha: ArrayLike,
    reference_loglik: ArrayLike,
    limit: float = inf,
    units: ArrayLike | None = None,
    present: ArrayLike | None = None,
) -> RecordBounds:
    """Bounds over `positions` (draws, d); `record_loglik` must be a pure JAX function.

    `units` numbers the unit of each record; records that are not `present` add nothing to them.
    """
    points = jnp.asarray(positions, dtype=jnp.float64)
    weights = jnp.asarray(alpha, dtype=jnp.float64)
    block = min(MOST_DRAWS, max(1, BLOCK_NUMBERS // weights.shape[0]), points.shape[0])
    reference = jnp.asarray(reference_loglik, dtype=jnp.float64)
    units = None if units is None else jnp.asarray(units)
    # without units a record that is not there disturbs nobody; with them it must not count
    present = None if units is None or present is None else jnp.asarray(present)
    maxima = _maxima(
        record_loglik, block, points, arrays, weights, reference, jnp.asarray(limit), units, present
    )
    loglik, before, after = (np.asarray(part) for part in maxima)
    if units is not None:
        loglik, before, after = (part[np.asarray(units)] for part in (loglik, before, after))
    return RecordBounds(loglik, before, after, limit, points.shape[0])


# All draws of all records: worth full optimisation, whatever the environment asks for.
@partial(jax.jit, static_argnums=(0, 1), compiler_options={"xla_backend_optimization_level": 3})
def _maxima(
    record_loglik: RecordLoglik,
    block: int,
    positions: Array,
    arrays: Any,
    alpha: Array,
    reference_loglik: Array,
    limit: Array,
    units: Array | None = None,
    present: Array | None = None,
) -> Maxima:
    draws, dimension = positions.shape
    blocks = -(-draws // block)
    # the last block is filled up with the last draw, which does not move a maximum
    rows = jnp.minimum(jnp.arange(blocks * block), draws - 1)
    by_block = positions[rows].reshape(blocks, block, dimension)

    def pass_block(largest: Maxima, points: Array) -> tuple[Maxima, None]:
        loglik = jax.vmap(lambda position: record_loglik(position, arrays))(points)
        each = loglik if present is None else jnp.where(present, loglik, 0.0)
        parts = (
            by_unit(each, units),
            by_unit(weighted(loglik - reference_loglik, alpha), units),
            reference_censored(loglik, reference_loglik, alpha, limit, units),
        )
        seen = [_magnitude(part).max(axis=0) for part in parts]
        return (
            jnp.maximum(largest[0], seen[0]),
            jnp.maximum(largest[1], seen[1]),
            jnp.maximum(largest[2], seen[2]),
        ), None

    zero = jnp.zeros_like(alpha)
    return jax.lax.scan(pass_block, (zero, zero, zero), by_block)[0]


def _magnitude(values: Array) -> Array:
    """|x|, with NaN as infinite: a log-likelihood that does not exist has no bound."""
    return jnp.where(jnp.isnan(values), jnp.inf, jnp.abs(values))
