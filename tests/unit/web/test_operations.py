"""Threat 30: what an operator and a security office can see, and that it holds no values."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from web_samples import Site, make_site, question

from understudy.ledger.database import CannotWrite
from understudy.ledger.head_file import HeadFile
from understudy.ledger.journal import Journal
from understudy.ledger.ledger import Ledger
from understudy.verify.service import Service
from understudy.web.health import SECONDS, Health
from understudy.web.security_log import REQUEST_ID
from understudy.web.server_log import server_log

pytestmark = pytest.mark.any_noise

V = "/api/v1"


@pytest.mark.parametrize("broken", ["database", "head"])
def test_health_tests_a_write(
    tmp_path: Path,
    ledger_place: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
) -> None:
    with make_site(tmp_path, ledger_place=ledger_place) as site:
        now = 0.0
        site.app.state.health = Health(site.ledger, clock=lambda: now)
        before = list(site.ledger.entries())
        with site.client() as client:
            assert client.get("/health").json() == {"ok": True}
            assert list(site.ledger.entries()) == before  # without an entry
            assert not [path for path in tmp_path.iterdir() if path.suffix == ".try"]

            def fails(*_: Any) -> None:
                raise CannotWrite if broken == "database" else OSError(28, "No space left")

            target = (Journal, "head") if broken == "database" else (os, "fsync")
            monkeypatch.setattr(*target, fails)
            assert client.get("/health").status_code == 200  # as it was a moment ago
            now = SECONDS
            assert client.get("/health").status_code == 503
            monkeypatch.undo()
            assert client.get("/health").status_code == 503
            now = 2 * SECONDS
            assert client.get("/health").json() == {"ok": True}


def test_trying_to_write_needs_a_database_that_takes_it(
    ledger: Ledger, ledger_place: tuple[str, str]
) -> None:
    connection = ledger.journal.database._connections.get()
    on_postgres = ledger_place[0].startswith("postgresql")
    read_only = "SET default_transaction_read_only = on" if on_postgres else "PRAGMA query_only = 1"
    # rows that SQLite changed on this connection, and who wrote the row on PostgreSQL
    written = "SELECT xmin::text FROM head" if on_postgres else "SELECT total_changes()"
    before = connection.execute(written).fetchall()
    ledger.journal.try_write()
    assert connection.execute(written).fetchall() != before
    connection.execute(read_only)
    assert not Health(ledger).ok()


def test_a_head_that_a_full_disk_would_not_take_is_no_health(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = HeadFile(tmp_path / "head")
    file.try_write()
    write = os.write
    monkeypatch.setattr(os, "write", lambda f, line: write(f, line[:-1]))
    with pytest.raises(OSError, match="No space left"):
        file.try_write()
    assert list(tmp_path.iterdir()) == []


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_sign_ins_wrong_keys_exports_and_failures_leave_a_line_without_values(
    tmp_path: Path, ledger_place: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "security.log"

    def breaks(*_: Any) -> None:
        raise ZeroDivisionError("a salary of 123456")

    with (
        make_site(tmp_path, ledger_place=ledger_place) as site,
        server_log(tmp_path / "server.log", file),
    ):
        wrong = "us_" + "0" * 16 + "_" + "A" * 43
        with site.client() as client, site.client("ann") as ann:
            client.post("/sign-in", data={"key": wrong})
            client.get(f"{V}/me", headers={"Authorization": f"Bearer {wrong}"})
            ann.get(f"{V}/users")
            ann.get(f"{V}/me")
            ann.get("/nowhere/123456")
            ann.post(f"{V}/verify", json=question(estimate=123456.0))
        with site.page_client("stella") as page:
            page.get("/steward/ledger.csv")
            page.get("/steward/ledger.jsonl")
        with site.client("stella") as stella:
            stella.post(f"{V}/users", json={"name": "secret.name"})
            stella.post(f"{V}/users/secret.name/grants", json={"epsilon": "0.5"})
        monkeypatch.setattr(Service, "left", breaks)
        with site.client("ann") as ann:
            failed = ann.get(f"{V}/me")
    lines = lines_of(file)
    assert [(line["event"], line["status"], line["role"]) for line in lines] == [
        ("POST /sign-in", 401, "nobody"),
        ("GET turned away before any route", 401, "nobody"),
        (f"GET {V}/users", 403, "analyst"),
        ("POST /sign-in", 303, "nobody"),
        ("GET /steward/ledger.csv", 200, "steward"),
        ("GET /steward/ledger.jsonl", 200, "steward"),
        (f"POST {V}/users", 201, "steward"),
        (f"POST {V}/users/{{name}}/grants", 201, "steward"),
        (f"GET {V}/me", 500, "analyst"),
    ]
    assert {tuple(line) for line in lines} == {("time", "event", "request", "status", "role")}
    assert len({line["request"] for line in lines}) == len(lines)
    assert failed.headers[REQUEST_ID] == lines[-1]["request"]
    server = (tmp_path / "server.log").read_text()
    assert f"ZeroDivisionError at GET {V}/me, request {lines[-1]['request']}" in server
    for value in ("123456", "secret.name", "salary", site.keys["ann"], wrong):
        assert value not in file.read_text() + server
    assert file.stat().st_mode & 0o777 == 0o600
    kept = [type(handler) for handler in logging.getLogger("understudy.security").handlers]
    assert kept == [logging.NullHandler]


def test_replies_that_are_no_failures_carry_no_request_id(tmp_path: Path) -> None:
    """What is random in a reply would hide what differs between neighbours."""

    def headers(site: Site) -> set[str]:
        with site.client("ann") as client:
            return {name.lower() for name in client.get(f"{V}/me").headers}

    with make_site(tmp_path) as site:
        assert REQUEST_ID.lower() not in headers(site)
