"""Records without a sensitive value: refused, dropped, or synthesized like the others."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.fitting.fit_settings import Missing
from understudy.models.contract import OutcomeModel
from understudy.survey.survey import Survey


def missing_values(survey: Survey, columns: tuple[str, ...]) -> NDArray[np.bool_]:
    """Which records lack a value in any of these columns."""
    frame = survey.frame(list(columns))
    lacking = np.zeros(frame.height, dtype=bool)
    for series in frame:
        lacking |= series.is_null().to_numpy()
        if series.dtype.is_float():
            lacking |= series.is_nan().fill_null(False).to_numpy()
    return lacking


def without_missing(survey: Survey, columns: tuple[str, ...]) -> tuple[Survey, int]:
    """The survey without records that lack a value in these columns, and how many those were."""
    lacking = missing_values(survey, columns)
    if not lacking.any():
        return survey, 0
    kept = survey.raw.to_polars().filter(~lacking)
    return Survey(kept, survey.design, survey.codebook), int(lacking.sum())


def settle_missing(
    survey: Survey, model: OutcomeModel, missing: Missing
) -> tuple[Survey, Survey, NDArray[np.bool_], int]:
    """(survey to be published from, survey to be fitted, which values are placeholders, dropped)"""
    lacking = missing_values(survey, model.sensitive)
    if not lacking.any():
        return survey, survey, lacking, 0
    if missing == "refuse":
        raise Refused(
            f"{', '.join(f'`{name}`' for name in model.sensitive)} has missing values; choose "
            "`missing='drop'` or `missing='model'`."
        )
    if missing == "model" and model.generates_from_records:
        raise Refused(
            "A record without a value has no component of its own; use assignments='prior', or "
            "`missing='drop'`."
        )
    if missing == "drop":
        kept, dropped = without_missing(survey, model.sensitive)
        return kept, kept, np.zeros(kept.n, dtype=bool), dropped
    if lacking.all():
        raise Refused("No record has all its sensitive values; there is nothing to learn from.")
    frame = survey.frame()
    stand_in = frame.row(int(np.argmin(lacking)), named=True)  # weighs 0 in every fit
    absent = pl.Series(lacking)
    filled = frame.with_columns(
        pl.when(absent).then(pl.lit(stand_in[name], frame[name].dtype)).otherwise(name).alias(name)
        for name in model.sensitive
    )
    return survey, Survey(filled, survey.design, survey.codebook), lacking, 0
