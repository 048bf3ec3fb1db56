"""Balanced normal deviates: in each cell of public columns one from every slice of the normal.

A synthetic record is a function of the released draw, the public X and fresh random numbers, so
these may be chosen freely without changing any claim. Independent deviates add their own noise
to every table. Here the n_c records of a cell get Phi^-1((rank + U)/n_c), rank a random order of
0..n_c-1 and U uniform: each deviate is exactly standard normal, and a cell's mean is all but the
model's own (docs/decisions/010). Columns have independent orders (a Latin hypercube).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import ndtri


def balanced_normals(key: Array, cell: Array, columns: int) -> Array:
    """Standard normal deviates (n, columns), balanced within the cells numbered by `cell` (n,)."""
    n = cell.shape[0]
    size = jax.ops.segment_sum(jnp.ones(n), cell, num_segments=n)[cell]

    def deviates(key: Array) -> Array:
        of_order, of_offset = jax.random.split(key)
        order = jnp.lexsort((jax.random.uniform(of_order, (n,)), cell))
        sorted_cell = cell[order]
        first = jnp.searchsorted(sorted_cell, sorted_cell, side="left")
        rank = jnp.zeros(n).at[order].set(jnp.arange(n) - first)
        offset = jax.random.uniform(of_offset, (n,), minval=1e-12, maxval=1.0)
        return ndtri((rank + offset) / size)

    return jnp.stack([deviates(k) for k in jax.random.split(key, columns)], axis=1)
