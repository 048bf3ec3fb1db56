"""Two more simulated populations for bench/whole_file_coverage.py: households and patients.

Nobody's records. Households have long-tailed amounts (lognormal incomes, rents that only tenants
pay, spending with many zeros, visits that are negative binomial) and small groups. Patients have
measures with rounding that depend on each other, on age in curves and on sex by age, and more
columns than a release can measure all pairs of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from understudy.survey.codebook import Codebook, Column

PERSONS = 200_000


@dataclass(frozen=True)
class Simulated:
    """A population, its codebook, its numbers and its categories."""

    frame: pl.DataFrame
    codebook: Codebook
    numbers: tuple[str, ...]
    categories: tuple[str, ...]


def households(seed: int = 21, n: int = PERSONS) -> Simulated:
    """Nine columns."""
    rng = np.random.default_rng(seed)
    wealth = rng.normal(size=n)
    region = rng.choice(7, n, p=[0.3, 0.22, 0.18, 0.13, 0.1, 0.05, 0.02])
    education = np.digitize(0.7 * wealth + rng.normal(size=n), [-1.4, -0.3, 0.6, 1.3, 2.4])
    size = 1 + rng.poisson(np.where(region > 3, 1.9, 1.1))
    kind = np.select([size == 1, size > 4, rng.random(n) < 0.15], [0, 3, 2], 1)
    owner = rng.random(n) < 1 / (1 + np.exp(0.4 - 0.8 * wealth - 0.3 * (size > 2)))
    tenure = np.select([owner, rng.random(n) < 0.05], [0, 2], 1)
    trade = (education + rng.choice(6, n, p=[0.3, 0.25, 0.2, 0.15, 0.07, 0.03])) % 9
    spread = np.where(tenure == 0, 0.75, 0.55)
    income = (
        9.6 + 0.45 * wealth + 0.16 * education + 0.25 * np.log(size) + spread * rng.normal(size=n)
    )
    income = np.where(rng.random(n) < 0.03, 0, np.exp(income))
    rent = np.exp(5.6 + 0.35 * wealth + 0.15 * (region < 2) + 0.3 * rng.normal(size=n))
    trips = np.exp(3.5 + 0.5 * wealth + 0.2 * education + 1.1 * rng.normal(size=n))
    trips = np.where(rng.random(n) < 1 / (1 + np.exp(wealth + 0.5 * education - 1)), 0, trips)
    visits = rng.poisson(rng.gamma(0.7, (1.5 + size + 2 * (kind == 2)) / 0.7))
    frame = pl.DataFrame(
        {
            "region": region, "education": education, "kind": kind, "tenure": tenure,
            "trade": trade, "income": 10 * np.rint(income / 10).clip(0, 79_000),
            "rent": 5 * np.rint(rent / 5).clip(1, 2_000), "trips": np.rint(trips).clip(0, 20_000),
            "visits": visits.clip(0, 120),
        }
    )  # fmt: skip
    frame = frame.with_columns(rent=pl.when(pl.col("tenure") == 1).then("rent"))
    categories = ("region", "education", "kind", "tenure", "trade")
    bounds = {"income": (0, 800_000), "rent": (0, 10_000), "trips": (0, 20_000), "visits": (0, 120)}
    facts = {
        "income": {"grid": "log", "special": (0.0,), "rounding": 10},
        "rent": {"grid": "log", "rounding": 5, "applies_when": 'tenure == "1"'},
        "trips": {"grid": "log", "special": (0.0,)},
    }
    return _simulated(frame, categories, bounds, facts)


def patients(seed: int = 22, n: int = PERSONS) -> Simulated:
    """Fifteen columns."""
    rng = np.random.default_rng(seed)
    age = (20 + 55 * rng.beta(1.1, 1.4, n)).astype(int)
    sex = rng.integers(0, 2, n)
    origin = rng.choice(4, n, p=[0.74, 0.14, 0.1, 0.02])
    region = rng.choice(4, n, p=[0.2, 0.25, 0.3, 0.25])
    town = (rng.random(n) < np.where(origin == 1, 0.45, 0.3)).astype(int) + (rng.random(n) < 0.2)
    height = 175 - 13 * sex - 0.06 * (age - 45) - 3 * (origin == 2) + rng.normal(0, 6.5, n)
    frailty = rng.normal(size=n)
    build = rng.normal(size=n)
    mass = (
        22 + 0.9 * build + 0.06 * (age - 20) + 2 * np.exp(0.6 * build) + 1.5 * (origin == 1) * sex
    )
    weight = mass * (height / 100) ** 2
    systolic = 118 + 0.012 * (age - 20) ** 2 * (0.7 + 0.5 * sex) + 0.9 * (mass - 25)
    systolic = systolic + np.exp(2.3 + 0.006 * age) * (0.8 * rng.normal(size=n) + 0.4 * frailty)
    diastolic = 0.42 * systolic + 28 + rng.normal(0, 8, n) - 0.004 * (age - 50) ** 2
    sugar = rng.random(n) < 1 / (1 + np.exp(5.2 - 0.045 * (age - 20) - 0.1 * (mass - 25)))
    heart = rng.random(n) < 1 / (1 + np.exp(7 - 0.07 * (age - 20) - 0.5 * frailty + 0.8 * sex))
    health = np.digitize(frailty + 0.02 * (age - 45) + 0.8 * sugar + heart, [-1, 0, 0.9, 1.9])
    smokes = np.digitize(rng.normal(size=n) - 0.01 * age + 0.3 * (1 - sex), [-0.2, 0.4, 0.9])
    fat = 180 + 1.1 * (age - 20) * (0.6 + 0.5 * sex) + 12 * build + 38 * rng.gamma(4, 0.5, n) - 76
    iron = np.exp(4.55 - 0.12 * sex - 0.05 * frailty + 0.33 * rng.normal(size=n))
    alone = (rng.random(n) < np.where(sex == 1, 0.1 + 0.5 * (age > 64), 0.14)).astype(int)
    frame = pl.DataFrame(
        {
            "age": age, "sex": sex, "origin": origin, "region": region, "health": health,
            "height": np.rint(height * 2) / 2, "weight": np.rint(weight * 2) / 2,
            "systolic": np.rint(systolic / 2) * 2, "diastolic": np.rint(diastolic / 2) * 2,
            "fat": np.rint(fat), "iron": np.rint(iron), "town": town, "smokes": smokes,
            "sugar": sugar.astype(int), "alone": alone,
        }
    )  # fmt: skip
    categories = ("sex", "origin", "region", "health", "town", "smokes", "sugar", "alone")
    bounds = {
        "age": (20, 75), "height": (130, 215), "weight": (30, 180), "systolic": (60, 300),
        "diastolic": (30, 160), "fat": (60, 700), "iron": (15, 400),
    }  # fmt: skip
    facts = {name: {"type": "continuous", "rounding": 0.5} for name in ("height", "weight")}
    return _simulated(frame, categories, bounds, facts)


def _simulated(
    frame: pl.DataFrame,
    categories: Sequence[str],
    bounds: Mapping[str, tuple[int, int]],
    facts: Mapping[str, Mapping[str, object]],
) -> Simulated:
    frame = frame.with_columns(pl.col(name).cast(pl.Int64).cast(pl.String) for name in categories)
    whole = [name for name in bounds if facts.get(name, {}).get("type") != "continuous"]
    frame = frame.with_columns(pl.col(name).cast(pl.Int64) for name in whole)
    frame = frame.with_columns(pl.col(name).clip(*ends) for name, ends in bounds.items())
    columns = {}
    for name in frame.columns:
        known = {"role": "sensitive", "blanks": False}
        if name in categories:
            levels = tuple(sorted(frame[name].unique()))
            columns[name] = Column(name, type="categorical", levels=levels, **known)
        else:
            own = {"type": "integer", "bounds": bounds[name], **known, **facts.get(name, {})}
            columns[name] = Column(name, **own)  # type: ignore[arg-type]
    return Simulated(frame, Codebook(columns), tuple(bounds), tuple(categories))
