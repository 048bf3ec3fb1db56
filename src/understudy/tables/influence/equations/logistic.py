"""Logistic regression: mu = 1/(1 + exp(-x c)), mu' = mu (1 - mu)."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.tables.influence.arithmetic import RecordNumber, expit
from understudy.tables.influence.regression import RegressionEquation
from understudy.tables.regress import Family


@dataclass(frozen=True)
class LogisticEquation(RegressionEquation):
    """Weighted maximum likelihood of a binary outcome."""

    name = "logistic"
    everyone = False

    family: Family = "binomial"

    def mean(self, linear: RecordNumber) -> RecordNumber:
        return expit(linear)
