"""`ReferenceCensored` with a reference file; a mutant takes it from the file itself."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from understudy.audit.problems import COMMON, GridAttack, Neighbours, Vector
from understudy.mechanisms.contract import Mechanism
from understudy.mechanisms.reference_censored import ReferenceCensored


class ReferenceCensoredAttack(GridAttack):
    name = "reference-censored"
    mutants = ("M-doubled", "clip-missing", "two-draws", "reference-from-data")
    alpha = 0.5
    per_unit = 1

    def chosen(self, pair: Neighbours, values: Vector) -> Mechanism:
        leaked = pair.mutant == "reference-from-data"
        used = values[~np.isnan(values)] if leaked else pair.reference
        return ReferenceCensored(pair.epsilon, cast(Any, used), scale=0.5)

    def sigma(self, M: float) -> float:
        return math.sqrt(self.alpha / (16 * M))

    def moved(self, M: float) -> tuple[list[float], float, float]:
        """With the mover the mean lies where each of the others loses exactly M against COMMON."""
        return [COMMON] * 16, 17 * self.sigma(M) * math.sqrt(2 * M / self.alpha), COMMON
