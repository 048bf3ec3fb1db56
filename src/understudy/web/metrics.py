"""Counts for Prometheus: replies by route and status, the line, the disk; nothing of any question.

They are served on a port of their own on this machine, which no proxy passes on. How long anything
took is not among them (threat 7).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, start_http_server

from understudy.errors import Refused
from understudy.verify.turns import Turns
from understudy.web.health import Health
from understudy.web.slots import outlasted

LOOPBACK = "127.0.0.1"


class Metrics:
    """Of one server process."""

    def __init__(self, turns: Turns, health: Health) -> None:
        self.registry = CollectorRegistry()
        self.replies = Counter(
            "understudy_replies", "Replies.", ["route", "status"], registry=self.registry
        )
        for name, words, number in (
            ("turns", "Questions that wait or are computed, in all processes.", turns.count),
            ("writable", "Whether the ledger takes a write.", health.writes),
            (
                "recent_failures",
                "Replies that failed in the last minutes.",
                health.failures,
            ),
            ("late_replies", "Replies that outlasted their slot.", outlasted),
        ):
            gauge = Gauge(f"understudy_{name}", words, registry=self.registry)
            gauge.set_function(number)
        ProcessCollector(registry=self.registry)

    @contextmanager
    def served(self, port: int | None) -> Iterator[WSGIServer | None]:
        """On this port, if there is one, as long as the context lasts."""
        if port is None:
            yield None
            return
        try:
            server, thread = start_http_server(port, LOOPBACK, self.registry)
        except OSError:
            raise Refused(
                f"Port {port} cannot be opened for metrics; choose another `metrics_port`."
            ) from None
        try:
            yield server
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
