"""A generated confidential survey, its codebook, and a plain query about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.verify.ledger import Ledger
from understudy.verify.query import Query, read_query

OpenLedger = Callable[[], Ledger]

FINGERPRINT = "ab" * 32

BOOK = Codebook(
    {
        column.name: column
        for column in (
            Column("person", "unit", "integer"),
            Column("income", "sensitive", "continuous"),
            Column("hours", "sensitive", "integer"),
            Column("region", "public", "categorical", levels=("North", "South", "East")),
            Column("sex", "public", "categorical", levels=(1, 2)),
            Column("w", "weight", "continuous"),
        )
    }
)


def make_frame(records: int = 2000, seed: int = 7) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    sex = draw.integers(1, 3, records)
    hours = draw.integers(10, 60, records)
    income = 50.0 + 2.0 * hours + 5.0 * (sex == 2) + draw.normal(0, 20, records)
    return pl.DataFrame(
        {
            "person": np.arange(records) + 1000,
            "income": income,
            "hours": hours,
            "region": draw.choice(["North", "South", "East"], records, p=[0.5, 0.3, 0.2]),
            "sex": sex,
            "w": draw.uniform(1, 9, records),
        }
    )


def make_survey(frame: pl.DataFrame, book: Codebook = BOOK) -> Survey:
    present = [name for name in book.columns if name in frame.columns]
    return Survey(frame, Design(weight="w"), book.only(present))


def make_query(**changes: Any) -> Query:
    base: dict[str, Any] = {
        "dataset": "survey",
        "estimator": "mean",
        "variable": "income",
        "tolerance": {"value": 2.0},
        "epsilon": "1",
        "estimate": 120.0,
        "se": 1.0,
        "partitions": 10,
    }
    return read_query(base | changes)
