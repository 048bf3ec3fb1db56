"""The same expressions on Spark: what a cluster computes equals what DuckDB computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import polars as pl
import pytest

import understudy as us

DATA = Path(__file__).parents[2] / "reference" / "data" / "clustered.csv"
FRAME = pl.read_csv(DATA, infer_schema_length=None)

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def spark_table(on_spark: Any) -> ir.Table:
    return on_spark("records", FRAME)


@pytest.mark.parametrize("psu", [None, "cluster"])
def test_linear_statistics(spark_table: ir.Table, psu: str | None) -> None:
    design = us.Design("w", "h", psu)
    call = {"statistics": ["count", "mean(y)", "ratio(y / x)"], "by": ["a"], "where": "x > 40"}
    ours = us.tabulate(us.Survey(spark_table, design), margins=True, **call)
    expected = us.tabulate(us.Survey(FRAME, design), margins=True, **call)
    assert ours["a"].to_list() == expected["a"].to_list()
    for column in ("estimate", "se", "df"):
        assert ours[column].to_list() == pytest.approx(expected[column].to_list(), rel=1e-9)


def test_quantile(spark_table: ir.Table) -> None:
    design = us.Design("w", "h")
    ours = us.tabulate(us.Survey(spark_table, design), "quantile(y, 0.5)")
    expected = us.tabulate(us.Survey(FRAME, design), "quantile(y, 0.5)")
    for column in ("estimate", "se", "df", "lower", "upper"):
        assert ours[column].to_list() == pytest.approx(expected[column].to_list(), rel=1e-9)
