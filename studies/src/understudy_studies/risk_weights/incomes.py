"""Family incomes for the study of paper R: the shared survey file, or a generated one.

The generated file has the published shape (R Table 1 and §1.1): predictors by gender, age,
education, region, marital status and earner status, a skewed income with its 97.5 percentile
near 270,000, a few losses and some zeros. Predictors are those of R Table 1, education in eight
classes and family size in eleven, without urban type and CBSA status, which the file has not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import understudy as us

# What anybody may know about a family's income (R Table 1: about -7,000 to 1,800,000).
CODEBOOK = us.Codebook(
    {"income": us.Column("income", "sensitive", bounds=(-100_000.0, 2_000_000.0))}
)
KNOWN = ("gender", "age", "region")  # R §2.3
PREDICTORS = "gender + age + education + region + urban + marital + earner + family_size"
REGRESSION = "income ~ region + urban + earner"  # R §2.3.1
AGES = (25, 35, 50, 65)  # first years of age groups 2 to 5
LARGEST = 11  # family size: this and more; R has as many classes
FIFTH_INTERVIEW = 5  # each consumer unit once
SOURCE = ("SEX", "AGE", "EDUCA", "REGION", "BLS_URBN", "MARITAL", "EARNER", "FAM_SIZE", "FINCBTAX")


def consumer_incomes(path: Path, n: int | None = None, seed: int = 1) -> us.Survey:
    """The survey file's consumer units at their fifth interview, with a known region."""
    frame = pl.read_parquet(path)
    missing = [name for name in (*SOURCE, "INTERVIEW_NO") if name not in frame.columns]
    if missing:
        raise us.Refused(
            f"The file of incomes has no column `{missing[0]}`; give the CE interviews."
        )
    frame = frame.filter(pl.col("INTERVIEW_NO") == FIFTH_INTERVIEW).drop_nulls(list(SOURCE))
    if n is not None and n < frame.height:
        frame = frame.sample(n, seed=seed)
    group = pl.sum_horizontal(pl.lit(1), *(pl.col("AGE") >= first for first in AGES))
    return us.Survey(
        frame.select(
            gender=pl.col("SEX"),
            age=group.cast(pl.String),
            education=pl.col("EDUCA").cast(pl.Int64).cast(pl.String),
            region=pl.col("REGION").cast(pl.Int64).cast(pl.String),
            urban=pl.col("BLS_URBN").cast(pl.String),
            marital=pl.col("MARITAL").cast(pl.String),
            earner=pl.when(pl.col("EARNER") == "Y").then(pl.lit("1")).otherwise(pl.lit("2")),
            family_size=pl.col("FAM_SIZE").clip(1, LARGEST).cast(pl.Int64).cast(pl.String),
            income=pl.col("FINCBTAX").cast(pl.Float64),
        ),
        codebook=CODEBOOK,
    )


def generated_incomes(n: int, seed: int = 1) -> us.Survey:
    """A file of the published shape; nobody's incomes."""
    rng = np.random.default_rng([seed, n])
    gender = rng.choice(["F", "M"], n)
    age = rng.choice(5, n, p=[0.06, 0.16, 0.26, 0.27, 0.25])
    shares = [0.003, 0.037, 0.08, 0.24, 0.22, 0.09, 0.2, 0.13]
    education = rng.choice(np.arange(1, 9), n, p=shares)
    marital = rng.choice(["1", "2", "3", "5"], n, p=[0.48, 0.09, 0.16, 0.27])
    earner = rng.random(n) < np.array([0.85, 0.9, 0.88, 0.7, 0.25])[age]
    size = np.clip(1 + rng.poisson(1.3, n), 1, LARGEST)
    mean = 10.05 + 0.12 * (education - 5) + 0.35 * earner + 0.35 * (marital == "1")
    mean += np.array([-0.35, 0.0, 0.2, 0.1, -0.1])[age] + 0.06 * size + 0.05 * (gender == "M")
    tail = rng.random(n)
    noise = np.where(tail < 0.1, rng.normal(-0.9, 1.2, n), rng.normal(0.15, 0.8, n))
    y = np.exp(mean + noise)
    y = np.where(rng.random(n) < np.where(earner, 0.005, 0.03), 0.0, y)
    y = np.where(rng.random(n) < 0.001, -np.exp(rng.normal(8.0, 0.7, n)), y)
    rounded = np.where(rng.random(n) < 0.3, np.round(y, -3), np.round(y))
    return us.Survey(
        pl.DataFrame(
            {
                "gender": gender,
                "age": (age + 1).astype(str),
                "education": education.astype(str),
                "region": rng.choice(["1", "2", "3", "4"], n, p=[0.18, 0.21, 0.37, 0.24]),
                "urban": np.where(rng.random(n) < 0.94, "1", "2"),
                "marital": marital,
                "earner": np.where(earner, "1", "2"),
                "family_size": size.astype(str),
                "income": np.clip(rounded, -100_000.0, 2_000_000.0),
            }
        ),
        codebook=CODEBOOK,
    )
