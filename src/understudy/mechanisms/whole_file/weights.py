"""The design weights of a synthetic file: the drawn ones, and smoothed ones for estimates.

A weight is a column like others, and is drawn with them. Estimates are better with its mean given
the others (T §2.1, without a lognormal): weights that depend on a record's cells alone and have the
same sums as the drawn ones in every cell of every measured table with the weight. Their spread is
too small for variances (intervals from them cover too rarely), so these use the drawn weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.mechanisms.whole_file.noisy_file import NoisyFile
from understudy.survey.cells import ColumnCells
from understudy.survey.codebook import Codebook, Column, Value
from understudy.survey.design import Design

Vector = NDArray[np.float64]
Places = NDArray[np.int64]
CellSums = tuple[
    Places, Vector
]  # each record's cell, -1 for none, and the weights' sums of the cells

SWEEPS = 50  # over the public totals
SMOOTHINGS = 15  # sweeps over the measured tables
CLOSE, NEAR = 1e-9, 1e-4  # relative, of sums of weights
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


def with_weights(
    frame: pl.DataFrame,
    noisy: NoisyFile,
    cells: Sequence[ColumnCells],
    codebook: Codebook,
    design: Design,
) -> pl.DataFrame:
    """The drawn records with both weights, calibrated to the public totals."""
    published = published_design(design)
    if published.weight is None or published.variance_weight is None:
        return frame
    totals = public_sums(frame, codebook)
    drawn = frame[published.variance_weight].cast(pl.Float64).to_numpy()
    drawn = calibrated(drawn * (noisy.records / frame.height), totals)  # of a file of its size
    smooth = smoothed(drawn, cell_sums(frame, drawn, noisy, cells, published.variance_weight))
    return frame.with_columns(
        pl.Series(published.variance_weight, drawn),
        pl.Series(published.weight, calibrated(smooth, totals)),
    )


def cell_sums(
    frame: pl.DataFrame,
    drawn: Vector,
    noisy: NoisyFile,
    cells: Sequence[ColumnCells],
    weight: str,
) -> list[CellSums]:
    """The drawn weights' sums in the cells of every measured table that has the weight."""
    position = noisy.columns.index(weight)
    codes: dict[int, Places] = {}
    sums: list[CellSums] = []
    for names in noisy.measured:
        if position not in names:
            continue
        places = np.zeros(frame.height, dtype=np.int64)
        for j in (j for j in names if j != position):
            if j not in codes:
                fine = cells[j].codes(frame[noisy.columns[j]])
                codes[j] = noisy.coarse[j][fine].astype(np.int64)
            places = places * noisy.sizes[j] + codes[j]
        sums.append((places, np.bincount(places, drawn).astype(np.float64)))
    return sums


def smoothed(drawn: Vector, sums: Sequence[CellSums]) -> Vector:
    """The weights nearest to equal ones (in relative entropy) that have these sums."""
    return _raked(np.full(drawn.size, drawn.mean()), sums, SMOOTHINGS, NEAR)


def calibrated(weights: Vector, totals: Sequence[CellSums]) -> Vector:
    """The weights raked to the public totals. Without totals they stay as they are."""
    return _raked(weights, totals, SWEEPS, CLOSE)


def public_sums(frame: pl.DataFrame, codebook: Codebook) -> list[CellSums]:
    """The public totals: of levels where the codebook has them, and of all records."""
    steps = [
        _places(frame[name], totals)
        for name, totals in codebook.population_by.items()
        if name in frame.columns
    ]
    if codebook.population_size is not None:
        whole = np.array([codebook.population_size])
        steps.append((np.zeros(frame.height, dtype=np.int64), whole))
    return steps


def _raked(weights: Vector, steps: Sequence[CellSums], sweeps: int, close: float) -> Vector:
    weights = weights.copy()
    for _ in range(sweeps):
        worst = 0.0
        for position, totals in steps:
            inside = position >= 0
            sums = np.bincount(position[inside], weights[inside], minlength=totals.size)
            factor = np.divide(totals, sums, out=np.ones_like(totals), where=sums > 0)
            weights[inside] *= factor[position[inside]]
            worst = max(worst, float(np.abs(factor - 1).max(initial=0.0)))
        if worst < close:
            break
    return weights


def _places(values: pl.Series, totals: Mapping[Value, float]) -> CellSums:
    """Each record's position among the levels that have a total; -1 where it has none."""
    texts = [str(level) for level in totals]
    places = values.cast(pl.String).replace_strict(
        texts, range(len(texts)), default=-1, return_dtype=pl.Int64
    )
    return places.to_numpy(), np.array([*totals.values()], dtype=np.float64)
