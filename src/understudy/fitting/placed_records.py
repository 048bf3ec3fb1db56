"""Records of a Gaussian model that stay where they are: on disk, or on the workers of Spark.

Every question is one pass in which some records at a time are turned into a few numbers
(placed_parts.py). The numbers are those of the file in memory, but for the order in which they are
added up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.dp.clipped_moments import ExactCellSums
from understudy.dp.record_weights import PlacedBounds, PlacedWeights
from understudy.errors import Refused
from understudy.fitting.gaussian_records import CellQuadratics
from understudy.fitting.moments import Moments, moments_of
from understudy.fitting.placed_parts import (
    ClippedSums,
    Differing,
    Extremes,
    FewArrays,
    GridSums,
    MomentsOfOthers,
    RecordPart,
    Scale,
    Side,
    SomeRecords,
    WeightedMoments,
)
from understudy.models.contract import Arrays
from understudy.models.design_matrix import design_matrix
from understudy.models.public_totals import weight_unit
from understudy.models.survey_normal import (
    LEAST_SPREAD,
    SurveyNormal,
    is_collinear,
    not_above_zero,
    not_finite,
    not_numeric,
)
from understudy.survey.formula import formula_columns
from understudy.survey.partition_work import gathered
from understudy.survey.predictor_cells import PredictorCells
from understudy.survey.survey import Survey

MOST_NUMBERS = 2**26  # coefficients of all draws and cells, which go to every worker

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PlacedBoundsOfFit:
    """What a claim and record weights need of the bounds of all records (dp/record_bounds)."""

    loglik: PlacedBounds
    overall: float
    censored: int
    limit: float
    draws: int


@dataclass(frozen=True, eq=False)
class PlacedRecords:
    """`model` is bound to the survey, which has a weight, declared totals and no missing value."""

    model: SurveyNormal
    survey: Survey

    @cached_property
    def cells(self) -> PredictorCells:
        return PredictorCells(self.survey, formula_columns(self.model.predictors))

    @cached_property
    def rows(self) -> Floats:
        """The predictors of each cell, (cells, K)."""
        X = design_matrix(self.cells, self.model.predictors, self.model.sensitive)
        if is_collinear(np.sqrt(self.cells.counts)[:, None] * X):
            raise self.model.collinear()
        return X

    @property
    def arrays(self) -> Arrays:
        """A made-up record of each cell: what the model's prior and shapes are computed with."""
        arrays: Arrays = {"X": self.rows, "cell": np.arange(len(self.rows))}
        for target, middle in zip(self.model.targets, self._scale.origin, strict=True):
            arrays[target] = np.full(len(self.rows), middle)
        return arrays

    @cached_property
    def _shift(self) -> Floats:
        totals = self.model.totals
        assert totals is not None  # the model is bound
        shift = np.zeros(len(self.model.targets))
        shift[-1] = np.log(weight_unit(totals, self.survey.n))
        return shift

    @cached_property
    def _scale(self) -> Scale:
        """With the mean and the spread of all records: a first pass, which also checks them."""
        self._check_values()
        d = len(self.model.targets)
        ones = {name: np.ones(1) for name in self.model.targets}
        sign = np.concatenate(self.model.gaussian_values(ones))
        plain = Scale(len(self.rows), np.ones(d), np.zeros(d), np.ones(d))
        size, sums, products = self._added(WeightedMoments(np.ones(())), plain)
        moments = moments_of(self.rows, size, sums, products)
        mean = sums.sum(axis=0) / size.sum()
        fitted = np.linalg.solve(np.asarray(moments.XX), np.asarray(moments.XY))
        left = np.diag(products - np.asarray(moments.XY).T @ fitted) / size.sum()
        for name, variance in zip(self.model.sensitive, left, strict=True):
            if variance < LEAST_SPREAD**2:
                raise self.model.follows(name)
        spread = np.sqrt(np.diag(products) / size.sum() - mean**2)
        return Scale(len(self.rows), sign, mean, spread)

    def check(self) -> None:
        """Refused where the records do not suit the model: a pass, before anything is paid."""
        assert self._scale.cells

    def _check_values(self) -> None:
        table = self.survey.table
        facts: dict[str, Any] = {}
        for k, name in enumerate(self.model.sensitive):
            if not table[name].type().is_numeric():
                raise not_numeric(name)
            value = table[name].cast("float64")
            facts |= {f"n{k}": value.count(), f"low{k}": value.min(), f"high{k}": value.max()}
        values = table.aggregate(**facts).to_polars().row(0, named=True)
        for k, name in enumerate(self.model.sensitive):
            low, high = values[f"low{k}"], values[f"high{k}"]
            if values[f"n{k}"] < self.survey.n or not np.isfinite([low, high]).all():
                raise not_finite(name)
            if low <= 0:
                raise not_above_zero(name)

    def moments(self, alpha: Floats | PlacedWeights) -> Moments:
        return moments_of(self.rows, *self._added(WeightedMoments(alpha)))

    def bounds(
        self,
        positions: Floats,
        alpha: Floats | PlacedWeights,
        reference: Floats | None,
        limit: float,
    ) -> PlacedBoundsOfFit:
        """Of a fit's draws, over all records."""
        quadratics = self.quadratics(positions)
        at = None if reference is None else self.quadratics(reference[None])[0]
        parts = self._asked(Extremes(quadratics, at, alpha, limit))
        least, largest, weighted, beyond = np.array([part[0] for part in parts]).T
        return PlacedBoundsOfFit(
            PlacedBounds(quadratics, float(least.min()), float(largest.max())),
            min(float(weighted.max()), limit),
            int(beyond.sum()),
            limit,
            len(positions),
        )

    def clipped_sums(
        self, positions: Floats, reference: Floats | None, alpha: Floats, limit: float
    ) -> Floats:
        """As `GaussianRecords.clipped_sums`, with one weight for all records."""
        gains = self.quadratics(positions)
        if reference is not None:
            gains = gains - self.quadratics(reference[None])
        return self._added(ClippedSums(gains, alpha, limit))[0]

    def moments_of_others(self, side: Side) -> Moments:
        return moments_of(self.rows, *self._added(MomentsOfOthers(side)))

    def differing(self, side: Side, other: Side) -> float:
        return float(self._added(Differing(side, other))[0]) / self.survey.n

    def cell_sums(self, centre: Floats, half: Floats) -> ExactCellSums:
        """Sums on a grid, for noise."""
        first, second, sizes = self._added(GridSums(centre, half))
        return ExactCellSums(first, second, sizes, self.rows, centre, half, per_unit=1)

    def quadratics(self, positions: Floats) -> Floats:
        """(draws, cells, q), for all cells."""
        if refusal := too_many_cells(self.model, len(self.rows), len(positions)):
            raise Refused(refusal)
        scale = self._scale
        of_cell = CellQuadratics(self.model, self.rows, scale.origin, scale.unit).at(positions)
        return np.stack([of_cell(cell) for cell in range(len(self.rows))], axis=1)

    def _asked(
        self, question: Callable[[SomeRecords], FewArrays], scale: Scale | None = None
    ) -> list[FewArrays]:
        part = RecordPart(
            self.cells.lookup, self.model.sensitive, self._shift, scale or self._scale, question
        )
        names = list(dict.fromkeys([*self.cells.names, *self.model.sensitive]))
        return gathered(self.survey.table.select(names), part)

    def _added(
        self, question: Callable[[SomeRecords], FewArrays], scale: Scale | None = None
    ) -> FewArrays:
        return [np.sum(each, axis=0) for each in zip(*self._asked(question, scale), strict=True)]


def too_many_cells(model: SurveyNormal, cells: int, draws: int) -> str:
    """The sentence that refuses so many combinations of predictors; empty where they do."""
    d = len(model.targets)
    if draws * cells * (d + 1) * (d + 2) // 2 <= MOST_NUMBERS:
        return ""
    return (
        f"The predictors have {cells:,} combinations, too many to be sent to where the records "
        "are; leave predictors out, merge levels, or ask for fewer draws."
    )
