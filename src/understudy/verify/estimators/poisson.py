"""A coefficient of a Poisson regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import ibis.expr.types as ir

from understudy.tables.families.poisson import Poisson
from understudy.verify.estimator import Floats
from understudy.verify.partition_pass import PartitionPass
from understudy.verify.question_fields import Name, NumberColumn
from understudy.verify.regression_fields import Regression


@dataclass(frozen=True)
class PoissonEstimator(Regression):
    """Weighted maximum likelihood of a count, with a log link."""

    name = "poisson"
    title = "Coefficient of a Poisson regression"
    rank = 9
    fitted = True
    family = Poisson()

    variable: Annotated[Name, NumberColumn("Outcome")]

    def in_words(self, where: str) -> str:
        return self.coefficient_in_words(self.variable, where)

    def outcome(self, table: ir.Table) -> Any:
        return table[self.variable]

    def partition_estimates(self, records: PartitionPass) -> Floats:
        wanted = records.coefficient(self.predictors, self.named, self.coefficient_level)
        return records.fit("poisson", records.number(self.variable), self.predictors, **wanted)
