"""A synthetic file that knows what the codebook's rules changed in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from understudy.survey.survey import Survey

TableNames = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class RuleEffects:
    """What the rules changed: `broken` counts records by rule as they were drawn, `changed` those
    that differ now; `shifts` are the tables now less those before, of every column that a rule
    names and of measured tables with one, of so many `records`."""

    broken: Mapping[str, int]
    changed: int
    shifts: Mapping[TableNames, NDArray[np.int64]]
    records: int

    @property
    def moved(self) -> dict[TableNames, float]:
        """The total variation between each table before and after."""
        whole = 2 * max(self.records, 1)
        return {names: float(np.abs(shift).sum() / whole) for names, shift in self.shifts.items()}

    @staticmethod
    def together(parts: Sequence[RuleEffects]) -> RuleEffects:
        """Of a file, from those of its blocks."""
        first = parts[0]
        return RuleEffects(
            {rule: sum(part.broken[rule] for part in parts) for rule in first.broken},
            sum(part.changed for part in parts),
            {n: np.sum([part.shifts[n] for part in parts], axis=0) for n in first.shifts},
            sum(part.records for part in parts),
        )


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
