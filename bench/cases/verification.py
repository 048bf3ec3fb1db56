"""One answer of the verification server: a mean in a domain, 25 partitions, paid and stored."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

import understudy as us
from bench.framework.case import Case, Side
from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger
from understudy.survey.codebook import Codebook, Column
from understudy.verify.answer import answer_query
from understudy.verify.catalogue import read_query
from understudy.verify.confidential import ConfidentialData

REGIONS = ("North", "South", "East", "West")
PARTITIONS = 25
COLUMNS = (
    Column("person", "unit", "integer"),
    Column("salary", "sensitive", "continuous"),
    Column("region", "public", "categorical", levels=REGIONS),
    Column("w", "weight", "continuous"),
)


class Verification(Case):
    what = "one verification of a mean in a domain, 25 partitions, paid and stored"
    peers = {
        "exact": "DuckDB's GROUP BY of hashed partitions: the two sums as decimals, unpaid",
        "duckdb": "the same in floating point, whose last bits tell of other partitions",
    }
    sizes = (100_000, 1_000_000, 5_000_000)
    quick = (2_000, 4_000, 8_000)
    tiny = 1_000
    bars = {"exact": 1.5}
    most_growth = 1.1

    def sides(self, n: int, folder: Path) -> dict[str, Side]:
        rng = np.random.default_rng(1)
        frame = pl.DataFrame(
            {
                "person": np.arange(n),
                "salary": rng.lognormal(11.0, 0.4, n),
                "region": rng.choice(REGIONS, n),
                "w": rng.gamma(2.0, 50.0, n),
            }
        )
        codebook = Codebook({column.name: column for column in COLUMNS})
        data = ConfidentialData("people", us.Survey(frame, us.Design(weight="w"), codebook))
        ledger, numbers = Ledger(folder / "ledger.db"), count()
        add_user(ledger, "ann")
        ledger.grant("ann", "900")
        ledger.add_dataset(data.fingerprint, "people", "900")
        base = duckdb.connect()
        base.register("frame", frame.to_arrow())
        base.sql("CREATE TABLE records AS SELECT * FROM frame")

        def bare(term: str) -> list[Any]:
            sums = ", ".join(f"sum({term.format(part)})" for part in ("w * salary / 65000", "w"))
            return base.sql(
                f"""SELECT hash(person, {next(numbers)}) % {PARTITIONS} AS part, {sums}
                    FROM records WHERE region IN ('North', 'East') GROUP BY part"""
            ).fetchall()

        def ours() -> None:
            answer_query(read_query(question(next(numbers))), data, ledger, "ann")

        return {
            "ours": Side(ours),
            "exact": Side(lambda: bare("CAST({} AS DECIMAL(38, 12))"), compared=False),
            "duckdb": Side(lambda: bare("{}"), compared=False),
        }


def question(number: int) -> dict[str, Any]:
    return {
        "dataset": "people",
        "estimator": "mean",
        "variable": "salary",
        "domain": {"region": ["North", "East"]},
        "tolerance": {"value": 2.0},
        "partitions": PARTITIONS,
        "epsilon": "0.1",
        "estimate": 65_000.0 + number,
        "se": 60.0,
    }
