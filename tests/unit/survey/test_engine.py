"""Tables of Parquet files have the types that Ibis reads, although it is asked once for each."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import polars as pl

from understudy.survey.engine import connection, parquet_table


def test_types_of_a_parquet_file_are_those_that_ibis_reads(tmp_path: Path) -> None:
    path = tmp_path / "a 'file' [1].parquet"
    pl.DataFrame(
        {
            "whole": [1],
            "other whole": [2],
            "short": pl.Series([1], dtype=pl.UInt8),
            "share": [0.5],
            'quoted "text"': ["x"],
            "level": pl.Series(["x"], dtype=pl.Categorical),
            "day": [datetime.date(2020, 1, 1)],
            "moment": [datetime.datetime(2020, 1, 1)],
            "true": [True],
            "exact": [Decimal("1.25")],
            "list": [[1, 2]],
            "both": [{"u": 1, "v": "s"}],
        }
    ).write_parquet(path)
    plain = tmp_path / "plain.parquet"
    plain.hardlink_to(path)
    table = parquet_table(path)
    assert table.schema() == connection().read_parquet(plain).schema()
    assert table.count().execute() == 1
