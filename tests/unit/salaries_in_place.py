"""A survey of salaries, its codebook and a recipe for FBS, whose records can stay in place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

RECIPE = """
[data]
path = "file.parquet"
codebook = "codebook.toml"
where = "age > 20"

[design]
weight = "w"
strata = "group"

[synthesis]
model = "FBS"
sensitive = "salary"
predictors = "group + age"
datasets = 2
draws = 800

[privacy]
mechanism = "Weighted"

[tables]
statistics = ["count", "mean(salary)"]
by = ["group"]
"""
CODEBOOK = """
[population.by.group]
a = 40000
b = 25000
c = 35000

[columns.group]
role = "stratum"
type = "categorical"
levels = ["a", "b", "c"]

[columns.age]
role = "public"
type = "integer"

[columns.salary]
role = "sensitive"
type = "integer"
bounds = [1000, 200000]
rounding = 10

[columns.w]
role = "weight"
type = "continuous"
bounds = [1.0, 1000.0]
"""
N = 1500


def write_survey_and_recipe(folder: Path) -> None:
    """file.parquet, codebook.toml and release.toml in the folder."""
    rng = np.random.default_rng(1)
    group, age = rng.integers(0, 3, N), rng.integers(18, 26, N)
    salary = np.exp(9 + 0.4 * group + 0.02 * age + 0.5 * rng.standard_normal(N))
    totals, weight = np.array([40_000, 25_000, 35_000])[group], np.exp(rng.normal(4, 0.3, N))
    used = np.bincount(group, weight * (age > 20))[group]
    frame = pl.DataFrame(
        {
            "group": np.array(list("abc"))[group],
            "age": age,
            "salary": np.clip(salary, 1000, 200_000).round(-1).astype(int),
            "w": weight * totals / used,
        }
    )
    frame.write_parquet(folder / "file.parquet")
    (folder / "codebook.toml").write_text(CODEBOOK)
    (folder / "release.toml").write_text(RECIPE)
