"""A coefficient of a linear regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from understudy.survey.codebook import Codebook
from understudy.tables.influence.equations.linear import LinearEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.verify.estimator import Floats
from understudy.verify.partition_pass import PartitionPass
from understudy.verify.question_fields import Condition, Name, NumberColumn
from understudy.verify.regression_fields import Regression
from understudy.verify.released import ReleasedPass


@dataclass(frozen=True)
class LinearEstimator(Regression):
    """Weighted least squares."""

    name = "linear"
    title = "Coefficient of a linear regression"
    rank = 7
    fitted = True

    variable: Annotated[Name, NumberColumn("Outcome")]

    def in_words(self, where: str) -> str:
        return self.coefficient_in_words("Linear", self.variable, where)

    def influence_question(
        self, codebook: Codebook, domain: tuple[Condition, ...]
    ) -> InfluenceQuestion:
        return self.coefficient_question(
            LinearEquation, codebook, domain, lambda t: t[self.variable]
        )

    def partition_estimates(self, records: PartitionPass) -> Floats:
        wanted = records.coefficient(self.predictors, self.named, self.coefficient_level)
        return records.fit("linear", records.number(self.variable), self.predictors, **wanted)

    def released_estimate(self, release: ReleasedPass) -> dict[str, Any]:
        return self.released_coefficient(release, "gaussian", lambda t: t[self.variable])
