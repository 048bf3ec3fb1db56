"""A served survey over HTTP: an application on a generated survey, its users and their keys."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import uvicorn
from fastapi import FastAPI
from verification_samples import BOOK, make_frame, make_survey

from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.verify.confidential import ConfidentialData
from understudy.verify.released import ReleasedFiles
from understudy.verify.service import Remembered, Served, Service
from understudy.web.app import create_app
from understudy.web.connections import ConnectionLimits, server_settings

STAFF = {"stella": "steward", "stan": "steward", "audrey": "auditor", "oscar": "operator"}
SLOT = 0.1
PATIENCE = 250  # seconds after which something hangs; a busy machine may need most of them
# No proxies, and no certificates: reading them takes longer than most requests.
CALLER: dict[str, Any] = {"trust_env": False, "verify": False, "timeout": PATIENCE}


def ticking() -> Callable[[], datetime]:
    """A ledger's clock on which a minute passes from one reading to the next.

    An answer can be read again when most of its slot has passed since the reservation: here
    always, however late in the slot a busy machine reserves.
    """
    minutes = itertools.count()
    return lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=next(minutes))


@dataclass(frozen=True)
class Site:
    """An application and the keys of its users."""

    app: FastAPI
    ledger: Ledger
    keys: dict[str, str]
    url: str

    @property
    def service(self) -> Service:
        result: Service = self.app.state.service
        return result

    def client(self, user: str | None = None) -> httpx.Client:
        """A caller of the API with the user's key, or without one."""
        headers = {} if user is None else {"Authorization": f"Bearer {self.keys[user]}"}
        return httpx.Client(base_url=self.url, headers=headers, **CALLER)

    def page_client(self, user: str) -> httpx.Client:
        """A browser without scripts, signed in."""
        key = {"key": self.keys[user]}
        reply = httpx.post(f"{self.url}/sign-in", data=key, **CALLER)
        assert reply.status_code == 303, reply.text
        client = self.client()
        client.cookies.update(reply.cookies)
        return client


def released_files(frame: pl.DataFrame) -> ReleasedFiles:
    """Two public files: other draws of the same simulation, without the unit's id."""
    public = [make_frame(len(frame), seed=seed).drop("person") for seed in (21, 22)]
    book = BOOK.only([name for name in BOOK.columns if name != "person"])
    surveys = [Survey(each, Design(weight="w"), book) for each in public]
    return ReleasedFiles(surveys, BOOK, "partial")


@contextlib.contextmanager
def make_site(
    folder: Path,
    frame: pl.DataFrame | None = None,
    *,
    ledger_place: tuple[str, str] | None = None,
    slot: float = SLOT,
    budget: str = "10",
    cap: str = "1000",
    per_minute: int = 1_000_000,
    deadline: float = 0.2,
    limit: int | None = None,
    limits: ConnectionLimits | None = None,
    **settings: Any,
) -> Iterator[Site]:
    frame = make_frame() if frame is None else frame
    ledger = Ledger(*(ledger_place or (folder / "ledger.db",)), clock=ticking())
    data = ConfidentialData("survey", make_survey(frame), deadline=deadline)
    ledger.add_dataset(data.fingerprint, "survey", cap)
    keys = {name: add_user(ledger, name) for name in ("ann", "bob", "carol")}
    for name in keys:
        ledger.grant(name, budget)
    for name, role in STAFF.items():
        keys[name] = add_user(ledger, name, role)
    served = Served(data, Remembered(released_files(frame)), "A generated survey")
    service = Service(ledger, {"survey": served}, slot, limit=limit)
    try:
        app = create_app(service, requests_per_minute=per_minute, **settings)
        with running(app, limits) as url:
            yield Site(app, ledger, keys, url)
    finally:
        service.close()


def question(**changes: Any) -> dict[str, Any]:
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
    return {name: value for name, value in (base | changes).items() if value is not None}


@contextlib.contextmanager
def running(app: FastAPI, limits: ConnectionLimits | None = None) -> Iterator[str]:
    """A real server on loopback; its address.

    The port is bound before the server starts, so that nobody else can take it. Without
    `log_config=None` uvicorn would close every log handler of the process, and some of those
    (absl's, which comes with JAX) close the stream that pytest captures into.
    """
    bound = socket.create_server(("127.0.0.1", 0), backlog=256)
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as `run_server` does
    port = bound.getsockname()[1]
    server = _Announcing(server_settings(app, limits or ConnectionLimits()))
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    if not server.listening.wait(PATIENCE):
        raise TimeoutError("the server did not start")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


class _Announcing(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, settings: uvicorn.Config) -> None:
        super().__init__(settings)
        self.listening = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()
