"""ConstantWeight: the same record weight for everyone, blind to risk.

The control that every comparison with risk weights needs (R §3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from understudy.claim import Claim, several
from understudy.errors import Refused
from understudy.mechanisms.contract import Fitted, Fitter, Mechanism, Prepared, plain_terms


@dataclass(frozen=True)
class ConstantWeight(Mechanism):
    """alpha_i = value for every record: what downweighting does without looking at risk."""

    claims = "risk"
    relation = "blank"
    seeded = True
    fits = 1
    synthesizes = "outcome"
    hands_out = "rows"
    epsilon = None
    delta = 0.0

    value: Annotated[float, "The weight of every record, 0 to 1."]

    def __post_init__(self) -> None:
        value: Any = self.value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
            raise Refused("A constant record weight must be a number above 0 and at most 1.")

    def prepare(self, fitter: Fitter, datasets: int) -> Prepared:  # noqa: ARG002
        return Prepared(plain_terms(fitter, np.full(fitter.n, float(self.value))))

    def claim(self, prepared: Prepared, fitted: Fitted, datasets: int) -> Claim:  # noqa: ARG002
        return Claim(
            "risk", None, mechanism=f"Constant weight {self.value:g}, {several(datasets, 'draw')}"
        )
