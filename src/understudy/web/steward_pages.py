"""The steward's pages: totals, users and grants, the ledger, exports."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from understudy.errors import Refused
from understudy.ledger import accounts
from understudy.ledger import views as ledger_views
from understudy.ledger.epsilon import parse_epsilon
from understudy.web.access import steward_session
from understudy.web.api import Before, service
from understudy.web.ledger_csv import ledger_csv, totals_csv
from understudy.web.pages import checked_form, render
from understudy.web.refusals import status_of
from understudy.web.sessions import Session

PAGE = 100

router = APIRouter(prefix="/steward", include_in_schema=False, default_response_class=HTMLResponse)
StewardSession = Annotated[Session, Depends(steward_session)]


@router.get("")
def overview(request: Request, _session: StewardSession) -> Response:
    ledger = service(request).ledger
    return render(
        request,
        "overview.html",
        caps=ledger_views.caps(ledger),
        totals=ledger_views.totals(ledger),
    )


@router.get("/users")
def users(request: Request, _session: StewardSession) -> Response:
    return _users(request)


@router.post("/users")
async def change(request: Request, session: StewardSession) -> Response:
    """One form per action; the field `do` names it."""
    fields = {k: v[0].strip() for k, v in (await checked_form(request, session)).items()}
    return await run_in_threadpool(_change, request, session.user.name, fields)


@router.get("/ledger")
def ledger(
    request: Request,
    _session: StewardSession,
    before: Before = None,
) -> Response:
    lines = ledger_views.latest(service(request).ledger, before, PAGE)
    older = lines[-1].number if lines and lines[-1].number > 1 else None
    return render(request, "ledger.html", lines=lines, older=older, newest=before is None)


@router.get("/ledger.csv")
def ledger_file(request: Request, _session: StewardSession) -> Response:
    return ledger_csv(service(request).ledger)


@router.get("/totals.csv")
def totals_file(request: Request, _session: StewardSession) -> Response:
    return totals_csv(service(request).ledger)


def _change(request: Request, by: str, fields: dict[str, str]) -> Response:
    ledger = service(request).ledger
    name, epsilon = fields.get("name", ""), fields.get("epsilon", "")
    try:
        match fields.get("do"):
            case "add":
                if epsilon:
                    parse_epsilon(epsilon)  # refuse before the user exists
                key = accounts.add_user(ledger, name, fields.get("role", "analyst"), by)
                if epsilon:
                    ledger.grant(name, epsilon, by)
                return _users(request, key=key, holder=name)
            case "grant":
                ledger.grant(name, epsilon, by)
            case "key":
                key = accounts.new_key(ledger, name, by)
                if name == by:
                    return render(request, "key.html", key=key, holder=name)
                return _users(request, key=key, holder=name)
            case "disable" | "enable" as wanted:
                if name == by:
                    raise Refused("You cannot shut yourself out; ask another steward.")
                accounts.set_active(ledger, name, wanted == "enable", by)
            case _:
                raise Refused("This form is not recognised; reload the page.")
    except Refused as refusal:
        return _users(request, status_of(refusal), mistake=str(refusal), fields=fields)
    return RedirectResponse("/steward/users", 303)


def _users(request: Request, status: int = 200, **context: Any) -> Response:
    listed = ledger_views.accounts(service(request).ledger)
    return render(request, "users.html", status, accounts=listed, **context)
