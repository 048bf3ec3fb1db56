"""A coefficient of a linear regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import ibis.expr.types as ir

from understudy.tables.families.gaussian import Gaussian
from understudy.verify.estimator import Floats
from understudy.verify.partition_pass import PartitionPass
from understudy.verify.question_fields import Name, NumberColumn
from understudy.verify.regression_fields import Regression


@dataclass(frozen=True)
class LinearEstimator(Regression):
    """Weighted least squares."""

    name = "linear"
    title = "Coefficient of a linear regression"
    rank = 7
    fitted = True
    family = Gaussian()

    variable: Annotated[Name, NumberColumn("Outcome")]

    def in_words(self, where: str) -> str:
        return self.coefficient_in_words(self.variable, where)

    def outcome(self, table: ir.Table) -> Any:
        return table[self.variable]

    def partition_estimates(self, records: PartitionPass) -> Floats:
        wanted = records.coefficient(self.predictors, self.named, self.coefficient_level)
        return records.fit("linear", records.number(self.variable), self.predictors, **wanted)
