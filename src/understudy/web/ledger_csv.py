"""Exports for stewards and auditors: CSV, and the copy that can be checked."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from starlette.responses import Response, StreamingResponse

from understudy.ledger.auditors_copy import auditors_lines
from understudy.ledger.ledger import Ledger
from understudy.ledger.requests import BudgetRequest, requests
from understudy.ledger.views import Line, lines, totals


def ledger_csv(ledger: Ledger) -> Response:
    head = tuple(field.name for field in fields(Line))
    rows = (tuple(getattr(line, name) for name in head) for line in lines(ledger))
    return _file("ledger.csv", head, rows)


def totals_csv(ledger: Ledger) -> Response:
    head = ("user", "dataset", "epsilon", "entries")
    rows = (tuple(getattr(total, name) for name in head) for total in totals(ledger))
    return _file("totals.csv", head, rows)


def auditors_copy(ledger: Ledger) -> Response:
    headers = {"Content-Disposition": 'attachment; filename="ledger.jsonl"'}
    return StreamingResponse(
        auditors_lines(ledger), media_type="application/jsonl", headers=headers
    )


def requests_csv(ledger: Ledger) -> Response:
    head = tuple(field.name for field in fields(BudgetRequest) if field.name != "file")
    rows = (tuple(_joined(getattr(row, name)) for name in head) for row in requests(ledger))
    return _file("requests.csv", head, rows)


def _joined(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, tuple) else value


def _file(name: str, head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_text(head, rows), media_type="text/csv", headers=headers)


def _text(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    page = io.StringIO()
    writer = csv.writer(page)
    writer.writerow(head)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
        if page.tell() > 32_000:
            yield page.getvalue()
            page.seek(0)
            page.truncate()
    yield page.getvalue()


def _cell(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula is quoted."""
    risky = isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{value}" if risky else ("" if value is None else value)
