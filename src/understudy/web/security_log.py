"""Who was let in, turned away, or took something along: one line of JSON each (threat 30).

A line has the time, the request's id (which failures tell their caller), the route, the status and
the caller's role: no name, no number, nothing of a question (threat 17).
"""

from __future__ import annotations

import json
import logging
import secrets
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from understudy.web.access import role_of
from understudy.web.health import Health
from understudy.web.metrics import Metrics

log = logging.getLogger("understudy.security")
log.addHandler(logging.NullHandler())  # without a file for it, it is not written

REFUSED = (401, 403, 429)
FAILED = 500
TOLD = (".csv", ".jsonl", "/back")  # exports, and who comes back from a provider
REQUEST_ID = "X-Request-Id"
HEALTH = "/health"
PROVIDER = "/sign-in/provider"
NO_FAILURES = (HEALTH, PROVIDER)  # what these say is not well is not this server's reply to anybody
NO_ROUTE = "turned away before any route"


class SecurityLog:
    """Gives every request an id, and logs what a security office asks for.

    `questions` are the paths that are posted to and change nobody's rights: the ledger knows them.
    """

    def __init__(
        self, app: ASGIApp, questions: tuple[str, ...], health: Health, metrics: Metrics
    ) -> None:
        self.app = app
        self.questions = questions
        self.health = health
        self.replies = metrics.replies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["request_id"] = secrets.token_hex(8)

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                if status >= FAILED:
                    MutableHeaders(scope=message)[REQUEST_ID] = state["request_id"]
                self._note(scope, status)
            await send(message)

        await self.app(scope, receive, watch)

    def _note(self, scope: Scope, status: int) -> None:
        route = getattr(scope.get("route"), "path", NO_ROUTE)
        self.replies.labels(route, status).inc()
        if status >= FAILED and route not in NO_FAILURES:
            self.health.note_failure()
        turned_away = status in REFUSED or status >= FAILED
        acted = scope["method"] == "POST" and route not in self.questions
        if turned_away or ((acted or route.endswith(TOLD)) and status < 400):
            level = logging.WARNING if turned_away else logging.INFO
            event = f"{scope['method']} {route}"
            log.log(level, event, extra=_facts(scope["state"], status))


class JsonLines(logging.Formatter):
    """A record of this log as one line."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": at, "event": record.getMessage(), **vars(record).get("facts", {})}
        return json.dumps(line)


def _facts(state: dict[str, Any], status: int) -> dict[str, Any]:
    return {"facts": {"request": state["request_id"], "status": status, "role": role_of(state)}}
