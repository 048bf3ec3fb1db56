"""A survey made of declarations alone: the coding of predictors that are themselves confidential.

Where a step has drawn the predictors (a mixed release), their means, which levels occur and how
they cross are facts of the records. The design matrix, its scale, its whitening and its groups are
then decided by this grid instead: every combination of the declared levels once, or, where these
are too many, a fixed choice of them in which every level occurs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from understudy.errors import Refused
from understudy.survey.codebook import Codebook
from understudy.survey.published_type import declared_dtype
from understudy.survey.survey import Survey

MOST_ROWS = 20_000


def declared_grid(codebook: Codebook, predictors: Sequence[str], outcomes: Sequence[str]) -> Survey:
    """The grid of the columns `predictors`; `outcomes` hold one value, which nothing looks at."""
    drafted = codebook.not_declared(dict.fromkeys(predictors, "levels"))
    if drafted:
        raise Refused(
            f"The regressions rest on `{drafted[0]}`, which is not declared; declare it in the "
            "codebook from what is public."
        )
    sizes = [len(codebook[name].levels or ()) for name in predictors]
    places = _places(sizes)
    columns = [
        pl.Series(name, list(codebook[name].levels or ()), declared_dtype(codebook[name])).gather(
            places[:, j]
        )
        for j, name in enumerate(predictors)
    ]
    columns += [_constant(codebook, name, len(places)) for name in outcomes]
    names = [*predictors, *outcomes]
    return Survey(pl.DataFrame(columns), codebook=codebook.only(names))


def _places(sizes: Sequence[int]) -> np.ndarray:
    """Rows of places among the levels, (rows, columns)."""
    if not sizes:
        return np.zeros((1, 0), dtype=np.int64)
    if math.prod(sizes) <= MOST_ROWS:
        return np.indices(sizes).reshape(len(sizes), -1).T
    rng = np.random.default_rng(0)  # public, and the same for everyone
    rows = max(MOST_ROWS, *sizes)
    return np.stack([rng.permutation(np.resize(np.arange(size), rows)) for size in sizes], axis=1)


def _constant(codebook: Codebook, name: str, rows: int) -> pl.Series:
    column = codebook[name]
    value = (column.levels or (1,))[0] if column.bounds is None else math.fsum(column.bounds) / 2
    return pl.Series(name, [value] * rows, strict=False).cast(declared_dtype(column) or pl.Float64)
