"""Gini's coefficient of a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from understudy.survey.codebook import Codebook
from understudy.tables.influence.equations.gini import GiniEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.verify.estimator import Estimator, Floats, restricted
from understudy.verify.partition_pass import PartitionPass, domain_of
from understudy.verify.question_fields import Condition, Name, NumberColumn
from understudy.verify.released import ReleasedPass


@dataclass(frozen=True)
class GiniEstimator(Estimator):
    """sum_jk w_j w_k |x_j - x_k|/(2 N sum(wx)), between 0 and 1."""

    name = "gini"
    title = "Gini's coefficient of a number"
    rank = 11
    fitted = True
    several = False

    variable: Annotated[Name, NumberColumn("Variable")]

    def in_words(self, where: str) -> str:
        return restricted(f"Gini's coefficient of {self.variable}", where)

    def influence_question(
        self, codebook: Codebook, domain: tuple[Condition, ...]
    ) -> InfluenceQuestion:
        inside = domain_of(domain, codebook)
        return InfluenceQuestion(GiniEquation(), lambda t: {"y": t[self.variable]}, inside)

    def partition_estimates(self, records: PartitionPass) -> Floats:
        return records.fit("gini", records.number(self.variable))

    def released_estimate(self, release: ReleasedPass) -> dict[str, Any]:
        return release.statistic("gini(y)", lambda t, _: {"y": t[self.variable]})
