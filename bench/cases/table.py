"""A table of 27 cells (16 and their margins) with standard errors, from a Parquet file."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import polars as pl

import understudy as us
from bench.framework.case import Case, NotRun, Side
from bench.framework.generated_records import salaries_file

BY = ["field", "gender"]
LARGEST_SVY = 1_000_000


class Table(Case):
    what = "27-cell table of counts and means with standard errors, from disk"
    peers = {
        "sums": "the same sums and squares in DuckDB's SQL",
        "bare": "DuckDB's bare GROUP BY: two sums, no errors",
        "svy": "svy, warmed, its four calls",
    }
    sizes = (100_000, 1_000_000, 10_000_000)
    quick = (10_000, 30_000, 100_000)
    tiny = 1_000
    bars = {"sums": 1.5}
    most_growth = 1.1

    def sides(self, n: int, folder: Path) -> dict[str, Side | NotRun]:
        path = salaries_file(n, folder)
        survey = us.read_survey(path, us.Design(weight="w", strata="field"))
        base = duckdb.connect()

        def ours() -> dict[tuple[int, int], float]:
            made = us.tabulate(survey, ["count", "mean(salary)"], BY, margins=True)
            means = made.filter(pl.col("statistic") == "mean(salary)")
            return _by_cell(means.select(*BY, "estimate").rows())

        def by_sql(sums: str) -> dict[tuple[int, int], float]:
            query = (
                f"SELECT field, gender, sum(w * salary), sum(w), {sums} FROM '{path}' GROUP BY ALL"
            )
            return _by_cell([(a, b, top / w) for a, b, top, w, *_ in base.sql(query).fetchall()])

        squares = (
            "count(*), count(salary), var_pop(w), var_pop(w * salary), covar_pop(w * salary, w)"
        )
        svy = _svy(pl.read_parquet(path)) if n <= LARGEST_SVY else None
        return {
            "ours": Side(ours),
            "sums": Side(lambda: by_sql(squares)),
            "bare": Side(lambda: by_sql("1")),
            "svy": svy or NotRun(f"above {LARGEST_SVY:,} records"),
        }

    def check(self, ours: dict, theirs: dict, peer: str) -> None:  # noqa: ARG002
        np.testing.assert_allclose([ours[cell] for cell in theirs], list(theirs.values()), 1e-9)


def _by_cell(rows: list[tuple]) -> dict[tuple[str, str], float]:
    return {(str(a), str(b)): mean for a, b, mean in rows}


def _svy(frame: pl.DataFrame) -> Side:
    import svy

    named = frame.with_columns(pl.col(BY).cast(pl.String), one=1.0)
    sample = svy.Sample(named, svy.Design(stratum="field", wgt="w"))

    def run() -> None:
        for by in (None, "field", "gender", BY):
            sample.estimation.mean("salary", by=by)
            sample.estimation.total("one", by=by)

    return Side(run, compared=False)
