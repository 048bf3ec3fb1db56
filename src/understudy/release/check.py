"""The checks that look at confidential values: in one place, before anything is paid.

`understudy check`, `release --dry-run` and `release` run the same ones. That a file passes or fails
them says something about its records, and nothing covers that: their messages are for the data
holder alone, and carry the mark.
"""

from __future__ import annotations

from understudy.drawing import INTERNAL
from understudy.errors import Refused
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.missing import settle_missing
from understudy.mechanisms.row_counts import RowCounts
from understudy.models.contract import OutcomeModel, RowsModel
from understudy.release.inside import Inside
from understudy.tables.units import unit_of


def check_records(inside: Inside) -> None:
    """Refused, with the mark, where a release of these records would be."""
    try:
        _check_model(inside)
        inside.try_published_design()
        _ = inside.confidential_table
    except Refused as refusal:
        raise Refused(f"{refusal} ({INTERNAL})") from None


def _check_model(inside: Inside) -> None:
    """Missing and constant columns, values that the model cannot hold, predictors of one level,
    cells that the codebook rules out, units without a number."""
    recipe, survey = inside.recipe, inside.narrowed
    fit = recipe.fit_settings(None)
    if isinstance(inside.model, RowsModel):
        unit = None if inside.mechanism.claims == "risk" else unit_of(survey)
        _ = RowCounts(inside.model, survey, b"\0" * 16, unit=unit).occupied
    if not isinstance(inside.model, OutcomeModel):
        return
    datasets = recipe.synthesis.datasets
    if datasets > fit.draws:
        raise Refused(
            f"{datasets} data sets need as many distinct draws, and only {fit.draws} are kept; "
            "raise `draws` or ask for fewer data sets."
        )
    model = inside.model.for_survey(survey)
    _, filled, lacking, _ = settle_missing(survey, model, fit.missing)
    arrays = model.prepare(filled)
    fitter = ModelFitter(model, filled, arrays, lacking, fit.sampler, b"\0" * 16)
    _ = fitter.present, fitter.units
