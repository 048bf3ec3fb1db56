"""What regressions ask for alike."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import ibis.expr.types as ir

from understudy.errors import Refused
from understudy.survey.codebook import Codebook
from understudy.tables.family import LinkFamily
from understudy.tables.influence.equations.regression import RegressionEquation
from understudy.tables.influence.question import InfluenceQuestion
from understudy.verify.estimator import Estimator, restricted
from understudy.verify.partition_pass import domain_of
from understudy.verify.question_fields import (
    CoefficientOf,
    Condition,
    Level,
    LevelOf,
    Name,
    Names,
    Predictors,
)
from understudy.verify.released import ReleasedPass


@dataclass(frozen=True)
class Regression(Estimator, abstract=True):
    """A coefficient of a regression of the outcome on predictors, or all of them."""

    family: ClassVar[LinkFamily]

    predictors: Annotated[Names, Predictors("Predictors")]
    coefficient: Annotated[
        Name | None,
        CoefficientOf(
            "Coefficient of",
            "predictors",
            level="coefficient_level",
            hint="One of the predictors, or all coefficients at once.",
        ),
    ] = None
    coefficient_level: Annotated[Level | None, LevelOf("coefficient")] = None

    @property
    def several(self) -> bool:
        return self.coefficient is None

    @property
    def named(self) -> str:
        """The coefficient, for what is about one of them."""
        if self.coefficient is None:
            raise Refused("Name the coefficient.")
        return self.coefficient

    @abstractmethod
    def outcome(self, table: ir.Table) -> Any:
        """The column that is explained."""

    def coefficient_in_words(self, outcome: str, where: str) -> str:
        kind = self.family.words[:1].upper() + self.family.words[1:]
        if self.coefficient is None:
            predictors = ", ".join(self.predictors)
            return restricted(f"{kind} regression of {outcome} on {predictors}", where)
        name = self.coefficient
        if self.coefficient_level is not None:
            name = f"{name} = {self.coefficient_level}"
        return restricted(f"{kind} coefficient of {name} on {outcome}", where)

    def influence_question(
        self, codebook: Codebook, domain: tuple[Condition, ...]
    ) -> InfluenceQuestion:
        """The coefficient by its equation, with a dummy for every public level but the first; or
        all of them, the intercept first."""
        columns: list[tuple[str, Level | None]] = []
        wanted = 0
        for name in self.predictors:
            levels = codebook[name].levels if codebook[name].type == "categorical" else None
            for level in (levels or (None, None))[1:]:
                columns.append((name, level))
                if name == self.coefficient and level == self.coefficient_level:
                    wanted = len(columns)

        def made(table: ir.Table) -> dict[str, Any]:
            values = {"y": self.outcome(table)}
            for number, (name, level) in enumerate(columns):
                values[f"x{number}"] = table[name] if level is None else table[name] == level
            return values

        every = ("Intercept", *(n if v is None else f"{n} = {v}" for n, v in columns))
        places = tuple(range(len(every))) if self.several else (wanted,)
        return InfluenceQuestion(
            RegressionEquation(self.family, len(columns), places),
            made,
            domain_of(domain, codebook),
            tuple(every[at] for at in places),
        )

    def released_estimate(self, release: ReleasedPass) -> dict[str, Any]:
        """By `regress` on plain columns: x_0, x_1_2, ... No name reaches a formula."""
        codebook = release.codebook

        def columns(table: Any, _inside: Any) -> dict[str, Any]:
            made = {"y": self.outcome(table)}
            for number, name in enumerate(self.predictors):
                levels = codebook[name].levels if codebook[name].type == "categorical" else None
                if levels is None:
                    made[f"x_{number}"] = table[name]
                for code, level in enumerate(levels or ()):
                    if code:
                        made[f"x_{number}_{code}"] = table[name] == level
            return made

        levels = codebook[self.named].levels
        term = f"x_{self.predictors.index(self.named)}"
        if self.coefficient_level is not None and levels is not None:
            term += f"_{levels.index(self.coefficient_level)}"
        return release.regression(term, columns, self.family.name)
