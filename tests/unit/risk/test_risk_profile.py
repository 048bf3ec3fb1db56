"""Summaries of risk: the profile, the ten riskiest records, whack-a-mole, topcoding."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import polars as pl
import pytest

from understudy import Refused
from understudy.risk.figure import risk_density
from understudy.risk.identification import identification_risk
from understudy.risk.profile import risk_profile, summarise_risk, top_records, whack_a_mole
from understudy.risk.topcoding import topcode, topcoding_risk


def test_summary_of_a_known_distribution():
    risk = np.linspace(0, 1, 101)
    profile = summarise_risk(risk, threshold=0.9)
    assert profile.mean == pytest.approx(0.5)
    assert profile.iqr == pytest.approx(0.5)
    assert profile.median == pytest.approx(0.5)
    assert profile.maximum == 1.0
    assert profile.share_above == pytest.approx(10 / 101)  # above, not at
    assert profile.top["record"].to_list() == list(range(100, 90, -1))
    assert profile.top["risk"].to_list() == pytest.approx(sorted(risk)[:90:-1])
    assert "internal: computed from confidential data" in str(profile)
    with pytest.raises(FrozenInstanceError):
        profile.mean = 0.0


def test_half_is_the_default_threshold():
    frame = pl.DataFrame({"g": [1] * 5, "y": [1.0, 1.1, 1.2, 1.3, 9.0]})
    profile = risk_profile(frame, known=["g"], target="y")
    assert profile.risk.tolist() == pytest.approx([0.4, 0.2, 0.2, 0.4, 0.8])
    for summary in (profile, summarise_risk(profile.risk)):
        assert (summary.threshold, summary.share_above) == (0.5, 0.2)


def test_top_records_by_the_confidential_risk_with_others_beside():
    risks = {"data": np.array([0.1, 0.9, 0.5]), "synthesizer": np.array([0.3, 0.0, 0.2])}
    table = top_records(risks, by="data", count=2)
    assert table.rows() == [(1, 1, 0.9, 0.0), (2, 2, 0.5, 0.2)]


def test_profile_says_how_records_correspond_and_what_zero_means():
    frame = pl.DataFrame({"id": [1, 2, 3, 4], "g": [1, 1, 1, 1], "y": [0.0, 0.0, 5.0, 6.0]})
    profile = risk_profile(frame, known=["g"], target="y")
    assert profile.correspondence == ""
    assert "2 records have `y` zero" in profile.notes[0]
    np.testing.assert_array_equal(profile.risk, identification_risk(frame, known=["g"], target="y"))
    by_order = risk_profile(frame, [frame], known=["g"], target="y")
    assert "by order of rows (the known variables agree" in str(by_order)
    by_id = risk_profile(frame, [frame[::-1]], known=["g"], target="y", by_id="id")
    assert by_id.correspondence == "by id `id`"
    absolute = risk_profile(frame, known=["g"], target="y", radius=1, kind="absolute")
    assert absolute.notes == ()


def test_whack_a_mole_counts_and_lists():
    before = np.array([0.1, 0.5, 0.2, 0.0])
    after = np.array([0.35, 0.1, 0.44, 0.9])
    moles = whack_a_mole(before, after, rise=0.25)
    assert moles.count == 2
    assert moles.records["record"].to_list() == [3, 0]
    assert moles.records["rise"].to_list() == pytest.approx([0.9, 0.25])
    assert whack_a_mole(before, before, rise=0.25).count == 0


def test_bad_summaries_are_refused():
    with pytest.raises(Refused, match="outside 0 to 1"):
        summarise_risk(np.array([0.1, np.nan]))
    with pytest.raises(Refused, match="one risk per record"):
        summarise_risk(np.zeros((2, 2)))
    with pytest.raises(Refused, match="threshold"):
        summarise_risk(np.zeros(3), threshold=2)
    with pytest.raises(Refused, match="`before` has 3 records and `after` has 2"):
        whack_a_mole(np.zeros(3), np.zeros(2))
    assert summarise_risk(np.array([0.5])).mean == 0.5
    with pytest.raises(Refused, match="one risk per record"):
        summarise_risk(np.array([]))
    with pytest.raises(Refused, match="different numbers of records"):
        top_records({"data": np.zeros(2), "other": np.zeros(3)}, by="data")
    assert whack_a_mole(np.zeros(3), np.ones(3), rise=1).count == 3
    for rise in (0, 1.5):
        with pytest.raises(Refused, match="rise"):
            whack_a_mole(np.zeros(3), np.zeros(3), rise=rise)
    with pytest.raises(Refused, match="Unknown risk"):
        top_records({"data": np.zeros(2)}, by="dta2")


def test_topcode_replaces_the_share_that_was_asked_for():
    values = np.arange(100.0)
    coded = topcode(values, share=0.06)
    assert coded.share == 0.06
    assert coded.threshold == 93.0
    np.testing.assert_array_equal(coded.values, np.minimum(values, 93.0))
    assert topcode(values, threshold=50.0).share == pytest.approx(0.49)
    tied = topcode(np.array([1.0, 2.0, 5.0, 5.0, 5.0]), share=0.4)
    assert (tied.threshold, tied.share) == (5.0, 0.0)


def test_topcoding_leaves_everyone_below_the_threshold_at_full_risk():
    rng = np.random.default_rng(8)
    y = np.round(np.exp(rng.normal(10, 1, 500)))
    frame = pl.DataFrame({"sex": rng.integers(0, 2, 500), "y": y})
    plain = identification_risk(frame, known=["sex"], target="y")
    risk, coded = topcoding_risk(frame, known=["sex"], target="y", share=0.06)
    # Far above the threshold a record is not found; far below it nothing has changed.
    assert (risk[y * 0.8 > coded.threshold * 1.001] == 0).all()
    below = y * 1.2 < coded.threshold
    np.testing.assert_array_equal(risk[below], plain[below])


def test_bad_topcoding_is_refused():
    for arguments in ({}, {"share": 0.1, "threshold": 3.0}):
        with pytest.raises(Refused, match="either the share"):
            topcode(np.arange(5.0), **arguments)
    with pytest.raises(Refused, match="between 0 and 1"):
        topcode(np.arange(5.0), share=1.0)
    with pytest.raises(Refused, match="finite"):
        topcode(np.array([np.nan]), share=0.1)
    with pytest.raises(Refused, match="finite"):
        topcode(np.arange(5.0), threshold=np.inf)


def test_the_violin_s_density_keeps_all_mass_inside_zero_to_one():
    risk = np.concatenate([np.zeros(500), np.ones(100), np.linspace(0, 1, 400)])
    grid, density = risk_density(risk)
    assert grid[0] > 0
    assert grid[-1] < 1
    assert density.mean() == pytest.approx(1.0, rel=1e-9)
    assert density[0] > density[-1] > density[200]
