"""`Censored` without record weights, with weights that are fixed beforehand, and for households."""

from __future__ import annotations

from typing import ClassVar

from understudy.audit.problems import GRID, GridAttack, Neighbours, Vector
from understudy.mechanisms.censored import Censored
from understudy.mechanisms.contract import FixedWeights, Mechanism

# weight 1/2 for every record, fixed beforehand
HALF = FixedWeights(GRID[:, None], low=0.0, high=1.0, c1=0.0, c2=0.5)


class CensoredAttack(GridAttack):
    name = "censored"
    mutants: ClassVar[tuple[str, ...]] = ("M-doubled", "clip-missing", "two-draws")
    alpha = 1.0
    per_unit = 1

    def chosen(self, pair: Neighbours, values: Vector) -> Mechanism:  # noqa: ARG002
        return Censored(pair.epsilon, weighted=False)


class CensoredUnitsAttack(CensoredAttack):
    """Of a household of three."""

    name = "censored-units"
    mutants = (*CensoredAttack.mutants, "clipped-by-record")
    alpha = 1.0
    per_unit = 3


class CensoredWeightedAttack(CensoredAttack):
    name = "censored-weighted"
    mutants = (*CensoredAttack.mutants, "weights-from-data")
    alpha = 0.5
    per_unit = 1

    def chosen(self, pair: Neighbours, values: Vector) -> Mechanism:  # noqa: ARG002
        leaked = pair.mutant == "weights-from-data"
        return Censored(pair.epsilon, weights=None if leaked else HALF)
