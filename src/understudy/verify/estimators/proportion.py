"""The proportion of records with a property."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from understudy.survey.codebook import Codebook
from understudy.tables.influence.equations.mean import MeanEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.verify.estimator import Estimator, Floats, restricted
from understudy.verify.partition_pass import PartitionPass, divide, domain_of
from understudy.verify.question_fields import Condition, Level, LevelColumn, LevelOf, Name
from understudy.verify.released import ReleasedPass


@dataclass(frozen=True)
class ProportionEstimator(Estimator):
    """sum(w [x = level])/sum(w)."""

    name = "proportion"
    title = "Proportion with a property"
    rank = 3
    fitted = False
    several = False

    variable: Annotated[Name, LevelColumn("Property", level="level")]
    level: Annotated[Level, LevelOf("variable")]

    def in_words(self, where: str) -> str:
        return restricted(f"Proportion with {self.variable} = {self.level}", where)

    def influence_question(
        self, codebook: Codebook, domain: tuple[Condition, ...]
    ) -> InfluenceQuestion:
        inside = domain_of(domain, codebook)
        return InfluenceQuestion(
            MeanEquation(), lambda t: {"y": t[self.variable] == self.level}, inside
        )

    def partition_estimates(self, records: PartitionPass) -> Floats:
        value = records.has_level(self.variable, self.level)
        counted = records.inside() & value.notnull()
        sums = records.sums(counted, top=records.weight * value, bottom=records.exact_weight)
        return divide(sums["top"], sums["bottom"])

    def released_estimate(self, release: ReleasedPass) -> dict[str, Any]:
        return release.statistic("mean(y)", lambda t, _: {"y": t[self.variable] == self.level})
