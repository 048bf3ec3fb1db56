"""The steward's exports of a ledger as CSV."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ledger_samples import write_history

from understudy.ledger.accounts import set_active
from understudy.ledger.ledger import Ledger
from understudy.web.ledger_csv import ledger_csv, totals_csv


@pytest.fixture
def history(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.db") as ledger:
        write_history(ledger)
        yield ledger


def test_exports_are_csv_and_run_no_formulas(history: Ledger) -> None:
    history.add_dataset("ef" * 32, "=1+1", "1")
    rows = list(csv.reader(io.StringIO(_read(ledger_csv(history)))))
    assert rows[0][:7] == ["number", "at", "kind", "user", "dataset", "epsilon", "refers"]
    assert rows[0][7:] == ["delta", "rho", "relation", "unit"]
    assert rows[9][7:] == ["", "", "replace", "record"]
    assert len(rows) == 14
    assert rows[8][:1] + rows[8][2:7] == ["8", "release", "ann", "survey", "0", "7"]
    assert rows[13][4] == "'=1+1"
    assert list(csv.reader(io.StringIO(_read(totals_csv(history))))) == [
        ["user", "dataset", "epsilon", "entries"],
        ["", "survey", "1.1", "1"],
        ["ann", "survey", "0.75", "2"],
    ]


def test_a_long_export_comes_in_parts_and_lacks_no_line(history: Ledger) -> None:
    for number in range(600):
        set_active(history, "bob", bool(number % 2))
    response = ledger_csv(history)
    parts = _parts(response)
    assert len(parts) > 1
    assert all(len(part) < 40_000 for part in parts)
    rows = list(csv.reader(io.StringIO("".join(parts))))
    assert [int(row[0]) for row in rows[1:]] == list(range(1, 613))


def _parts(response) -> list[str]:  # type: ignore[no-untyped-def]
    async def collect() -> list[str]:
        return [part async for part in response.body_iterator]

    # in a thread of its own: a browser's tests may leave a loop running in this one
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(collect())).result()


def _read(response) -> str:  # type: ignore[no-untyped-def]
    return "".join(_parts(response))
