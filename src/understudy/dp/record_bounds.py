"""Record bounds D_i = max over draws of |f_i(theta)|, and the bounds of the contributions (C §2.1).

The maximum is carried along while draws pass in small blocks, so memory is a few vectors of
length n whatever the number of draws: the (draws, records) matrix never exists.

Where records belong to units, all three are maxima of the unit's sums, and each record carries
those of its unit: a claim, and the record weights that it rests on, are then about units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from understudy.dp.contributions import by_unit, weighted

__public__ = ("record_bounds",)

Vector = NDArray[np.float64]
RecordLoglik = Callable[[Array, Any], Array]  # (position, arrays) -> f_i, shape (n,)

BLOCK_NUMBERS = 2**20  # numbers per block: 8 MB for each temporary of the model
MOST_DRAWS = 64
FEW_NUMBERS = 2**22  # of f, of all draws: they take a few hundredths of a second at any level


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
    in_parts: bool = False,
) -> RecordBounds:
    """Bounds over `positions` (draws, d); `record_loglik` must be a pure JAX function.

    `units` numbers the unit of each record; records that are not `present` add nothing to them.
    With `in_parts` the arrays have an axis of parts in front, and the function is that of one part
    (Density.in_parts); with units there must be one.
    """
    if not in_parts:
        arrays = jax.tree.map(lambda array: jnp.asarray(array)[None], arrays)
    points = jnp.asarray(positions, dtype=jnp.float64)
    weights = np.asarray(alpha, dtype=np.float64)
    reference = np.asarray(reference_loglik, dtype=np.float64)
    parts = jax.tree.leaves(arrays)[0].shape[0]
    n = len(weights)
    block = min(MOST_DRAWS, max(1, BLOCK_NUMBERS // -(-n // parts)), points.shape[0])
    if units is None:
        low, high = (end.reshape(-1)[:n] for end in _ends(record_loglik, block, points, arrays))
        return bounds_of_ends((low, high), weights, reference, limit, points.shape[0])
    numbers = np.asarray(units)
    counts = np.ones(n, dtype=bool) if present is None else np.asarray(present)
    whole = _Unit(arrays, *(a[None] for a in (numbers, counts, weights, reference)))
    sums = [end[0][:, numbers] for end in _ends(_UnitSums(record_loglik), block, points, whole)]
    return _bounds([s[0] for s in sums], [s[1] for s in sums], limit, points.shape[0])


def bounds_of_ends(
    ends: tuple[Vector, Vector], alpha: ArrayLike, reference: ArrayLike, limit: float, draws: int
) -> RecordBounds:
    """Bounds from the lowest and the highest f_i over so many draws, (n,) each."""
    weights = np.asarray(alpha, dtype=np.float64)
    gains = [np.asarray(weighted(end - np.asarray(reference), weights)) for end in ends]
    return _bounds(ends, gains, limit, draws)


def _bounds(
    ends: Sequence[Vector], gains: Sequence[Vector], limit: float, draws: int
) -> RecordBounds:
    loglik, before = (np.maximum(*map(_magnitude, each)) for each in (ends, gains))
    # clipping keeps the order, and what does not exist counts as -M (dp/contributions)
    return RecordBounds(loglik, before, np.minimum(before, limit), limit, draws)


class _Unit(NamedTuple):
    """What the sums over units are made of, each with the axis of parts in front."""

    arrays: Any
    numbers: Any
    present: Any  # a record that is not there must not count in its unit's sum
    alpha: Any
    reference: Any


@dataclass(frozen=True)
class _UnitSums:
    record_loglik: RecordLoglik

    def __call__(self, position: Array, of: _Unit) -> Array:
        """(2, n): the sums of f_i, and of the weighted gains."""
        loglik = self.record_loglik(position, of.arrays)
        gain = weighted(loglik - of.reference, of.alpha)
        counted = jnp.where(of.present, loglik, 0.0)
        return by_unit(jnp.stack([counted, gain]), of.numbers)


def _ends(values: RecordLoglik, block: int, positions: Array, parts: Any) -> tuple[Vector, Vector]:
    records = prod(jax.tree.leaves(parts)[0].shape[:2])
    few = records * positions.shape[0] <= FEW_NUMBERS
    run = _quickly_compiled if few else _thoroughly_compiled
    lowest, highest = run(values, block, positions, parts)
    return np.asarray(lowest), np.asarray(highest)


def _lowest_and_highest(
    values: RecordLoglik, block: int, positions: Array, parts: Any
) -> tuple[Array, Array]:
    """Of the values over all positions, for every part."""
    draws, dimension = positions.shape
    blocks = -(-draws // block)
    # the last block is filled up with the last draw, which does not move an end
    rows = jnp.minimum(jnp.arange(blocks * block), draws - 1)
    by_block = positions[rows].reshape(blocks, block, dimension)

    def of_part(part: Any) -> tuple[Array, Array]:
        def pass_block(ends: tuple[Array, Array], points: Array) -> tuple[Any, None]:
            seen = jax.vmap(lambda position: values(position, part))(points)
            low, high = seen.min(axis=0), seen.max(axis=0)
            return (jnp.minimum(ends[0], low), jnp.maximum(ends[1], high)), None

        of_one = jax.eval_shape(values, positions[0], part)  # for its shape: nothing to compile
        nothing_yet = jnp.full(of_one.shape, inf, of_one.dtype)
        return jax.lax.scan(pass_block, (nothing_yet, -nothing_yet), by_block)[0]

    ends: tuple[Array, Array] = jax.lax.map(of_part, parts)
    return ends


# All draws of all records: worth full optimisation, whatever the environment asks for; unless they
# are few, and take less time than a compiler that optimises.
_thoroughly_compiled, _quickly_compiled = (
    jax.jit(
        _lowest_and_highest,
        static_argnums=(0, 1),
        compiler_options={"xla_backend_optimization_level": n},
    )
    for n in (3, 0)
)


def _magnitude(values: Vector) -> Vector:
    """|x|, with NaN as infinite: a log-likelihood that does not exist has no bound."""
    return np.where(np.isnan(values), np.inf, np.abs(values))
