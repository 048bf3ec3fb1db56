"""The fit of a model to records that stay where they are, on disk or on Spark: what it asks of
them, and what would not suit it.

No column of records comes to this process: passes over them give sums and extremes
(fitting/placed_records.py). Draws and claims are those of records in memory, but for rounding.
"""

from __future__ import annotations

from understudy.chance import Chance
from understudy.errors import Refused
from understudy.fitting.fit_settings import FitSettings
from understudy.fitting.placed_fitter import PlacedFitter
from understudy.fitting.placed_records import PlacedRecords, too_many_cells
from understudy.ledger.fingerprint import identify
from understudy.mechanisms.contract import Mechanism
from understudy.mechanisms.record_needs import need_of_memory
from understudy.models.contract import Model, OutcomeModel
from understudy.models.design_matrix import FROM_ALL_RECORDS, looks_at_all_records
from understudy.models.survey_normal import SurveyNormal
from understudy.publication import Publication, outcome_conditions
from understudy.survey.survey import Survey

NOT_COMPARED = (
    "The reference was compared with the confidential records as a whole only, since these stayed "
    "where they are: that it shares no record's values with them is the data holder's word"
)


def why_not_in_place(
    survey: Survey, model: Model, mechanism: Mechanism, fit: FitSettings, given_drawn: bool = False
) -> str:
    """What stands against a fit in place, for a model of an outcome; empty where nothing does. Of
    the records it looks at public columns alone."""
    needed = need_of_memory(model, mechanism)
    if needed:
        return needed
    bound = model.for_survey(survey)
    if not isinstance(bound, SurveyNormal):
        return (
            "Records can stay where they are for FBS and FBP without piles and intercepts of PSUs; "
            "WholeFile, Multinomial and tables count there too. Other models need every record for "
            "every step: read the file into memory."
        )
    if survey.codebook.unit_column is not None:
        return "Claims for units need the records in memory; use `synthesize` on a file there."
    if fit.missing != "refuse":
        return "Records without a value are left out or filled in where they are in memory alone."
    if given_drawn:
        return "A regression on synthetic categories needs the records in memory."
    if looks_at_all_records(bound.predictors):
        return FROM_ALL_RECORDS.format(predictors=bound.predictors)
    predictors = [name for name in bound.given_columns() if name in survey.columns]
    if not predictors:
        return ""
    cells = int(survey.table.select(predictors).distinct().count().execute())
    return too_many_cells(bound, cells, fit.draws)


def placed_fitter(
    publication: Publication,
    survey: Survey,
    model: OutcomeModel,
    mechanism: Mechanism,
    fit: FitSettings,
    chance: Chance,
) -> PlacedFitter:
    """What mechanisms ask; refused where the records do not suit the model, or the reference is the
    confidential file. `model` is bound to the survey, and nothing stands against it."""
    assert isinstance(model, SurveyNormal)
    conditions = outcome_conditions(survey, model, fit.missing, publication)
    references = [value for value in vars(mechanism).values() if isinstance(value, Survey)]
    if references:
        conditions = (*conditions, NOT_COMPARED)
    for reference in references:
        _refuse_same_records(survey, reference)
    placed = PlacedRecords(model, survey)
    placed.check()
    return PlacedFitter(placed, fit.sampler, chance, conditions)


def _refuse_same_records(survey: Survey, reference: Survey) -> None:
    """Refused where the reference is the confidential file, or half of one is in the other; what
    has only some of its values in common with it is not seen here."""
    ours, theirs = (identify(each.untyped, each.raw)[0] for each in (survey, reference))
    if ours.fingerprint == theirs.fingerprint or ours.akin(frozenset(), theirs.records):
        raise Refused(
            "The reference shares half of its records with the confidential file, or is that file; "
            "take one of other people, or of another year."
        )
