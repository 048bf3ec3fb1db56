"""Coding the records of a whole file and counting all tables of two columns."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

import understudy as us
from bench.framework.case import Case, Side
from bench.framework.latent_classes import codebook_of, persons
from understudy.survey.cells import cells_of
from understudy.tables.coded_records import coded_records

COLUMNS = 20
TABLES = list(combinations(range(COLUMNS), 2))


class Counts(Case):
    what = "coding 20 columns of a file and counting its 190 tables of two"
    peers = {"duckdb": "DuckDB's GROUP BYs of a file of the codes"}
    sizes = (20_000, 60_000, 180_000)
    quick = (2_000, 4_000, 8_000)
    tiny = 300
    bars = {"duckdb": 3.0}
    most_growth = 1.1

    def sides(self, n: int, folder: Path) -> dict[str, Side]:
        path, codes = folder / "persons.parquet", folder / "codes.parquet"
        frame = persons(n, COLUMNS)
        codebook = codebook_of(frame)
        frame.write_parquet(path)
        survey = us.read_survey(path, codebook=codebook)
        cells = [cells_of(column) for column in codebook]

        def ours() -> list[np.ndarray]:
            return [np.asarray(table) for table in coded_records(survey, cells).count(TABLES)]

        coded = coded_records(survey, cells)
        pl.DataFrame({f"c{j}": code for j, code in enumerate(coded.codes)}).write_parquet(codes)
        base = duckdb.connect()

        def bare() -> list[np.ndarray]:
            return [
                base.sql(f"SELECT c{j}, c{k}, count(*) FROM '{codes}' GROUP BY ALL").fetchnumpy()
                for j, k in TABLES
            ]

        return {"ours": Side(ours), "duckdb": Side(bare)}

    def check(self, ours: list, theirs: list, peer: str) -> None:  # noqa: ARG002
        for mine, table in zip(ours, theirs, strict=True):
            counts = list(table.values())[2]
            np.testing.assert_array_equal(np.sort(mine[mine > 0]), np.sort(counts))
