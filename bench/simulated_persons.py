"""Simulated persons whose groups have parts that lie far apart, for bench/whole_file_coverage.py.

Nobody's records: 200,000 persons with an age, a school grade that children are in and adults were
in last, marital and work status, a region, a long-tailed income, hours of work and a score. Those
without any grade are small children and some of the old; the lower grades are children and a few
adults, most of them old.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from understudy.survey.codebook import Codebook, Column

NUMBERS = ("age", "income", "hours", "score")
CATEGORIES = ("sex", "mar", "grade", "work", "region")
LEVELS = {
    "sex": "12", "mar": "12345", "grade": [str(k) for k in range(17)], "work": "1236",
    "region": "012345",
}  # fmt: skip


def simulated_persons(seed: int = 11, persons: int = 200_000) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    n = persons
    young, old = rng.uniform(0, 65, n), rng.gamma(9, 7.5, n)
    age = np.clip(np.where(rng.random(n) < 0.75, young, old), 0, 95).astype(int)
    sex = np.where(rng.random(n) < 0.49, "1", "2")
    sex = np.where((age > 75) & (rng.random(n) < 0.2), "2", sex)
    grade = _grade(rng, age)
    u, married, widowed = rng.random(n), 0.75 * _rise(age, 18, 36), 0.75 * _rise(age, 45, 90) ** 2
    alone = 1 - widowed
    reached = [widowed, widowed + 0.8 * alone * married, widowed + 0.95 * alone * married,
               widowed + alone * married]  # fmt: skip
    mar = np.select([age < 15, *(u < edge for edge in reached)], ["5", "2", "1", "3", "4"], "5")
    works = _rise(age, 16, 24) * _rise(-age, -72, -60) * (0.55 + 0.02 * grade)
    u = rng.random(n)
    work = np.select([u < works, u < works + 0.04, u < works + 0.05], ["1", "2", "3"], "6")
    region = rng.choice(6, n, p=[0.35, 0.25, 0.2, 0.1, 0.07, 0.03])
    region = np.where((grade >= 15) & (rng.random(n) < 0.25), 0, region)
    at_work = (work == "1") & (age >= 16)
    hours = np.clip(np.rint(rng.normal(39, 11, n) - 4 * (sex == "2")), 1, 99)
    size = 9.3 + 0.13 * np.clip(grade - 8, 0, None) + 0.012 * np.clip(age - 18, 0, 40)
    amount = np.exp(size + 0.5 * at_work + rng.normal(0, 0.8, n))
    income = np.clip(10 * np.rint(amount / 10), 10, 790_000)
    income = np.where(rng.random(n) < np.where(at_work, 0.01, 0.2), 0, income)
    score = np.rint(60 - 0.002 * (age - 45) ** 2 - 3 * region + rng.normal(0, 12, n)).clip(0, 100)
    frame = pl.DataFrame(
        {
            "age": age, "sex": sex, "mar": mar, "grade": grade.astype(str), "work": work,
            "region": region.astype(str), "income": income.astype(int), "hours": hours.astype(int),
            "score": score.astype(int),
        }
    )  # fmt: skip
    asked = {"grade": age >= 3, "work": age >= 16, "income": age >= 15, "hours": at_work}
    return frame.with_columns(
        pl.when(pl.Series(who)).then(pl.col(name)).alias(name) for name, who in asked.items()
    )


def persons_codebook() -> Codebook:
    skips = {"grade": "age >= 3", "work": "age >= 16", "income": "age >= 15", "hours": "age >= 16"}
    facts = {
        name: Column(
            name, "sensitive", "categorical", levels=tuple(LEVELS[name]), blanks=False,
            applies_when=skips.get(name, ""),
        )
        for name in CATEGORIES
    }  # fmt: skip
    number = {"role": "sensitive", "type": "integer", "blanks": False}
    facts["age"] = Column("age", bounds=(0, 99), **number)
    facts["score"] = Column("score", bounds=(0, 100), **number)
    facts["income"] = Column(
        "income", bounds=(0, 800_000), special=(0.0,), rounding=10, grid="log",
        applies_when=skips["income"], **number,
    )  # fmt: skip
    facts["hours"] = Column(
        "hours", "sensitive", "integer", bounds=(1, 99), blanks=True, applies_when=skips["hours"]
    )
    order = ("age", "sex", "mar", "grade", "work", "region", "income", "hours", "score")
    return Codebook({name: facts[name] for name in order})


def _grade(rng: np.random.Generator, age: np.ndarray) -> np.ndarray:
    """0 for none, 1 to 12 at school, 13 finished, 14 to 16 beyond."""
    n = age.size
    now = np.clip(age - 5 + rng.integers(-1, 2, n), 0, None)
    last = 13.3 - 0.045 * np.maximum(age - 25, 0) + rng.normal(0, 2.4, n)
    last = np.rint(last.clip(0, 16)).astype(int)
    last = np.where((last < 12) & (rng.random(n) < 0.55), 13, last)
    last = np.where(rng.random(n) < 0.004 + 0.07 * _rise(age, 60, 85), 0, last)
    most = np.where(age >= 18, np.maximum(last, 9), 12)
    return np.where(age < 22, np.minimum(now, most), last).clip(0, 16)


def _rise(x: np.ndarray, low: float, high: float) -> np.ndarray:
    return np.clip((x - low) / (high - low), 0, 1)
