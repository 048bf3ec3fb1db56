"""An analyst's projects and requests, and the stewards' inbox, which auditors read."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from understudy.errors import Refused
from understudy.ledger.requests import open_project, projects, raise_or_ask, requests
from understudy.verify.service import Service
from understudy.web.api import service
from understudy.web.ledger_csv import requests_csv
from understudy.web.pages import AnalystSession, checked_form, render
from understudy.web.refusals import status_of
from understudy.web.requests_api import ask_for, settle
from understudy.web.steward_pages import ReaderSession, StewardSession

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/projects")
def own(request: Request, session: AnalystSession) -> Response:
    return _own(request, session.user.name)


@router.post("/projects")
async def change_own(request: Request, session: AnalystSession) -> Response:
    fields = {k: v[0].strip() for k, v in (await checked_form(request, session)).items()}
    return await run_in_threadpool(_change_own, request, session.user.name, fields)


@router.get("/steward/inbox")
def inbox(request: Request, _session: ReaderSession) -> Response:
    return _inbox(request)


@router.post("/steward/inbox")
async def decide(request: Request, session: StewardSession) -> Response:
    fields = {k: v[0].strip() for k, v in (await checked_form(request, session)).items()}
    return await run_in_threadpool(_decide, request, session.user.name, fields)


@router.get("/steward/requests.csv")
def requests_file(request: Request, _session: ReaderSession) -> Response:
    return requests_csv(service(request).ledger)


def _change_own(request: Request, user: str, fields: dict[str, str]) -> Response:
    serving = service(request)
    try:
        match fields.get("do"):
            case "project":
                title, purpose = fields.get("title", ""), fields.get("purpose", "")
                open_project(serving.ledger, user, title, purpose)
            case "ask":
                asked = (fields.get(name, "") for name in ("dataset", "epsilon", "until", "why"))
                ask_for(serving, user, _number(fields, "project"), *asked)
            case _:
                raise Refused("This form is not recognised; reload the page.")
    except Refused as refusal:
        return _own(request, user, status_of(refusal), mistake=str(refusal), fields=fields)
    return RedirectResponse("/projects", 303)


def _decide(request: Request, by: str, fields: dict[str, str]) -> Response:
    serving = service(request)
    try:
        match fields.get("do"):
            case "approve" | "decline" as verdict:
                reason = fields.get("reason", "")
                settle(serving, by, _number(fields, "number"), verdict == "approve", reason)
            case "cap":
                _raise(serving, by, fields)
            case _:
                raise Refused("This form is not recognised; reload the page.")
    except Refused as refusal:
        return _inbox(request, status_of(refusal), mistake=str(refusal), fields=fields)
    return RedirectResponse("/steward/inbox", 303)


def _raise(serving: Service, by: str, fields: dict[str, str]) -> None:
    file = serving.dataset(fields.get("dataset", "")).data.fingerprint
    raise_or_ask(serving.ledger, serving.limit, by, file, fields.get("epsilon", ""))


def _number(fields: dict[str, str], name: str) -> int:
    text = fields.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _own(request: Request, user: str, status: int = 200, **context: Any) -> Response:
    serving = service(request)
    return render(
        request,
        "projects.html",
        status,
        projects=projects(serving.ledger, user),
        requests=requests(serving.ledger, user),
        **context,
    )


def _inbox(request: Request, status: int = 200, **context: Any) -> Response:
    serving = service(request)
    known = requests(serving.ledger)
    return render(
        request,
        "inbox.html",
        status,
        waiting=[each for each in known if each.state == "open"],
        settled=[each for each in known if each.state != "open"],
        projects=projects(serving.ledger),
        datasets=list(serving.datasets),
        **context,
    )
