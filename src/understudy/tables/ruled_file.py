"""A synthetic file that knows what the codebook's rules changed in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from understudy.survey.survey import Survey

TableNames = tuple[str, ...]


@dataclass(frozen=True)
class RuleEffects:
    """What the rules changed: `broken` counts records by rule as they were drawn, `changed` those
    that differ now, `moved` is the total variation between a table's cells before and after, of
    every column that a rule names and of measured tables with one."""

    broken: Mapping[str, int]
    changed: int
    moved: Mapping[TableNames, float]


class RuledFile(Survey):
    """A file after the rules."""

    effects: RuleEffects

    @classmethod
    def of(cls, survey: Survey, effects: RuleEffects) -> Self:
        """The same survey, which was checked when it was made."""
        made = cls.__new__(cls)
        made.__dict__.update(survey.__dict__)
        made.effects = effects
        return made
