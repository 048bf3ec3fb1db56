"""Calibration: weights, estimates and variances of R survey's calibrate (calibrated.R)."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import understudy as us

HERE = Path(__file__).parent
NUMBERS = pl.read_csv(HERE / "calibrated_r.csv").with_columns(pl.col(pl.String).fill_null(""))
DESIGNS = {
    "stratified": us.Design("w", "h", fpc="N_h"),
    "clustered": us.Design("w", "h", "cluster"),
    "jackknife": us.Design(
        "w",
        replicates=us.Replicates(
            prefix="jkn",
            kind="jkn",
            coefficients=pl.read_csv(HERE / "data/jackknife_coefficients.csv")[
                "coefficient"
            ].to_list(),
        ),
    ),
}
WHERE = {"": None, "x > 45": "x > 45", "a == 'low'": 'a == "low"'}


def totals(data: str) -> dict[str, float]:
    rows = NUMBERS.filter(pl.col("data") == data, pl.col("method") == "totals")
    return dict(zip(rows["known"], rows["estimate"], strict=True))


def calibrated(data: str, method: str, known: str) -> us.Survey:
    frame = pl.read_csv(HERE / "data" / f"{data}.csv")
    public = totals(data)
    whole = public["(Intercept)"]
    plain = us.Survey(frame, DESIGNS[data])
    if method == "greg":
        return us.calibrate(plain, {"x": public["x"]}, "linear", population=whole)
    margins = {"b": {1: whole - public["bf2"], 2: public["bf2"]}}
    if data != "jackknife":
        low, mid = public["alow"], public["amid"]
        margins["a"] = {"low": low, "mid": mid, "high": whole - low - mid}
    limits = (0.4, 2.5) if method == "logit" else None
    survey = us.calibrate(plain, margins, method, limits)
    if known == "base":
        return survey
    final = frame.with_columns(w=survey.frame(["w_calibrated"])["w_calibrated"])
    design = DESIGNS[data]
    return us.Survey(final, us.Design("w", "h", design.psu, design.fpc, calibrated="a + C(b)"))


CASES = (
    NUMBERS.filter(pl.col("method") != "totals")
    .select("data", "method", "known")
    .unique(maintain_order=True)
    .rows()
)


@pytest.mark.parametrize(("data", "method", "known"), CASES)
def test_estimates_and_variances_are_those_of_r(data: str, method: str, known: str) -> None:
    survey = calibrated(data, method, known)
    rows = NUMBERS.filter(
        pl.col("data") == data, pl.col("method") == method, pl.col("known") == known
    )
    for where, text in WHERE.items():
        expected = rows.filter(
            pl.col("where") == where, ~pl.col("statistic").str.starts_with("glm")
        )
        if expected.is_empty():
            continue
        table = us.tabulate(survey, expected["statistic"].to_list(), where=text)
        for ours, theirs in zip(table.rows(named=True), expected.rows(named=True), strict=True):
            assert ours["estimate"] == pytest.approx(theirs["estimate"], rel=1e-8)
            # the population itself has no variance: rounding in both
            assert ours["se"] == pytest.approx(
                theirs["se"], rel=1e-6, abs=1e-7 * theirs["estimate"]
            )
    expected = rows.filter(pl.col("statistic").str.starts_with("glm"))
    if not expected.is_empty():
        fit = us.regress(survey, "y ~ x")
        assert fit["estimate"].to_list() == pytest.approx(expected["estimate"].to_list(), rel=1e-8)
        assert fit["se"].to_list() == pytest.approx(expected["se"].to_list(), rel=1e-6)


def test_published_values_of_apiclus1(shared_data: Path) -> None:
    """R survey's vignette on estimated population totals, dclus1g3: mean 665.31 (3.4418) and total
    enrolment 3638487 (385524)."""
    frame = pl.read_csv(shared_data / "apiclus1.csv", infer_schema_length=None, null_values=["NA"])
    plain = us.Survey(frame, us.Design("pw", psu="dnum", fpc="fpc"))
    levels = {"E": 4421.0, "H": 755.0, "M": 1018.0}
    greg = us.calibrate(plain, {"stype": levels, "api99": 3914069.0}, "linear")
    table = us.tabulate(greg, ["mean(api00)", "total(enroll)"])
    assert table["estimate"].to_list() == pytest.approx([665.31, 3638487], rel=1e-5)
    assert table["se"].to_list() == pytest.approx([3.4418, 385524], rel=2e-5)
