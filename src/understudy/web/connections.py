"""Connections that are bounded in number and in time (threat 20).

uvicorn closes a connection that is idle after a reply; it waits without end for a request that was
begun, and takes any number of connections. Here a request must have arrived whole, header and
body, within `request_seconds`, and a reader who takes nothing of a reply for as long is let go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from understudy.web.seldom import Seldom

log = logging.getLogger("understudy.verify")


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections there may be, how long a request may take to arrive, and whose word
    counts for a caller's address. Trusted proxies have no limit of their own."""

    connections: int = 500
    per_address: int = 50
    request_seconds: float = 10.0
    idle_seconds: int = 5
    trusted_proxies: tuple[str, ...] = ()


class _Patience:
    """A clock that acts when it was begun and not ended in time."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, act: Callable[[], None]
    ) -> None:
        self._loop, self._seconds, self._act = loop, seconds, act
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._act)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class BoundedConnection(H11Protocol):
    """One connection of a bounded number, with a clock that runs while a request is incomplete."""

    def __init__(self, *arguments: Any, limits: ConnectionLimits, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limits = limits
        self._arriving = _Patience(self.loop, limits.request_seconds, self._too_slow)
        self._leaving = _Patience(self.loop, limits.request_seconds, self._too_slow)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._too_many():
            _turned_away.note(self.loop.time())
            transport.abort()
        else:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._arriving.end()
        self._leaving.end()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._leaving.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._leaving.end()

    def _too_many(self) -> bool:
        if len(self.connections) > self._limits.connections:
            return True
        host = self.client[0] if self.client else ""
        if host in self._limits.trusted_proxies:
            return False
        others = (other for other in self.connections if isinstance(other, BoundedConnection))
        same = [other for other in others if other.client and other.client[0] == host]
        return len(same) > self._limits.per_address

    def _watch(self) -> None:
        """Run the clock from a request's first moment to its last byte; idle is uvicorn's."""
        incomplete = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if incomplete and self.timeout_keep_alive_task is None and not self.transport.is_closing():
            self._arriving.begin()
        else:
            self._arriving.end()

    def _too_slow(self) -> None:
        _turned_away.note(self.loop.time())
        self.transport.abort()


def server_settings(app: FastAPI, limits: ConnectionLimits) -> uvicorn.Config:
    """How uvicorn serves the application."""
    # No access log: addresses carry receipts' numbers, and nobody needs them (threat 17).
    # Nor handlers of its own: they would hold on to the streams of whoever started it.
    return uvicorn.Config(
        app,
        http=partial(BoundedConnection, limits=limits),  # type: ignore[arg-type]
        ws="none",
        timeout_keep_alive=limits.idle_seconds,
        proxy_headers=bool(limits.trusted_proxies),
        forwarded_allow_ips=list(limits.trusted_proxies),
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
    )


_turned_away = Seldom(
    log, "Connections were closed (%d so far): too many at once, or a request came too slowly."
)
