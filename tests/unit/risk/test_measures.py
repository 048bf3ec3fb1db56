"""Risk measures by declaration: in the report, on the command line, and of the user's own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us
from skeletons import skeleton
from understudy.errors import Refused
from understudy.ledger.ledger import Ledger
from understudy.risk.assessment import assess_risk
from understudy.risk.measure import RiskMeasure, measure_of, measures


def people() -> us.Survey:
    frame = pl.DataFrame(
        {
            "area": ["north"] * 5 + ["south"] * 6 + ["west"],
            "pay": [10.0, 11, 12, 30, 31, 9, 10, 50, 52, 80, 81, 7],
        }
    )
    return us.Survey(frame)


def test_every_measure_says_all_about_itself() -> None:
    assert {"identification", "pairwise"} <= set(measures())
    for known in measures().values():
        assert known.meaning.endswith(".")
    with pytest.raises(TypeError, match=r"Half does not declare .*meaning.*of_release"):

        class Half(RiskMeasure):
            name = "half"

    with pytest.raises(Refused, match="Unknown risk measure `pairwse`; did you mean `pairwise`"):
        measure_of("pairwse")


def test_measures_are_the_functions_of_the_paper() -> None:
    survey = us.Survey(people().frame().head(11))
    ask = {"known": ["area"], "target": "pay", "radius": 0.2}
    assessment = assess_risk(survey, known=[["area"]], target=["pay"], measure="pairwise")
    assert np.array_equal(assessment.main["Data"], 1 - us.pairwise_weights(survey, **ask))
    assert assessment.contributions is None
    plain = assess_risk(survey, [survey], known=[["area"]], target=["pay"])
    assert np.array_equal(plain.main["Data"], us.identification_risk(survey, **ask))
    assert set(plain.main) == {"Data", "Synthetic"}
    only = assess_risk(survey, [survey], known=[["area"]], target=["pay"], measure="pairwise")
    assert set(only.main) == {"Data"}
    with pytest.raises(Refused, match="Pairwise risk is not defined for topcoding"):
        assess_risk(survey, known=[["area"]], target=["pay"], topcode=0.1, measure="pairwise")


def test_a_measure_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(skeleton("Alone"), encoding="utf-8")
    mine = measure_of("mine.py:Alone", tmp_path)
    assessment = assess_risk(people(), known=[["area"]], target=["pay"], measure=mine)
    assert assessment.main["Data"].tolist() == [0.0] * 11 + [1.0]


RECIPE = """\
[data]
path = "people.csv"
codebook = "codebook.toml"

[synthesis]
model = "Beta"
sensitive = "pay"
publish = ["area"]

[privacy]
mechanism = "PerturbedHistogram"
epsilon = 5

[risk]
known = ["area"]
measure = "mine.py:Alone"

[ledger]
place = "ledger.db"
cap = "10"
"""
CODEBOOK = """\
[columns.area]
type = "categorical"
levels = ["north", "south", "west"]

[columns.pay]
role = "sensitive"
bounds = [0.0, 100.0]
"""


@pytest.mark.any_noise
@pytest.mark.usefixtures("outside_here")
def test_a_measure_of_ones_own_in_a_recipe(tmp_path: Path) -> None:
    people().frame().write_csv(tmp_path / "people.csv")
    for name, text in (
        ("mine.py", skeleton("Alone")),
        ("codebook.toml", CODEBOOK),
        ("release.toml", RECIPE),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    out = us.publish(tmp_path / "release.toml", say=lambda _: None, progress=False)
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "<h2>Uniqueness</h2>" in report
    assert "A record is at risk when it is alone" in report
    risk = json.loads((out / "evidence.json").read_text(encoding="utf-8"))["risk"]
    assert risk["profile"][0]["mean"] == pytest.approx(1 / 12)
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert [entry.micro for entry in ledger.entries() if entry.kind == "spend"] == [5_000_000]
    wrong = RECIPE.replace("mine.py:Alone", "alone")
    (tmp_path / "wrong.toml").write_text(wrong, encoding="utf-8")
    with pytest.raises(Refused, match="Unknown risk measure `alone`"):
        us.publish(tmp_path / "wrong.toml", say=lambda _: None, progress=False)
