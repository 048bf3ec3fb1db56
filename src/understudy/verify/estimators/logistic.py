"""A coefficient of a logistic regression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from understudy.survey.codebook import Codebook
from understudy.tables.influence.equations.logistic import LogisticEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.verify.estimator import Floats
from understudy.verify.partition_pass import PartitionPass
from understudy.verify.question_fields import Condition, Level, LevelColumn, LevelOf, Name
from understudy.verify.regression_fields import Regression
from understudy.verify.released import ReleasedPass


@dataclass(frozen=True)
class LogisticEstimator(Regression):
    """Weighted maximum likelihood; the outcome is whether the variable has the level."""

    name = "logistic"
    title = "Coefficient of a logistic regression"
    rank = 8
    fitted = True

    variable: Annotated[Name, LevelColumn("Outcome", level="level")]
    level: Annotated[Level, LevelOf("variable")] = field(kw_only=True)

    def in_words(self, where: str) -> str:
        return self.coefficient_in_words("Logistic", f"{self.variable} = {self.level}", where)

    def influence_question(
        self, codebook: Codebook, domain: tuple[Condition, ...]
    ) -> InfluenceQuestion:
        return self.coefficient_question(
            LogisticEquation, codebook, domain, lambda t: t[self.variable] == self.level
        )

    def partition_estimates(self, records: PartitionPass) -> Floats:
        wanted = records.coefficient(self.predictors, self.named, self.coefficient_level)
        outcome = records.has_level(self.variable, self.level)
        return records.fit("logistic", outcome, self.predictors, **wanted)

    def released_estimate(self, release: ReleasedPass) -> dict[str, Any]:
        def outcome(table: Any) -> Any:
            return table[self.variable] == self.level

        return self.released_coefficient(release, "binomial", outcome)
