"""A table by 80 replicate weights."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import polars as pl

import understudy as us
from bench.framework.case import Case, Side
from bench.framework.generated_records import salaries

COUNT = 80
BY = ["field", "gender"]


class ReplicateWeights(Case):
    what = "27-cell table by 80 replicate weights, from disk"
    peers = {"duckdb": "DuckDB's sums under the same 81 weights"}
    sizes = (20_000, 80_000, 320_000)
    quick = (2_000, 4_000, 8_000)
    tiny = 300
    bars = {"duckdb": 2.0}
    most_growth = 1.1

    def sides(self, n: int, folder: Path) -> dict[str, Side]:
        path, frame, rng = folder / "replicates.parquet", salaries(n), np.random.default_rng(2)
        for r in range(COUNT):
            factor = rng.integers(0, 2, n, dtype=np.int8).astype(np.float32) + 0.5
            frame = frame.with_columns((pl.col("w") * pl.Series(factor)).alias(f"r{r + 1}"))
        frame.write_parquet(path)
        names = ["w", *(f"r{r + 1}" for r in range(COUNT))]
        sums = ", ".join(f"sum({name}), sum({name} * salary)" for name in names)
        query = f"SELECT field, gender, {sums} FROM '{path}' GROUP BY field, gender"
        design = us.Design(weight="w", replicates=us.Replicates(prefix="r", kind="bootstrap"))

        def ours() -> list[float]:
            survey = us.read_survey(path, design)
            made = us.tabulate(survey, ["count", "mean(salary)"], BY, margins=True)
            cells = (pl.col("field") != "All") & (pl.col("gender") != "All")
            return sorted(made.filter((pl.col("statistic") == "count") & cells)["estimate"])

        base = duckdb.connect()
        return {
            "ours": Side(ours),
            "duckdb": Side(lambda: sorted(row[2] for row in base.sql(query).fetchall())),
        }

    def check(self, ours: list[float], theirs: list[float], peer: str) -> None:  # noqa: ARG002
        np.testing.assert_allclose(ours, theirs, 1e-9)
