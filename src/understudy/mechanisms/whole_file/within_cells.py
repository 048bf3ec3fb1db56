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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
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
    is the row's in the other arrays, -1 where it is not on the scale."""

    position: NDArray[np.intp]
    low: Vector
    high: Vector
    mean: Vector
    deviation: float

    def drawn(self, rows: NDArray[Any], rng: np.random.Generator) -> Vector:
        """A score for each record, which is in one of the rows of cells; NaN off the scale."""
        scores, position = np.full(len(rows), np.nan), self.position[rows]
        inside = np.flatnonzero(position >= 0)
        position = position[inside]
        low, high, mean = self.low[position], self.high[position], self.mean[position]
        scores[inside] = _between(low, high, mean, self.deviation, rng)
        return scores


def score_laws(
    coarse: Codes, weights: Vector, tables: Sequence[ColumnNumbers], runs: Mapping[int, int]
) -> dict[int, ScoreLaw]:
    """The law of the scores of the columns on a scale, whose first `runs` coarse cells lie on it,
    in each row of cells, given the columns that are in one of the `tables` with it. A row stands
    for as many records as its weight says."""
    laws = {}
    for column, cells in runs.items():
        others = sorted({name for names in tables if column in names for name in names} - {column})
        inside = np.flatnonzero(coarse[:, column] < cells)
        position = np.full(len(coarse), -1, dtype=np.intp)
        position[inside] = np.arange(inside.size)
        beside = [coarse[inside, name] for name in others]
        law = _law(coarse[inside, column], beside, weights[inside], cells)
        laws[column] = ScoreLaw(position, *law)
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
    cell: Codes, beside: Sequence[Codes], weights: Vector, cells: int
) -> tuple[Vector, Vector, Vector, float]:
    """Limits and mean of each row's score, and the standard deviation of all."""
    if not weights.sum() > 0:
        nothing = np.zeros(cell.size)
        return nothing, nothing, nothing, 1.0
    sums = np.asarray(np.bincount(cell, weights, minlength=cells), dtype=np.float64)
    low, high, middle = _intervals(sums)
    response = middle[cell]
    mean = response - _left_over(response, beside, weights)
    explained = float(np.average(response**2, weights=weights))
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


def _left_over(response: Vector, beside: Sequence[Codes], weights: Vector) -> Vector:
    """What the effects of the other columns' cells do not explain (Gauss and Seidel's steps), by
    the sums in these cells and the tables of each two columns: one pass over the records each."""
    left = response - np.average(response, weights=weights)
    size = [int(codes.max(initial=0)) + 1 for codes in beside]
    sums = [np.bincount(codes, weights * left) for codes in beside]
    own = [np.bincount(codes, weights) for codes in beside]
    both: dict[tuple[int, int], Vector] = {
        (j, j): np.diag(records) for j, records in enumerate(own)
    }
    for j, k in combinations(range(len(beside)), 2):
        places = beside[j].astype(np.int64) * size[k] + beside[k]
        table = np.bincount(places, weights, size[j] * size[k]).reshape(size[j], size[k])
        both[j, k] = table.astype(np.float64)
        both[k, j] = both[j, k].T
    effects = [np.zeros(cells) for cells in size]
    for _ in range(SWEEPS):
        furthest = 0.0
        for j, records in enumerate(own):
            explained = sum(both[j, k] @ effect for k, effect in enumerate(effects))
            step = (sums[j] - explained) / np.maximum(records, 1e-300)
            effects[j] = effects[j] + step
            furthest = max(furthest, float(np.abs(step).max()))
        if furthest < CLOSE:
            break
    for codes, effect in zip(beside, effects, strict=True):
        left = left - effect[codes]
    return left


def _between(
    low: Vector, high: Vector, mean: Vector, deviation: float, rng: np.random.Generator
) -> Vector:
    """Normal numbers between two others; from the tail that lies nearer, where they are far out."""
    below, above = (low - mean) / deviation, (high - mean) / deviation
    turned = below > 0
    below, above = np.where(turned, -above, below), np.where(turned, -below, above)
    first, last = ndtr(below), ndtr(above)
    drawn = ndtri(first + rng.random(mean.size) * (last - first))
    drawn = np.clip(drawn, below, above)
    return np.asarray(mean + deviation * np.where(turned, -drawn, drawn), dtype=np.float64)


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
        cells = int(mapped.max()) + 1
        if cells == mapped.size:  # none were merged
            drawn.append(np.argsort(mapped).astype(np.int32)[coarse[:, j]])
            continue
        first = known[j].argsort() if j in known else rng.permutation(len(coarse))
        order = first[np.argsort(coarse[first, j], kind="stable")]
        bounds = np.searchsorted(coarse[order, j], np.arange(cells + 1))
        codes = np.empty(len(coarse), dtype=np.int32)
        for cell in range(cells):
            rows = order[bounds[cell] : bounds[cell + 1]]
            members = np.flatnonzero(mapped == cell)
            if members.size == 1 or rows.size == 0:
                codes[rows] = members[0]
                continue
            heights = np.cumsum(share[members])
            size = np.ones(rows.size) if weights is None else weights[rows]
            reached = np.cumsum(size)
            levels = (reached - rng.random() * size) * (heights[-1] / reached[-1])
            places = np.minimum(np.searchsorted(heights, levels, side="right"), members.size - 1)
            codes[rows] = members[places]
        drawn.append(codes)
    return drawn
