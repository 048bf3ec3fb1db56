"""Keys, by their owners: picked up once with a code, or replaced."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, Response
from starlette.concurrency import run_in_threadpool

from understudy.ledger.accounts import WrongKey, new_key, pick_up
from understudy.web.access import address, from_here, page_session
from understudy.web.api import service
from understudy.web.pages import checked_form, form_of, render
from understudy.web.sessions import Session

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
AnySession = Annotated[Session, Depends(page_session)]


@router.get("/pick-up")
def pick_up_page(request: Request) -> Response:
    return render(request, "pick_up.html")


@router.post("/pick-up")
async def take(request: Request) -> Response:
    from_here(request)
    code = ((await form_of(request)).get("code") or [""])[0].strip()
    try:
        holder, key = await run_in_threadpool(pick_up, service(request).ledger, code)
    except WrongKey as refusal:
        await run_in_threadpool(request.state.wrong_keys.take, address(request))
        return render(request, "pick_up.html", 401, mistake=str(refusal))
    return render(request, "key.html", key=key, holder=holder)


@router.get("/key")
def key_page(request: Request, _session: AnySession) -> Response:
    return render(request, "own_key.html")


@router.post("/key")
async def replace(request: Request, session: AnySession) -> Response:
    """A new key for oneself; answers stay with it."""
    await checked_form(request, session)
    name = session.user.name
    key = await run_in_threadpool(new_key, service(request).ledger, name, name)
    request.state.session = None  # it ended with the old key
    return render(request, "key.html", key=key, holder=name)
