"""The outer shells of the server: what every reply carries, and what never gets out.

Plain ASGI, so that nothing between them and the socket can add to a reply.
"""

from __future__ import annotations

import logging

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from understudy.web.access import role_of
from understudy.web.refusals import failure, on_http

LARGEST_BODY = 256 * 1024

# No script at all; styles, forms and images from this server only.
CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # without one, browsers call our own forms' origin "null"
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

log = logging.getLogger("understudy.verify")


class SecurityHeaders:
    """The same headers on every reply, errors included."""

    def __init__(self, app: ASGIApp, https: bool = False) -> None:
        self.app = app
        self.headers = dict(HEADERS)
        if https:
            self.headers["Strict-Transport-Security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self.headers.items():
                    headers[name] = value
            await send(message)

        await self.app(scope, receive, send_with_headers)


class NothingEscapes:
    """An unforeseen exception becomes the one error shape.

    The log gets the exception's kind and the route, never its message or its frames: these
    may hold a record.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, watch)
        except Exception as error:
            kind = type(error).__name__
        else:
            return
        route = getattr(scope.get("route"), "path", "an unknown address")
        state = scope.get("state", {})
        at = scope["method"], route, role_of(state), state.get("request_id", "")
        log.error("%s at %s %s for %s, request %s", kind, *at)
        if not started:
            request = Request(scope)
            await on_http(request, Exception())(scope, receive, send)


class BodyLimit:
    """A request body has at most LARGEST_BODY bytes, announced or not."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        messages: list[Message] = []
        size = 0
        while True:
            message = await receive()
            messages.append(message)
            size += len(message.get("body", b""))
            if size > LARGEST_BODY:
                reply = failure(Request(scope), 413, "The request is too large.", {})
                await reply(scope, receive, send)
                return
            if message["type"] != "http.request":
                return  # the caller left before the request was whole
            if not message.get("more_body", False):
                break
        waiting = iter(messages)

        async def replay() -> Message:
            return next(waiting, None) or await receive()

        await self.app(scope, replay, send)
