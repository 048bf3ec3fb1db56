"""A population and samples shaped like the Survey of Doctorate Recipients (T §4.1).

Field x gender counts and mean salaries are the "Pop." columns of T's Tables 4 and 5. Salaries
are lognormal with scale .4 around the cell's mean; the size measure of PPS selection is
salary times lognormal noise of scale .4, so that the design is informative.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from understudy.survey.codebook import Codebook, Column, Value
from understudy.survey.design import Design
from understudy.survey.selection import proportional_allocation, stratified_pps
from understudy.survey.survey import Survey

__public__ = (
    "codebook as doctorate_codebook",
    "doctorates",
    "population as doctorate_population",
    "sample as doctorate_sample",
)

FIELDS = tuple(range(1, 9))
GENDERS = ("Male", "Female")
COUNTS = np.array(  # (field, gender), T Table 4
    [
        [14599, 13364],
        [1951, 783],
        [2918, 1117],
        [12381, 5728],
        [3861, 7336],
        [6433, 6409],
        [14358, 3773],
        [2033, 2956],
    ]
)
MEAN_SALARIES = np.array(  # (field, gender), T Table 5
    [
        [121125, 99226],
        [146916, 125358],
        [118338, 105081],
        [122601, 100618],
        [120531, 98060],
        [122676, 97595],
        [136370, 116566],
        [137349, 106388],
    ]
)
SCALE = 0.4


def population(rng: np.random.Generator) -> pl.DataFrame:
    """N = 100,000 persons: field, gender, salary, size (proportional to inclusion)."""
    cells = COUNTS.ravel()
    field = np.repeat(np.repeat(FIELDS, len(GENDERS)), cells)
    gender = np.repeat(np.tile(GENDERS, len(FIELDS)), cells)
    # A lognormal of scale s has mean exp(mu + s^2/2).
    mu = np.repeat(np.log(MEAN_SALARIES.ravel()) - SCALE**2 / 2, cells)
    salary = np.exp(mu + SCALE * rng.standard_normal(len(mu)))
    size = salary * np.exp(SCALE * rng.standard_normal(len(mu)))
    return pl.DataFrame({"field": field, "gender": gender, "salary": salary, "size": size})


def sample(persons: pl.DataFrame, n: int, rng: np.random.Generator) -> pl.DataFrame:
    """A stratified PPS sample of about n persons: field, gender, salary, weight."""
    strata, size = persons["field"].to_numpy(), persons["size"].to_numpy()
    drawn = stratified_pps(strata, size, proportional_allocation(strata, n), rng)
    chosen = persons.select("field", "gender", "salary")[drawn.index]
    return chosen.with_columns(pl.Series("weight", drawn.weight))


def to_totals(frame: pl.DataFrame) -> pl.DataFrame:
    """A sample whose weights add up to the public size of every field, as agencies adjust them."""
    size = pl.col("field").replace_strict(FIELDS, COUNTS.sum(axis=1), return_dtype=pl.Float64)
    weight = pl.col("weight")
    return frame.with_columns(weight * size / weight.sum().over("field"))


def codebook() -> Codebook:
    """What is public about the survey, with the population's stratum sizes."""
    columns = [
        Column("field", "stratum", "categorical", "Field of degree", FIELDS),
        Column("gender", "public", "categorical", "Gender", GENDERS),
        Column(
            "salary",
            "sensitive",
            "continuous",
            "Annual salary (dollars)",
            bounds=(5_000.0, 2_000_000.0),
            transform="log",
        ),
        Column(
            "weight",
            "weight",
            "continuous",
            "Design weight",
            bounds=(1.0, 10_000.0),
            transform="log",
        ),
    ]
    sizes = COUNTS.sum(axis=1)
    by_field: dict[Value, float] = {f: float(n) for f, n in zip(FIELDS, sizes, strict=True)}
    return Codebook(
        columns={column.name: column for column in columns},
        title="Doctorate recipients (simulated)",
        population_size=float(COUNTS.sum()),
        population_by={"field": by_field},
    )


def doctorates(n: int = 1000, seed: int = 1) -> Survey:
    """One simulated confidential survey with its design and codebook."""
    rng = np.random.default_rng(seed)
    frame = to_totals(sample(population(rng), n, rng))
    return Survey(frame, Design(weight="weight", strata="field"), codebook())
