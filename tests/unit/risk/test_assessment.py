"""A whole look at risk: every table is the measure that it names, on the right files."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from understudy import Refused
from understudy.risk.assessment import assess_risk
from understudy.risk.identification import identification_risk
from understudy.risk.topcoding import topcoding_risk
from understudy.survey.implicates import Implicates
from understudy.survey.survey import Survey


def file(seed):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "g": np.repeat(["a", "b", "c"], 20),
            "h": np.tile([0, 1], 30),
            "y": np.round(rng.lognormal(3, 0.4, 60)),
        }
    )


ARGUMENTS = {"known": [["g"], ["g", "h"]], "target": ["y"], "radius": 0.3}


def test_every_part_is_the_measure_on_its_own():
    data, made, base = file(1), [file(2), file(3)], [file(4)]
    assessment = assess_risk(
        data, made, baseline=base, topcode=0.1, threshold=0.4, rise=0.1, **ARGUMENTS
    )
    ask = {"target": "y", "radius": 0.3}
    for known in (("g",), ("g", "h")):
        risks = assessment.risks[known]
        assert list(risks) == ["Data", "Synthetic", "Baseline", "Topcoded"]
        expected = [
            identification_risk(data, files, known=list(known), **ask)
            for files in (None, made, base)
        ]
        expected.append(topcoding_risk(data, known=list(known), share=0.1, **ask)[0])
        for ours, theirs in zip(risks.values(), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert assessment.main is assessment.risks["g",]
    assert assessment.profile.height == 8
    row = assessment.profile.filter(known="g, h", release="Synthetic").row(0, named=True)
    risk = assessment.risks["g", "h"]["Synthetic"]
    assert (row["records"], row["mean"], row["maximum"]) == (60, risk.mean(), risk.max())
    assert row["share_above"] == (risk > 0.4).mean()
    quartiles = np.quantile(risk, [0.25, 0.75])
    assert row["iqr"] == pytest.approx(quartiles[1] - quartiles[0])
    rise = assessment.main["Synthetic"] - assessment.main["Baseline"]
    assert assessment.moles.count == (rise >= 0.1).sum() > 0
    assert assessment.top10["record"][0] == np.argmax(assessment.main["Data"])
    assert assessment.contributions["variable"].to_list() == ["g"]
    assert assessment.contributions["mean_with"].item() == assessment.main["Synthetic"].mean()
    assert assessment.notes[0].startswith("Records correspond by order")
    assert assessment.notes[-1].startswith("Whack-a-mole: ")


def test_implicates_are_averaged_and_notes_begin_with_how_records_correspond():
    each, made = Implicates([Survey(file(1)), Survey(file(5))]), [file(2)]
    assessment = assess_risk(each, made, **ARGUMENTS)
    alone = [assess_risk(survey.frame(), made, **ARGUMENTS) for survey in each]
    for release, risk in assessment.main.items():
        np.testing.assert_allclose(
            risk, np.mean([assessed.main[release] for assessed in alone], axis=0)
        )
    assert assessment.contributions.columns == alone[0].contributions.columns
    assert assessment.contributions["mean_with"].item() == pytest.approx(
        np.mean([assessed.contributions["mean_with"].item() for assessed in alone])
    )
    assert assessment.notes == (
        "Records correspond by order of rows (the known variables agree row by row).",
        "Risks are averaged over 2 implicates.",
    )


def test_what_was_not_asked_for_is_not_there():
    alone = assess_risk(file(1), known=[[]], target=["y"])
    assert list(alone.main) == ["Data"]
    assert (alone.contributions, alone.moles, alone.notes) == (None, None, ())
    np.testing.assert_array_equal(
        alone.main["Data"], identification_risk(file(1), known=[], target="y", radius=0.2)
    )
    assert alone.profile["share_above"].item() == (alone.main["Data"] > 0.5).mean()
    only_made = assess_risk(file(1), [file(2)], **ARGUMENTS)
    assert only_made.moles is None
    assert only_made.notes == (
        "Records correspond by order of rows (the known variables agree row by row).",
    )
    data_only = assess_risk(file(1), **ARGUMENTS)
    assert data_only.contributions["mean_with"].item() == data_only.main["Data"].mean()


def test_bad_questions_are_refused():
    with pytest.raises(Refused, match="Name the sensitive variable"):
        assess_risk(file(1), known=[["g"]], target=[])
    two = file(1).with_columns(z=pl.col("y") + 1)
    with pytest.raises(Refused, match="one target"):
        assess_risk(two, known=[["g"]], target=["y", "z"], topcode=0.1)
