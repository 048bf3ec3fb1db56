"""The steward's API: users, grants, who spent what. No question and no answer is in it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from understudy.errors import Refused
from understudy.ledger import accounts
from understudy.ledger.accounts import User
from understudy.ledger.epsilon import parse_epsilon
from understudy.ledger.views import accounts as account_list
from understudy.ledger.views import caps, latest, totals
from understudy.verify.service import NotFound
from understudy.web.access import steward
from understudy.web.api import VERSION, Before, failures, service
from understudy.web.ledger_csv import ledger_csv, totals_csv
from understudy.web.schemas import (
    AccountRow,
    Activity,
    CapRow,
    Grant,
    LedgerLine,
    NewKey,
    NewUser,
    TotalRow,
    TotalsReply,
)

Steward = Annotated[User, Depends(steward)]
UserPath = Annotated[str, Path(min_length=1, max_length=64)]

router = APIRouter(prefix=VERSION, tags=["steward"])
CSV: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "A table."}
}


@router.get("/users", responses=failures())
def users(request: Request, _by: Steward) -> list[AccountRow]:
    """All users and their budgets."""
    return [AccountRow(**vars(account)) for account in account_list(service(request).ledger)]


@router.post("/users", status_code=201, responses=failures())
def add(request: Request, new: NewUser, by: Steward) -> NewKey:
    """Add a user, with a first grant if you give one; the key comes back only this once."""
    ledger = service(request).ledger
    if new.epsilon is not None:
        parse_epsilon(new.epsilon)  # refuse before the user exists
    key = accounts.add_user(ledger, new.name, new.role, by.name)
    if new.epsilon is not None:
        ledger.grant(new.name, new.epsilon, by.name)
    return NewKey(name=new.name, key=key)


@router.post("/users/{name}/grants", status_code=201, responses=failures(404))
def grant(request: Request, name: UserPath, addition: Grant, by: Steward) -> AccountRow:
    """Give a user more epsilon; an entry of the ledger, and there is no reset."""
    ledger = service(request).ledger
    parse_epsilon(addition.epsilon)
    known(request, name)
    ledger.grant(name, addition.epsilon, by.name)
    return known(request, name)


@router.post("/users/{name}/key", status_code=201, responses=failures(404))
def new_key(request: Request, name: UserPath, by: Steward) -> NewKey:
    """Replace a user's key; the old one and its sessions end."""
    known(request, name)
    key = accounts.new_key(service(request).ledger, name, by.name)
    return NewKey(name=name, key=key)


@router.post("/users/{name}/active", responses=failures(404))
def set_active(request: Request, name: UserPath, wanted: Activity, by: Steward) -> AccountRow:
    """Shut a user out, or let them in again."""
    known(request, name)
    if name == by.name and not wanted.active:
        raise Refused("You cannot shut yourself out; ask another steward.")
    accounts.set_active(service(request).ledger, name, wanted.active, by.name)
    return known(request, name)


@router.get("/totals", responses=failures())
def all_totals(request: Request, _by: Steward) -> TotalsReply:
    """Budgets of users and data sets, and spending per user and data set."""
    ledger = service(request).ledger
    return TotalsReply(
        users=[AccountRow(**vars(account)) for account in account_list(ledger)],
        datasets=[CapRow(**vars(cap)) for cap in caps(ledger)],
        spending=[TotalRow(**vars(total)) for total in totals(ledger)],
    )


@router.get("/ledger", responses=failures())
def ledger(
    request: Request,
    _by: Steward,
    before: Before = None,
    count: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[LedgerLine]:
    """Entries, newest first, without questions and answers."""
    return [LedgerLine(**vars(line)) for line in latest(service(request).ledger, before, count)]


@router.get("/ledger.csv", response_class=Response, responses={**failures(), **CSV})
def ledger_file(request: Request, _by: Steward) -> Response:
    """The whole ledger as CSV, oldest first."""
    return ledger_csv(service(request).ledger)


@router.get("/totals.csv", response_class=Response, responses={**failures(), **CSV})
def totals_file(request: Request, _by: Steward) -> Response:
    """Spending per user and data set as CSV."""
    return totals_csv(service(request).ledger)


def known(request: Request, name: str) -> AccountRow:
    for account in account_list(service(request).ledger):
        if account.name == name:
            return AccountRow(**vars(account))
    raise NotFound(f"There is no user `{name}`; see the list of users.")
