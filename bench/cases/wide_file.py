"""Three columns of a file that has 300."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import understudy as us
from bench.framework.case import Case, Side
from bench.framework.generated_records import salaries


class WideFile(Case):
    what = "table of 3 columns of 300, opened anew"
    peers = {"narrow": "ours on a file of these 3 alone"}
    sizes = (20_000, 60_000, 180_000)
    quick = (1_000, 2_000, 4_000)
    tiny = 200
    bars = {"narrow": 1.5}

    def sides(self, n: int, folder: Path) -> dict[str, Side]:
        rng = np.random.default_rng(3)
        narrow, wide = folder / "narrow.parquet", folder / "wide.parquet"
        frame = salaries(n).select("field", "w", "salary")
        frame.write_parquet(narrow)
        others = [pl.Series(f"x{k}", rng.integers(0, 9, n, dtype=np.int8)) for k in range(297)]
        frame.with_columns(others).write_parquet(wide)

        def table(path: Path) -> list[float]:
            survey = us.read_survey(path, us.Design(weight="w"))
            return list(us.tabulate(survey, ["count", "mean(salary)"], "field")["estimate"])

        return {"ours": Side(lambda: table(wide)), "narrow": Side(lambda: table(narrow))}

    def check(self, ours: list[float], theirs: list[float], peer: str) -> None:  # noqa: ARG002
        np.testing.assert_allclose(ours, theirs, 1e-9)
