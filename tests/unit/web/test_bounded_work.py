"""Threat 21: work that costs nothing keeps nobody waiting. Real threads on a real server."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from web_samples import PATIENCE, make_site, question

from understudy.verify.query import Query
from understudy.verify.service import Service
from understudy.web.bounded_work import BoundedWork


def test_free_requests_of_one_user_keep_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """45 prices of bob, more than a server has threads, each of which takes long."""
    check, run_free = Service.check, BoundedWork.run
    begun: list[str | None] = []
    arrived, go_on = threading.Semaphore(0), threading.Event()

    def slow(service: Service, query: Query, user: str | None = None) -> Any:
        begun.append(user)
        if user == "bob":
            assert go_on.wait(PATIENCE)
        return check(service, query, user)

    async def counted(*arguments: Any, **named: Any) -> Any:
        arrived.release()
        return await run_free(*arguments, **named)

    monkeypatch.setattr(Service, "check", slow)
    monkeypatch.setattr(BoundedWork, "run", counted)

    def price(user: str) -> int:
        with site.client(user) as client:
            return client.post("/api/v1/price", json=question()).status_code

    with make_site(tmp_path) as site, ThreadPoolExecutor(46) as callers:
        try:
            prices = [callers.submit(price, "bob") for _ in range(45)]
            for _ in prices:
                assert arrived.acquire(timeout=PATIENCE)
            with site.client("ann") as ann:
                assert ann.get("/api/v1/me").status_code == 200  # while bob's are computed
                assert ann.get("/health").status_code == 200
            prices.append(callers.submit(price, "ann"))
            assert arrived.acquire(timeout=PATIENCE)
        finally:
            go_on.set()
        assert [each.result() for each in prices] == [200] * 46
    assert begun.index("ann") <= 4  # behind a few of bob's and not behind 45
