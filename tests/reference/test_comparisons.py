"""Contrasts, design effects, Rao and Scott's test and t tests of R survey (comparisons.R)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import understudy as us
from understudy.errors import Refused
from understudy.tables.association import rao_scott

HERE = Path(__file__).parent
NUMBERS = pl.read_csv(HERE / "comparisons_r.csv")
DESIGNS = NUMBERS["design"].unique(maintain_order=True).to_list()


@cache
def survey_of(design: str) -> us.Survey:
    if design == "strata_fpc_count":
        return us.Survey(pl.read_csv(HERE / "data/stratified.csv"), us.Design("w", "h", fpc="N_h"))
    if design == "strata_psu":
        return us.Survey(pl.read_csv(HERE / "data/clustered.csv"), us.Design("w", "h", "cluster"))
    coefficients = pl.read_csv(HERE / "data/jackknife_coefficients.csv")["coefficient"].to_list()
    replicates = us.Replicates(prefix="jkn", kind="jkn", coefficients=coefficients)
    return us.Survey(
        pl.read_csv(HERE / "data/jackknife.csv"), us.Design("w", replicates=replicates)
    )


def theirs(design: str, what: str) -> dict[str, dict[str, float]]:
    rows = NUMBERS.filter(pl.col("design") == design, pl.col("what") == what)
    return {
        str(name): dict(zip(group["number"], group["value"], strict=True))
        for (name,), group in rows.group_by("name", maintain_order=True)
    }


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("statistic", ["mean(y)", "total(y)"])
def test_contrasts(design: str, statistic: str) -> None:
    wanted = {
        "low - high": {"low": 1, "high": -1},
        "mid - high": {"mid": 1, "high": -1},
        "mid - low": {"mid": 1, "low": -1},
        "curve": {"high": 0.5, "low": -1, "mid": 0.5},
    }
    survey = survey_of(design)
    table = us.contrast(survey, statistic, "a", wanted)
    for row in table.rows(named=True):
        expected = theirs(design, statistic)[row["contrast"]]
        assert row["estimate"] == pytest.approx(expected["estimate"], rel=1e-9)
        assert row["se"] == pytest.approx(expected["se"], rel=1e-7)
    assert_frame_equal(us.contrast(survey, statistic, "a"), table[:3])


@pytest.mark.parametrize("design", DESIGNS)
def test_design_effects(design: str) -> None:
    for where, what in ((None, "deff"), ('a == "low"', "deff low")):
        expected = theirs(design, what)
        table = us.tabulate(survey_of(design), list(expected), where=where, deff=True)
        for row in table.rows(named=True):
            assert row["deff"] == pytest.approx(expected[row["statistic"]]["deff"], rel=1e-7)
    assert us.tabulate(survey_of(design), "count", deff=True)["deff"].to_list() == [None]


@pytest.mark.parametrize("design", DESIGNS)
def test_rao_and_scott(design: str) -> None:
    for name, expected in theirs(design, "association").items():
        test = us.association(survey_of(design), *name.split("|")).row(0, named=True)
        for number, value in expected.items():
            # R scales X^2 to all records, with and without values
            scale = test["n"] / survey_of(design).n if number == "chi_square" else 1
            assert test[number] == pytest.approx(value * scale, rel=1e-6), number


@pytest.mark.parametrize("design", DESIGNS)
def test_t_tests(design: str) -> None:
    """R takes one more degree from a single mean; here it has those of its table."""
    survey = survey_of(design)
    expected = theirs(design, "t_test")
    two = us.t_test(survey, "y", by="b").row(0, named=True)
    only = us.t_test(survey, "x", equals=50).row(0, named=True)
    for ours, numbers in ((two, expected["y by b"]), (only, expected["x"])):
        assert ours["estimate"] == pytest.approx(numbers["estimate"], rel=1e-8)
        assert ours["t"] == pytest.approx(numbers["t"], rel=1e-7)
    assert only["df"] == us.tabulate(survey, "mean(x)")["df"][0] == expected["x"]["df"] + 1
    if design != "strata_fpc_count":
        # R leaves records without y out of the degrees of freedom (decision 003)
        assert two["df"] == expected["y by b"]["df"]
        assert two["p"] == pytest.approx(expected["y by b"]["p"], rel=1e-6)


def test_simple_random_sampling_gives_pearson() -> None:
    """With the multinomial covariance Delta is the identity."""
    p = np.array([[0.1, 0.2, 0.15], [0.25, 0.1, 0.2]])
    flat = p.reshape(-1)
    statistic = rao_scott(p, (np.diag(flat) - np.outer(flat, flat)) / 80, 80, 1e9)
    expected = np.outer(p.sum(axis=1), p.sum(axis=0))
    assert statistic["chi_square"] == pytest.approx(80 * ((p - expected) ** 2 / expected).sum())
    assert statistic["F"] == pytest.approx(statistic["chi_square"] / 2)
    assert statistic["df"] == pytest.approx(2)
    assert statistic["p"] == pytest.approx(statistic["p_first_order"], rel=1e-5)


def test_refusals() -> None:
    survey = survey_of("strata_psu")
    with pytest.raises(Refused, match="two groups"):
        us.t_test(survey, "y", by="a")
    with pytest.raises(Refused, match="Unknown cell"):
        us.contrast(survey, "mean(y)", "a", {"x": {"lo": 1}})
    with pytest.raises(Refused, match="no covariance"):
        us.contrast(survey, "quantile(y, 0.5)", "a")
    with pytest.raises(Refused, match="two levels"):
        us.association(survey, "a", "b", where="b == 1")


def test_no_sampling_error_no_test() -> None:
    frame = pl.DataFrame({"a": [0, 1], "b": [0, 1], "w": [1.0, 1.0], "r1": [1.0, 1.0]})
    same = us.Replicates(columns=("r1", "r2"), kind="brr")
    survey = us.Survey(frame.with_columns(r2="r1"), us.Design("w", replicates=same))
    with pytest.raises(Refused, match="no sampling error"):
        us.association(survey, "a", "b")
