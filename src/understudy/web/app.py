"""The web application: shells, routes and pages put together.

From the outside in: headers on every reply; what a security office reads; nothing escapes; replies
to questions at their slot; bounded bodies; who is calling; then the routes.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.templating import Jinja2Templates

from understudy.errors import Refused
from understudy.verify.service import Service
from understudy.web import (
    api,
    key_pages,
    oidc_pages,
    operator_pages,
    pages,
    requests_api,
    requests_pages,
    steward_api,
    steward_pages,
)
from understudy.web.access import Gate, SignInFirst, to_sign_in
from understudy.web.bounded_work import BoundedWork
from understudy.web.headers import BodyLimit, NothingEscapes, SecurityHeaders
from understudy.web.health import Health
from understudy.web.metrics import Metrics
from understudy.web.oidc import Provider
from understudy.web.question_body import describe_questions
from understudy.web.refusals import on_http, on_invalid, on_refusal
from understudy.web.security_log import HEALTH, SecurityLog
from understudy.web.sessions import Sessions
from understudy.web.slots import ReplyPlaces, ReplySlot

PROVIDER_CALLS = 4  # at once
FOLDER = Path(__file__).parent / "templates"
SLOTTED = (api.VERIFY, pages.ASK)
QUESTIONS = (*SLOTTED, *api.FREE, *pages.FREE)


def create_app(
    service: Service,
    *,
    places: int = 8,
    fitting: int = 1,
    questions_per_user: int = 2,
    requests_per_minute: int = 240,
    session_minutes: float = 60.0,
    https: bool = False,
    notice: str = "",
    provider: Provider | None = None,
) -> FastAPI:
    """The server for a service, with `places` for questions that are sums and `fitting` for those
    that are fitted. `notice` stands on every page (a demonstration says so)."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="Understudy verification server",
        description="Check estimates from a synthetic release against the confidential data.",
        version="1",
        docs_url=None,  # the documentation pages would load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    sessions = Sessions(service.ledger, service.shared, session_minutes)
    templates = Jinja2Templates(FOLDER)
    templates.env.globals["notice"] = notice
    state = app.state
    state.service, state.sessions, state.templates, state.https = (
        service,
        sessions,
        templates,
        https,
    )
    health = state.health = Health(service.ledger)
    metrics = state.metrics = Metrics(service.turns, health)
    state.provider = provider
    state.free_work = BoundedWork(len(os.sched_getaffinity(0)), questions_per_user)
    state.provider_work = BoundedWork(PROVIDER_CALLS, 1)
    state.places, state.fitting = (
        ReplyPlaces(service.turns, kind, count, questions_per_user)
        for kind, count in (("sum", places), ("fit", fitting))
    )

    app.add_middleware(Gate, service=service, sessions=sessions, per_minute=requests_per_minute)
    app.add_middleware(BodyLimit)
    app.add_middleware(ReplySlot, seconds=service.slot_seconds, paths=SLOTTED)
    app.add_middleware(NothingEscapes)
    app.add_middleware(SecurityLog, questions=QUESTIONS, health=health, metrics=metrics)
    app.add_middleware(SecurityHeaders, https=https)

    app.add_exception_handler(Refused, on_refusal)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(SignInFirst, to_sign_in)

    for part in (
        *(api, requests_api, steward_api, pages, key_pages, requests_pages, steward_pages),
        *(operator_pages, oidc_pages),
    ):
        app.include_router(part.router)
    app.add_api_route("/style.css", _style, include_in_schema=False)
    app.add_api_route(HEALTH, _health, include_in_schema=False)
    describe_questions(app, service.catalogue)
    return app


def _style() -> Response:
    return FileResponse(FOLDER / "style.css", media_type="text/css")


def _health(request: Request) -> Any:
    """Whether the ledger can be written, and how many replies failed lately; for a supervisor."""
    health: Health = request.app.state.health
    ok = health.ok()
    return JSONResponse({"ok": ok, "failures": health.failures()}, 200 if ok else 503)
