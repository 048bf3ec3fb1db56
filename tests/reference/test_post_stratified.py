"""Public stratum sizes: variances of R survey's postStratify (post_stratified.R)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us

HERE = Path(__file__).parent
EXPECTED = pl.read_csv(HERE / "post_stratified_r.csv").with_columns(pl.col(pl.String).fill_null(""))
STATISTICS = ["count", "mean(y)", "total(y)"]


def post_stratified(data: str, fpc: str) -> us.Survey:
    """Weights scaled to 1000, 2000, ... in the strata, which the codebook declares."""
    frame = pl.read_csv(HERE / "data" / f"{data}.csv")
    sizes = {h: 1000.0 * (k + 1) for k, h in enumerate(sorted(frame["h"].unique()))}
    size = pl.col("h").replace_strict(sizes, return_dtype=pl.Float64)
    frame = frame.with_columns(w=pl.col("w") * size / pl.col("w").sum().over("h"))
    plain = us.Survey(frame)
    book = replace(plain.codebook, population_by={"h": sizes}, population_size=None)
    psu = "cluster" if data == "clustered" else None
    return us.Survey(frame, us.Design("w", "h", psu, fpc or None), book)


@pytest.mark.parametrize(("data", "fpc"), [("stratified", ""), ("stratified", "N_h"),
                                           ("clustered", "")])  # fmt: skip
def test_variances_are_those_of_post_stratification(data: str, fpc: str) -> None:
    survey = post_stratified(data, fpc)
    expected = EXPECTED.filter(pl.col("data") == data, pl.col("fpc") == fpc)
    assert expected.height == 33
    for (by, where), rows in expected.group_by(["by", "where"], maintain_order=True):
        names = [name for name in str(by).split("|") if name]
        table = us.tabulate(survey, STATISTICS, by=names, where=where or None)
        level = pl.concat_str([pl.col(n).cast(pl.String) for n in names] or [pl.lit("")],
                              separator="|")  # fmt: skip
        joined = rows.join(
            table.with_columns(levels=level), on=["levels", "statistic"], how="left",
            maintain_order="left", suffix="_ours",
        )  # fmt: skip
        np.testing.assert_allclose(joined["estimate_ours"], joined["estimate"], rtol=1e-9)
        np.testing.assert_allclose(joined["se_ours"], joined["se"], rtol=1e-7, atol=1e-6)


def test_sizes_that_the_weights_do_not_meet_change_nothing() -> None:
    survey = post_stratified("stratified", "")
    other = {h: size * 1.01 for h, size in survey.codebook.population_by["h"].items()}
    book = replace(survey.codebook, population_by={"h": other})
    without = us.Survey(survey.frame(), survey.design)
    declared = us.Survey(survey.frame(), survey.design, book)
    table, expected = (us.tabulate(s, STATISTICS, by="a") for s in (declared, without))
    assert table["se"].to_list() == expected["se"].to_list()


def test_public_sizes_count_in_contrasts() -> None:
    survey = post_stratified("stratified", "N_h")
    table = us.tabulate(survey, "count", by="a")
    alone = us.contrast(survey, "count", "a", {level: {level: 1} for level in table["a"]})
    np.testing.assert_allclose(alone["se"], table["se"], rtol=1e-9)
    whole = us.contrast(survey, "count", "a", {"all": dict.fromkeys(table["a"], 1)})
    assert whole["se"][0] < 1e-8 * whole["estimate"][0]  # rounding
