"""The two steps of signing in by a provider: away to it, and back."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from itsdangerous import BadData
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from understudy.errors import Refused
from understudy.ledger.accounts import WrongKey
from understudy.web.access import address
from understudy.web.oidc import NotSignedIn, Provider
from understudy.web.pages import render, signed_in
from understudy.web.security_log import PROVIDER

AWAY = PROVIDER
BACK = f"{PROVIDER}/back"
KEPT = "understudy_provider"  # the cookie between the steps
SECONDS = 600

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get(AWAY)
async def away(request: Request) -> Response:
    provider, work = _provider(request), request.app.state.provider_work
    try:
        target, kept = await work.run(address(request), provider.start, _back(request))
    except NotSignedIn as refusal:
        return render(request, "sign_in.html", 503, mistake=str(refusal))
    reply = RedirectResponse(target, 303)
    state = request.app.state
    # The browser comes back from another site, so this one is not Strict.
    reply.set_cookie(
        KEPT, state.sessions.notes.dumps(kept), max_age=SECONDS, path=BACK, httponly=True,
        samesite="lax", secure=state.https,
    )  # fmt: skip
    return reply


@router.get(BACK)
async def back(request: Request) -> Response:
    provider, sessions = _provider(request), request.app.state.sessions
    work, sent = request.app.state.provider_work, dict(request.query_params)
    try:
        kept = sessions.notes.loads(request.cookies.get(KEPT, ""), max_age=SECONDS)
        name = await work.run(address(request), provider.finish, _back(request), kept, sent)
        cookie = await run_in_threadpool(sessions.sign_in_as, name)
    except (BadData, WrongKey, NotSignedIn):
        await run_in_threadpool(request.state.wrong_keys.take, address(request))
        return render(request, "sign_in.html", 401, mistake=str(NotSignedIn()))
    # A redirect would still count as coming from the other site, and the session is Strict.
    reply = render(request, "signed_in.html")
    reply.headers.append("set-cookie", signed_in(request, cookie).headers["set-cookie"])
    reply.delete_cookie(KEPT, path=BACK)
    return reply


def _provider(request: Request) -> Provider:
    provider: Provider | None = request.app.state.provider
    if provider is None:
        raise HTTPException(404)
    return provider


def _back(request: Request) -> str:
    scheme = "https" if request.app.state.https else "http"
    host = request.headers.get("host", "")
    if not host:
        raise Refused("The request names no host.")
    return f"{scheme}://{host}{BACK}"
