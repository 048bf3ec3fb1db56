"""Projects and requests for budget: analysts ask, stewards decide, auditors read."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request, Response

from understudy.errors import Refused
from understudy.ledger.requests import (
    approve,
    ask,
    decline,
    open_project,
    projects,
    requests,
)
from understudy.verify.service import Service
from understudy.web.api import VERSION, Analyst, PathNumber, failures, service
from understudy.web.ledger_csv import requests_csv
from understudy.web.schemas import (
    Decision,
    NewProject,
    NewRequest,
    ProjectRow,
    ProjectsReply,
    RequestRow,
)
from understudy.web.steward_api import CSV, EntryReader, Steward

router = APIRouter(prefix=VERSION, tags=["requests"])


@router.get("/projects", responses=failures())
def own_projects(request: Request, user: Analyst) -> ProjectsReply:
    """Your own projects, and what you have asked for."""
    return _reply(service(request), user.name)


@router.post("/projects", status_code=201, responses=failures())
def new_project(request: Request, new: NewProject, user: Analyst) -> ProjectRow:
    """Open a project; its title and purpose stay on record."""
    serving = service(request)
    number = open_project(serving.ledger, user.name, new.title, new.purpose)
    return next(p for p in _reply(serving, user.name).projects if p.number == number)


@router.post("/projects/{number}/requests", status_code=201, responses=failures())
def new_request(request: Request, number: PathNumber, new: NewRequest, user: Analyst) -> RequestRow:
    """Ask the stewards for epsilon on a data set, for one of your projects."""
    serving = service(request)
    ask_for(serving, user.name, number, new.dataset, new.epsilon, new.until, new.why)
    return _reply(serving, user.name).requests[0]


@router.get("/requests", responses=failures())
def all_requests(request: Request, _by: EntryReader) -> ProjectsReply:
    """All projects and requests, newest requests first."""
    return _reply(service(request), None)


@router.get("/requests.csv", response_class=Response, responses={**failures(), **CSV})
def requests_file(request: Request, _by: EntryReader) -> Response:
    """All requests as CSV."""
    return requests_csv(service(request).ledger)


@router.post("/requests/{number}", responses=failures())
def decide(request: Request, number: PathNumber, verdict: Decision, by: Steward) -> RequestRow:
    """Approve a request, or decline it with a reason."""
    serving = service(request)
    settle(serving, by.name, number, verdict.approve, verdict.reason)
    return next(row for row in _reply(serving, None).requests if row.number == number)


def ask_for(
    serving: Service, user: str, project: int, dataset: str, epsilon: str, until: str, why: str
) -> None:
    """An analyst's request. Data sets that she was not granted are not listed to her."""
    if dataset not in serving.datasets:
        raise Refused("There is no data set of this name; ask the steward what it is called.")
    file = serving.datasets[dataset].data.fingerprint
    ask(serving.ledger, user, epsilon, why, user=user, dataset=file, until=until, project=project)


def settle(serving: Service, by: str, number: int, approved: bool, reason: str) -> None:
    if approved:
        approve(serving.ledger, number, by, serving.limit)
    else:
        decline(serving.ledger, number, by, reason)


def _reply(serving: Service, user: str | None) -> ProjectsReply:
    rows = []
    for request in requests(serving.ledger, user):
        fields = asdict(request)
        fields.pop("file")
        rows.append(RequestRow(**fields | {"approved": list(request.approved)}))
    known = [ProjectRow(**asdict(project)) for project in projects(serving.ledger, user)]
    return ProjectsReply(projects=known, requests=rows)
