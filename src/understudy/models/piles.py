"""Piles: the values of an amount that many records share, as the codebook declares them.

A special value at the declared upper bound is the topcode: who has it has at least so much. Other
special values, 0 above all, are points: they have a probability of their own and say nothing about
the amount. A model of logarithms also sets amounts below 0 apart, where the lower bound allows any.
Only what is declared counts, never what was drafted from the records.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from understudy.survey.codebook import Column

AMOUNT, TOPCODED = 0, -1  # kinds of records; 1, 2, ... are the points, and then the losses
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Piles:
    """`points` in order; `top` where there is a topcode; `lowest` below 0 where there are losses,
    that is, amounts below 0 that are not points."""

    points: tuple[float, ...] = ()
    top: float | None = None
    lowest: float | None = None

    @property
    def apart(self) -> int:
        """How many kinds of records have no amount."""
        return len(self.points) + (self.lowest is not None)

    @property
    def loss(self) -> int:
        """The kind of an amount below 0."""
        return len(self.points) + 1

    def kinds(self, values: Floats) -> NDArray[np.int64]:
        """AMOUNT, TOPCODED, or the number of the pile."""
        kinds = np.full(len(values), AMOUNT)
        if self.lowest is not None:
            kinds[values < 0] = self.loss
        for number, point in enumerate(self.points, start=1):
            kinds[values == point] = number
        if self.top is not None:
            kinds[values >= self.top] = TOPCODED
        return kinds

    def values(self, kinds: NDArray[np.int64], amounts: Floats, losses: Floats | None) -> Floats:
        """The inverse of `kinds`: amounts at or beyond the topcode are put on it."""
        values = np.array(amounts if self.top is None else np.minimum(amounts, self.top))
        for number, point in enumerate(self.points, start=1):
            values[kinds == number] = point
        if self.lowest is not None and losses is not None:
            below = kinds == self.loss
            values[below] = np.maximum(losses[below], self.lowest)
        return values

    def __str__(self) -> str:
        parts = [f"being {point:g}" for point in self.points]
        if self.lowest is not None:
            parts.append("being below 0")
        if self.top is not None:
            parts.append(f"reaching the topcode {self.top:g}")
        return ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]


def declared_piles(column: Column | None, logs: bool, reach: float = inf) -> Piles | None:
    """The piles that the codebook declares; None where there are none.

    `logs`: the model takes logarithms. `reach`: the largest amount that it knows; a topcode there
    leaves nothing beyond, and is a point.
    """
    if column is None:
        return None
    special = column.special if column.declared("special") else ()
    bounds = column.bounds if column.declared("bounds") else None
    high = None if bounds is None else bounds[1]
    top = high if high is not None and high in special and high < reach else None
    points = tuple(sorted({value for value in special if value != top}))
    lowest = bounds[0] if logs and bounds is not None and bounds[0] < 0 else None
    piles = Piles(points, top, lowest)
    return None if piles == Piles() else piles
