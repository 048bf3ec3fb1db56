"""Poisson regression: mu = exp(x c), mu' = mu."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.tables.influence.arithmetic import RecordNumber, exp
from understudy.tables.influence.regression import RegressionEquation
from understudy.tables.regress import Family


@dataclass(frozen=True)
class PoissonEquation(RegressionEquation):
    """Weighted maximum likelihood of a count, with a log link."""

    name = "poisson"
    everyone = False

    family: Family = "poisson"

    def mean(self, linear: RecordNumber) -> RecordNumber:
        return exp(linear)
