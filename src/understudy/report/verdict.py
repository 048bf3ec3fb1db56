"""The verdict on a release: fit for use, with care, or not, against thresholds set beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Interval

from understudy.utility.pairs import Pair

Colour = Literal["green", "amber", "red"]
COLOURS: tuple[Colour, ...] = ("green", "amber", "red")


@dataclass(frozen=True)
class Fitness:
    """[fitness]"""

    pairs: Annotated[
        float,
        "Mean two-way distance beyond resampling: amber above it, red above three times.",
        Interval(gt=0, le=1),
    ] = 0.05
    overlap: Annotated[
        float,
        "Mean overlap of intervals in the tables: amber below it, red below a fifth of it.",
        Interval(ge=0, le=1),
    ] = 0.5
    coverage: Annotated[
        float,
        "Share of cells whose released interval holds the confidential estimate: amber below it, "
        "red below a third of it.",
        Interval(ge=0, le=1),
    ] = 0.75


@dataclass(frozen=True)
class Measured:
    """One measure against its two limits; None where there was nothing to measure."""

    name: str
    value: float | None
    amber: float
    red: float
    more_is_worse: bool

    @property
    def colour(self) -> Colour:
        if self.value is None:
            return "green"
        worse = (lambda limit: self.value > limit) if self.more_is_worse else self._below
        return "red" if worse(self.red) else "amber" if worse(self.amber) else "green"

    def _below(self, limit: float) -> bool:
        return self.value is not None and self.value < limit


def measured(
    limits: Fitness, pairs: Sequence[Pair], cells: Sequence[Mapping[str, Any]]
) -> list[Measured]:
    """The three measures; `cells` are those of the compared tables (`report/cells.py`)."""
    apart = float(np.mean([pair.excess for pair in pairs])) if pairs else None
    overlaps = [c["overlap"] for c in cells if isinstance(c["overlap"], (int, float))]
    covered = [hit for cell in cells if (hit := _covers(cell)) is not None]
    return [
        Measured("two-way distance beyond resampling", apart, limits.pairs, 3 * limits.pairs, True),
        Measured(
            "mean overlap of intervals",
            float(np.mean(overlaps)) if overlaps else None,
            limits.overlap,
            limits.overlap / 5,
            False,
        ),
        Measured(
            "cells whose released interval holds the confidential estimate",
            float(np.mean(covered)) if covered else None,
            limits.coverage,
            limits.coverage / 3,
            False,
        ),
    ]


def verdict(measures: Sequence[Measured]) -> Colour:
    """The worst of them."""
    return max((measure.colour for measure in measures), key=COLOURS.index, default="green")


def _covers(cell: Mapping[str, Any]) -> bool | None:
    """Whether the released interval holds the confidential estimate; None without one."""
    numbers = (
        cell["released"]["lower"],
        cell["confidential"]["estimate"],
        cell["released"]["upper"],
    )
    if not all(isinstance(number, (int, float)) for number in numbers):
        return None
    low, estimate, high = numbers
    return bool(low <= estimate <= high)
