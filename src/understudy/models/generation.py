"""Records from one draw of a model's parameters: the same on both sides of a release.

Nothing here looks at a record: the arrays are those that `prepare` makes of public columns, with
values in place of the sensitive ones on which nothing depends (`stand_ins`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import polars as pl
from jax import Array
from numpy.typing import NDArray

from understudy.chance import Chance, Seed, chance_of
from understudy.models.compilation import kept
from understudy.models.contract import Arrays, OutcomeModel
from understudy.models.density import Density, density_at, kept_inside_bounds
from understudy.survey.codebook import Codebook


def random_key(seed: Seed | Chance, label: str) -> Array:
    """JAX's key for one use: 63 bits, all that its generator takes."""
    return jax.random.key(int.from_bytes(chance_of(seed).random_bytes(label, 8)) >> 1)


def generated_from(
    model: OutcomeModel, key: Array, parameters: Mapping[str, Any], arrays: Arrays
) -> dict[str, NDArray[Any]]:
    """New sensitive arrays within declared bounds, from parameters in the model's coordinates."""
    density = density_at(model, arrays)
    public = {name: a for name, a in arrays.items() if name not in model.targets}
    values = {name: jnp.asarray(parameters[name], dtype=jnp.float64) for name in density.shapes}

    def drawn(own_key: Array) -> dict[str, Array]:
        made: dict[str, Array] = _generated(density, own_key, values, public)
        return made

    first = drawn(key)
    return kept_inside_bounds(model, first, lambda attempt: drawn(jax.random.fold_in(key, attempt)))


@kept(constants=1, few_runs=True)
def _generated(density: Density, key: Array, parameters: Any, arrays: Any) -> dict[str, Array]:
    return density.generate_from(key, parameters, arrays)


def stand_ins(
    model: OutcomeModel,
    rows: int,
    types: Mapping[str, pl.DataType],
    known: pl.DataFrame,
    codebook: Codebook,
) -> list[pl.Series]:
    """A column for each that is made: what is known of it row by row, or one value that its
    declarations allow, the same for all rows."""
    columns = []
    for name, dtype in types.items():
        if name in known.columns:
            columns.append(known[name].cast(dtype))
        else:
            value = pl.Series(name, [model.possible_value(name, codebook)], strict=False)
            columns.append(value.cast(dtype).new_from_index(0, rows))
    return columns
