"""A table of an SPSS file: converted once, typed, and summed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyreadstat

import understudy as us
from bench.framework.case import Case, Side
from bench.framework.generated_records import salaries


class ReadingSpss(Case):
    what = "read an SPSS file and make a table of it"
    peers = {"pyreadstat": "pyreadstat's read_sav and two sums by pandas"}
    sizes = (20_000, 60_000, 180_000)
    quick = (5_000, 10_000, 20_000)
    tiny = 500
    most_growth = 1.1

    def sides(self, n: int, folder: Path) -> dict[str, Side]:
        path = folder / "records.sav"
        pyreadstat.write_sav(salaries(n).to_pandas(), str(path))

        def ours() -> list[float]:
            survey = us.read_survey(path, us.Design(weight="w"))
            made = us.tabulate(survey, ["count", "mean(salary)"], ["field", "gender"])
            return sorted(made.filter(pl.col("statistic") == "count")["estimate"])

        def bare() -> list[float]:
            frame, _ = pyreadstat.read_sav(str(path))
            frame["wy"] = frame["w"] * frame["salary"]
            return sorted(frame.groupby(["field", "gender"])[["w", "wy"]].sum()["w"])

        return {"ours": Side(ours), "pyreadstat": Side(bare)}

    def check(self, ours: list[float], theirs: list[float], peer: str) -> None:  # noqa: ARG002
        np.testing.assert_allclose(ours, theirs, 1e-9)
