"""`ReferenceCensored` with a reference file; mutants take it, or alpha, from the file itself."""

from __future__ import annotations

import math
from typing import Any, ClassVar, cast

import numpy as np

from understudy.audit.problems import COMMON, GridAttack, Neighbours, Vector
from understudy.dp.contributions import clip_bound
from understudy.mechanisms.contract import Mechanism, plain_terms
from understudy.mechanisms.reference_censored import ReferenceCensored, reference_scale


class ReferenceCensoredAttack(GridAttack):
    name = "reference-censored"
    mutants: ClassVar[tuple[str, ...]] = (
        "M-doubled", "clip-missing", "two-draws", "reference-from-data", "alpha-from-data"
    )  # fmt: skip
    alpha = 0.5
    per_unit = 1

    def chosen(self, pair: Neighbours, values: Vector) -> Mechanism:
        own, scale = values[~np.isnan(values)], self.alpha
        used = own if pair.mutant == "reference-from-data" else pair.reference
        if pair.mutant == "alpha-from-data":
            file = cast(Any, pair.on_grid(own))
            drawn = file.fit(plain_terms(file), "reference").positions
            limit = clip_bound(pair.epsilon, pair.datasets)
            scale = reference_scale(file, drawn, pair.reference[:1], limit)
        return ReferenceCensored(pair.epsilon, cast(Any, used), scale=scale)

    def sigma(self, M: float) -> float:
        return math.sqrt(self.alpha / (16 * M))

    def moved(self, M: float) -> tuple[list[float], float, float]:
        """With the mover the mean lies where each of the others loses exactly M against COMMON."""
        return [COMMON] * 16, 17 * self.sigma(M) * math.sqrt(2 * M / self.alpha), COMMON


class ReferenceCensoredUnitsAttack(ReferenceCensoredAttack):
    """Of a household of three, around a reference file of such."""

    name = "reference-censored-units"
    mutants = (*ReferenceCensoredAttack.mutants, "clipped-by-record")
    alpha = 0.5
    per_unit = 3
