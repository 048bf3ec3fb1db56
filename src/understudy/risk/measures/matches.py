"""Identification risk in fully synthetic files: expected matches over all of their rows."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.risk.correspondence import Data
from understudy.risk.identification import KnownSet, identification_risk
from understudy.risk.matches import expected_matches
from understudy.risk.measure import Intruder, RiskMeasure
from understudy.risk.patterns import Floats


class Matches(RiskMeasure):
    name = "matches"
    title = "Expected matches"
    phrase = "a risk of being matched"
    meaning = (
        "The risk of a record is high when half of the synthetic rows with its known columns show "
        "a value near its own, and low when none or all do; no row stands for a record."
    )
    of_release = True
    of_topcoding = False
    by_record = False

    def risks(
        self, confidential: Data, released: Sequence[Data] | None, intruder: Intruder
    ) -> dict[KnownSet, Floats]:
        if released is None:
            return identification_risk(
                confidential,
                known=list[Sequence[str]](intruder.known),
                target=intruder.target,
                radius=intruder.radius,
                kind=intruder.kind,
            )
        return {
            known: expected_matches(
                confidential,
                released,
                known=known,
                target=intruder.target,
                radius=intruder.radius,
                kind=intruder.kind,
            )["risk"].to_numpy()
            for known in intruder.known
        }
