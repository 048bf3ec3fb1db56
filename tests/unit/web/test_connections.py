"""Threat 20: connections are few, requests arrive in time, and the log stays small.

Protocols are driven by hand on a virtual clock; `test_true_connections.py` opens 300 sockets.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from uvicorn.server import ServerState
from virtual_time import VirtualLoop, run_virtually
from web_samples import make_site, question

from understudy.errors import Refused
from understudy.web import run as run_module
from understudy.web.connections import BoundedConnection, ConnectionLimits, server_settings
from understudy.web.seldom import Seldom
from understudy.web.server_log import BYTES, FILES, LINES, FewLines, server_log

HEADER = b"POST /verify HTTP/1.1\r\nHost: here\r\nContent-Length: 40\r\n\r\n"
WHOLE = HEADER + b"x" * 40
LIMITS = ConnectionLimits(connections=6, per_address=3, request_seconds=10.0, idle_seconds=5)


class Wire:
    """A transport that notes what becomes of it."""

    def __init__(self, loop: VirtualLoop, host: str) -> None:
        self.loop, self.host = loop, host
        self.written = b""
        self.ended_at: float | None = None
        self.protocol: BoundedConnection | None = None

    def get_extra_info(self, name: str) -> Any:
        return {"peername": (self.host, 1), "sockname": ("127.0.0.1", 80)}.get(name)

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.ended_at is not None

    def close(self) -> None:
        if self.ended_at is None and self.protocol is not None:
            self.ended_at = self.loop.time()
            self.loop.call_soon(self.protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


Connect = Callable[..., Wire]


def connecting(loop: VirtualLoop, limits: ConnectionLimits = LIMITS, seconds: float = 0) -> Connect:
    """A function that opens a connection from a host; the application takes so many seconds."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            if not message["more_body"]:
                break
        await asyncio.sleep(seconds)
        headers = [(b"content-length", b"2"), (b"x-client", scope["client"][0].encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    settings = server_settings(app, limits)  # type: ignore[arg-type]
    settings.load()
    state = ServerState()

    def connect(host: str = "10.0.0.1") -> Wire:
        wire = Wire(loop, host)
        protocol: Any = settings.http_protocol_class(
            config=settings, server_state=state, app_state={}, _loop=loop
        )
        wire.protocol = protocol
        protocol.connection_made(wire)
        return wire

    return connect


def virtually(main: Callable[[VirtualLoop], Coroutine[Any, Any, Any]]) -> Any:
    return run_virtually(main)


@pytest.mark.parametrize(
    "begun", [b"", b"POST /ver", HEADER, WHOLE[:-1]], ids=["nothing", "header", "body", "last byte"]
)
def test_a_request_must_have_arrived_in_time_however_slowly_it_drips(begun: bytes) -> None:
    async def main(loop: VirtualLoop) -> float | None:
        wire = connecting(loop)()
        for byte in begun[: len(begun) // 2], begun[len(begun) // 2 :]:
            if byte and wire.protocol is not None:
                wire.protocol.data_received(byte)
            await asyncio.sleep(4)
        await asyncio.sleep(100)
        return wire.ended_at

    assert virtually(main) == 10.0


def test_a_whole_request_waits_for_its_reply_and_then_for_the_next() -> None:
    """The application may take a minute; afterwards five idle seconds, or ten for the next."""

    async def main(loop: VirtualLoop) -> list[Any]:
        idle, slow = (connecting(loop, seconds=60)() for _ in range(2))
        for wire in (idle, slow):
            assert wire.protocol is not None
            wire.protocol.data_received(WHOLE)
        await asyncio.sleep(62)
        assert slow.protocol is not None
        slow.protocol.data_received(b"GET /")
        await asyncio.sleep(100)
        return [b"200 OK" in idle.written, idle.ended_at, slow.ended_at]

    assert virtually(main) == [True, 65.0, 72.0]


def test_a_reader_who_takes_nothing_is_let_go() -> None:
    async def main(loop: VirtualLoop) -> list[float | None]:
        patient, stuck = (connecting(loop, seconds=60)() for _ in range(2))
        for wire in (patient, stuck):
            assert wire.protocol is not None
            wire.protocol.data_received(WHOLE)
            wire.protocol.pause_writing()
        await asyncio.sleep(9)
        assert patient.protocol is not None
        patient.protocol.resume_writing()
        await asyncio.sleep(20)
        return [patient.ended_at, stuck.ended_at]

    assert virtually(main) == [None, 10.0]


def test_connections_are_few_from_one_address_and_in_all() -> None:
    async def main(loop: VirtualLoop) -> list[list[bool]]:
        connect = connecting(loop)
        same = [connect("10.0.0.1").is_closing() for _ in range(5)]
        await asyncio.sleep(0)
        others = [connect(f"10.0.0.{number}").is_closing() for number in range(2, 7)]
        await asyncio.sleep(20)  # all were too slow: there is room again
        return [same, others, [connect("10.0.0.1").is_closing()]]

    same, others, later = virtually(main)
    assert same == [False] * 3 + [True] * 2
    assert others == [False] * 3 + [True] * 2
    assert later == [False]


@pytest.mark.parametrize("trusted", [(), ("10.0.0.1",)])
def test_only_a_trusted_proxy_speaks_for_others_and_has_many_connections(
    trusted: tuple[str, ...],
) -> None:
    forwarded = b"GET / HTTP/1.1\r\nHost: here\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n"
    limits = ConnectionLimits(connections=6, per_address=3, trusted_proxies=trusted)

    async def main(loop: VirtualLoop) -> tuple[bytes, int]:
        connect = connecting(loop, limits)
        wires = [connect("10.0.0.1") for _ in range(6)]
        assert wires[0].protocol is not None
        wires[0].protocol.data_received(forwarded)
        await asyncio.sleep(1)
        return wires[0].written, sum(wire.is_closing() for wire in wires)

    written, closed = virtually(main)
    assert (b"x-client: 192.0.2.7" in written) is bool(trusted)
    assert closed == (0 if trusted else 3)


@pytest.mark.any_noise
def test_another_analyst_is_answered_beside_half_open_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Sixty from one address that never say what they want: ten are closed, nobody waits."""
    with make_site(tmp_path, slot=0.05) as site:
        host, port = httpx.URL(site.url).host, httpx.URL(site.url).port or 0
        half_open = [
            socket.create_connection((host, port), source_address=("127.0.0.2", 0))
            for _ in range(60)
        ]
        for connection in half_open[50:]:
            connection.settimeout(250)
            assert _ended(connection)
        with site.client("ann") as client:
            assert client.post("/api/v1/verify", json=question()).status_code == 200
        for connection in half_open:
            connection.close()
    assert sum("Connections were closed" in line for line in caplog.messages) <= 1


def _ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_who_leaves_in_the_middle_of_a_body_leaves_no_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(_loop: VirtualLoop) -> None:
        begun = {"type": "http.request", "body": b"{", "more_body": True}
        messages = iter([begun, {"type": "http.disconnect"}])

        async def receive() -> Any:
            return next(messages)

        async def send(message: Any) -> None:
            raise AssertionError(message)

        scope = {"type": "http", "method": "POST", "path": "/api/v1/verify", "headers": []}
        await site.app(scope, receive, send)

    with make_site(tmp_path) as site:
        run_virtually(main)
    assert caplog.records == []


def test_the_log_has_few_lines_a_minute_and_no_frames(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    logger = logging.getLogger("understudy.test")
    few = FewLines(clock=lambda: now)
    logger.addFilter(few)
    for minute in range(2):
        now = 60.0 * minute
        for _ in range(1000):
            try:
                raise ValueError("a salary of 123456")
            except ValueError:
                logger.exception("A request failed")
        with caplog.at_level(logging.INFO, "understudy.test"):
            logger.info("a sign-in")  # is heard however many fail
    logger.removeFilter(few)
    assert caplog.messages.count("a sign-in") == 2
    assert len(caplog.records) == 2 * (LINES + 1)
    assert caplog.messages[LINES - 1] == "Further messages of this minute are left out."
    assert "123456" not in caplog.text


def test_the_log_file_is_rotated_and_has_the_time(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    logger = logging.getLogger("understudy.verify")
    with server_log(file):
        few = next(f for f in logger.filters if isinstance(f, FewLines))
        few._lines = 10**9
        for number in range(40):
            logger.warning("%d %s", number, "x" * (BYTES // 4))
    logger.warning("after it ended")
    files = sorted(tmp_path.iterdir())
    assert len(files) == FILES + 1
    assert sum(each.stat().st_size for each in files) <= (FILES + 1) * BYTES
    assert file.read_text()[:2] == "20"  # a year
    assert "after it ended" not in file.read_text()
    assert not logger.handlers


def test_a_message_is_heard_once_a_minute_with_its_count(caplog: pytest.LogCaptureFixture) -> None:
    seldom = Seldom(logging.getLogger("understudy.test"), "%d times")
    for now in range(130):
        seldom.note(float(now))
    assert caplog.messages == ["1 times", "61 times", "121 times"]


def test_a_server_whose_connections_are_more_than_its_files_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(run_module.resource, "getrlimit", lambda _: (256, 1000))
    monkeypatch.setattr(run_module.resource, "setrlimit", lambda _, limit: raised.append(limit))
    with pytest.raises(Refused, match="may open 1000 files, and `connections` needs 1001"):
        run_module._allow_files(1001)
    run_module._allow_files(800)
    run_module._allow_files(256)
    run_module._allow_files(200)
    assert raised == [(800, 1000)]


@pytest.mark.parametrize(("workers", "places"), [((1,), 8), ((1, 3), 2), ((16,), 1)])
def test_as_many_questions_are_fitted_at_once_as_there_are_cores_for(
    monkeypatch: pytest.MonkeyPatch, workers: tuple[int, ...], places: int
) -> None:
    monkeypatch.setattr(run_module.os, "sched_getaffinity", lambda _: set(range(8)))
    datasets = {str(k): SimpleNamespace(workers=each) for k, each in enumerate(workers)}
    config: Any = SimpleNamespace(datasets=datasets)
    assert run_module.fitting_places(config) == places
