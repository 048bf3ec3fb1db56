"""One fingerprint for one set of records, however stored, ordered or named (threat 15)."""

from __future__ import annotations

import datetime
import hashlib
import math
import struct
from typing import Any

import ibis
import polars as pl
import pytest

from understudy.ledger import fingerprint as module
from understudy.ledger.fingerprint import fingerprint, identify
from understudy.ledger.ledger import Ledger

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


def test_records_of_several_workers_are_those_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums beyond 2^64, the columns that vary and the smallest records are put together; in each
    part by itself `group` is the same for all."""
    rows = 90
    frame = pl.DataFrame({"x": range(rows), "group": [k // 30 for k in range(rows)], "one": 1})
    table = ibis.memtable(frame)
    whole, digest = identify(table, table), fingerprint(table)
    summaries = module.summaries

    def by_parts(table: Any, work: Any, batch: int) -> Any:
        for first in (0, 30, 60):
            yield from summaries(table.limit(30, offset=first), work, batch)

    monkeypatch.setattr(module, "summaries", by_parts)
    apart = identify(table, table)[0]
    assert apart == whole[0]
    assert (len(apart.columns), len(apart.records)) == (2, module.SKETCHED)
    assert fingerprint(table) == digest


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


def first_word(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def mix(word: int) -> int:
    for _ in range(2):
        word = (word ^ (word >> 32)) * 0xD6E8FEB86659FD93 % 2**64
    return word ^ (word >> 32)


def word_of(value: object) -> int:
    if value is None:
        return int.from_bytes(b"null", "big")
    if isinstance(value, int | float):
        plain = math.nan if math.isnan(value) else float(value) + 0.0
        return int.from_bytes(struct.pack(">d", plain), "big")
    return first_word(str(value))


def record_word(row: dict[str, Any], lane: int) -> int:
    state = first_word(f"{lane}:record")
    for name in sorted(row):
        state = mix(state ^ mix(word_of(row[name]) ^ first_word(f"{lane}:{name}")))
    return state


def digest_of(rows: list[dict[str, Any]], *head: str) -> str:
    sums = [str(sum(record_word(row, lane) for row in rows) % 2**64) for lane in (0, 1)]
    text = "\n".join([*head, str(len(rows)), *sums, *sorted(rows[0])])
    return hashlib.sha256(text.encode()).hexdigest()


def test_it_is_the_same_in_every_version() -> None:
    """Caps are kept under this digest: were it to change, spent epsilon would be had again.

    Two sums over the records of 64-bit words, written out in whole numbers.
    """
    rows = [
        {"day": datetime.date(2026, 1, 2), "here": True, "id": 1, "income": 1.5, "s": "North"},
        {"day": None, "here": False, "id": 2**60 + 1, "income": math.nan, "s": None},
        {"day": datetime.date(1999, 12, 31), "here": None, "id": None, "income": -0.0, "s": "Süd"},
    ]
    expected = digest_of(rows)
    assert print_of(pl.DataFrame(rows)) == expected
    assert print_of(pl.DataFrame(rows), batch=1) == expected


@pytest.mark.parametrize("batch", [7, 100_000])
def test_the_fingerprint_and_the_sketch_of_a_text_file_are_the_same_in_every_version(batch) -> None:
    """What is written, and what it counts as: a number, a truth, a trimmed text, or missing."""
    odd = [
        ("1.50", 1.5), (" +2 ", 2.0), ("-0", 0.0), ("1e3", 1000.0), ("", None), ("NA", None),
        ("NaN", None), (None, None), ("True", "true"), (" North ", "North"), ("1.2.3", "1.2.3"),
    ]  # fmt: skip
    pairs = [*odd, *((str(k), float(k)) for k in range(100, 140))]
    written = [
        {"x": text, "wave": "7", "id": n, "here": n > 5} for n, (text, _) in enumerate(pairs)
    ]
    meant = [
        {"x": value, "wave": 7.0, "id": float(n), "here": str(n > 5).lower()}
        for n, (_, value) in enumerate(pairs)
    ]
    table = ibis.memtable(pl.DataFrame(written))
    identity, _ = identify(table, table, batch)
    assert identity.fingerprint == digest_of(meant, "text")
    sums = [sum(mix(word_of(row[name])) for row in meant) % 2**64 for name in ("here", "id", "x")]
    assert identity.columns == {f"{len(pairs)}:{total:016x}" for total in sums}
    least = sorted(record_word(row, 0) for row in meant)[:32]
    assert identity.records == {f"{word:016x}" for word in least}


def test_bytes_count_as_the_text_that_they_hold() -> None:
    words = pl.DataFrame({"s": ["a", None, "ü"]})
    as_bytes = pl.DataFrame({"s": [b"a", None, "ü".encode()]})
    assert print_of(as_bytes) == print_of(words)


def test_a_column_that_is_wholly_missing_is_taken() -> None:
    for kind in (pl.String, pl.Float64):
        empty = FRAME.with_columns(gone=pl.lit(None, kind))
        assert print_of(empty) == print_of(empty[::-1]) != print_of(FRAME)


def test_a_new_ledger_is_its_owners_alone(tmp_path):
    """It holds digests of records, by which guesses at a record could be tried."""
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.add_dataset("ab" * 32, "survey", "1")
        files = sorted(path.name for path in tmp_path.iterdir())
        assert "ledger.db-wal" in files
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    (tmp_path / "ledger.db").chmod(0o660)  # the steward's own choice, as for a group
    with Ledger(tmp_path / "ledger.db"):
        assert (tmp_path / "ledger.db").stat().st_mode & 0o777 == 0o660
