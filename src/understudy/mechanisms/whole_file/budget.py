"""The budget of a whole file: pure epsilon or rho, its shares, and the noise that a share buys.

A unit is in one cell of a table for each of its at most k records. One that is added, removed or
blanked moves a table by at most k in L1 and by at most k^2 in squared L2 distance; one that is
replaced by at most 2k and 2k^2 (docs/proofs/whole-file.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from understudy.dp.accounting import rho_of
from understudy.dp.choice import BudgetMeasure, Scores, choose
from understudy.dp.noise import exact_deviation, exact_scale, integer_gaussian, integer_laplace

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class CellNoise:
    """Of one cell: its variance, and its expected size."""

    variance: float
    size: float


@dataclass(frozen=True)
class TableBudget:
    """What all stages may spend together, and what one unit can change.

    `records` is the most records of a unit that count; `replaced` says that a unit is replaced by
    another one, not added, removed or blanked.
    """

    total: Fraction
    measure: BudgetMeasure
    records: int = 1
    replaced: bool = False

    @property
    def moved(self) -> int:
        """The most that one table can move in L1: the sensitivity of a score, too."""
        return (2 if self.replaced else 1) * self.records

    @property
    def moved_squared(self) -> int:
        """The most that one table can move in squared L2."""
        return (2 if self.replaced else 1) * self.records**2

    def without(self, share: Fraction) -> TableBudget:
        """What is left when a share is put aside."""
        return replace(self, total=self.total * (1 - share))

    def noise(self, tables: int, share: Fraction) -> CellNoise:
        """Of every cell of so many tables that together cost this share."""
        if self.measure == "rho":
            deviation = exact_deviation(tables * self.moved_squared, self.total * share)
            return CellNoise(deviation**2, math.sqrt(2 / math.pi) * deviation)
        scale = exact_scale(tables * self.moved, self.total * share)
        ratio = math.exp(-1 / scale)
        return CellNoise(2 * ratio / (1 - ratio) ** 2, 2 * ratio / (1 - ratio**2))

    def noisy(self, tables: list[Counts], share: Fraction) -> list[Counts]:
        """The tables with noise from OpenDP that together cost this share of the budget."""
        flat = np.concatenate([table.ravel() for table in tables])
        if self.measure == "rho":
            noisy = integer_gaussian(flat, len(tables) * self.moved_squared, self.total * share)
        else:
            noisy = integer_laplace(flat, len(tables) * self.moved, self.total * share)
        cuts = np.cumsum([table.size for table in tables])[:-1]
        parts = np.split(noisy, cuts)
        return [part.reshape(table.shape) for part, table in zip(parts, tables, strict=True)]

    def noisy_numbers(
        self, numbers: Counts, moved: Sequence[int], share: Fraction
    ) -> tuple[Counts, float]:
        """Whole numbers, each of which one record moves by at most `moved`, with noise that
        together costs this share, and the noise's standard deviation."""
        law = integer_gaussian if self.measure == "rho" else integer_laplace
        noisy = law(numbers, self._together(moved), self.total * share)
        return noisy, self.deviation(moved, share)

    def deviation(self, moved: Sequence[int], share: Fraction) -> float:
        """The standard deviation of the noise of `noisy_numbers`."""
        together, cost = self._together(moved), self.total * share
        if self.measure == "rho":
            return exact_deviation(together, cost)
        return math.sqrt(2) * exact_scale(together, cost)

    def _together(self, moved: Sequence[int]) -> int:
        """What one unit moves all of them by: in squared L2 under rho, else in L1."""
        if self.measure == "rho":
            return sum(each**2 for each in moved) * self.moved**2
        return sum(moved) * self.moved

    def picks(self, scores: Scores, picks: int, share: Fraction) -> list[int]:
        """The places of the best scores, by choices that together cost this share."""
        return choose(scores, picks, self.moved, self.total * share, self.measure)


def budget_of(epsilon: float, delta: float, records: int, replaced: bool) -> TableBudget:
    """Pure epsilon where delta is 0, else the largest rho that is (epsilon, delta)-private."""
    if delta == 0:
        return TableBudget(Fraction(epsilon), "epsilon", records, replaced)
    return TableBudget(Fraction(rho_of(epsilon, delta)), "rho", records, replaced)
