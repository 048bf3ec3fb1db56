"""A survey shaped like C §5's: 1601 doctorate holders in mathematics at universities, 2017.

The paper publishes the number of records, the levels of gender and age, the range of weeks, and
the mean, the median, the 15th and the 90th quantile of salary. These hold here exactly. All else
is invented: shares of gender, age and weeks, and how salary goes with them.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

import understudy as us
from understudy_studies.framework import Vector

RECORDS = 1601
GENDERS = ("Male", "Female")
AGES = (
    "under 30", "30-34", "35-39", "40-44", "45-49", "50-54", "55-59", "60-64", "65 and over",
)  # fmt: skip
AGE_SHARES = (0.04, 0.14, 0.16, 0.14, 0.13, 0.12, 0.11, 0.08, 0.08)
AGE_EFFECTS = (-1.1, -0.8, -0.35, 0.0, 0.2, 0.4, 0.5, 0.55, 0.4)
SHARES = np.array([0.15, 0.50, 0.90])
SALARIES = np.array([51_000.0, 80_000.0, 150_000.0])  # the quantiles at SHARES
MEAN_SALARY = 91_019.0
BOUNDS = (0.0, 500_000.0)  # declared; the paper scales to [0, 1] and does not say by what
COLUMNS = (
    us.Column("gender", "public", "categorical", "Gender", GENDERS),
    us.Column("age", "public", "categorical", "Age group", AGES),
    us.Column("weeks", "public", "integer", "Weeks worked", bounds=(2.0, 52.0)),
    us.Column("salary", "sensitive", "continuous", "Annual salary (dollars)", bounds=BOUNDS),
)
TITLE = "Doctorate holders in mathematics (simulated)"


def mathematicians(n: int = RECORDS, seed: int = 1, level: float = 1.0) -> us.Survey:
    """gender, age, weeks (public) and salary (sensitive); `level` scales all salaries."""
    rng = np.random.default_rng([seed, 2017])
    gender = rng.choice(2, n, p=(0.72, 0.28))
    age = rng.choice(len(AGES), n, p=AGE_SHARES)
    weeks = _weeks(rng, n)
    standing = (
        np.array(AGE_EFFECTS)[age]
        - 0.25 * gender
        + 0.03 * (weeks - 52)
        + rng.standard_normal(n)  # what the predictors do not explain
    )
    ranks = np.argsort(np.argsort(standing))
    salary = np.round(level * ordered_salaries(n)[ranks])
    frame = pl.DataFrame(
        {
            "gender": [GENDERS[g] for g in gender],
            "age": [AGES[a] for a in age],
            "weeks": weeks,
            "salary": salary,
        }
    )
    book = us.Codebook({column.name: column for column in COLUMNS}, title=TITLE)
    return us.Survey(frame, codebook=book)


def ordered_salaries(n: int) -> Vector:
    """n salaries in order, with the published quantiles (linear rule) and mean.

    log salary is piecewise linear in the normal score. The slope above the 90th quantile is the
    one number left, and the mean decides it.
    """
    scores = norm.ppf((np.arange(n) + 0.5) / n)
    at = np.interp(SHARES * (n - 1), np.arange(n), scores)
    logs = np.log(SALARIES)
    low_slope = (logs[1] - logs[0]) / (at[1] - at[0])
    inner = np.where(
        scores < at[0], logs[0] + low_slope * (scores - at[0]), np.interp(scores, at, logs)
    )

    def salaries(slope: float) -> Vector:
        log = np.where(scores > at[2], logs[2] + slope * (scores - at[2]), inner)
        return np.asarray(np.exp(log), dtype=np.float64)

    slope = brentq(lambda s: salaries(s).mean() - MEAN_SALARY, 0.0, 2.0)
    return salaries(slope)


def _weeks(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    """Most work all year or an academic year; the ends 2 and 52 occur, as published."""
    kind = rng.choice(3, n, p=(0.62, 0.28, 0.10))
    weeks = np.where(
        kind == 0, 52, np.where(kind == 1, rng.integers(36, 45, n), rng.integers(2, 52, n))
    )
    weeks[:2] = 2, 52
    return weeks.astype(np.int64)
