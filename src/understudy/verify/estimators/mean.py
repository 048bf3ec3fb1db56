"""The mean of a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from understudy.survey.codebook import Codebook
from understudy.tables.influence.equations.mean import MeanEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.verify.estimator import Estimator, Floats, restricted
from understudy.verify.partition_pass import PartitionPass, divide, domain_of
from understudy.verify.question_fields import Condition, Name, NumberColumn
from understudy.verify.released import ReleasedPass


@dataclass(frozen=True)
class MeanEstimator(Estimator):
    """sum(wx)/sum(w) (V eq. 8)."""

    name = "mean"
    title = "Mean of a number"
    rank = 1
    fitted = False
    several = False

    variable: Annotated[Name, NumberColumn("Variable")]

    def in_words(self, where: str) -> str:
        return restricted(f"Mean of {self.variable}", where)

    def influence_question(
        self, codebook: Codebook, domain: tuple[Condition, ...]
    ) -> InfluenceQuestion:
        inside = domain_of(domain, codebook)
        return InfluenceQuestion(MeanEquation(), lambda t: {"y": t[self.variable]}, inside)

    def partition_estimates(self, records: PartitionPass) -> Floats:
        value = records.number(self.variable)
        top = records.weight * value / records.size
        counted = records.inside() & value.notnull()
        sums = records.sums(counted, top=top, bottom=records.exact_weight)
        return records.size * divide(sums["top"], sums["bottom"])

    def released_estimate(self, release: ReleasedPass) -> dict[str, Any]:
        return release.statistic("mean(y)", lambda t, _: {"y": t[self.variable]})
