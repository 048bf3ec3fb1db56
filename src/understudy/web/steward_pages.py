"""The steward's pages: totals, users and grants, the ledger, exports. Auditors read them."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from understudy.errors import Refused
from understudy.ledger import views as ledger_views
from understudy.ledger.accounts import UserRole
from understudy.web import steward_acts
from understudy.web.access import reader_session, steward_session
from understudy.web.api import Before, service
from understudy.web.ledger_csv import auditors_copy, ledger_csv, totals_csv
from understudy.web.pages import checked_form, render
from understudy.web.refusals import status_of
from understudy.web.sessions import Session

PAGE = 100

router = APIRouter(prefix="/steward", include_in_schema=False, default_response_class=HTMLResponse)
StewardSession = Annotated[Session, Depends(steward_session)]
ReaderSession = Annotated[Session, Depends(reader_session)]


@router.get("")
def overview(request: Request, _session: ReaderSession) -> Response:
    ledger = service(request).ledger
    return render(
        request,
        "overview.html",
        caps=ledger_views.caps(ledger),
        totals=ledger_views.totals(ledger),
    )


@router.get("/users")
def users(request: Request, _session: ReaderSession) -> Response:
    return _users(request)


@router.post("/users")
async def change(request: Request, session: StewardSession) -> Response:
    """One form per action; the field `do` names it."""
    fields = {k: v[0].strip() for k, v in (await checked_form(request, session)).items()}
    return await run_in_threadpool(_change, request, session.user.name, fields)


@router.get("/ledger")
def ledger(
    request: Request,
    _session: ReaderSession,
    before: Before = None,
) -> Response:
    lines = ledger_views.latest(service(request).ledger, before, PAGE)
    older = lines[-1].number if lines and lines[-1].number > 1 else None
    return render(request, "ledger.html", lines=lines, older=older, newest=before is None)


@router.get("/ledger.csv")
def ledger_file(request: Request, _session: ReaderSession) -> Response:
    return ledger_csv(service(request).ledger)


@router.get("/totals.csv")
def totals_file(request: Request, _session: ReaderSession) -> Response:
    return totals_csv(service(request).ledger)


@router.get("/ledger.jsonl")
def auditors_file(request: Request, _session: ReaderSession) -> Response:
    return auditors_copy(service(request).ledger)


def _change(request: Request, by: str, fields: dict[str, str]) -> Response:
    serving = service(request)
    name, epsilon = fields.get("name", ""), fields.get("epsilon", "")
    try:
        match fields.get("do"):
            case "add":
                code = steward_acts.add(serving, by, name, fields.get("role", "analyst"), epsilon)
                return _users(request, code=code, holder=name)
            case "grant":
                where = fields.get("dataset", ""), fields.get("until", "")
                waits = steward_acts.give(serving, by, name, epsilon, *where)
                if waits is not None:
                    return _users(request, waits=waits)
            case "key":
                return _users(request, code=steward_acts.new_code(serving, by, name), holder=name)
            case "disable" | "enable" as wanted:
                steward_acts.set_active(serving, by, name, wanted == "enable")
            case _:
                raise Refused("This form is not recognised; reload the page.")
    except Refused as refusal:
        return _users(request, status_of(refusal), mistake=str(refusal), fields=fields)
    return RedirectResponse("/steward/users", 303)


def _users(request: Request, status: int = 200, **context: Any) -> Response:
    serving = service(request)
    listed = ledger_views.accounts(serving.ledger)
    granted = ledger_views.grants(serving.ledger)
    known = {
        "accounts": listed,
        "grants": granted,
        "datasets": list(serving.datasets),
        "roles": get_args(UserRole),
    }
    return render(request, "users.html", status, **known, **context)
