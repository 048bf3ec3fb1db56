"""Skewed incomes in 2 x 5 x 4 patterns, with some zeros, negatives and rounded values."""

from __future__ import annotations

import numpy as np
import polars as pl

KNOWN = ["sex", "age", "region"]


def incomes(n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    income = np.round(np.exp(rng.normal(10.5, 1.0, n)), -1)
    income[rng.random(n) < 0.01] *= -0.1
    income[rng.random(n) < 0.02] = 0.0
    return pl.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(1, 6, n),
            "region": rng.choice(["n", "s", "e", "w"], n),
            "income": income,
        }
    )
