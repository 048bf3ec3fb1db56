"""A generated confidential survey, its codebook, and a plain query about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from understudy.ledger.ledger import Ledger
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.verify.catalogue import read_query
from understudy.verify.confidential import ConfidentialData
from understudy.verify.measures.agreement import agreement_flags
from understudy.verify.measures.discrepancy import discrepancy_steps
from understudy.verify.partition_pass import partition_estimates
from understudy.verify.partitions import PartitionKey, new_key, with_partition
from understudy.verify.query import Query

OpenLedger = Callable[[], Ledger]
NewPlace = Callable[[Path], tuple[str, str]]

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


def changed_partitions(first: ConfidentialData, two: pl.DataFrame, query: Query) -> int:
    """In how many partitions the bounded numbers of two files differ, under the same key."""
    key = new_key()
    with ConfidentialData("survey", make_survey(two)) as other:
        numbers = [partition_numbers(data, query, key) for data in (first, other)]
    return int(np.sum(np.any(numbers[0] != numbers[1], axis=0)))


def partition_numbers(data: ConfidentialData, query: Query, key: PartitionKey) -> np.ndarray:
    """A_k and D_k of every partition: what the noise is added to, before the sum."""
    table = with_partition(data.records, key, query.count)
    factor = np.full(query.count, float(query.count))
    estimates = partition_estimates(data, query, table, factor, 100.0)
    centre, width = query.estimate or 0.0, 10 * (query.se or 1.0)
    return np.array(
        [agreement_flags(estimates, centre, width), discrepancy_steps(estimates, centre, width)]
    )
