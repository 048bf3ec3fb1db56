"""The checks that look at confidential values: in one place, before anything is paid.

`understudy check`, `release --dry-run` and `release` run the same ones. That a file passes or fails
them says something about its records, and nothing covers that: their messages are for the data
holder alone, and carry the mark.
"""

from __future__ import annotations

from understudy.internal_mark import marked
from understudy.models.contract import FileModel, OutcomeModel, RowsModel
from understudy.release.inside import Inside
from understudy.release.mixed import ready_steps
from understudy.synthesis import ready_file, ready_outcome, ready_rows
from understudy.tables.units import unit_of


def check_records(inside: Inside) -> None:
    """Refused, with the mark, where a release of these records would be."""
    with marked():
        _check_model(inside)
        inside.try_published_design()
        _ = inside.confidential_table
        if inside.corrections is not None:
            unit_of(inside.corrected_records)


def _check_model(inside: Inside) -> None:
    """Missing and constant columns, values that the model cannot hold, predictors of one level,
    cells that the codebook rules out or does not declare, units without an id or with too many
    records, references that are this file."""
    recipe, survey = inside.recipe, inside.narrowed
    fit = recipe.fit_settings(None)
    datasets = recipe.synthesis.datasets
    publication = inside.publication
    if isinstance(inside.model, RowsModel):
        ready_rows(publication, survey, inside.model, inside.mechanism)
        ready_steps(survey, inside.model, inside.given, datasets, fit)
    if isinstance(inside.model, FileModel):
        ready_file(publication, inside.counted, inside.model, inside.mechanism)
    if isinstance(inside.model, OutcomeModel):
        ready = ready_outcome(
            publication, survey, inside.model, inside.mechanism, datasets, fit,
            in_place=inside.in_place,
        )  # fmt: skip
        _ = ready.fitter.present, ready.fitter.units
