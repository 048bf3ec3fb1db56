"""The checks that look at confidential values: in one place, before anything is paid.

`understudy check`, `release --dry-run` and `release` run the same ones. That a file passes or fails
them says something about its records, and nothing covers that: their messages are for the data
holder alone, and carry the mark.
"""

from __future__ import annotations

from understudy.mechanisms.row_counts import RowCounts
from understudy.models.contract import OutcomeModel, RowsModel
from understudy.publication import Publication
from understudy.release.inside import Inside
from understudy.release.internal_mark import marked
from understudy.release.mixed import ready_steps
from understudy.synthesis import ready_outcome
from understudy.tables.units import unit_of


def check_records(inside: Inside) -> None:
    """Refused, with the mark, where a release of these records would be."""
    with marked():
        _check_model(inside)
        inside.try_published_design()
        _ = inside.confidential_table


def _check_model(inside: Inside) -> None:
    """Missing and constant columns, values that the model cannot hold, predictors of one level,
    cells that the codebook rules out, units without a number, references that are this file."""
    recipe, survey = inside.recipe, inside.narrowed
    fit = recipe.fit_settings(None)
    datasets = recipe.synthesis.datasets
    if isinstance(inside.model, RowsModel):
        unit = None if inside.mechanism.claims == "risk" else unit_of(survey)
        _ = RowCounts(inside.model, survey, b"\0" * 16, unit=unit).occupied
        ready_steps(survey, inside.model, inside.given, datasets, fit)
    if isinstance(inside.model, OutcomeModel):
        publication = Publication(in_order=False, where=recipe.data.where)
        ready = ready_outcome(publication, survey, inside.model, inside.mechanism, datasets, fit)
        _ = ready.fitter.present, ready.fitter.units
