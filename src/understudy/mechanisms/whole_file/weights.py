"""The design weights of a synthetic file: the drawn ones, and smoothed ones for estimates.

A weight is a column like others, and is drawn with them. Estimates are better with its mean given
the others (T §2.1, without a lognormal): weights that depend on a record's cells alone and have the
same sums as the drawn ones in every cell of every measured table with the weight. Their spread is
too small for variances (intervals from them cover too rarely), so these use the drawn weights.

Both are raked to the public totals and stay between the declared bounds of the weight, where
there are such weights; they need not be whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.mechanisms.whole_file.calibration import (
    Bounds,
    CellNumbers,
    CellSums,
    combined,
    raked,
    settled,
    weighed,
)
from understudy.mechanisms.whole_file.noisy_file import NoisyFile
from understudy.mechanisms.whole_file.records import Block, moved
from understudy.survey.cells import ColumnCells
from understudy.survey.codebook import Codebook, Column, Value
from understudy.survey.design import Design

Vector = NDArray[np.float64]
Codes = NDArray[np.int32]

SMOOTHINGS = 15  # sweeps over the measured tables
NEAR = 1e-4  # relative, of sums of weights
SUFFIX = "_smoothed"


def published_design(design: Design) -> Design:
    """The design of the synthetic files: smoothed weights for estimates, drawn for variances."""
    if design.weight is None or design.variance_weight is not None:
        return design
    return replace(design, weight=design.weight + SUFFIX, variance_weight=design.weight)


def smoothed_column(design: Design) -> Column | None:
    """What the codebook says of the smoothed weight."""
    if design.weight is None:
        return None
    return Column(design.weight, "weight", "continuous", "Smoothed design weight, for estimates")


def drawn_column(column: Column) -> Column:
    """What it says of the drawn weight: whole numbers do not stay whole when they are raked to
    totals. The cells stay those that its tables were counted in."""
    if column.type != "integer":
        return column
    return replace(column, type="continuous", rounding=column.rounding or 1.0)


class FileWeights:
    """Both weights of the records of one file, which come in blocks made from a pool."""

    def __init__(
        self,
        noisy: NoisyFile,
        cells: Sequence[ColumnCells],
        pool: Codes,
        codebook: Codebook,
        design: Design,
    ) -> None:
        self._noisy, self._cells, self._codebook = noisy, cells, codebook
        self._names = published_design(design)
        self._rows: list[NDArray[np.int32]] = []  # of the pool, or of records that rules changed
        self._codes = [pool]
        self._count = len(pool)
        self._drawn: list[Vector] = []
        self._public: list[list[CellSums]] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the drawn and of the smoothed weight; none where the design has none."""
        drawn, smoothed = self._names.variance_weight, self._names.weight
        return () if drawn is None or smoothed is None else (drawn, smoothed)

    def add(self, block: Block) -> None:
        """Look at the next block."""
        if not self.names:
            return
        self._drawn.append(block.frame[self.names[0]].cast(pl.Float64).to_numpy())
        self._public.append(public_sums(block.frame, self._codebook))
        self._rows.append(self._rows_of(block))

    def _rows_of(self, block: Block) -> NDArray[np.int32]:
        """The rows, with new ones for records whose coarse cells were changed by rules."""
        other, codes = moved(block, self._cells, self._noisy.coarse, self._codes[0])
        rows = block.rows.copy()
        rows[other] = self._count + np.arange(other.size)
        self._codes.append(codes)
        self._count += other.size
        return rows

    def both(self) -> list[Vector]:
        """Drawn and smoothed weights, calibrated to the public totals, in the order of the blocks;
        none where the design has none."""
        if not self.names:
            return []
        totals: list[CellSums] = [
            (np.concatenate([each[k][0] for each in self._public]), sums)
            for k, (_, sums) in enumerate(self._public[0])
        ]
        drawn, rows = np.concatenate(self._drawn), np.concatenate(self._rows)
        share = self._noisy.records / drawn.size  # weights are those of a file of its size
        bounds = weight_bounds(self._codebook, self.names[0], share)
        drawn = calibrated(drawn * share, totals, bounds)
        codes = np.vstack(self._codes)
        records = np.bincount(rows, minlength=len(codes)).astype(np.float64)
        sums = np.bincount(rows, drawn, minlength=len(codes)).astype(np.float64)
        position = self._noisy.columns.index(self.names[0])
        places = table_places(codes, self._noisy, position)
        return [drawn, calibrated(smoothed(sums, records, places)[rows], totals, bounds)]


def weight_bounds(codebook: Codebook, name: str, share: float) -> Bounds | None:
    """The declared bounds of the weight, in a file with another number of records."""
    declared = codebook[name].bounds
    return None if declared is None else (share * declared[0], share * declared[1])


def table_places(codes: Codes, noisy: NoisyFile, weight: int) -> list[CellNumbers]:
    """The cell of each row in every measured table that has the weight, without it."""
    tables = [[j for j in names if j != weight] for names in noisy.measured if weight in names]
    places: list[CellNumbers] = []
    for names in tables:
        cell = np.zeros(len(codes), dtype=np.int64)
        for j in names:
            cell = cell * noisy.sizes[j] + codes[:, j]
        places.append(cell)
    return places


def smoothed(sums: Vector, records: Vector, places: Sequence[CellNumbers]) -> Vector:
    """The weight of a record in each row of cells, nearest to equal ones (in relative entropy),
    with the same sums in every table's cells. `sums` are those of the rows' drawn weights."""
    steps = [(cell, np.bincount(cell, sums).astype(np.float64)) for cell in places]
    equal = np.full(sums.size, sums.sum() / records.sum())
    return raked(equal, steps, SMOOTHINGS, NEAR, records)


def calibrated(weights: Vector, totals: Sequence[CellSums], bounds: Bounds | None = None) -> Vector:
    """The weights raked to the public totals, inside the bounds unless only others meet the totals.
    Without totals they stay as they are."""
    if not totals:
        return weights
    combination, steps = combined(totals)
    ask = partial(weighed, weights, combination, steps[0][0].size)
    return settled(ask, steps, bounds).of(weights, combination)


def public_sums(frame: pl.DataFrame, codebook: Codebook) -> list[CellSums]:
    """The public totals: of levels where the codebook has them, and of all records."""
    steps = [
        _places(frame[name], totals)
        for name, totals in codebook.population_by.items()
        if name in frame.columns
    ]
    if codebook.population_size is not None:
        whole = np.array([codebook.population_size])
        steps.append((np.zeros(frame.height, dtype=np.int32), whole))
    return steps


def _places(values: pl.Series, totals: Mapping[Value, float]) -> CellSums:
    """Each record's position among the levels that have a total; -1 where it has none."""
    texts = [str(level) for level in totals]
    places = values.cast(pl.String).replace_strict(
        texts, range(len(texts)), default=-1, return_dtype=pl.Int32
    )
    return places.to_numpy(), np.array([*totals.values()], dtype=np.float64)
