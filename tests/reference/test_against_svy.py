"""A second opinion besides R: the svy package on the same surveys."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import svy

import understudy as us

DATA = Path(__file__).parent / "data"

CASES = {
    "stratified": ("stratified", {"strata": "h"}, {"stratum": "h"}),
    "clustered": (
        "clustered",
        {"strata": "h", "psu": "cluster"},
        {"stratum": "h", "psu": "cluster"},
    ),
    "unstratified": ("clustered", {"psu": "cluster"}, {"psu": "cluster"}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("by", [None, "a"])
def test_the_same_estimates_and_errors(case: str, by: str | None) -> None:
    name, ours, theirs = CASES[case]
    frame = pl.read_csv(DATA / f"{name}.csv", infer_schema_length=None).drop_nulls()
    survey = us.Survey(frame, us.Design("w", **ours))
    texts = [pl.col(column).cast(pl.String) for column in theirs.values()]
    sample = svy.Sample(frame.with_columns(texts), svy.Design(wgt="w", **theirs))
    calls = {
        "mean(y)": lambda: sample.estimation.mean("y", by=by),
        "total(y)": lambda: sample.estimation.total("y", by=by),
        "ratio(y / x)": lambda: sample.estimation.ratio("y", "x", by=by),
    }
    table = us.tabulate(survey, list(calls), by=by or ())
    for statistic, call in calls.items():
        expected = call().to_polars()
        rows = table.filter(pl.col("statistic") == statistic)
        if by:
            expected = expected.sort(by)
        assert rows["estimate"].to_list() == pytest.approx(expected["est"].to_list(), rel=1e-9)
        assert rows["se"].to_list() == pytest.approx(expected["se"].to_list(), rel=1e-9)
        if not by:
            assert rows["df"].to_list() == expected["df"].to_list()
