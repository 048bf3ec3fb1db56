"""The survey file of a tutorial: the real one where it is at hand, one of its layout elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl

from shared_files import SHARED_DATA

PLACES = [
    "RURAL AREAS", "URBAN BELOW 20,000", "URBAN 20,000-100,000", "URBAN 100,000-200,000",
    "URBAN 200,000-500,000", "URBAN 500,000 AND OVER",
]  # fmt: skip
EDUCATION = [
    "PRIMARY/NO EDUCATION", "VOCATIONAL/GRAMMAR", "SECONDARY", "POST-SECONDARY OR HIGHER",
]  # fmt: skip
SATISFACTION = [
    "DELIGHTED", "PLEASED", "MOSTLY SATISFIED", "MIXED", "MOSTLY DISSATISFIED", "UNHAPPY",
    "TERRIBLE",
]  # fmt: skip


def put_sd2011(folder: Path) -> None:
    """SD2011.csv, or persons with the columns of the tutorial."""
    real = SHARED_DATA / "SD2011.csv"
    if real.is_file():
        shutil.copy(real, folder)
    else:
        like_sd2011().write_csv(folder / "SD2011.csv")


def like_sd2011(n: int = 5000) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    age = rng.integers(16, 98, n)
    edu = rng.choice(4, n, p=[0.2, 0.32, 0.3, 0.18])
    smokes = rng.random(n) < 0.26
    married = (age > 19) & (rng.random(n) < 0.65)
    income = np.exp(rng.normal(6.8 + 0.25 * edu, 0.6)).clip(100, 16_000).round(-1).astype(int)
    income = np.where((age < 22) & (rng.random(n) < 0.7), -8, income)
    frame = pl.DataFrame(
        {
            "sex": rng.choice(["FEMALE", "MALE"], n),
            "age": age,
            "placesize": rng.choice(PLACES, n, p=[0.48, 0.13, 0.08, 0.16, 0.07, 0.08]),
            "edu": np.array(EDUCATION)[edu],
            "marital": np.where(married, "MARRIED", "SINGLE"),
            "income": income,
            "ls": rng.choice(SATISFACTION, n, p=[0.04, 0.39, 0.34, 0.16, 0.05, 0.01, 0.01]),
            "smoke": np.where(smokes, "YES", "NO"),
            "nociga": np.where(smokes, rng.integers(1, 41, n), -8),
            "trust": rng.choice(["YES", "NO"], n),
        }
    )
    empty = {"income": 0.14, "edu": 0.002, "ls": 0.002, "marital": 0.002}
    return frame.with_columns(
        pl.when(pl.lit(pl.Series(rng.random(n) >= share))).then(pl.col(name)).alias(name)
        for name, share in empty.items()
    )
