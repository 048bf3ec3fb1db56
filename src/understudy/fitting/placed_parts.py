"""What is done with some records of a Gaussian model wherever they are: NumPy alone, no model.

This is what travels to a worker: how a record becomes a cell and logarithms, and one question. Each
question makes a few arrays of some records; placed_records.py puts those of all records together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.dp.clipped_moments import first_sums, second_sums
from understudy.dp.moment_sums import moment_sums
from understudy.dp.quadratics import powers
from understudy.dp.record_blocks import RecordBlocks, record_blocks
from understudy.dp.record_weights import PlacedWeights
from understudy.survey.predictor_cells import cell_numbers_of

Floats = NDArray[np.float64]
FewArrays = list[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Scale:
    """The public side of all records."""

    cells: int
    sign: Floats  # (d,) of the targets among Y
    origin: Floats  # (d,) of the blocks' values
    unit: Floats


@dataclass(frozen=True, eq=False)
class SomeRecords:
    """Cells (n,) and targets (n, d) on the model's scale."""

    cell: NDArray[np.int64]
    values: Floats
    scale: Scale

    @property
    def blocks(self) -> RecordBlocks:
        return record_blocks(self.cell, self.values, self.scale.origin, self.scale.unit)

    @property
    def columns(self) -> Floats:
        """The columns of the Gaussian model, (d, n)."""
        return (self.values * self.scale.sign).T

    def bounds(self, quadratics: Floats) -> Floats:
        """max |f_i| over the draws, (n,)."""
        low, high = self.blocks.lowest_and_highest(lambda cell: quadratics[:, cell])
        return np.maximum(np.abs(low), np.abs(high))

    def alpha(self, weights: Floats | PlacedWeights) -> Floats:
        """(n,), from one number for all or a function of bounds."""
        if isinstance(weights, PlacedWeights):
            return weights.of_bounds(self.bounds(weights.bounds.quadratics))
        return np.broadcast_to(weights, self.cell.shape)


@dataclass(frozen=True, eq=False)
class RecordPart:
    """Turns a frame into arrays, and these into the answer of a question."""

    lookup: pl.DataFrame
    targets: tuple[str, ...]
    shift: Floats  # (d,) of the logarithms
    scale: Scale
    question: Callable[[SomeRecords], FewArrays]

    def __call__(self, frame: pl.DataFrame) -> FewArrays:
        columns = [frame[name].cast(pl.Float64).to_numpy() for name in self.targets]
        values = np.log(np.stack(columns, axis=1)) - self.shift
        cell = cell_numbers_of(frame, self.lookup)
        return self.question(SomeRecords(cell, values, self.scale))


@dataclass(frozen=True, eq=False)
class WeightedMoments:
    alpha: Floats | PlacedWeights

    def __call__(self, records: SomeRecords) -> FewArrays:
        return [
            *moment_sums(
                records.cell, records.scale.cells, records.columns, records.alpha(self.alpha)
            )
        ]


@dataclass(frozen=True, eq=False)
class Extremes:
    """The least and the largest record bound, the largest weighted one, and how many of these are
    beyond the limit."""

    quadratics: Floats  # (draws, cells, q)
    reference: Floats | None  # (cells, q)
    alpha: Floats | PlacedWeights
    limit: float

    def __call__(self, records: SomeRecords) -> FewArrays:
        bounds = records.bounds(self.quadratics)
        gain = bounds
        if self.reference is not None:
            gain = records.bounds(self.quadratics - self.reference)
        weighted = records.alpha(self.alpha) * gain
        beyond = (weighted > self.limit).sum()
        return [np.array([bounds.min(), bounds.max(), weighted.max(), beyond])]


@dataclass(frozen=True, eq=False)
class ClippedSums:
    """Of alpha times gains that are given by their quadratics."""

    gains: Floats  # (draws, cells, q)
    alpha: Floats
    limit: float

    def __call__(self, records: SomeRecords) -> FewArrays:
        alpha = np.full(len(records.cell), self.alpha)
        return [records.blocks.clipped_sums(lambda cell: self.gains[:, cell], alpha, self.limit)]


@dataclass(frozen=True, eq=False)
class GridSums:
    """Sums on a grid of values that are clipped to [centre - half, centre + half]."""

    centre: Floats
    half: Floats

    def __call__(self, records: SomeRecords) -> FewArrays:
        values = (records.columns.T - self.centre) / self.half
        cells = records.scale.cells
        sums = first_sums(values, records.cell, cells), second_sums(values)
        return [*sums, np.bincount(records.cell, minlength=cells)]


@dataclass(frozen=True, eq=False)
class Side:
    """Records that are given up: those where |alpha f| is at the limit, or f is below the cut."""

    quadratics: Floats  # (cells, q)
    alpha: Floats
    limit: float
    cut: Floats | None = None  # (cells,)

    def holds(self, records: SomeRecords) -> NDArray[np.bool_]:
        scaled = (records.values - records.scale.origin) / records.scale.unit
        loglik = (powers(scaled) * self.quadratics[records.cell]).sum(axis=1)
        if self.cut is not None:
            return np.asarray(loglik < self.cut[records.cell])
        return np.asarray(np.abs(self.alpha * loglik) >= self.limit)


@dataclass(frozen=True, eq=False)
class MomentsOfOthers:
    side: Side

    def __call__(self, records: SomeRecords) -> FewArrays:
        alpha = np.where(self.side.holds(records), 0.0, self.side.alpha)
        return [*moment_sums(records.cell, records.scale.cells, records.columns, alpha)]


@dataclass(frozen=True, eq=False)
class Differing:
    """How many records are on one side and not on the other."""

    side: Side
    other: Side

    def __call__(self, records: SomeRecords) -> FewArrays:
        return [np.array((self.side.holds(records) != self.other.holds(records)).sum())]
