"""Outputs of mechanisms for models of an outcome: parameters, or histograms of the outcome."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import ibis
import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.chance import Chance
from understudy.cluster import on_cluster
from understudy.dp.histogram import HistogramDraw
from understudy.mechanisms.outputs.output import DrawnOutput, Ground, without_drafts
from understudy.survey.codebook import Codebook
from understudy.survey.rows_here import rows_here
from understudy.survey.survey import Survey

if TYPE_CHECKING:
    from understudy.models.contract import OutcomeModel

__public__ = ("ParameterDraws",)

Generated = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class OutcomeOutput(DrawnOutput):
    """The sensitive columns are made for the rows of the public ones."""

    @abstractmethod
    def arrays(
        self,
        number: int,
        model: OutcomeModel,
        arrays: Generated,
        codebook: Codebook,
        chance: Chance,
    ) -> Generated:
        """The sensitive arrays of one data set, given the others."""

    def datasets(self, ground: Ground, chance: Chance) -> list[Survey]:
        model, survey = made_ready(ground)
        arrays = model.prepare(survey)
        codebook = without_drafts(ground.codebook, model.sensitive)
        made = []
        for number in range(len(self.drawn)):
            values = self.arrays(number, model, arrays, ground.codebook, chance)
            columns = model.restore(values, survey)
            frame = survey.raw.to_polars().with_columns(columns[name] for name in model.sensitive)
            made.append(Survey(frame.select(ground.columns), ground.design, codebook))
        return made


@dataclass(frozen=True, eq=False)
class ParameterDraws(OutcomeOutput):
    """Draws from a posterior, by site name, in the model's own coordinates."""

    def arrays(
        self,
        number: int,
        model: OutcomeModel,
        arrays: Generated,
        codebook: Codebook,  # noqa: ARG002
        chance: Chance,
    ) -> Generated:
        from understudy.models.generation import generated_from, random_key

        key = random_key(chance, f"generate {number}")
        return generated_from(model, key, self.drawn[number], arrays)

    def datasets(self, ground: Ground, chance: Chance) -> list[Survey]:
        if isinstance(ground.public, pl.DataFrame):
            return super().datasets(ground, chance)
        from understudy.mechanisms.outcome_files import files_in_place

        if not on_cluster(ground.public):
            ground = replace(ground, public=rows_here(ground.public))
        model, survey = made_ready(ground)
        return files_in_place(model, survey, ground, self.drawn, chance)


@dataclass(frozen=True, eq=False)
class Histograms(OutcomeOutput):
    """Private histograms of one bounded variable."""

    def arrays(
        self,
        number: int,
        model: OutcomeModel,
        arrays: Generated,
        codebook: Codebook,
        chance: Chance,
    ) -> Generated:
        name, _ = model.bounded_target(codebook)
        draw = self.drawn[number]
        histogram = HistogramDraw(np.asarray(draw["edges"]), np.asarray(draw["probabilities"]))
        rng = chance.generator(f"histogram {number}")
        return {name: histogram.sample(len(arrays[name]), rng)}


def made_ready(ground: Ground) -> tuple[OutcomeModel, Survey]:
    """The model, and the public rows with stand-ins for what it will generate."""
    from understudy.models.generation import stand_ins

    model: Any = ground.models[0]
    if not isinstance(ground.public, pl.DataFrame):
        single = stand_ins(model, 1, ground.types, ground.known, ground.codebook)
        schema = ibis.Schema.from_polars(pl.Schema(dict(ground.types)))
        there = {value.name: ibis.literal(value[0], schema[value.name]) for value in single}
        survey = Survey(ground.public.mutate(**there), ground.design, ground.codebook)
        return model.for_survey(survey), survey
    columns = stand_ins(model, ground.records, ground.types, ground.known, ground.codebook)
    rows = ground.public.with_columns(columns) if ground.public.width else pl.DataFrame(columns)
    survey = Survey(rows, ground.design, ground.codebook)
    return model.for_survey(survey), survey
