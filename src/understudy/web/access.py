"""Who is calling: a key for the API, a session for the pages, and how often.

This runs before a request's body is looked at. The API takes keys only, never cookies, so a
foreign page cannot make a browser call it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from understudy.ledger.accounts import User, WrongKey, authenticate
from understudy.verify.service import Service
from understudy.web.limits import RateLimit, TooMany
from understudy.web.refusals import API, failure, on_refusal
from understudy.web.sessions import COOKIE, Session, Sessions, same_token

WRONG_KEYS_PER_MINUTE = 30  # per address
READERS = ("steward", "auditor")

_bearer = HTTPBearer(auto_error=False, description="Your API key.")
Key = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]


class Gate:
    """Finds the caller, counts the request, and lets the API be called with a key only."""

    def __init__(self, app: ASGIApp, service: Service, sessions: Sessions, per_minute: int) -> None:
        self.app = app
        self.ledger = service.ledger
        self.sessions = sessions
        self.limit = RateLimit(service.shared, "user", per_minute)
        self.wrong = RateLimit(service.shared, "address", WRONG_KEYS_PER_MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        refused = await self._refused(request)
        await (refused or self.app)(scope, receive, send)

    async def _refused(self, request: Request) -> Response | None:
        request.state.session = None
        request.state.user = None
        request.state.wrong_keys = self.wrong
        try:
            if request.url.path.startswith(API):
                return await self._by_key(request)
            cookie = request.cookies.get(COOKIE)
            if cookie is not None:
                request.state.session = await run_in_threadpool(self.sessions.read, cookie)
            if request.state.session is not None:
                name = request.state.session.user.name
                await run_in_threadpool(self.limit.take, name)
        except (TooMany, WrongKey) as refusal:
            return on_refusal(request, refusal)
        return None

    async def _by_key(self, request: Request) -> Response | None:
        key = _key(request)
        if not key:
            sentence = "Send your key as `Authorization: Bearer KEY`."
            return failure(request, 401, sentence, {"WWW-Authenticate": "Bearer"})
        try:
            user = await run_in_threadpool(authenticate, self.ledger, key)
        except WrongKey:
            await run_in_threadpool(self.wrong.take, address(request))
            raise
        await run_in_threadpool(self.limit.take, user.name)
        request.state.user = user
        return None


def _key(request: Request) -> str:
    """The key that was sent; empty if none was."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def role_of(state: Mapping[str, Any]) -> str:
    """The class of a request's caller, for logs."""
    session = state.get("session")
    user = session.user if session is not None else state.get("user")
    return "nobody" if user is None else str(user.role)


def still_allowed(request: Request) -> None:
    """Refuse a caller whose key or session ended while the question waited (threat 26)."""
    state = request.app.state
    if request.state.session is None:
        authenticate(state.service.ledger, _key(request))
    elif state.sessions.read(request.cookies.get(COOKIE)) is None:
        raise SignInFirst


def address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def analyst(request: Request, _key: Key) -> User:
    """The calling analyst of an API route."""
    return _with_role(request.state.user, "analyst")


def steward(request: Request, _key: Key) -> User:
    return _with_role(request.state.user, "steward")


def reader(request: Request, _key: Key) -> User:
    """Who may read entries: a steward or an auditor."""
    return _with_role(request.state.user, *READERS)


def anyone(request: Request, _key: Key) -> User:
    if request.state.user is None:
        raise HTTPException(401)
    user: User = request.state.user
    return user


class SignInFirst(Exception):
    """A page that needs a session was asked for without one."""


def to_sign_in(_request: Request, _error: Exception) -> Response:
    return RedirectResponse("/sign-in", 303)


def page_session(request: Request) -> Session:
    session: Session | None = request.state.session
    if session is None:
        raise SignInFirst
    return session


def analyst_session(request: Request) -> Session:
    session = page_session(request)
    _with_role(session.user, "analyst")
    return session


def steward_session(request: Request) -> Session:
    session = page_session(request)
    _with_role(session.user, "steward")
    return session


def reader_session(request: Request) -> Session:
    session = page_session(request)
    _with_role(session.user, *READERS)
    return session


def operator_session(request: Request) -> Session:
    session = page_session(request)
    _with_role(session.user, "operator")
    return session


def from_here(request: Request) -> None:
    """Refuse a form that a browser sent from another site, or from a frame whose origin it does not
    say: "null" (threat 29). Scripts without a browser send neither header."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403)
    origin = request.headers.get("origin")
    if origin is not None and origin.split("://")[-1] != request.headers.get("host"):
        raise HTTPException(403)


def check_form(request: Request, session: Session, token: str | None) -> None:
    """Refuse a form that was not made by this session."""
    from_here(request)
    if not same_token(token, session):
        raise HTTPException(403)


def _with_role(user: User | None, *roles: str) -> User:
    if user is None:
        raise HTTPException(401)
    if user.role not in roles:
        raise HTTPException(403)
    return user
