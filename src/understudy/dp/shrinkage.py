"""How far a noisy table is drawn to a smooth one: post-processing.

What a table says beyond a smooth table with the same margins is drawn to nothing as far as its
noise suggests. The smooth table has no dependence (the product of the margins) but this: where the
cells of a column lie on a scale, the mean of its normal scores given the other columns is kept.
Such a mean is a sum over many cells, in which noise is small. The smooth table is the one that is
nearest to the product of the margins in relative entropy among those with these means: each cell
is multiplied by exp(l q), q the score of the column's cell and l a number for each cell of the
other columns. For normal columns that is the table itself.

Drawn to the product of the margins instead, and cut off at nothing, a table of 20 by 20 cells loses
a tenth of its correlation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Vector = NDArray[np.float64]

NOTHING = 1e-9  # a share that stands for none
FEWEST = 2  # cells from which a spread can be estimated
ON_A_SCALE = 4  # cells of a scale from which means are looked at
SWEEPS = 30  # of the fit of a smooth table
LARGEST_STEP = 1.0  # of l in one sweep
CLOSE = 1e-5  # means of scores, over the share of all records


@dataclass(frozen=True, eq=False)
class _Trend:
    """Of a column on a scale: the scores of its cells, what is kept of the means given the others
    (the rest of it being noise), and what one unit of such a mean adds to the cells."""

    axis: int
    scores: Vector
    kept: _Kept
    profile: Vector

    def of(self, table: Vector) -> Vector:
        return np.asarray(np.tensordot(table, self.scores, (self.axis, 0)), dtype=np.float64)

    def added(self, means: Vector) -> Vector:
        return np.asarray(np.expand_dims(means, self.axis) * self.profile, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Kept:
    """A linear rule: what is kept of a deviation, of its trends first and of the rest by cells."""

    trends: list[_Trend]
    cells: Vector

    def __call__(self, deviation: Vector) -> Vector:
        result = np.zeros_like(deviation)
        for trend in self.trends:
            added = trend.added(trend.kept(trend.of(deviation)))
            result, deviation = result + added, deviation - added
        return result + self.cells * deviation

    def noise(self, variance: float) -> Vector:
        """The variance of what is kept where cells have independent noise of this variance. Trends
        of the later columns are without those that the first one has in common with them; that
        cells are without all trends is left out, as small."""
        total = np.asarray(self.cells**2 * variance, dtype=np.float64)
        for number, trend in enumerate(self.trends):
            kept = replace(trend.kept, trends=[]) if number else trend.kept
            means = kept.noise(variance * float(trend.scores @ trend.scores))
            total = total + np.expand_dims(means, trend.axis) * trend.profile**2
        return total


@dataclass(frozen=True, eq=False)
class Shrunk:
    """A table drawn to a smooth one, and the rule for what is kept of deviations from it."""

    table: Vector
    smooth: Vector
    outer: Vector  # of its margins
    kept: _Kept

    @property
    def followed(self) -> float:
        """What is kept of a cell's deviation, on average over the records."""
        return float((self.kept.cells * self.smooth).sum() / self.smooth.sum())

    def deviation(self, table: Vector, margins: Sequence[Vector]) -> Vector:
        """What is kept of the deviation of another table that has these margins, which are not
        drawn to anything."""
        moved = outer_product(margins) - self.outer
        share = np.divide(self.smooth, self.outer, out=np.ones_like(moved), where=self.outer > 0)
        return self.kept(table - moved) + share * moved


def shrunk(
    table: Vector, margins: Sequence[Vector], scales: Sequence[int], variance: float
) -> Shrunk:
    """A table of shares with these margins and noise of the given variance. The first
    `scales[axis]` cells of an axis lie on a scale."""
    outer = outer_product(margins)
    if variance <= 0:
        return Shrunk(table, outer, outer, _Kept([], np.ones_like(outer)))
    axes = [axis for axis, cells in enumerate(scales) if cells >= ON_A_SCALE]
    scores = [normal_scores(margins[axis], scales[axis]) for axis in axes]
    rules, wanted = [], []
    for axis, q in zip(axes, scores, strict=True):
        others = [k for k in range(len(margins)) if k != axis]
        means = np.tensordot(table - outer, q, (axis, 0))
        drawn = _of_means(
            means, [margins[k] for k in others], [scales[k] for k in others],
            variance * float(q @ q),
        )  # fmt: skip
        rules.append(drawn)
        wanted.append(drawn(means))
    smooth = _tilted(outer, margins, axes, scores, wanted)
    trends = [
        _Trend(axis, q, rule, _profile(smooth, axis, q))
        for axis, q, rule in zip(axes, scores, rules, strict=True)
    ]
    gap = table - smooth
    kept = _Kept(trends, kept_share(gap, smooth, variance))
    common = float((kept.cells * gap).sum() / max(float(kept.cells.sum()), NOTHING))
    return Shrunk(smooth + kept.cells * (gap - common), smooth, outer, kept)


def _of_means(
    means: Vector, margins: Sequence[Vector], scales: Sequence[int], variance: float
) -> _Kept:
    """The rule for deviations of a table of means from nothing: trends of the first column on a
    scale, and cells."""
    outer = outer_product(margins)
    for axis, cells in enumerate(scales):
        if cells < ON_A_SCALE:
            continue
        q = normal_scores(margins[axis], cells)
        others = [k for k in range(len(margins)) if k != axis]
        of_means = np.asarray(np.tensordot(means, q, (axis, 0)), dtype=np.float64)
        rule = _of_means(
            of_means, [margins[k] for k in others], [scales[k] for k in others],
            variance * float(q @ q),
        )  # fmt: skip
        trend = _Trend(axis, q, rule, _profile(outer, axis, q))
        left = means - trend.added(of_means)
        return _Kept([trend], kept_share(left, outer, variance))
    return _Kept([], kept_share(means, outer, variance))


def normal_scores(margin: Vector, scale: int) -> Vector:
    """Scores of the first `scale` cells with mean 0 and variance 1 on the scale; 0 elsewhere."""
    shares = np.maximum(margin[:scale], NOTHING)
    shares = shares / shares.sum()
    scores = ndtri(np.cumsum(shares) - shares / 2)
    scores = scores - shares @ scores
    result = np.zeros(margin.size)
    result[:scale] = scores / np.sqrt(shares @ scores**2)
    return result


def _tilted(
    outer: Vector,
    margins: Sequence[Vector],
    axes: Sequence[int],
    scores: Sequence[Vector],
    wanted: Sequence[Vector],
) -> Vector:
    """The product of the margins, moved to these means of scores: Newton's steps in turn."""
    table = outer
    for _ in range(SWEEPS if axes else 0):
        furthest = 0.0
        for axis, q, means in zip(axes, scores, wanted, strict=True):
            missing = means - np.tensordot(table, q, (axis, 0))
            furthest = max(furthest, float(np.abs(missing).max()))
            spread = np.maximum(_centred(table, axis, q)[1], NOTHING**2)
            step = np.clip(missing / spread, -LARGEST_STEP, LARGEST_STEP)
            table = table * np.exp(np.expand_dims(step, axis) * _along(q, axis, table.ndim))
            for other, margin in enumerate(margins):
                sums = table.sum(axis=tuple(k for k in range(table.ndim) if k != other))
                factor = np.divide(margin, sums, out=np.zeros_like(margin), where=sums > 0)
                table = table * _along(factor, other, table.ndim)
        if furthest < CLOSE:
            break
    return table


def _profile(table: Vector, axis: int, q: Vector) -> Vector:
    """What one unit of the mean of scores adds to the cells, by a small tilt."""
    centred, spread = _centred(table, axis, q)
    spread = np.expand_dims(spread, axis)
    return np.divide(table * centred, spread, out=np.zeros_like(table), where=spread > NOTHING**2)


def _centred(table: Vector, axis: int, q: Vector) -> tuple[Vector, Vector]:
    """Scores less their mean given the other columns, and the sums of their squares."""
    along = _along(q, axis, table.ndim)
    sums = np.maximum(table.sum(axis=axis, keepdims=True), NOTHING**2)
    centred = along - (table * along).sum(axis=axis, keepdims=True) / sums
    return centred, (table * centred**2).sum(axis=axis)


def _along(vector: Vector, axis: int, dimensions: int) -> Vector:
    shape = [1] * dimensions
    shape[axis] = vector.size
    return vector.reshape(shape)


def kept_share(deviation: Vector, expected: Vector, variance: float) -> Vector:
    """How much of each cell's deviation from what was expected is kept, between 0 and 1.

    Deviations are taken as N(0, t e) of cells with expected share e (departures grow with the
    cell, as those of chi-square do), seen with noise of the given variance; t is the one that makes
    them likeliest. What is kept, t e / (t e + variance), is then the posterior mean (empirical
    Bayes). All of it is post-processing.
    """
    if variance <= 0 or deviation.size < FEWEST:
        return np.ones_like(expected)
    e, squares = np.maximum(expected.ravel(), NOTHING), deviation.ravel() ** 2
    steps = variance / e.mean() * np.exp(np.linspace(-6.0, 12.0, 73))
    spreads = steps[:, None] * e + variance
    likelihood = -(np.log(spreads) + squares / spreads).sum(axis=1)
    t = float(steps[int(np.argmax(likelihood))])
    return np.asarray(t * expected / (t * expected + variance), dtype=np.float64)


def outer_product(margins: Sequence[Vector]) -> Vector:
    """The table of independent columns with these margins; 1 without any."""
    outer = np.ones(())
    for margin in margins:
        outer = np.multiply.outer(outer, margin)
    return outer
