"""A random part of a survey, whose weights stand for the other records too."""

from __future__ import annotations

import numpy as np
import polars as pl

from understudy.survey.selection import simple_random
from understudy.survey.survey import Survey


def random_part(survey: Survey, records: int, rng: np.random.Generator) -> Survey:
    """So many records in memory, every set of them equally likely; the survey itself where it has
    no more."""
    if survey.n <= records:
        return survey
    selected = simple_random(survey.n, records, rng)
    part, weight = survey.taken(selected.index), survey.design.weight
    if weight is None:
        return part
    larger = pl.col(weight).cast(pl.Float64) * pl.Series(selected.weight)
    frame = pl.DataFrame(part.raw.to_polars()).with_columns(larger)
    return Survey(frame, survey.design, survey.codebook)
