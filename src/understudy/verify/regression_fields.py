"""What linear and logistic regressions ask for alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from understudy.verify.estimator import Estimator, restricted
from understudy.verify.question_fields import CoefficientOf, Level, LevelOf, Name, Names, Predictors
from understudy.verify.released import ReleasedPass


@dataclass(frozen=True)
class Regression(Estimator, abstract=True):
    """A coefficient of a regression of the outcome on predictors."""

    predictors: Annotated[Names, Predictors("Predictors")]
    coefficient: Annotated[
        Name,
        CoefficientOf(
            "Coefficient of",
            "predictors",
            level="coefficient_level",
            hint="It must be one of the predictors.",
        ),
    ]
    coefficient_level: Annotated[Level | None, LevelOf("coefficient")] = None

    def coefficient_in_words(self, kind: str, outcome: str, where: str) -> str:
        name = self.coefficient
        if self.coefficient_level is not None:
            name = f"{name} = {self.coefficient_level}"
        return restricted(f"{kind} coefficient of {name} on {outcome}", where)

    def released_coefficient(self, release: ReleasedPass, family: str, y: Any) -> dict[str, Any]:
        """By `regress` on plain columns: x_0, x_1_2, ... No name reaches a formula."""
        codebook = release.codebook

        def columns(table: Any, _inside: Any) -> dict[str, Any]:
            made = {"y": y(table)}
            for number, name in enumerate(self.predictors):
                levels = codebook[name].levels if codebook[name].type == "categorical" else None
                if levels is None:
                    made[f"x_{number}"] = table[name]
                for code, level in enumerate(levels or ()):
                    if code:
                        made[f"x_{number}_{code}"] = table[name] == level
            return made

        levels = codebook[self.coefficient].levels
        term = f"x_{self.predictors.index(self.coefficient)}"
        if self.coefficient_level is not None and levels is not None:
            term += f"_{levels.index(self.coefficient_level)}"
        return release.regression(term, columns, family)
