"""A table of a CSV file: read, typed, and summed once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import understudy as us
from bench.framework.case import Case, Side
from bench.framework.generated_records import salaries


class ReadingCsv(Case):
    what = "read a CSV file and make a table of it"
    peers = {"polars": "polars' read_csv and two sums"}
    sizes = (100_000, 300_000, 900_000)
    quick = (5_000, 10_000, 20_000)
    tiny = 500
    bars = {"polars": 2.0}
    most_growth = 1.1

    def sides(self, n: int, folder: Path) -> dict[str, Side]:
        path = folder / "records.csv"
        salaries(n).write_csv(path)

        def ours() -> list[float]:
            survey = us.read_survey(path, us.Design(weight="w"))
            made = us.tabulate(survey, ["count", "mean(salary)"], ["field", "gender"])
            return sorted(made.filter(pl.col("statistic") == "count")["estimate"])

        def bare() -> list[float]:
            weighted = (pl.col("w") * pl.col("salary")).sum().alias("weighted")
            cells = pl.read_csv(path).group_by("field", "gender").agg(pl.col("w").sum(), weighted)
            return sorted(cells["w"])

        return {"ours": Side(ours), "polars": Side(bare)}

    def check(self, ours: list[float], theirs: list[float], peer: str) -> None:  # noqa: ARG002
        np.testing.assert_allclose(ours, theirs, 1e-9)
