"""One sentence of `--dry-run`: which mechanism suits a model of an outcome, from declared facts.

The rule was chosen on simulated doctorates (docs/decisions/072): NoisyMoments' noise of a cell's
mean is about as large as its sampling error where epsilon times the root of the cell's records is
EQUAL. docs/results/models has real files beside it.
"""

from __future__ import annotations

from math import prod, sqrt

from understudy.mechanisms.contract import Mechanism
from understudy.models.contract import GibbsModel, Model, OutcomeModel
from understudy.models.survey_normal import SurveyNormal
from understudy.survey.survey import Survey

EQUAL = 18.0
LITTLE, MUCH = 0.5, 1.5  # of the sampling error
UNLESS = ", or WholeFile where the amount is not nearly log-normal"


def noise_of_cells(records: float, cells: int, epsilon: float, per_unit: int = 1) -> float:
    """NoisyMoments' noise of a cell's mean over its sampling error, about."""
    return EQUAL * per_unit / (epsilon * sqrt(records / cells))


def declared_cells(model: OutcomeModel, survey: Survey) -> int | None:
    """Combinations of the predictors' declared levels; None where one has no levels."""
    columns = [survey.codebook.columns.get(name) for name in model.given_columns()]
    levels = [len(column.levels) if column and column.levels else 0 for column in columns]
    return prod(levels) if all(levels) else None


def model_advice(model: Model, mechanism: Mechanism, survey: Survey) -> list[str]:
    """A sentence where a model of an outcome has a mechanism with an epsilon of its own."""
    if not isinstance(model, OutcomeModel) or mechanism.epsilon is None:
        return []
    model = model.for_survey(survey)
    if isinstance(model, GibbsModel):
        return [
            "Advice: a mixture with an epsilon takes hours and rarely passes; take WholeFile, or "
            "FBS with NoisyMoments."
        ]
    if not isinstance(model, SurveyNormal):
        return []
    cells = declared_cells(model, survey)
    if cells is None:
        return [
            "Advice: NoisyMoments needs categorical predictors with declared levels; with numbers "
            "among them take ReferenceCensored with a past file, or WholeFile."
        ]
    per_unit = survey.codebook.records_per_unit or 1
    noise = noise_of_cells(survey.n, cells, mechanism.epsilon, per_unit)
    about = (
        f"Advice: at epsilon {mechanism.epsilon:g}, with {cells} declared cells, NoisyMoments' "
        f"noise of a cell's mean is about {noise:.1g} of its sampling error"
    )
    if noise <= LITTLE:
        return [f"{about}: take it, with five files or more{UNLESS}."]
    if noise <= MUCH:
        return [f"{about}: take ReferenceCensored if there is a past file, else it{UNLESS}."]
    enough = noise_of_cells(survey.n, cells, 1.0, per_unit) / MUCH
    return [
        f"{about}: too much; take ReferenceCensored with a past file, or WholeFile, or fewer "
        f"cells, or epsilon {enough:.2g}."
    ]
