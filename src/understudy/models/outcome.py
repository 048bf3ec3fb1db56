"""Models of one outcome: what all families of them share.

A family is then its settings, how it sees the survey (`prepare`), its NumPyro `function`, and the
sentence of the claim that names its units (`units`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.models.contract import Arrays, Columns, OutcomeModel, array_column
from understudy.models.design_matrix import design_matrix
from understudy.models.piled import Piled
from understudy.models.piles import declared_piles
from understudy.models.unit_interval import Bounds, checked_bounds, unit_outcome, unit_scale
from understudy.survey.codebook import Codebook
from understudy.survey.survey import Survey


class SingleOutcome(OutcomeModel, abstract=True):
    """The outcome is the array `y`, in the units of its column."""

    @property
    @abstractmethod
    def outcome(self) -> str:
        """The column that is synthesized."""

    @property
    def sensitive(self) -> tuple[str, ...]:
        return (self.outcome,)

    @property
    def targets(self) -> tuple[str, ...]:
        return ("y",)

    def restore(self, generated: Mapping[str, NDArray[Any]], survey: Survey) -> Columns:
        return {self.outcome: array_column(generated["y"], self.outcome, survey)}

    def rests_on(self, survey: Survey) -> dict[str, str]:  # noqa: ARG002
        return {}

    def bounded_target(self, codebook: Codebook) -> tuple[str, Bounds]:
        column = codebook.columns.get(self.outcome)
        if column is None or column.bounds is None or not column.declared("bounds"):
            raise Refused(
                f"`{self.outcome}` needs declared bounds, between which its values are counted; "
                "give them in the codebook, from what is public about the variable."
            )
        return "y", column.bounds


class BoundedOutcome(SingleOutcome, abstract=True):
    """The outcome between declared bounds, which become 0 and 1 (unit_interval.py)."""

    @property
    @abstractmethod
    def bounds(self) -> Bounds | None:
        """Public bounds, if the codebook has none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))

    def for_survey(self, survey: Survey) -> OutcomeModel:
        column = survey.codebook.columns.get(self.outcome)
        reach = inf if self.bounds is None else self.bounds[1]
        if self.bounds is None and column is not None and column.bounds is not None:
            reach = column.bounds[1]
        piles = declared_piles(column, logs=False, reach=reach)
        return self if piles is None else Piled(self, piles)

    def prepare(self, survey: Survey, like: Survey | None = None) -> Arrays:
        scale = unit_scale(self.outcome, self.bounds, (like or survey).codebook)
        y, predictors = unit_outcome(survey, scale), getattr(self, "predictors", None)
        if predictors is None:
            return {"y": y}
        return {"X": design_matrix(survey, predictors, self.sensitive, like), "y": y}

    def restore(self, generated: Mapping[str, NDArray[Any]], survey: Survey) -> Columns:
        scale = unit_scale(self.outcome, self.bounds, survey.codebook)
        return super().restore({"y": scale.from_unit(generated["y"])}, survey)

    def possible_value(self, name: str, codebook: Codebook) -> float:  # noqa: ARG002
        return float(unit_scale(self.outcome, self.bounds, codebook).from_unit(np.array(0.5)))

    def units(self, codebook: Codebook) -> str:
        return f"Log-likelihoods are of {unit_scale(self.outcome, self.bounds, codebook)}"

    def rests_on(self, survey: Survey) -> dict[str, str]:  # noqa: ARG002
        return {} if self.bounds is not None else {self.outcome: "bounds"}

    def bounded_target(self, codebook: Codebook) -> tuple[str, Bounds]:
        unit_scale(self.outcome, self.bounds, codebook)  # refused unless bounds are declared
        return "y", (0.0, 1.0)
