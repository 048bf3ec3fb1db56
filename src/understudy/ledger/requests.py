"""Projects with a purpose, requests for budget, and who approved them (threat 27).

An analyst asks for epsilon on a data set, for a project; a steward can ask for a grant or for a
higher cap. One steward approves what leaves an account at `limit` or below; more, and every cap,
takes two. All of it are entries, and what was approved is carried out in the same transaction.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from understudy.errors import Refused
from understudy.ledger.database import Run
from understudy.ledger.epsilon import parse_epsilon, show_epsilon
from understudy.ledger.grants import EVERYWHERE, check_user, grant, read_budget
from understudy.ledger.ledger import Ledger
from understudy.ledger.populations import add_to_cap, check_reason, populations, require
from understudy.ledger.ties import read_ties

What = Literal["grant", "cap"]
MOST_OPEN = 20  # requests of one user that wait


@dataclass(frozen=True)
class Project:
    number: int
    at: str
    owner: str
    title: str
    purpose: str


@dataclass(frozen=True)
class BudgetRequest:
    """`dataset` is a population's name, empty for all; `state` is open, granted or declined."""

    number: int
    at: str
    what: What
    by: str
    user: str
    dataset: str
    epsilon: str
    until: str
    project: str
    why: str
    approved: tuple[str, ...] = ()
    state: str = "open"
    reason: str = ""
    file: str | None = None


def open_project(ledger: Ledger, owner: str, title: str, purpose: str) -> int:
    """A project of an analyst; its number among hers."""
    if not title.strip() or len(title) > 100 or not title.isprintable():
        raise Refused("A project's title has 1 to 100 printable characters.")
    check_reason(purpose)
    with ledger.journal.write() as run:
        body = {"purpose": purpose.strip(), "title": title.strip()}
        ledger.journal.append(run, "project", holder=owner, body=body)
        return sum(project.owner == owner for project in _projects(run).values())


def projects(ledger: Ledger, owner: str | None = None) -> list[Project]:
    """All projects, or those of one analyst, numbered for her alone (threat 28)."""
    with ledger.journal.database.reading() as run:
        known = list(_projects(run).values())
    if owner is None:
        return known
    own = [project for project in known if project.owner == owner]
    return [replace(project, number=number) for number, project in enumerate(own, 1)]


def requests(ledger: Ledger, user: str | None = None) -> list[BudgetRequest]:
    """All requests, newest first, or those of one analyst, numbered for her alone."""
    with ledger.journal.database.reading() as run:
        known = list(_requests(run).values())
    if user is not None:
        own = [request for request in known if request.user == user]
        known = [replace(request, number=number) for number, request in enumerate(own, 1)]
    return known[::-1]


def ask(
    ledger: Ledger,
    by: str,
    epsilon: str,
    why: str,
    *,
    what: What = "grant",
    user: str = "",
    dataset: str = "",
    until: str = "",
    project: int | None = None,
) -> int:
    """Ask for a grant or a higher cap, for a `project` by its owner's own number; the entry."""
    micro = parse_epsilon(epsilon)
    check_reason(why)
    day(until)
    with ledger.journal.write() as run:
        own = [each.number for each in _projects(run).values() if each.owner == by]
        if project is not None and not 0 < project <= len(own):
            raise Refused("You have no such project; open one first.")
        file = require(populations(run), dataset).key if dataset else None
        if what == "cap" and file is None:
            raise Refused("A cap belongs to a data set; name it.")
        waiting = [r for r in _requests(run).values() if r.state == "open" and r.by == by]
        if len(waiting) >= MOST_OPEN:
            raise Refused(f"{MOST_OPEN} of your requests wait already; wait for an answer.")
        body = {"by": by, "until": until, "what": what, "why": why.strip()}
        return ledger.journal.append(
            run,
            "request",
            holder=user or None,
            dataset=file,
            micro=micro,
            refers=None if project is None else own[project - 1],
            body=body,
        )


def approve(ledger: Ledger, number: int, by: str, limit: int | None) -> bool:
    """Approve a request; whether it is carried out, or waits for a second steward."""
    with ledger.journal.write() as run:
        request = _open_one(run, number)
        if by in request.approved:
            raise Refused("You have approved this already; another steward must.")
        if by == request.user:
            raise Refused("Nobody approves what she gets herself; another steward must.")
        ledger.journal.append(run, "approve", refers=number, body={"by": by})
        stewards = (*request.approved, by)
        micro = parse_epsilon(request.epsilon)
        asked = request.what, request.user, request.file, micro
        if len(stewards) < 2 and needs_two(run, limit, *asked):
            return False
        names = ", ".join(stewards)
        if request.what == "cap" and request.file is not None:
            add_to_cap(ledger.journal, run, request.file, micro, 0, names, number)
        else:
            grant(
                ledger.journal, run, request.user, micro, names, request.file, day(request.until),
                number,
            )  # fmt: skip
        return True


def decline(ledger: Ledger, number: int, by: str, reason: str) -> None:
    check_reason(reason)
    with ledger.journal.write() as run:
        _open_one(run, number)
        body = {"by": by, "reason": reason.strip()}
        ledger.journal.append(run, "decline", refers=number, body=body)


def grant_or_ask(
    ledger: Ledger,
    limit: int | None,
    by: str,
    user: str,
    epsilon: str,
    dataset: str = "",
    until: str = "",
) -> int | None:
    """A steward's grant; the number of the request that waits for a second one, where it must."""
    micro, end = parse_epsilon(epsilon), day(until)
    with ledger.journal.write() as run:
        check_user(run, user)
        file = require(populations(run), dataset).key if dataset else None
        if not needs_two(run, limit, "grant", user, file, micro):
            grant(ledger.journal, run, user, micro, by, file, end)
            return None
    why = "above what one steward grants"
    number = ask(ledger, by, epsilon, why, user=user, dataset=dataset, until=until)
    approve(ledger, number, by, limit)
    return number


def raise_or_ask(ledger: Ledger, limit: int | None, by: str, file: str, epsilon: str) -> int | None:
    """A steward's raise of a cap; the number of the request, where a second one must approve."""
    if limit is None:
        ledger.raise_cap(file, epsilon, by)
        return None
    number = ask(ledger, by, epsilon, "a higher cap", what="cap", dataset=file)
    approve(ledger, number, by, limit)
    return number


def needs_two(
    run: Run, limit: int | None, what: What, user: str, file: str | None, micro: int
) -> bool:
    """Whether a second steward must approve: every cap, and what takes an account above `limit`."""
    if limit is None or what == "cap":
        return limit is not None
    holder = EVERYWHERE if file is None else read_ties(run).of(file)
    budget = read_budget(run, holder, user)
    return (budget.allowed if budget else 0) + micro > limit


def day(text: str) -> datetime | None:
    """The end of a day such as 2027-06-30 (UTC); None for no text."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(f"{text}T23:59:59+00:00")
    except ValueError:
        raise Refused("A day is written like 2027-06-30.") from None


def _open_one(run: Run, number: int) -> BudgetRequest:
    request = _requests(run).get(number)
    if request is None or request.state != "open":
        raise Refused("This request is not open; see the list.")
    return request


def _projects(run: Run) -> dict[int, Project]:
    rows = run("SELECT number, at, holder, body FROM entries WHERE kind = 'project'")
    return {
        number: Project(number, at, owner, **json.loads(body))
        for number, at, owner, body in sorted(rows)
    }


def _requests(run: Run) -> dict[int, BudgetRequest]:
    known = _projects(run)
    names = {file: p.name for p in populations(run).values() for file in p.files}
    by_number: dict[int, BudgetRequest] = {}
    rows = run(
        "SELECT number, at, kind, holder, dataset, micro, refers, body FROM entries WHERE kind IN "
        "('request', 'approve', 'decline', 'grant', 'cap') ORDER BY number"
    )
    for number, at, kind, holder, dataset, micro, refers, body in rows:
        content = json.loads(body)
        if kind == "request":
            project = known.get(refers) if refers else None
            by_number[number] = BudgetRequest(
                number, at, content["what"], content["by"], holder or "", names.get(dataset, ""),
                show_epsilon(micro), content["until"], project.title if project else "",
                content["why"], file=dataset,
            )  # fmt: skip
        elif refers in by_number:
            by_number[refers] = _after(
                by_number[refers], kind, content["by"], content.get("reason", "")
            )
    return by_number


def _after(request: BudgetRequest, kind: str, by: str, reason: str) -> BudgetRequest:
    if kind == "approve":
        return replace(request, approved=(*request.approved, by))
    state = "declined" if kind == "decline" else "granted"
    return replace(request, state=state, reason=reason)
