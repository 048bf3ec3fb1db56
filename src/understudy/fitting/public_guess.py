"""Records that the codebook's public guess suggests: where a model without a past file starts.

The given columns are the survey's public ones. A sensitive number is drawn around its `typical`
value with its `spread`, log-normal where it cannot be negative and normal elsewhere, inside its
bounds; a category has each of its levels alike. The guess itself (theta_0 is fitted to it) knows
no effect of the given columns. Files for a rehearsal differ from it as truth may: by a shift, by
another spread, by effects of every given column, and by longer tails (t instead of normal), all
drawn by random numbers that everyone knows.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, log1p, sqrt

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from understudy.errors import Refused
from understudy.models.contract import OutcomeModel
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.published_type import declared_dtype
from understudy.survey.survey import Survey

SHIFT = 0.6  # standard deviation, in spreads, of how far truth is from the guess,
EFFECT = 0.4  # of what a level or a standard deviation of a given column adds,
WIDTH = 0.25  # and of the log of how many times as wide it is
TAILS = 4.0  # degrees of freedom of t
NORMAL = 1e12  # as many are a normal distribution
WEIGHT_SPREAD = 0.6  # of N/n, where nothing is declared

Vector = NDArray[np.float64]


def guessed_survey(
    public: Survey, model: OutcomeModel, fitted: Survey, rng: np.random.Generator, apart: bool
) -> Survey:
    """As many records as `fitted` has, with the given columns of `public`."""
    codebook, n = fitted.codebook, fitted.n
    predictors = [name for name in model.given_columns() if name in public.columns]
    rows = np.resize(np.arange(public.n), n)
    columns = list(public.frame(predictors)[rows]) if predictors else []
    by = tuple(columns)
    for name in model.sensitive:
        away, width, freedom = np.zeros(n), 1.0, NORMAL
        if apart:
            away += SHIFT * rng.normal() + sum(_effect(each, rng) for each in by)
            width, freedom = float(np.exp(WIDTH * rng.normal())) * sqrt(1 - 2 / TAILS), TAILS
        column = _with_guess(codebook, name, n if name == fitted.design.weight else None)
        columns.append(_values(column, away, width, freedom, rng))
    names = [*predictors, *model.sensitive]
    weight = fitted.design.weight
    design = Design(weight=weight) if weight in model.sensitive else Design()
    return Survey(pl.DataFrame(columns), design, codebook.only(names).without_unit())


def _with_guess(codebook: Codebook, name: str, weighs: int | None) -> Column:
    """The column with its guess; that of a weight is N/n, with `weighs` = n."""
    column = codebook.columns.get(name, Column(name))
    if column.levels or None not in (column.typical, column.spread):
        return column
    size = codebook.population_size
    if weighs is not None and column.typical is None and size is not None:
        return replace(column, typical=size / weighs, spread=WEIGHT_SPREAD * size / weighs)
    raise Refused(
        f'`reference = "none"` starts at a public guess; declare `typical` and `spread` of '
        f"`{name}` in the codebook, from public documents."
    )


def _values(
    column: Column, away: Vector, width: float, freedom: float, rng: np.random.Generator
) -> pl.Series:
    """Values that lie `away` spreads from the typical one, `width` times as wide as declared."""
    n = len(away)
    if column.levels:
        return pl.Series(column.name, column.levels).gather(rng.integers(0, len(column.levels), n))
    assert column.typical is not None  # settled by `_with_guess`
    assert column.spread is not None
    low, high = column.bounds or (-inf, inf)
    positive = column.typical > 0 and (column.bounds is None or low >= 0)
    middle, spread = column.typical, column.spread
    if positive:
        middle, spread = np.log(column.typical), sqrt(log1p((spread / column.typical) ** 2))
        with np.errstate(divide="ignore"):
            low, high = np.log(max(low, 0.0)), np.log(high)
    centre, unit = middle + spread * away, spread * width
    least, most = (stdtr(freedom, (edge - centre) / unit) for edge in (low, high))
    level = least + (most - least) * rng.uniform(1e-9, 1 - 1e-9, n)
    numbers = centre + unit * stdtrit(freedom, level)
    numbers = np.exp(numbers) if positive else numbers
    whole = np.round(numbers) if column.type == "integer" else numbers
    return pl.Series(column.name, whole).cast(declared_dtype(column) or pl.Float64)


def _effect(values: pl.Series, rng: np.random.Generator) -> Vector:
    """What a given column adds, in spreads."""
    if values.dtype.is_numeric() and values.n_unique() > 2:
        numbers = values.cast(pl.Float64).to_numpy()
        return np.asarray(EFFECT * rng.normal() * (numbers - numbers.mean()) / numbers.std())
    places = values.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    return np.asarray(EFFECT * rng.normal(size=int(places.max()) + 1)[places])
