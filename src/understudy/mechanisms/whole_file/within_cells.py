"""Fine cells for records in coarse ones, in an order that goes by the record's other columns.

Tables say how a number in coarse cells depends on other columns. Drawn at random within a coarse
cell, it would not depend on them there, and means of groups would be drawn to the middle: those who
have high incomes more often also have higher ones among the highest. So what the coarse cells show
is carried on within them, by the law that normal columns have:

1. The scores z of a column on a scale are standard normal; a record in cell k has its score in
   (a_k, b_k), where the normal distribution reaches the shares of the cells, and E(z | k) is known.
2. E(z | k) is fitted by a sum of effects of the cells of the other columns, least squares. Columns
   x that are normal with z have Cov(x, E(z | k)) = v Cov(x, z), v the variance of E(z | k): the fit
   over v is the mean m of a record's score, and its variance is 1 - Var(m).
3. Each record draws its score from that normal law, between a_k and b_k. In the order of the scores
   the records of a cell have its fine cells, from low to high, in the shares that these have.

So the one-way tables are as without an order. Only records and shares that were made from noisy
tables come in: post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Vector = NDArray[np.float64]
Codes = NDArray[np.int32]
ColumnNumbers = tuple[int, ...]

SWEEPS = 20  # of the fit of effects, one column after the other
CLOSE = 1e-3  # the largest change of an effect in a sweep that ends it, in scores
MOST = 0.95  # of the variance of scores that other columns may explain


@dataclass(frozen=True, eq=False)
class ScoreLaw:
    """The law of a column's scores in each row of cells: normal, between two limits. `position`
    is the row's in the other arrays, -1 where it is not on the scale.

    z = (score - mean) / deviation lies between `below` and `above`, where the normal distribution
    begins with `first` and has `width`. Limits far above the mean are turned, for there it is all
    but 1: `deviation` is negative then.
    """

    position: NDArray[np.intp]
    below: Vector
    above: Vector
    first: Vector
    width: Vector
    mean: Vector
    deviation: Vector

    @staticmethod
    def between(
        position: NDArray[np.intp], low: Vector, high: Vector, mean: Vector, deviation: float
    ) -> ScoreLaw:
        """Of scores between limits, with the same deviation in every row."""
        below, above = (low - mean) / deviation, (high - mean) / deviation
        turned = below > 0
        below, above = np.where(turned, -above, below), np.where(turned, -below, above)
        first = ndtr(below)
        signed = np.where(turned, -deviation, deviation)
        return ScoreLaw(position, below, above, first, ndtr(above) - first, mean, signed)

    def drawn(self, rows: NDArray[Any], rng: np.random.Generator) -> Vector:
        """A score for each record, which is in one of the rows of cells; NaN off the scale."""
        scores, position = np.full(len(rows), np.nan), self.position[rows]
        inside = np.flatnonzero(position >= 0)
        at = position[inside]
        z = ndtri(self.first.take(at) + rng.random(at.size) * self.width.take(at))
        z = np.clip(z, self.below.take(at), self.above.take(at))
        scores[inside] = self.mean.take(at) + self.deviation.take(at) * z
        return scores


class _Rows:
    """Rows of cells and their weights, with the tables of two columns that several laws need."""

    def __init__(self, codes: Sequence[Codes], weights: Vector) -> None:
        self.codes, self.weights = [column.astype(np.intp) for column in codes], weights
        self.sizes = [int(column.max(initial=0)) + 1 for column in codes]
        self._tables: dict[ColumnNumbers, Vector] = {}

    def table(self, first: int, second: int) -> Vector:
        """The weights in the cells of two columns, one of which may be the other."""
        if first > second:
            return self.table(second, first).T
        if (first, second) not in self._tables:
            shape = self.sizes[first], self.sizes[second]
            places = self.codes[first] * shape[1] + self.codes[second]
            table = np.bincount(places, self.weights, shape[0] * shape[1]).reshape(shape)
            self._tables[first, second] = table.astype(np.float64)
        return self._tables[first, second]


def score_laws(
    coarse: Codes, weights: Vector, tables: Sequence[ColumnNumbers], runs: Mapping[int, int]
) -> dict[int, ScoreLaw]:
    """The law of the scores of the columns on a scale, whose first `runs` coarse cells lie on it,
    in each row of cells, given the columns that are in one of the `tables` with it. A row stands
    for as many records as its weight says."""
    laws, whole = {}, _Rows([*coarse.T], weights)
    for column, cells in runs.items():
        others = sorted({name for names in tables if column in names for name in names} - {column})
        inside = np.flatnonzero(coarse[:, column] < cells)
        rows = whole
        if inside.size < len(coarse):
            rows = _Rows([codes[inside] for codes in coarse.T], weights[inside])
        position = np.full(len(coarse), -1, dtype=np.intp)
        position[inside] = np.arange(inside.size)
        laws[column] = ScoreLaw.between(position, *_law(rows, column, others, cells))
    return laws


def scores_within(
    coarse: Codes,
    weights: Vector,
    tables: Sequence[ColumnNumbers],
    runs: Mapping[int, int],
    rng: np.random.Generator,
) -> dict[int, Vector]:
    """One score for each row of cells."""
    laws, rows = score_laws(coarse, weights, tables, runs), np.arange(len(coarse))
    return {column: law.drawn(rows, rng) for column, law in laws.items()}


def _law(
    rows: _Rows, column: int, others: Sequence[int], cells: int
) -> tuple[Vector, Vector, Vector, float]:
    """Limits and mean of each row's score, and the standard deviation of all."""
    cell, weights = rows.codes[column], rows.weights
    if not weights.sum() > 0:
        nothing = np.zeros(cell.size)
        return nothing, nothing, nothing, 1.0
    sums = np.zeros(cells)
    sums[: rows.sizes[column]] = np.diag(rows.table(column, column))
    low, high, middle = _intervals(sums)
    mean = _explained(middle[: rows.sizes[column]], rows, column, others)
    explained = float(np.average(middle**2, weights=sums))
    mean = mean / max(explained, 1e-9)
    spread = float(np.average(mean**2, weights=weights))
    if spread > MOST:
        mean, spread = mean * np.sqrt(MOST / spread), MOST
    return low[cell], high[cell], mean, float(np.sqrt(1 - spread))


def _intervals(sums: Vector) -> tuple[Vector, Vector, Vector]:
    """Where each cell begins and ends in scores, and its mean score."""
    shares = sums / max(float(sums.sum()), 1e-300)
    edges = ndtri(np.clip(np.append(0.0, np.cumsum(shares)), 0.0, 1.0))
    edges[-1] = np.inf
    density = np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi)
    mean = np.divide(-np.diff(density), shares, out=np.zeros_like(shares), where=shares > 0)
    return edges[:-1], edges[1:], mean


def _explained(middle: Vector, rows: _Rows, column: int, others: Sequence[int]) -> Vector:
    """What the effects of other columns' cells explain in each row of a column's scores, which are
    `middle` in its cells (Gauss and Seidel's steps), from the tables of each two columns alone."""
    average = np.average(middle, weights=np.diag(rows.table(column, column)))
    explained = np.full(len(rows.weights), average)
    if not others:
        return explained
    sums = np.concatenate([rows.table(j, column) @ (middle - average) for j in others])
    both = np.vstack([np.hstack([rows.table(j, k) for k in others]) for j in others])
    records = np.maximum(np.diag(both), 1e-300)
    ends = np.cumsum([rows.sizes[j] for j in others])
    parts = [slice(end - rows.sizes[j], end) for j, end in zip(others, ends, strict=True)]
    effects = np.zeros(sums.size)
    for _ in range(SWEEPS):
        before = effects.copy()
        for part in parts:
            effects[part] += (sums[part] - both[part] @ effects) / records[part]
        if np.allclose(effects, before, rtol=0.0, atol=CLOSE):
            break
    for j, part in zip(others, parts, strict=True):
        explained += effects[part][rows.codes[j]]
    return explained


def fine_codes(
    coarse: Codes,
    shares: Sequence[Vector],
    maps: Sequence[Codes],
    rng: np.random.Generator,
    scores: Mapping[int, Vector] | None = None,
    weights: Vector | None = None,
) -> list[Codes]:
    """A fine cell for each coarse one, in the given shares: as even as whole records can be, in the
    order of the scores where a column has some, else in random order. Records count alike, or as
    much as their `weights`."""
    known, drawn = scores or {}, []
    for j, (share, mapped) in enumerate(zip(shares, maps, strict=True)):
        members = np.bincount(mapped)
        codes = np.unique(mapped, return_index=True)[1].astype(np.int32)[coarse[:, j]]
        for cell, inside in _merged_cells(coarse[:, j], members):
            order = known[j][inside].argsort() if j in known else rng.permutation(inside.size)
            rows = inside[order]
            heights = np.cumsum(share[mapped == cell])
            size = np.ones(rows.size) if weights is None else weights[rows]
            reached = np.cumsum(size)
            levels = (reached - rng.random() * size) * (heights[-1] / reached[-1])
            ends = np.searchsorted(levels, heights[:-1])  # of the fine cells among the records
            counts = np.diff(ends, prepend=0, append=rows.size)
            codes[rows] = np.repeat(np.flatnonzero(mapped == cell), counts)
        drawn.append(codes)
    return drawn


def _merged_cells(
    codes: Codes, members: NDArray[np.intp]
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """The records of every coarse cell that has some, and several fine cells."""
    if members.max() == 1:
        return
    order = np.argsort(codes.astype(np.uint16), kind="stable")  # small numbers: by counting
    ends = np.cumsum(np.bincount(codes, minlength=members.size))
    for cell in np.flatnonzero(members > 1):
        rows = order[ends[cell - 1] if cell else 0 : ends[cell]]
        if rows.size:
            yield int(cell), rows
