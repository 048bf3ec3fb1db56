"""One fingerprint for one set of records, however stored, ordered or named (threat 15)."""

from __future__ import annotations

import datetime

import ibis
import polars as pl
import pytest

from understudy.ledger.fingerprint import fingerprint

FRAME = pl.DataFrame(
    {
        "id": [1, 2, 3, 4, 4],
        "x": [0.5, None, float("nan"), -0.0, 7.0],
        "s": ["a", None, "", "ü", "a"],
        "day": [datetime.date(2020, 1, d) for d in (1, 2, 3, 4, 5)],
    }
)


def print_of(frame: pl.DataFrame, batch: int = 100_000) -> str:
    return fingerprint(ibis.memtable(frame), batch)


def test_rows_columns_batches_and_storage_do_not_matter() -> None:
    base = print_of(FRAME)
    assert print_of(FRAME.sample(fraction=1.0, shuffle=True, seed=1)) == base
    assert print_of(FRAME.select("s", "day", "x", "id")) == base
    assert print_of(FRAME, batch=2) == base
    assert print_of(FRAME.with_columns(pl.col("id").cast(pl.Float64))) == base
    assert print_of(FRAME.with_columns(pl.col("s").cast(pl.Categorical))) == base
    assert print_of(FRAME.with_columns(x=pl.Series([0.5, None, float("nan"), 0.0, 7.0]))) == base
    assert fingerprint(ibis.duckdb.connect().create_table("other_name", FRAME)) == base


@pytest.mark.parametrize(
    "change",
    [
        FRAME.head(4),
        pl.concat([FRAME, FRAME.head(1)]),
        pl.concat([FRAME, FRAME]),
        FRAME.with_columns(id=pl.Series([1, 2, 3, 4, 5])),
        FRAME.with_columns(s=pl.Series(["a", "", "", "ü", "a"])),
        FRAME.with_columns(x=pl.Series([0.5, 0.0, float("nan"), -0.0, 7.0])),
        FRAME.with_columns(x=FRAME["x"].reverse()),
        FRAME.drop("s"),
        FRAME.rename({"s": "t"}),
    ],
)
def test_any_change_of_the_records_changes_it(change: pl.DataFrame) -> None:
    assert print_of(change) != print_of(FRAME)
