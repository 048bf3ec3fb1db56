"""Error against epsilon on the price page: a row for each number, a column for each price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ErrorLine:
    name: str
    released: float
    sampling_se: float
    errors: tuple[float, ...]  # of the difference, in sampling standard errors, by rising price


def error_table(rows: Sequence[Mapping[str, Any]]) -> list[ErrorLine]:
    """From rows by price and number, in the order of the numbers."""
    numbers: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        numbers.setdefault(row["statistic"], []).append(row)
    return [
        ErrorLine(
            name,
            each[0]["released"],
            each[0]["sampling_se"],
            tuple(
                row["error"] / row["sampling_se"]
                for row in sorted(each, key=lambda row: float(row["epsilon"]))
            ),
        )
        for name, each in numbers.items()
    ]
