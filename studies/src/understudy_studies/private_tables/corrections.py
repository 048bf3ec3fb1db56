"""Corrected tables beside the files alone and beside T's Laplace tables, at equal epsilon.

Weighted promises 2 b for each file, b the bound that one fit was tuned to. So three files cost 6 b,
and two of the three with corrections at 2 b cost as much: one fit serves both. The model is T's
FBS, which the population follows, and FBS without gender, which it does not: men and women then
have the same salaries in every field.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.framework import Row
from understudy_studies.private_tables.cells import CELL_COLUMNS
from understudy_studies.private_tables.replicate import (
    BY,
    MODELS,
    STATISTICS,
    Plan,
    Sample,
    columns_of,
    laplace_rows,
    numbered,
    released_rows,
    rows_of,
    sample_rows,
    study_population,
    survey_of,
)

RIGHT, WRONG = "FBS", "FBS without gender"
CORRECTABLE = {RIGHT: MODELS["FBS"], WRONG: us.FBS("salary", "C(field)")}
FILES = 3  # that cost as much as all but one of them with corrections


def corrections_repeat(plan: Plan, seed: int, number: int) -> Row:
    """The rows of one sample: itself, Laplace tables, files alone, and files with corrections."""
    rng = np.random.default_rng([seed, 7, number])
    drawn = us.doctorate_sample(study_population(seed), plan.n, rng)
    sample = Sample(survey_of(drawn), plan, number)
    rows = sample_rows(sample, "none")
    for bound in plan.corrected_bounds:
        epsilon = 2 * FILES * bound
        rows += [part for part in laplace_rows(sample, epsilon) if part["formulas"][0] != "paper"]
        for name, model in CORRECTABLE.items():
            files = sample.synthesize(model, us.Weighted(bound=bound), FILES).datasets
            key = (name, "Weighted", epsilon, FILES, "recommended")
            rows += released_rows(key, sample.table, [columns_of(file) for file in files])
            rows += _corrected_rows(name, sample, files[:-1], epsilon)
    return numbered(number, rows)


def _corrected_rows(
    name: str, sample: Sample, files: list[us.Survey], epsilon: float
) -> Iterator[pl.DataFrame]:
    """The last file's share of epsilon is spent on the table."""
    share = epsilon / FILES
    made = us.corrected_table(sample.survey, files, STATISTICS, BY, share, relation="blank").table
    for statistic in STATISTICS:
        part = made.filter(statistic=statistic)
        cells = CELL_COLUMNS.join(part, on=BY, how="left", maintain_order="left")
        numbers = cells.select("field", "gender", "estimate", "se", "lower", "upper")
        yield rows_of((name, "corrected", epsilon, len(files), "recommended"), statistic, numbers)
