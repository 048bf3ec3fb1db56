"""A quantile, such as the median."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from understudy.survey.codebook import Codebook
from understudy.tables.influence.equations.quantile import QuantileEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.verify.estimator import Estimator, Floats, restricted
from understudy.verify.partition_pass import PartitionPass, domain_of
from understudy.verify.question_fields import Condition, Name, NumberBox, NumberColumn
from understudy.verify.released import ReleasedPass


@dataclass(frozen=True)
class QuantileEstimator(Estimator):
    """The smallest value at which the weighted distribution reaches the probability."""

    name = "quantile"
    title = "Quantile (such as the median)"
    rank = 6
    fitted = True
    several = False

    variable: Annotated[Name, NumberColumn("Variable")]
    probability: Annotated[
        float, Field(gt=0, lt=1), NumberBox("Which quantile", "0.5 is the median.", "0.5")
    ]

    def in_words(self, where: str) -> str:
        return restricted(f"{self.probability * 100:g} % quantile of {self.variable}", where)

    def influence_question(
        self, codebook: Codebook, domain: tuple[Condition, ...]
    ) -> InfluenceQuestion:
        inside = domain_of(domain, codebook)
        equation = QuantileEquation(self.probability)
        return InfluenceQuestion(equation, lambda t: {"y": t[self.variable]}, inside)

    def partition_estimates(self, records: PartitionPass) -> Floats:
        outcome = records.number(self.variable)
        return records.fit("quantile", outcome, probability=self.probability)

    def released_estimate(self, release: ReleasedPass) -> dict[str, Any]:
        statistic = f"quantile(y, {self.probability!r})"
        return release.statistic(statistic, lambda t, _: {"y": t[self.variable]})
