"""The outputs of mixed data: categories by their table, then numbers given these categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from understudy.chance import Chance
from understudy.mechanisms.outputs.outcome_draws import OutcomeOutput
from understudy.mechanisms.outputs.output import DrawValues, Ground, MechanismOutput, without_drafts
from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.survey import Survey

if TYPE_CHECKING:
    from understudy.models.contract import OutcomeModel


@dataclass(frozen=True, eq=False)
class MixedDraws(MechanismOutput):
    """The outputs of the categories and of each regression, in this order; they are noted."""

    noted = False

    parts: tuple[MechanismOutput, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.names)

    def draws(self) -> list[DrawValues]:
        """For each data set the draws of all parts."""
        each = [part.draws() for part in self.parts]
        return [{"parts": list(draws)} for draws in zip(*each, strict=True)]

    @classmethod
    def from_draws(cls, draws: Sequence[Mapping[str, Any]]) -> Self:
        raise NotImplementedError("which outputs the parts are is noted in the envelope")

    def datasets(self, ground: Ground, chance: Chance) -> list[Survey]:
        first, *steps = self.parts
        categories: Any = ground.models[0]
        types = {name: kind for name, kind in ground.types.items() if name in categories.columns}
        rows = replace(ground, columns=categories.columns, types=types)
        frames = [dataset.frame() for dataset in first.datasets(rows, chance)]
        for number, step in enumerate(steps):
            frames = _with_numbers(step, number, frames, ground, chance.of(f"given {number}"))
        codebook = without_drafts(ground.codebook.only(list(ground.columns)), ground.columns)
        return [Survey(frame, ground.design, codebook) for frame in frames]


def _with_numbers(
    step: Any, number: int, frames: Sequence[pl.DataFrame], ground: Ground, chance: Chance
) -> list[pl.DataFrame]:
    """Each file with the columns of one regression, from its own parameter draw."""
    from understudy.models.declared_grid import declared_grid
    from understudy.models.generation import stand_ins

    categories: Any = ground.models[0]
    model: Any = ground.models[1 + number]
    codebook = step_codebook(ground.codebook, categories.columns, model)
    coding = ground.codings[number] if ground.codings else None
    coding = coding or declared_grid(codebook, predictors_of(model, codebook), model.sensitive)
    types = {name: ground.types[name] for name in model.sensitive}
    output: OutcomeOutput = step
    made = []
    for dataset, frame in enumerate(frames):
        rows = frame.select(categories.columns)
        columns = stand_ins(model, rows.height, types, pl.DataFrame(), codebook)
        survey = Survey(rows.with_columns(columns), Design(), codebook)
        bound = model.for_survey(survey)
        arrays = bound.prepare(survey, like=coding)
        values = output.arrays(dataset, bound, arrays, codebook, chance)
        restored = bound.restore(values, survey)
        made.append(frame.with_columns(restored[name] for name in model.sensitive))
    return made


def step_codebook(codebook: Codebook, categories: Sequence[str], model: OutcomeModel) -> Codebook:
    """The columns that a regression sees; the categories are given to it, hence `public`."""
    names = [*categories, *(name for name in model.sensitive if name not in categories)]
    codebook = codebook.without_unit().only(names)
    for name in categories:
        codebook = codebook.with_column(replace(codebook[name], role="public"))
    return replace(codebook, population_by={})


def predictors_of(model: OutcomeModel, codebook: Codebook) -> Sequence[str]:
    """The categories that decide the coding; one's own function may use them all."""
    others = [name for name in codebook.columns if name not in model.sensitive]
    return model.given_columns() or others
