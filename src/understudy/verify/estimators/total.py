"""The total of a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import ibis
import numpy as np

from understudy.survey.codebook import Codebook
from understudy.tables.influence.equations.total import TotalEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.verify.estimator import Estimator, Floats, restricted
from understudy.verify.partition_pass import PartitionPass, divide, domain_of
from understudy.verify.question_fields import Condition, Name, NumberColumn
from understudy.verify.released import ReleasedPass


@dataclass(frozen=True)
class TotalEstimator(Estimator):
    """N sum(wx)/sum(w) where the population size N is public, else sum(wx) times a factor."""

    name = "total"
    title = "Total of a number"
    rank = 2
    fitted = False
    several = False

    variable: Annotated[Name, NumberColumn("Variable")]

    def in_words(self, where: str) -> str:
        return restricted(f"Total of {self.variable}", where)

    def influence_question(
        self, codebook: Codebook, domain: tuple[Condition, ...]
    ) -> InfluenceQuestion:
        equation = TotalEquation(codebook.population_size)
        inside = domain_of(domain, codebook)
        return InfluenceQuestion(equation, lambda t: {"y": t[self.variable]}, inside)

    def partition_estimates(self, records: PartitionPass) -> Floats:
        value = records.number(self.variable)
        counted = records.inside() & value.notnull()
        if records.population is None:
            scale = records.size / 1e6
            sums = records.sums(counted, top=records.weight * value / scale)
            return records.factor * scale * np.nan_to_num(sums["top"])
        scale = records.size / records.population
        top = ibis.ifelse(counted, records.weight * value / scale, 0.0)
        sums = records.sums(None, top=top, bottom=records.exact_weight)
        return records.population * scale * divide(sums["top"], sums["bottom"])

    def released_estimate(self, release: ReleasedPass) -> dict[str, Any]:
        population = release.codebook.population_size
        if population is None:
            return release.statistic("total(y)", lambda t, _: {"y": t[self.variable]})

        def whole_population(table: Any, inside: Any) -> dict[str, Any]:
            # The domain goes into the variable: the denominator is the whole population.
            value = table[self.variable].cast("float64")
            kept = ibis.ifelse(inside & value.notnull(), value, 0.0)
            return {"y": kept, "inside": ibis.literal(True)}

        row = release.statistic("mean(y)", whole_population)
        estimate, se = row["estimate"], row["se"]
        if estimate is None or se is None:
            return row
        return {"estimate": estimate * population, "se": se * population}
