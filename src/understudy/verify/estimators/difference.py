"""The difference between two groups, in a mean or in a proportion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import ibis

from understudy.errors import Refused
from understudy.survey.codebook import Codebook
from understudy.tables.influence.equations.difference import DifferenceEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.verify.estimator import Estimator, Floats
from understudy.verify.partition_pass import PartitionPass, divide, domain_of
from understudy.verify.query import domain_in_words
from understudy.verify.question_fields import (
    Condition,
    Domain,
    Group,
    Level,
    LevelOf,
    Name,
    NumberColumn,
)
from understudy.verify.released import ReleasedPass


@dataclass(frozen=True)
class DifferenceEstimator(Estimator):
    """The mean (or proportion) of the question's domain minus that of `versus`."""

    name = "difference"
    title = "Difference between two groups"
    rank = 4
    fitted = False
    several = False

    variable: Annotated[Name, NumberColumn("Variable", or_level="level")]
    versus: Annotated[
        Domain, Group("Second group", "Tick the levels of the group to compare with.")
    ]
    level: Annotated[Level | None, LevelOf("variable")] = None

    def in_words(self, where: str) -> str:
        of = self.variable if self.level is None else f"{self.variable} = {self.level}"
        lead = f"Difference in {'mean' if self.level is None else 'the share of'} {of}"
        return f"{lead}: {where or 'everyone'} against {domain_in_words(self.versus)}"

    def influence_question(
        self, codebook: Codebook, domain: tuple[Condition, ...]
    ) -> InfluenceQuestion:
        sides = {"a": domain_of(domain, codebook), "b": domain_of(self.versus, codebook)}

        def columns(table: Any) -> dict[str, Any]:
            value = table[self.variable]
            outcome = value if self.level is None else value == self.level
            return {"y": outcome, **{side: inside(table) for side, inside in sides.items()}}

        return InfluenceQuestion(
            DifferenceEquation(), columns, lambda t: sides["a"](t) | sides["b"](t)
        )

    def partition_estimates(self, records: PartitionPass) -> Floats:
        weight, size = records.weight, records.size
        if self.level is None:
            value = records.number(self.variable)
        else:
            value, size = records.has_level(self.variable, self.level), 1.0
        groups = [d & value.notnull() for d in (records.inside(), records.inside(self.versus))]
        parts = {
            f"{name}{number}": ibis.ifelse(group, part, 0.0)
            for number, group in enumerate(groups)
            for name, part in (("top", weight * value / size), ("bottom", weight))
        }
        sums = records.sums(groups[0] | groups[1], **parts)
        first, second = (divide(sums[f"top{i}"], sums[f"bottom{i}"]) for i in (0, 1))
        return size * (first - second)

    def released_estimate(self, release: ReleasedPass) -> dict[str, Any]:
        """The standard error is a regression's, on which side of two disjoint domains one is."""
        others = {condition.column: set(condition.levels) for condition in self.versus}
        if not any(
            c.column in others and not others[c.column] & set(c.levels) for c in release.domain
        ):
            raise Refused(
                "The two domains can overlap; let them have no level of some column in common."
            )

        def columns(table: Any, inside: Any) -> dict[str, Any]:
            value = table[self.variable]
            return {
                "y": value if self.level is None else value == self.level,
                "x": inside,
                "inside": inside | release.inside(table, self.versus),
            }

        return release.regression("x", columns)
