"""Persons of six latent classes: categories of 2 to 12 levels, ages, hours and pay with zeros."""

from __future__ import annotations

import numpy as np
import polars as pl

from understudy.survey.codebook import Codebook, Column


def persons(n: int, columns: int) -> pl.DataFrame:
    """The last three columns are age, hours and pay."""
    rng = np.random.default_rng(7)
    kind = rng.choice(6, n, p=[0.3, 0.2, 0.2, 0.15, 0.1, 0.05])
    frame = {}
    for j in range(columns - 3):
        size = 2 + j * 10 // max(columns - 4, 1)
        table = np.cumsum(rng.dirichlet(np.full(size, 0.7), 6), axis=1)
        frame[f"c{j}"] = (rng.random(n)[:, None] > table[kind]).sum(axis=1).clip(0, size - 1)
    frame["age"] = np.clip(rng.normal(30 + 6 * kind, 12, n), 0, 99).astype(int)
    frame["hours"] = rng.binomial(60, 0.3 + 0.08 * kind, n)
    pay = np.exp(rng.normal(9 + 0.3 * kind, 0.7, n)).round(-1).clip(0, 200_000)
    frame["pay"] = np.where(rng.random(n) < 0.3, 0, pay).astype(int)
    return pl.DataFrame(frame)


def codebook_of(frame: pl.DataFrame) -> Codebook:
    columns = {
        name: Column(name, "sensitive", "categorical", blanks=False, levels=(*range(12),))
        for name in frame.columns[:-3]
    }
    columns["age"] = Column("age", "sensitive", "integer", bounds=(0, 99), blanks=False)
    columns["hours"] = Column("hours", "sensitive", "integer", bounds=(0, 60), blanks=False)
    columns["pay"] = Column(
        "pay", "sensitive", "integer", bounds=(0, 200_000), special=(0, 200_000), rounding=10,
        grid="log", blanks=False,
    )  # fmt: skip
    return Codebook(columns)
