"""Multinomial-Dirichlet (M §2.2.4): a table of counts, and synthetic tables drawn from it.

    pi | n ~ Dirichlet(1/2 + n),   synthetic counts ~ Multinomial(N, pi)

With `Unweighted()` this is the report's multiple synthesis (MS); with `Modips(epsilon)` the
counts n are sanitised first, and everything here is post-processing of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Interval
from numpy.typing import ArrayLike, NDArray

from understudy.errors import Refused, UnknownName
from understudy.models.contract import RowsModel

__public__ = ("synthetic_counts",)

Counts = NDArray[np.int64]
Vector = NDArray[np.float64]

MANY_CELLS = 10_000  # from here on counts are drawn as Poisson counts and completed


@dataclass(frozen=True)
class Multinomial(RowsModel):
    """The joint distribution of categorical columns, every combination of levels a cell.

    `prior` is added to each cell of the support: 1/2 is the report's, and on K cells it adds
    K/2 records' worth of evenness. `missing="level"` makes missing values a level of their own.
    `size` is the number of synthetic records: that of the file when None.
    """

    columns: Annotated[tuple[str, ...], "The columns that are synthesized."]
    prior: Annotated[float, "Dirichlet prior of each cell."] = 0.5
    missing: Literal["refuse", "level"] = "refuse"
    size: Annotated[
        int | None,
        "Records in each synthetic file; the file's own number by default.",
        Interval(ge=1, le=1_000_000_000),
    ] = None

    def __init__(
        self,
        columns: Sequence[str],
        prior: float = 0.5,
        missing: Literal["refuse", "level"] = "refuse",
        size: int | None = None,
    ) -> None:
        if isinstance(columns, str) or not columns:
            raise Refused(
                '`columns` must be a list of categorical columns, such as ["sex", "region"].'
            )
        if len(set(columns)) < len(columns):
            raise Refused("A column of the multinomial model is named twice; name each once.")
        if missing not in ("refuse", "level"):
            raise UnknownName("way to treat missing values", str(missing), ("refuse", "level"))
        if not _number(prior) or not prior > 0:
            raise Refused("`prior` must be a finite number above 0, such as 0.5.")
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise Refused("`size` must be a whole number of records, at least 1.")
        for name, value in (("columns", tuple(columns)), ("prior", float(prior))):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "missing", missing)
        object.__setattr__(self, "size", size)

    def draw(self, counts: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return synthetic_counts(counts, size, self.prior, rng)


def dirichlet(parameters: ArrayLike, rng: np.random.Generator) -> Vector:
    """One draw from Dirichlet(parameters): independent gamma variables over their sum.

    For tiny parameters all gammas may underflow to 0; one cell then takes all, chosen in
    proportion to the parameters, which is the limit of the distribution.
    """
    alpha = np.asarray(parameters, dtype=np.float64)
    gammas = rng.standard_gamma(alpha)
    total = gammas.sum()
    if total > 0:
        return np.asarray(gammas / total, dtype=np.float64)
    drawn = np.zeros(alpha.size)
    drawn[rng.choice(alpha.size, p=alpha / alpha.sum())] = 1.0
    return drawn


def multinomial(size: int, probabilities: Vector, rng: np.random.Generator) -> Counts:
    """Counts of `size` records over the cells; they add up to `size`.

    Over many cells: Poisson counts with a mean total a little below `size`, then the missing
    records one by one. Given their total, Poisson counts are multinomial, so this is exact, and it
    takes two thirds of the time of NumPy's chain of binomials.
    """
    if probabilities.size >= MANY_CELLS:
        drawn = rng.poisson(probabilities * max(0.0, size - 6 * math.sqrt(size)))
        lacking = size - int(drawn.sum())
        if lacking >= 0:
            heights = np.cumsum(probabilities)
            cells = np.searchsorted(heights, rng.random(lacking) * heights[-1], side="right")
            return drawn + np.bincount(cells, minlength=drawn.size)
    return rng.multinomial(size, probabilities).astype(np.int64, copy=False)


def synthetic_counts(
    counts: ArrayLike, size: int, prior: float, rng: np.random.Generator
) -> Counts:
    """pi ~ Dirichlet(prior + counts), then Multinomial(size, pi): one table (M §2.2.4)."""
    return multinomial(size, dirichlet(np.asarray(counts) + prior, rng), rng)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
