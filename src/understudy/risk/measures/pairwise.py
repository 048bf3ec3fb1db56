"""Pairwise risk: 1 minus the pairwise weight (R eq. 6 to 9), of a file as it is."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.risk.correspondence import Data
from understudy.risk.identification import KnownSet
from understudy.risk.measure import Intruder, RiskMeasure
from understudy.risk.patterns import Floats
from understudy.risk.weights import pairwise_weights


class Pairwise(RiskMeasure):
    name = "pairwise"
    title = "Pairwise risk"
    phrase = "a pairwise risk"
    meaning = (
        "The risk of a record is high when most records that share its known columns have values "
        "far from its own and from those of the others it is paired with."
    )
    of_release = False
    of_topcoding = False
    by_record = True

    def risks(
        self,
        confidential: Data,
        released: Sequence[Data] | None,  # noqa: ARG002
        intruder: Intruder,
    ) -> dict[KnownSet, Floats]:
        return {
            known: 1.0
            - pairwise_weights(
                confidential,
                known=known,
                target=intruder.target,
                radius=intruder.radius,
                kind=intruder.kind,
            )
            for known in intruder.known
        }
