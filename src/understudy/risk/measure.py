"""What a risk measure declares about itself, for the report and the command line.

A measure gives every record a number from 0 to 1, for intruders who know different columns. It
is one class in one file of `risk/measures`; a class in a file of the user's own is named
`mine.py:Mine`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import polars as pl

from understudy.declarations import OWN, Declared, declared_in, own_class
from understudy.errors import UnknownName
from understudy.risk.correspondence import Data
from understudy.risk.identification import KnownSet
from understudy.risk.patterns import Floats, RadiusKind

DEFAULT = "identification"


@dataclass(frozen=True)
class Intruder:
    """What somebody knows and looks for: sets of known columns, the targets, and how close is
    close. Records correspond by `by_id`, or by their order."""

    known: tuple[KnownSet, ...]
    target: tuple[str, ...]
    radius: float | Sequence[float] = 0.2
    kind: RadiusKind = "relative"
    by_id: str | None = None


class RiskMeasure(Declared, abstract=True):
    """A number for every record that says how much an intruder could learn about it."""

    name: ClassVar[str]  # in a recipe and on the command line
    title: ClassVar[str]  # a heading
    phrase: ClassVar[str]  # within a sentence: a risk of identification
    meaning: ClassVar[str]  # when it is high, as a sentence
    of_release: ClassVar[bool]  # whether released files can be measured, record by record
    of_topcoding: ClassVar[bool]  # whether topcoding can be compared with
    by_record: ClassVar[bool]  # whether a released row must stand for a record

    @abstractmethod
    def risks(
        self, confidential: Data, released: Sequence[Data] | None, intruder: Intruder
    ) -> dict[KnownSet, Floats]:
        """(n,) for each set of known columns; of the confidential file where `released` is None."""

    def contributions(
        self,
        confidential: Data,  # noqa: ARG002
        released: Sequence[Data] | None,  # noqa: ARG002
        intruder: Intruder,  # noqa: ARG002
    ) -> pl.DataFrame | None:
        """What each known column adds, if the measure can tell."""
        return None


@cache
def measures() -> dict[str, RiskMeasure]:
    """The measures of the package by name."""
    classes = declared_in("understudy.risk.measures", RiskMeasure).values()
    return {measure.name: measure() for measure in classes}


def measure_of(named: str | RiskMeasure, folder: Path | None = None) -> RiskMeasure:
    """A measure by its name, or `mine.py:Mine` (a path from `folder`)."""
    if isinstance(named, RiskMeasure):
        return named
    if OWN in named:
        return own_class(named, RiskMeasure, "risk measure", folder)()
    if named not in measures():
        raise UnknownName("risk measure", named, measures())
    return measures()[named]
