"""Rows of a query: the same as Ibis gives, and what a first table in a new process loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ibis
import polars as pl
from polars.testing import assert_frame_equal

from understudy.survey.collected import collected

FIRST_TABLE = """
import sys
import understudy as us
survey = us.read_survey(sys.argv[1], us.Design(weight="w", strata="g"))
table = us.tabulate(survey, ["count", "mean(y)"], "g", margins=True)
print(table.height, *[name for name in sys.argv[2:] if name in sys.modules])
import understudy.release.publish
print(*[name for name in sys.argv[2:] if name in sys.modules])
"""
HEAVY = ("pandas", "scipy.special", "scipy.linalg", "jax", "numpyro", "matplotlib.pyplot", "svy")


def test_rows_and_types_are_those_of_ibis() -> None:
    frame = pl.DataFrame({"g": ["a", "b", "a"], "k": [1, 2, None], "y": [0.5, 2, 3]})
    table = ibis.duckdb.connect().create_table("records", frame.to_arrow())
    grouped = table.group_by("g").aggregate(
        n=table.count(), k=table.k.sum(), y=table.y.sum(), any=(table.k == 2).any()
    )
    for query in (grouped, grouped.filter(grouped.n > 5), table.aggregate(k=table.k.max())):
        assert_frame_equal(collected(query), query.to_polars(), check_row_order=False)


def test_a_first_table_loads_neither_pandas_nor_scipy(tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    pl.DataFrame({"g": [1, 1, 2, 2], "w": [1.0, 2, 3, 4], "y": [1.0, 3, 2, 5]}).write_parquet(path)
    command = [sys.executable, "-c", FIRST_TABLE, str(path), *HEAVY]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    table, release = ran.stdout.splitlines()
    assert table == "6"
    assert release.split() == ["scipy.special", "scipy.linalg"]
