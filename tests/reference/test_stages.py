"""Later stages and unequal probabilities: variances of R survey (stages.R)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import understudy as us
from understudy.errors import Refused

HERE = Path(__file__).parent
NUMBERS = pl.read_csv(HERE / "stages_r.csv").with_columns(pl.col(pl.String).fill_null(""))
TWO_STAGES = us.Design(
    "w", "h", "psu", "M1", lonely_psu="certainty", stages=[us.Stage("ssu", "M2")]
)


def two_stage() -> pl.DataFrame:
    frame = pl.read_csv(HERE / "data/two_stage.csv")
    number = pl.col("psu").rank("dense")
    return frame.with_columns(
        p1=0.1 + 0.5 * number / number.max(),
        f2=pl.col("ssu").n_unique().over("psu") / pl.col("M2"),
    )


def unequal() -> pl.DataFrame:
    frame = pl.read_csv(HERE / "data/stratified.csv")
    frame = frame.with_columns(p=0.05 + 0.4 * pl.col("x") / 100, squares=37.0)
    return frame.with_columns(w=1 / pl.col("p"))


def survey_of(design: str) -> us.Survey:
    frame = two_stage()
    if design == "two_stage":
        return us.Survey(frame, TWO_STAGES)
    if design == "two_stage_calibrated":
        x, w = frame["x"], frame["w"]
        return us.calibrate(
            us.Survey(frame, TWO_STAGES), {"x": 1.02 * (x * w).sum()}, "linear", population=w.sum()
        )
    if design == "two_stage_brewer":
        return us.Survey(
            frame,
            us.Design(
                "w", None, "psu", "p1", lonely_psu="certainty", pps="brewer",
                stages=[us.Stage("ssu", "f2")],
            ),
        )  # fmt: skip
    if design == "brewer":
        return us.Survey(unequal(), us.Design("w", "h", fpc="p", pps="brewer"))
    if design == "hartley_rao":
        return us.Survey(
            unequal(), us.Design("w", fpc="p", pps="hartley-rao", square_sum="squares")
        )
    # the sum of squares estimated by the sample: Brewer's variance
    return us.Survey(unequal(), us.Design("w", fpc="p", pps="brewer"))


@pytest.mark.parametrize("design", NUMBERS["design"].unique(maintain_order=True).to_list())
def test_estimates_and_variances_are_those_of_r(design: str) -> None:
    survey = survey_of(design)
    for (where,), expected in NUMBERS.filter(pl.col("design") == design).group_by("where"):
        table = us.tabulate(survey, expected["statistic"].to_list(), where=str(where) or None)
        for ours, theirs in zip(table.rows(named=True), expected.rows(named=True), strict=True):
            assert ours["estimate"] == pytest.approx(theirs["estimate"], rel=1e-9)
            assert ours["se"] == pytest.approx(
                theirs["se"], rel=1e-7, abs=1e-9 * theirs["estimate"]
            )


def test_a_certain_later_stage_adds_nothing() -> None:
    frame = two_stage().with_columns(M2=pl.col("ssu").n_unique().over("psu"))
    both = us.tabulate(us.Survey(frame, TWO_STAGES), "mean(y)", by="a")
    first = us.tabulate(us.Survey(frame, replace(TWO_STAGES, stages=())), "mean(y)", by="a")
    assert both["se"].to_list() == pytest.approx(first["se"].to_list(), rel=1e-12)


def test_refusals() -> None:
    with pytest.raises(Refused, match="the first one has"):
        us.Design("w", psu="psu", stages=[us.Stage("ssu", "M2")])
    with pytest.raises(Refused, match="inclusion probabilities"):
        us.Design("w", pps="brewer")
    with pytest.raises(Refused, match="square_sum"):
        us.Design("w", fpc="p", pps="hartley-rao")
    with pytest.raises(Refused, match="Unknown variance"):
        us.Design("w", fpc="p", pps="sampford")  # type: ignore[arg-type]
    with pytest.raises(Refused, match="at most 1"):
        us.tabulate(us.Survey(two_stage(), us.Design("w", psu="psu", fpc="M1", pps="brewer")),
                    "count")  # fmt: skip
