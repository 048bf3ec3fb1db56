"""Records of FBS and FBP for some public rows at a time: on this machine or on Spark's workers.

A block of rows is a small file of its own: its deviates are balanced within its own cells
(models/balanced.py), and each of them is exactly standard normal, so that a record of a file in
blocks has the law of one in a file made at once. Weights add up to public totals over the whole
file alone; a block has them in the unit N/n, and whoever has all blocks scales them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.chance import Chance
from understudy.models.contract import Arrays
from understudy.models.design_matrix import design_matrix
from understudy.models.generation import generated_from, random_key
from understudy.models.survey_normal import SurveyNormal
from understudy.survey.codebook import Codebook
from understudy.survey.formula import formula_columns
from understudy.survey.predictor_cells import PredictorCells, cell_numbers_of
from understudy.survey.survey import Survey


@dataclass(frozen=True, eq=False)
class RecordMaker:
    """The model is bound to the survey of all rows; `rows` are the predictors of each of their
    cells, which `lookup` numbers."""

    model: SurveyNormal
    rows: NDArray[np.float64] = field(repr=False)
    lookup: pl.DataFrame = field(repr=False)
    like: pl.DataFrame = field(repr=False)  # no rows, in the types that are published
    codebook: Codebook = field(repr=False)
    parameters: Mapping[str, Any] = field(repr=False)
    chance: Chance = field(repr=False)

    def __call__(self, public: pl.DataFrame, part: str) -> pl.DataFrame:
        """The public rows with outcomes and weights; `part` tells blocks apart."""
        n = public.height
        cells, own = np.unique(cell_numbers_of(public, self.lookup), return_inverse=True)
        number = _filled_up(own.astype(np.int64), len(cells))
        arrays: Arrays = {"X": self.rows[np.append(cells, cells[0])][number], "cell": number}
        arrays |= {target: np.zeros(len(number)) for target in self.model.targets}
        key = random_key(self.chance, part)
        made = generated_from(self.model, key, self.parameters, arrays)
        values = {name: np.asarray(array)[:n] for name, array in made.items()}
        columns = self.model.restored_outcomes(values, Survey(self.like, codebook=self.codebook))
        weight = pl.Series(self.model.sensitive[-1], np.exp(values["w"]))
        return public.with_columns(*columns.values(), weight)


def _filled_up(number: NDArray[np.int64], spare: int) -> NDArray[np.int64]:
    """With records of a spare cell up to a power of two: programs are compiled for few sizes."""
    size = 1 << (len(number) - 1).bit_length()
    return np.append(number, np.full(size - len(number), spare))


def record_maker(
    model: SurveyNormal,
    survey: Survey,
    types: Mapping[str, pl.DataType],
    parameters: Mapping[str, Any],
    chance: Chance,
) -> RecordMaker:
    """For one draw; `survey` has the public rows, and anything in the place of what is made."""
    cells = PredictorCells(survey, formula_columns(model.predictors))
    rows = design_matrix(cells, model.predictors, model.sensitive)
    like = pl.DataFrame(schema=dict(types))
    codebook = survey.codebook.only(list(model.sensitive))
    return RecordMaker(model, rows, cells.lookup, like, codebook, parameters, chance)
