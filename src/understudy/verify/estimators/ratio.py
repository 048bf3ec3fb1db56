"""The ratio of two numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from understudy.survey.codebook import Codebook
from understudy.tables.influence.equations.ratio import RatioEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.verify.estimator import Estimator, Floats, restricted
from understudy.verify.partition_pass import PartitionPass, divide, domain_of
from understudy.verify.question_fields import Condition, Name, NumberColumn
from understudy.verify.released import ReleasedPass


@dataclass(frozen=True)
class RatioEstimator(Estimator):
    """sum(wx)/sum(wy)."""

    name = "ratio"
    title = "Ratio of two numbers"
    rank = 5
    fitted = False
    several = False

    variable: Annotated[Name, NumberColumn("Variable")]
    denominator: Annotated[Name, NumberColumn("Divided by")]

    def in_words(self, where: str) -> str:
        return restricted(f"Ratio {self.variable} / {self.denominator}", where)

    def influence_question(
        self, codebook: Codebook, domain: tuple[Condition, ...]
    ) -> InfluenceQuestion:
        inside = domain_of(domain, codebook)
        return InfluenceQuestion(
            RatioEquation(), lambda t: {"y": t[self.variable], "z": t[self.denominator]}, inside
        )

    def partition_estimates(self, records: PartitionPass) -> Floats:
        value, below = records.number(self.variable), records.number(self.denominator)
        counted = records.inside() & value.notnull() & below.notnull()
        top = records.weight * value / records.size
        sums = records.sums(counted, top=top, bottom=records.weight * below)
        return records.size * divide(sums["top"], sums["bottom"])

    def released_estimate(self, release: ReleasedPass) -> dict[str, Any]:
        def columns(table: Any, _inside: Any) -> dict[str, Any]:
            return {"y": table[self.variable], "z": table[self.denominator]}

        return release.statistic("ratio(y / z)", columns)
