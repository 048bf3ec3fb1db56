"""Weighted quantiles with Woodruff's limits in 27 cells."""

from __future__ import annotations

from pathlib import Path

import duckdb

import understudy as us
from bench.framework.case import Case, Side
from bench.framework.generated_records import salaries_file


class Quantiles(Case):
    what = "three weighted quantiles with their limits in 27 cells"
    peers = {"duckdb": "DuckDB's own quantiles, without weights"}
    sizes = (50_000, 150_000, 450_000)
    quick = (5_000, 10_000, 20_000)
    tiny = 500
    bars = {"duckdb": 3.0}
    most_growth = 1.1

    def sides(self, n: int, folder: Path) -> dict[str, Side]:
        path = salaries_file(n, folder)
        survey = us.read_survey(path, us.Design(weight="w", strata="field"))
        statistic = "quantile(salary, 0.1, 0.5, 0.9)"
        own = f"""SELECT field, gender, quantile_cont(salary, [0.1, 0.5, 0.9])
                  FROM '{path}' GROUP BY CUBE (field, gender)"""
        base = duckdb.connect()
        return {
            "ours": Side(lambda: us.tabulate(survey, statistic, ["field", "gender"], margins=True)),
            "duckdb": Side(lambda: base.sql(own).fetchall(), compared=False),
        }
