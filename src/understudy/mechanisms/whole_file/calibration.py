"""Weights raked to public totals, from sums by combination of the totals' levels alone.

Raking multiplies a weight by factors of the record's levels. So it needs the sums of the weights in
each combination of these levels and gives a factor for each: whoever has the records makes the
sums, in this process or on Spark's workers. Where weights have bounds, they are held between them
and raked again, which takes new sums, until nothing moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
CellNumbers = NDArray[np.int32] | NDArray[np.int64]
CellSums = tuple[
    CellNumbers, Vector
]  # each record's cell, -1 for none, and the weights' sums of the cells
Bounds = tuple[float, float]

SWEEPS = 50  # over the public totals
CLOSE = 1e-9  # relative, of sums of weights


@dataclass(frozen=True, eq=False)
class Calibration:
    """`factors` of each combination, one set after another; before each but the first, and at the
    end where `held`, weights are put between the bounds."""

    factors: tuple[Vector, ...] = field(default=(), repr=False)
    bounds: Bounds | None = None
    held: bool = False

    def of(self, weights: Vector, combination: CellNumbers) -> Vector:
        """The weights of records with these combinations, counted from 0."""
        for number, factor in enumerate(self.factors):
            weights = (self.inside(weights) if number else weights) * factor[combination]
        return self.inside(weights) if self.held else weights

    def inside(self, weights: Vector) -> Vector:
        return weights if self.bounds is None else weights.clip(*self.bounds)


@dataclass(frozen=True, eq=False)
class Weighed:
    """Of weights as they are: their sums in each combination, held between the bounds but for the
    first time, and the smallest and largest."""

    sums: Vector
    low: float
    high: float


def settled(
    ask: Callable[[Calibration], Weighed], totals: Sequence[CellSums], bounds: Bounds | None
) -> Calibration:
    """The factors that bring weights to the totals, inside the bounds unless only others meet the
    totals. `totals` have the cells of each combination."""
    if not totals:
        return Calibration()
    nothing = Calibration(bounds=bounds)
    free = replace(nothing, factors=(_factors(ask(nothing).sums, totals),))
    if bounds is None:
        return free
    inside = free
    for _ in range(SWEEPS):
        weighed = ask(inside)
        if bounds[0] <= weighed.low and weighed.high <= bounds[1]:
            return inside
        factor = _factors(weighed.sums, totals)
        inside = replace(inside, factors=(*inside.factors, factor))
        if np.abs(factor - 1).max() < CLOSE:
            return replace(inside, held=True)
    return free


def _factors(sums: Vector, totals: Sequence[CellSums]) -> Vector:
    return raked(np.ones(sums.size), totals, SWEEPS, CLOSE, sums)


def weighed(
    weights: Vector, combination: CellNumbers, count: int, calibration: Calibration
) -> Weighed:
    """What is asked of records that are here."""
    now = calibration.of(weights, combination)
    held = calibration.inside(now) if calibration.factors else now
    sums = np.bincount(combination, held, count).astype(np.float64)
    return Weighed(sums, float(now.min()), float(now.max()))


def combined(totals: Sequence[CellSums]) -> tuple[CellNumbers, list[CellSums]]:
    """The combination of each record, counted from 0, and the cells of each combination."""
    number = np.zeros(totals[0][0].size, dtype=np.int64)
    count = 1
    for places, sums in totals:
        number, count = _through(number * (sums.size + 1) + places + 1, count * (sums.size + 1))
    example = np.empty(count, dtype=np.int64)
    example[number] = np.arange(number.size)
    return number, [(places[example], sums) for places, sums in totals]


def _through(number: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], int]:
    """Numbers below `size` as those from 0 on that leave none out, and how many these are."""
    if size > max(number.size, 1_000):
        different, through = np.unique(number, return_inverse=True)
        return through.astype(np.int64), different.size
    occupied = np.bincount(number, minlength=size) > 0
    return (np.cumsum(occupied) - 1)[number], int(occupied.sum())


def raked(
    weights: Vector,
    steps: Sequence[CellSums],
    sweeps: int,
    close: float,
    records: Vector | None = None,
) -> Vector:
    """The weights raked to the sums; each counts once, or for so many records."""
    weights = weights.copy()
    reached = [slice(None) if (places >= 0).all() else places >= 0 for places, _ in steps]
    for _ in range(sweeps):
        worst = 0.0
        for (places, totals), inside in zip(steps, reached, strict=True):
            position = places[inside]
            counted = weights if records is None else weights * records
            sums = np.bincount(position, counted[inside], minlength=totals.size)
            factor = np.divide(totals, sums, out=np.ones_like(totals), where=sums > 0)
            weights[inside] *= factor[position]
            worst = max(worst, float(np.abs(factor - 1).max(initial=0.0)))
        if worst < close:
            break
    return weights
