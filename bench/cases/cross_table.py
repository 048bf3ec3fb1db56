"""Counts of all cells of four columns, from a file of up to a hundred million records on disk."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np

import understudy as us
from bench.framework.case import Case, Side
from understudy.survey.codebook import Codebook, Column
from understudy.tables.cross_table import categories_of, cross_tabulate

LEVELS = {"sex": 2, "age": 100, "region": 50, "status": 5}


class CrossTabulation(Case):
    what = "counts of 50,000 cells of four columns, from disk"
    peers = {"duckdb": "DuckDB's bare GROUP BY of the four columns"}
    sizes = (1_000_000, 10_000_000, 100_000_000)
    quick = (10_000, 30_000, 100_000)
    tiny = 2_000
    most_growth = 1.1

    def sides(self, n: int, folder: Path) -> dict[str, Side]:
        path, base = folder / "records.parquet", duckdb.connect()
        columns = ", ".join(
            f"CAST(hash(i, {k}) % {size} AS TINYINT) AS {name}"
            for k, (name, size) in enumerate(LEVELS.items())
        )
        base.sql(f"COPY (SELECT {columns} FROM range({n}) AS t(i)) TO '{path}' (FORMAT parquet)")
        facts = {
            name: Column(name, "sensitive", "categorical", levels=(*range(size),), blanks=False)
            for name, size in LEVELS.items()
        }
        survey = us.read_survey(path, codebook=Codebook(facts))
        names = tuple(LEVELS)
        query = f"SELECT {', '.join(names)}, count(*) AS n FROM '{path}' GROUP BY ALL"

        def ours() -> np.ndarray:
            counts = np.asarray(cross_tabulate(survey, categories_of(survey, names)).counts)
            return np.sort(counts[counts > 0])

        return {
            "ours": Side(ours),
            "duckdb": Side(lambda: np.sort(base.sql(query).fetchnumpy()["n"])),
        }

    def check(self, ours: np.ndarray, theirs: np.ndarray, peer: str) -> None:  # noqa: ARG002
        np.testing.assert_array_equal(ours, theirs)
