"""The correlation of two numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from understudy.survey.codebook import Codebook
from understudy.tables.influence.equations.correlation import CorrelationEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.verify.estimator import Estimator, Floats, restricted
from understudy.verify.partition_pass import PartitionPass, domain_of
from understudy.verify.question_fields import Condition, Name, NumberColumn
from understudy.verify.released import ReleasedPass


@dataclass(frozen=True)
class CorrelationEstimator(Estimator):
    """Of weighted moments."""

    name = "correlation"
    title = "Correlation of two numbers"
    rank = 10
    fitted = True  # squares of large numbers would not fit the decimals of exact sums
    several = False

    variable: Annotated[Name, NumberColumn("Variable")]
    other: Annotated[Name, NumberColumn("Correlated with")]

    def in_words(self, where: str) -> str:
        return restricted(f"Correlation of {self.variable} and {self.other}", where)

    def influence_question(
        self, codebook: Codebook, domain: tuple[Condition, ...]
    ) -> InfluenceQuestion:
        inside = domain_of(domain, codebook)
        return InfluenceQuestion(
            CorrelationEquation(), lambda t: {"y": t[self.variable], "z": t[self.other]}, inside
        )

    def partition_estimates(self, records: PartitionPass) -> Floats:
        return records.fit("correlation", records.number(self.variable), (self.other,))

    def released_estimate(self, release: ReleasedPass) -> dict[str, Any]:
        return release.by_influence(self.influence_question(release.codebook, release.domain))
