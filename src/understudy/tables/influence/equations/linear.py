"""Linear regression: mu = x c, mu' = 1."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.tables.influence.arithmetic import RecordNumber
from understudy.tables.influence.regression import RegressionEquation
from understudy.tables.regress import Family


@dataclass(frozen=True)
class LinearEquation(RegressionEquation):
    """Weighted least squares."""

    name = "linear"
    everyone = False

    family: Family = "gaussian"

    def mean(self, linear: RecordNumber) -> RecordNumber:
        return linear
