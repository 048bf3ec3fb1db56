"""Identification risk (R eq. 1 and 2): in a file as it is, and in a synthetic one."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from understudy.risk.correspondence import Data
from understudy.risk.identification import KnownSet, identification_risk, known_contributions
from understudy.risk.measure import Intruder, RiskMeasure
from understudy.risk.patterns import Floats


class Identification(RiskMeasure):
    name = "identification"
    title = "Identification risk"
    phrase = "a risk of identification"
    meaning = (
        "The risk of a record is high when few other records share its known columns and a value "
        "near its own, and the release still shows that value."
    )
    of_release = True
    of_topcoding = True
    by_record = True

    def risks(
        self, confidential: Data, released: Sequence[Data] | None, intruder: Intruder
    ) -> dict[KnownSet, Floats]:
        return identification_risk(
            confidential,
            released,
            known=list(intruder.known),
            target=intruder.target,
            radius=intruder.radius,
            kind=intruder.kind,
            by_id=intruder.by_id,
        )

    def contributions(
        self, confidential: Data, released: Sequence[Data] | None, intruder: Intruder
    ) -> pl.DataFrame | None:
        if not intruder.known[0]:
            return None
        return known_contributions(
            confidential,
            released,
            known=intruder.known[0],
            target=intruder.target,
            radius=intruder.radius,
            kind=intruder.kind,
            by_id=intruder.by_id,
        )
