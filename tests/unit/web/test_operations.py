"""Threat 30: what an operator and a security office can see, and that it holds no values."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from web_samples import CALLER, PATIENCE, Site, make_site, question

from understudy.errors import Refused
from understudy.ledger.database import CannotWrite
from understudy.ledger.head_file import HeadFile
from understudy.ledger.journal import Journal
from understudy.ledger.ledger import Ledger
from understudy.verify.service import Service
from understudy.web.health import MANY, RECENT, SECONDS, Health
from understudy.web.run import on_hangup, reload_datasets
from understudy.web.security_log import NO_ROUTE, REQUEST_ID
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
            assert client.get("/health").json() == {"ok": True, "failures": 0}
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
            assert client.get("/health").json() == {"ok": True, "failures": 0}


def test_while_a_witness_does_not_answer_nobody_waits_for_health(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, tried, answer = 0.0, threading.Event(), threading.Event()

    def silent(_: Journal) -> None:
        tried.set()
        assert answer.wait(PATIENCE)
        raise CannotWrite

    with Ledger(tmp_path / "ledger.db") as ledger:
        health = Health(ledger, clock=lambda: now)
        assert health.ok()
        monkeypatch.setattr(Journal, "try_write", silent)
        now = SECONDS
        asking = threading.Thread(target=health.ok)
        asking.start()
        assert tried.wait(PATIENCE)
        assert health.ok()  # as it was; one thread waits and not all of them
        answer.set()
        asking.join()
        assert not health.ok()


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
    assert f"ZeroDivisionError at GET {V}/me for analyst, request {lines[-1]['request']}" in server
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


def test_a_server_whose_replies_fail_does_not_say_that_it_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any) -> None:
        raise ZeroDivisionError

    now = 0.0
    with make_site(tmp_path) as site, site.client("ann") as ann:
        health = site.app.state.health
        monkeypatch.setattr(health, "_clock", lambda: now)
        monkeypatch.setattr(Service, "left", breaks)
        for failures in range(MANY):
            assert ann.get("/health").json() == {"ok": True, "failures": failures}
            assert ann.get(f"{V}/me").status_code == 500
        for _ in range(2):  # its own status is no failure
            reply = ann.get("/health")
            assert (reply.status_code, reply.json()) == (503, {"ok": False, "failures": MANY})
        now = RECENT
        assert ann.get("/health").json() == {"ok": True, "failures": 0}


def test_prometheus_reads_counts_and_no_values(tmp_path: Path) -> None:
    """Read by Prometheus' own parser."""
    with make_site(tmp_path) as site, site.client("ann") as ann:
        ann.get("/nowhere/123456")
        ann.get(f"{V}/answers/123456")
        ann.post(f"{V}/verify", json=question(estimate=123456.0))
        with site.app.state.metrics.served(0) as server, httpx.Client(**CALLER) as client:
            assert server.server_address[0] == "127.0.0.1"
            text = client.get(f"http://127.0.0.1:{server.server_port}/metrics").text
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.1:{server.server_port}/metrics", **CALLER)
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["understudy_replies_total", NO_ROUTE, "404"] == 1
    assert samples["understudy_replies_total", f"{V}/answers/{{number}}", "404"] == 1
    assert samples["understudy_replies_total", f"{V}/verify", "200"] == 1
    assert samples["understudy_writable",] == 1
    assert samples["understudy_turns",] == samples["understudy_recent_failures",] == 0
    assert samples["process_resident_memory_bytes",] > 1e6
    names = {name for name, *_ in samples if name.startswith("understudy")}
    assert names - {"understudy_late_replies"} == {
        "understudy_replies_total", "understudy_replies_created", "understudy_writable",
        "understudy_turns", "understudy_recent_failures",
    }  # fmt: skip
    for value in ("123456", "ann", "survey", "income"):
        assert value not in text


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with make_site(tmp_path) as site:
        metrics, taken = site.app.state.metrics, int(site.url.rsplit(":", 1)[1])
        with pytest.raises(Refused, match="choose another `metrics_port`"), metrics.served(taken):
            pass


def test_a_hangup_reloads_the_data_sets_and_the_log_says_no_more_than_that(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard = threading.Event()
    with on_hangup(heard.set):
        os.kill(os.getpid(), signal.SIGHUP)
        assert heard.wait(PATIENCE)
    with make_site(tmp_path) as site:

        def wrong() -> Any:
            raise Refused("A salary of 123456 is above its bound.")

        reload_datasets(site.service, wrong)
        assert list(site.service.datasets) == ["survey"]
    assert caplog.messages == [
        "The data sets were not reloaded (Refused); `understudy serve` says why."
    ]
