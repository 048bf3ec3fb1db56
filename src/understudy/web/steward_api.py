"""The steward's API: users, grants, who spent what. No question and no answer is in it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from understudy.ledger.accounts import User
from understudy.ledger.views import accounts as account_list
from understudy.ledger.views import caps, grants, latest, totals
from understudy.verify.service import NotFound
from understudy.web import steward_acts
from understudy.web.access import reader, steward
from understudy.web.api import VERSION, Before, failures, service
from understudy.web.ledger_csv import auditors_copy, ledger_csv, totals_csv
from understudy.web.schemas import (
    AccountRow,
    Activity,
    CapRow,
    Grant,
    GrantRow,
    LedgerLine,
    NewCode,
    NewUser,
    TotalRow,
    TotalsReply,
)

Steward = Annotated[User, Depends(steward)]
EntryReader = Annotated[User, Depends(reader)]
UserPath = Annotated[str, Path(min_length=1, max_length=64)]

router = APIRouter(prefix=VERSION, tags=["steward"])
LINES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/jsonl": {"schema": {"type": "string"}}}, "description": "Lines."}
}
CSV: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "A table."}
}


@router.get("/users", responses=failures())
def users(request: Request, _by: EntryReader) -> list[AccountRow]:
    """All users and their budgets."""
    return [AccountRow(**vars(account)) for account in account_list(service(request).ledger)]


@router.post("/users", status_code=201, responses=failures())
def add(request: Request, new: NewUser, by: Steward) -> NewCode:
    """Add a user, with a first grant if you give one; its owner picks up the key with the code."""
    code = steward_acts.add(service(request), by.name, new.name, new.role, new.epsilon or "")
    return NewCode(name=new.name, code=code)


@router.post("/users/{name}/grants", status_code=201, responses=failures(404))
def grant(request: Request, name: UserPath, addition: Grant, by: Steward) -> AccountRow:
    """Give a user more epsilon; an entry of the ledger, and there is no reset. Above the limit it
    waits for a second steward (see the requests)."""
    known(request, name)
    terms = addition.epsilon, addition.dataset, addition.until
    steward_acts.give(service(request), by.name, name, *terms)
    return known(request, name)


@router.post("/users/{name}/key", status_code=201, responses=failures(404))
def new_key(request: Request, name: UserPath, by: Steward) -> NewCode:
    """End a user's key and its sessions; its owner picks up the next with the code."""
    return NewCode(name=name, code=steward_acts.new_code(service(request), by.name, name))


@router.post("/users/{name}/active", responses=failures(404))
def set_active(request: Request, name: UserPath, wanted: Activity, by: Steward) -> AccountRow:
    """Shut a user out, or let them in again."""
    steward_acts.set_active(service(request), by.name, name, wanted.active)
    return known(request, name)


@router.get("/totals", responses=failures())
def all_totals(request: Request, _by: EntryReader) -> TotalsReply:
    """Budgets of users, their grants and data sets, and spending per user and data set."""
    ledger = service(request).ledger
    return TotalsReply(
        users=[AccountRow(**vars(account)) for account in account_list(ledger)],
        grants=[GrantRow(**vars(grant)) for grant in grants(ledger)],
        datasets=[CapRow(**vars(cap)) for cap in caps(ledger)],
        spending=[TotalRow(**vars(total)) for total in totals(ledger)],
    )


@router.get("/ledger", responses=failures())
def ledger(
    request: Request,
    _by: EntryReader,
    before: Before = None,
    count: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[LedgerLine]:
    """Entries, newest first, without questions and answers."""
    return [LedgerLine(**vars(line)) for line in latest(service(request).ledger, before, count)]


@router.get("/ledger.csv", response_class=Response, responses={**failures(), **CSV})
def ledger_file(request: Request, _by: EntryReader) -> Response:
    """The whole ledger as CSV, oldest first."""
    return ledger_csv(service(request).ledger)


@router.get("/totals.csv", response_class=Response, responses={**failures(), **CSV})
def totals_file(request: Request, _by: EntryReader) -> Response:
    """Spending per user and data set as CSV."""
    return totals_csv(service(request).ledger)


@router.get("/ledger.jsonl", response_class=Response, responses={**failures(), **LINES})
def auditors_file(request: Request, _by: EntryReader) -> Response:
    """The whole ledger for an auditor, who can check it (`understudy ledger verify`): every entry
    without questions, answers and keys."""
    return auditors_copy(service(request).ledger)


def known(request: Request, name: str) -> AccountRow:
    for account in account_list(service(request).ledger):
        if account.name == name:
            return AccountRow(**vars(account))
    raise NotFound(f"There is no user `{name}`; see the list of users.")
