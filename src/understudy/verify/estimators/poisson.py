"""A coefficient of a Poisson regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from understudy.survey.codebook import Codebook
from understudy.tables.influence.equations.poisson import PoissonEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.verify.estimator import Floats
from understudy.verify.partition_pass import PartitionPass
from understudy.verify.question_fields import Condition, Name, NumberColumn
from understudy.verify.regression_fields import Regression
from understudy.verify.released import ReleasedPass


@dataclass(frozen=True)
class PoissonEstimator(Regression):
    """Weighted maximum likelihood of a count, with a log link."""

    name = "poisson"
    title = "Coefficient of a Poisson regression"
    rank = 9
    fitted = True

    variable: Annotated[Name, NumberColumn("Outcome")]

    def in_words(self, where: str) -> str:
        return self.coefficient_in_words("Poisson", self.variable, where)

    def influence_question(
        self, codebook: Codebook, domain: tuple[Condition, ...]
    ) -> InfluenceQuestion:
        return self.coefficient_question(
            PoissonEquation, codebook, domain, lambda t: t[self.variable]
        )

    def partition_estimates(self, records: PartitionPass) -> Floats:
        wanted = records.coefficient(self.predictors, self.named, self.coefficient_level)
        return records.fit("poisson", records.number(self.variable), self.predictors, **wanted)

    def released_estimate(self, release: ReleasedPass) -> dict[str, Any]:
        return self.released_coefficient(release, "poisson", lambda t: t[self.variable])
