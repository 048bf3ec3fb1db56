"""A coefficient of a logistic regression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import ibis.expr.types as ir

from understudy.tables.families.binomial import Binomial
from understudy.verify.estimator import Floats
from understudy.verify.partition_pass import PartitionPass
from understudy.verify.question_fields import Level, LevelColumn, LevelOf, Name
from understudy.verify.regression_fields import Regression


@dataclass(frozen=True)
class LogisticEstimator(Regression):
    """Weighted maximum likelihood; the outcome is whether the variable has the level."""

    name = "logistic"
    title = "Coefficient of a logistic regression"
    rank = 8
    fitted = True
    family = Binomial()

    variable: Annotated[Name, LevelColumn("Outcome", level="level")]
    level: Annotated[Level, LevelOf("variable")] = field(kw_only=True)

    def in_words(self, where: str) -> str:
        return self.coefficient_in_words(f"{self.variable} = {self.level}", where)

    def outcome(self, table: ir.Table) -> Any:
        return table[self.variable] == self.level

    def partition_estimates(self, records: PartitionPass) -> Floats:
        wanted = records.coefficient(self.predictors, self.named, self.coefficient_level)
        outcome = records.has_level(self.variable, self.level)
        return records.fit("logistic", outcome, self.predictors, **wanted)
