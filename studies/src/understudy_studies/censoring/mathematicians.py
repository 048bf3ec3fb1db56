"""C §5: doctorate holders in mathematics at universities, 2017; the user's file, or one like it.

The paper publishes the number of records, 1601, the levels of gender and age, the range of weeks,
and the mean, the median, the 15th and the 90th quantile of salary. The simulated file has the first
three; its salaries are drawn from a Beta regression, the paper's own model, whose mean and
quantiles are the nearest to the published ones that such a model has: least squares of their
logarithms leaves the median 7 % too high and the others within 4 %. All else is invented.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit

import understudy as us
from understudy_studies.survey_file import mapped_file

RECORDS = 1601
GENDERS = ("Male", "Female")
AGES = (
    "under 30", "30-34", "35-39", "40-44", "45-49", "50-54", "55-59", "60-64", "65 and over",
)  # fmt: skip
AGE_SHARES = (0.04, 0.14, 0.16, 0.14, 0.13, 0.12, 0.11, 0.08, 0.08)
AGE_EFFECTS = (-1.1, -0.8, -0.35, 0.0, 0.2, 0.4, 0.5, 0.55, 0.4)
# of the mean on the logit scale, and the sum of the Beta distribution's two shapes
INTERCEPT, SLOPE, CONCENTRATION = -1.44, 0.3, 24.6
BOUNDS = (0.0, 500_000.0)  # declared; the paper scales to [0, 1] and does not say by what
TITLE = "Doctorate holders in mathematics"


def mathematicians(n: int = RECORDS, seed: int = 1, level: float = 1.0) -> us.Survey:
    """gender, age, weeks (public) and salary (sensitive); `level` scales all salaries."""
    rng = np.random.default_rng([seed, 2017])
    gender = rng.choice(2, n, p=(0.72, 0.28))
    age = rng.choice(len(AGES), n, p=AGE_SHARES)
    weeks = _weeks(rng, n)
    standing = np.array(AGE_EFFECTS)[age] - 0.25 * gender + 0.03 * (weeks - 52)
    mean = expit(INTERCEPT + SLOPE * standing)
    share = rng.beta(mean * CONCENTRATION, (1 - mean) * CONCENTRATION)
    frame = pl.DataFrame(
        {
            "gender": [GENDERS[g] for g in gender],
            "age": [AGES[a] for a in age],
            "weeks": weeks,
            "salary": np.round(level * BOUNDS[1] * share),
        }
    )
    return us.Survey(frame, codebook=_codebook(GENDERS, AGES, BOUNDS))


def published_mathematicians(data: Path, columns: Path | None) -> us.Survey:
    """The file that was given; levels of gender and age are those of the mapping, in its order."""
    frame, mapping = mapped_file(data, columns, ("gender", "age", "weeks", "salary"))
    levels: dict[str, tuple[str, ...]] = {}
    for name in ("gender", "age"):
        if "levels" not in mapping[name]:
            raise us.Refused(f"Give [{name}] of the mapping its levels.")
        levels[name] = tuple(dict.fromkeys(mapping[name]["levels"].values()))
    low, high = mapping["salary"].get("bounds", BOUNDS)
    return us.Survey(
        frame.with_columns(pl.col("weeks").cast(pl.Int64)),
        codebook=_codebook(levels["gender"], levels["age"], (float(low), float(high))),
    )


def _codebook(
    genders: tuple[str, ...], ages: tuple[str, ...], bounds: tuple[float, float]
) -> us.Codebook:
    columns = (
        us.Column("gender", "public", "categorical", "Gender", genders),
        us.Column("age", "public", "categorical", "Age group", ages),
        us.Column("weeks", "public", "integer", "Weeks worked", bounds=(0.0, 52.0)),
        us.Column("salary", "sensitive", "continuous", "Annual salary (dollars)", bounds=bounds),
    )
    return us.Codebook({column.name: column for column in columns}, title=TITLE)


def _weeks(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    """Most work all year or an academic year; the ends 2 and 52 occur, as published."""
    kind = rng.choice(3, n, p=(0.62, 0.28, 0.10))
    weeks = np.where(
        kind == 0, 52, np.where(kind == 1, rng.integers(36, 45, n), rng.integers(2, 52, n))
    )
    weeks[:2] = 2, 52
    return weeks.astype(np.int64)
