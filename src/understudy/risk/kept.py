"""Columns that are published as collected: how many records they single out by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ibis

from understudy.survey.survey import Survey

RARE = 3  # records; a combination that fewer share is rare


@dataclass(frozen=True)
class KeptCombinations:
    """Records in all, those alone in their combination of the columns, those in a rare one, and
    the number of combinations."""

    columns: tuple[str, ...]
    records: int
    unique: int
    rare: int
    combinations: int

    @property
    def unique_share(self) -> float:
        return self.unique / self.records if self.records else 0.0

    def __str__(self) -> str:
        names = ", ".join(self.columns)
        return (
            f"Kept as collected: {names}. {self.unique:,} of {self.records:,} records "
            f"({self.unique_share:.1%}) are alone in their combination of these columns, "
            f"{self.rare:,} share it with fewer than {RARE - 1} others."
        )


def kept_combinations(survey: Survey, columns: Sequence[str]) -> KeptCombinations:
    """Count the combinations of the columns where the records are; a missing value is a value."""
    counted = survey.raw.group_by(list(columns)).aggregate(shared_=ibis._.count())
    shared = counted["shared_"]
    row = counted.aggregate(
        records=shared.sum(),
        unique=(shared == 1).sum(),
        rare=ibis.ifelse(shared < RARE, shared, 0).sum(),
        combinations=counted.count(),
    ).to_polars()
    records, unique, rare, combinations = (int(value or 0) for value in row.row(0))
    return KeptCombinations(tuple(columns), records, unique, rare, combinations)
