"""Flags of low precision, by rules that are stated before anyone looks at a table.

`nchs` is the presentation standard of the National Center for Health Statistics for proportions
(Parker and others 2017): not reliable where the records or the effective sample size are below 30,
where the Korn-Graubard interval is .30 wide or more, or where it is wider than .05 and than 1.3
times the estimate; under review where there are fewer than 8 degrees of freedom or the estimate
is 0 or 1. A rule of one's own says the least number of records and the largest coefficient of
variation, for every statistic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.errors import Refused, UnknownName
from understudy.tables.intervals import beta_limits

Floats = NDArray[np.float64]
LEAST = 30  # records, and effective records, of a proportion (NCHS)
WIDE, NARROW, RELATIVE = 0.30, 0.05, 1.30
FEW_DEGREES = 8


@dataclass(frozen=True)
class PrecisionRule:
    """What a table's estimates must have: `records` at least, and a cv of at most `cv`."""

    records: float = 0
    cv: float = np.inf
    nchs: bool = False  # proportions by the standard of NCHS

    def flags(
        self, shares: NDArray[np.bool_], value: Floats, se: Floats, df: Floats, n: Floats
    ) -> list[str]:
        """One text per estimate, "" where nothing is to be said; `shares` marks proportions."""
        with np.errstate(divide="ignore", invalid="ignore"):
            cv = np.where(value != 0, se / np.abs(value), np.inf)
        few, loose = n < self.records, cv > self.cv
        texts = []
        for number in range(len(value)):
            said = []
            if few[number]:
                said.append(f"low precision: {n[number]:.0f} records, fewer than {self.records:g}")
            if loose[number] and se[number] > 0:
                said.append(f"low precision: cv {cv[number]:.2f}, above {self.cv:g}")
            texts.append("; ".join(said))
        if self.nchs:
            standard = _nchs(value, se, df, n)
            for number in np.flatnonzero(shares).tolist():
                texts[number] = "; ".join(t for t in (texts[number], standard[number]) if t)
        return texts


def precision_rule(asked: str | Mapping[str, float] | None) -> PrecisionRule | None:
    """The rule as a user writes it: "nchs", or {"records": 50, "cv": 0.3}."""
    if asked is None:
        return None
    if isinstance(asked, str):
        if asked != "nchs":
            raise UnknownName("rule of precision", asked, ("nchs",))
        return PrecisionRule(nchs=True)
    unknown = set(asked) - {"records", "cv"}
    if unknown:
        raise UnknownName("key of `precision`", sorted(unknown)[0], ("records", "cv"))
    for name, limit in asked.items():
        if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0:
            raise Refused(f"`{name}` of `precision` must be a number above 0.")
    return PrecisionRule(asked.get("records", 0), asked.get("cv", np.inf))


def _nchs(value: Floats, se: Floats, df: Floats, n: Floats) -> list[str]:
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.sqrt(value * (1 - value) / n)  # effective records are at most the records
    lower, upper = beta_limits(value, np.fmax(se, least), df, n, 0.95)
    width = upper - lower
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.where(se > 0, np.round(value * (1 - value) / se**2, 9), n)
        relative = np.where(value > 0, width / value, np.inf)
    unreliable = (n < LEAST) | (np.minimum(effective, n) < LEAST) | (width >= WIDE)
    unreliable |= (width > NARROW) & (relative > RELATIVE)
    review = (df < FEW_DEGREES) | (value == 0) | (value == 1)
    return [
        "NCHS: not reliable" if bad else "NCHS: for statistical review" if look else ""
        for bad, look in zip(unreliable, review, strict=True)
    ]
