"""A survey with strata, PSUs and replicate weights in a partitioned folder, for both engines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import understudy as us
from understudy.survey.codebook import parse_codebook

N = 2_000
REPLICATES = tuple(f"r{k}" for k in range(6))
TAYLOR = us.Design("w", "h", "psu")
REPLICATED = us.Design("w", replicates=us.Replicates(REPLICATES, kind="jk1"))
TEXT = """
[columns.sex]
role = "sensitive"
type = "categorical"
levels = ["f", "m"]
[columns.age]
role = "sensitive"
type = "integer"
bounds = [0, 90]
missing = [-1]
[columns.income]
role = "sensitive"
type = "continuous"
bounds = [0, 200000]
special = [0]
rounding = 1
[columns.year]
role = "public"
type = "categorical"
levels = [2022, 2023, 2024]
blanks = false
[columns.code]
role = "public"
type = "categorical"
levels = ["01", "02"]
blanks = false
[columns.h]
role = "stratum"
type = "categorical"
levels = [1, 2, 3]
blanks = false
[columns.psu]
role = "psu"
type = "integer"
[columns.w]
role = "weight"
type = "continuous"
bounds = [1, 30]
"""
BOOK = parse_codebook(TEXT)


def people(n: int = N, seed: int = 5) -> pl.DataFrame:
    """Values with ties, blanks, missing codes and text that looks like numbers."""
    rng = np.random.default_rng(seed)
    h = rng.integers(1, 4, n)
    psu = 10 * h + rng.integers(0, 5, n)
    income = np.round(np.exp(rng.normal(10, 1, n) + psu / 50)).clip(0, 200_000)
    weight = rng.uniform(1, 30, n)
    frame = pl.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(-1, 91, n),
            "income": np.where(rng.random(n) < 0.2, 0.0, income),
            "h": h,
            "psu": psu,
            "w": weight,
            **{name: weight * (rng.random(n) < 0.8) * 1.2 for name in REPLICATES},
            "year": rng.integers(2022, 2025, n),
            "code": rng.choice(["01", "02"], n),
        }
    )
    return frame.with_columns(
        sex=pl.when(pl.int_range(n) % 11 > 0).then("sex"),
        income=pl.when(pl.int_range(n) % 7 > 0).then("income"),
    )


def write_folder(frame: pl.DataFrame, folder: Path) -> Path:
    """As a cluster would write it: folders by year and code, and marks of its own."""
    for (year, code), part in frame.group_by("year", "code", maintain_order=True):
        where = folder / f"year={year}" / f"code={code}"
        where.mkdir(parents=True)
        part.drop("year", "code").write_parquet(where / "part-0.parquet")
    (folder / "_SUCCESS").touch()
    return folder
