"""Risk measures by declaration: in the report, on the command line, and of the user's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.errors import Refused
from understudy.risk.assessment import assess_risk
from understudy.risk.measure import RiskMeasure, measure_of, measures

OWN = '''
import polars as pl

from understudy.risk.measure import RiskMeasure


class Alone(RiskMeasure):
    """1 for a record that nobody shares its known columns with."""

    name = "alone"
    title = "Uniqueness"
    phrase = "a uniqueness"
    meaning = "A record is at risk when it is alone with its known columns."
    of_release = False
    of_topcoding = False

    def risks(self, confidential, released, intruder):
        frame = confidential.frame()
        return {
            known: (frame.select(pl.len().over(list(known))).to_series() == 1).to_numpy() * 1.0
            for known in intruder.known
        }
'''


def people() -> us.Survey:
    frame = pl.DataFrame(
        {
            "area": ["north"] * 5 + ["south"] * 6 + ["west"],
            "pay": [10.0, 11, 12, 30, 31, 9, 10, 50, 52, 80, 81, 7],
        }
    )
    return us.Survey(frame)


def test_every_measure_says_all_about_itself() -> None:
    assert set(measures()) == {"identification", "pairwise"}
    for one in measures().values():
        assert one.meaning.endswith(".")
    with pytest.raises(TypeError, match=r"Half does not declare .*meaning.*of_release"):

        class Half(RiskMeasure):
            name = "half"

    with pytest.raises(Refused, match="Unknown risk measure `pairwse`; did you mean `pairwise`"):
        measure_of("pairwse")


def test_measures_are_the_functions_of_the_paper() -> None:
    survey = us.Survey(people().frame().head(11))
    ask = {"known": ["area"], "target": "pay", "radius": 0.2}
    found = assess_risk(survey, known=[["area"]], target=["pay"], measure="pairwise")
    assert np.array_equal(found.main["Data"], 1 - us.pairwise_weights(survey, **ask))
    assert found.contributions is None
    plain = assess_risk(survey, [survey], known=[["area"]], target=["pay"])
    assert np.array_equal(plain.main["Data"], us.identification_risk(survey, **ask))
    assert set(plain.main) == {"Data", "Synthetic"}
    only = assess_risk(survey, [survey], known=[["area"]], target=["pay"], measure="pairwise")
    assert set(only.main) == {"Data"}
    with pytest.raises(Refused, match="Pairwise risk is not defined for topcoding"):
        assess_risk(survey, known=[["area"]], target=["pay"], topcode=0.1, measure="pairwise")


def test_a_measure_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    mine = measure_of("mine.py:Alone", tmp_path)
    found = assess_risk(people(), known=[["area"]], target=["pay"], measure=mine)
    assert found.main["Data"].tolist() == [0.0] * 11 + [1.0]
