"""Threats 20 and 21 in true seconds: 300 half-open sockets, and an analyst who gets an answer.

Slow because it reads the machine's clock.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path

import httpx
import pytest
from web_samples import make_site, question

from understudy.web.server_log import server_log

pytestmark = [pytest.mark.slow, pytest.mark.any_noise]

SLOT = 1.0
HALF_OPEN = 300
LARGEST_LOG = 1_000_000


def test_300_half_open_sockets_keep_nobody_waiting_and_the_log_small(
    tmp_path: Path, ledger_place: tuple[str, str]
) -> None:
    log = tmp_path / "server.log"
    with make_site(tmp_path, ledger_place=ledger_place, slot=SLOT) as site, server_log(log):
        target = httpx.URL(site.url).host, httpx.URL(site.url).port or 0
        sockets = []
        for number in range(HALF_OPEN):
            address = f"127.0.1.{1 + number % 10}", 0
            sockets.append(socket.create_connection(target, source_address=address))
            sockets[-1].sendall(b"POST /api/v1/verify HTTP/1.1\r\nHost: here\r\n")
        with site.client("ann") as client:
            for number in range(5):
                start = time.monotonic()
                reply = client.post("/api/v1/verify", json=question(estimate=100.0 + number))
                assert reply.status_code == 200, reply.text
                assert time.monotonic() - start < 2 * SLOT
        for each in sockets:
            each.close()
    assert log.stat().st_size < LARGEST_LOG
