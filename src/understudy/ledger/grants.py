"""What a user may spend: on all data sets, or on those of one population, until a day.

A user sees the data sets that were granted to her and no others. What others have spent is no part
of it (threat 28): what is granted on a population is kept for its holder, so that no refusal tells
her what is left of the cap. Releases, and budgets for all data sets, have what nobody was promised.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from understudy.errors import UnknownName
from understudy.ledger.amounts import Amount, Budget, OverBudget, Standing
from understudy.ledger.database import Run
from understudy.ledger.epsilon import show_epsilon
from understudy.ledger.journal import Journal, allow, read_standing
from understudy.ledger.ties import read_ties

EVERYWHERE = "user"  # the holder of a budget for all data sets


@dataclass(frozen=True)
class OwnAccount:
    """A user's budget for the files of a population; `holder` is its key, or `EVERYWHERE`."""

    holder: str
    budget: Budget
    until: datetime | None = None
    granted: bool = True


def grant(
    journal: Journal,
    run: Run,
    user: str,
    micro: int,
    by: str,
    dataset: str | None = None,
    until: datetime | None = None,
    request: int | None = None,
) -> None:
    """Append the entry of a grant, and allow it; `request` is what it follows from."""
    check_user(run, user)
    if dataset is not None:
        _check_kept(run, user, micro, read_ties(run).of(dataset), journal.clock())
    body = {"by": by} if until is None else {"by": by, "until": until.isoformat()}
    journal.append(
        run, "grant", holder=user, dataset=dataset, micro=micro, refers=request, body=body
    )
    allow(run, EVERYWHERE if dataset is None else read_ties(run).of(dataset), user, micro)


def promised(run: Run, key: str, now: datetime, but: str = "") -> Amount:
    """What is granted on the population `key` and not spent, to all users or all but one: as much
    as it can come to, in whatever questions it is spent. Who is shut out is promised nothing."""
    active = "SELECT name FROM users WHERE active = 1"
    select = f"SELECT name FROM budgets WHERE kind = ? AND name IN ({active})"
    names = [name for (name,) in run(select, key)]
    lefts = [own_account(run, name, key, now).budget.left for name in names if name != but]
    return sum(map(Amount.pure, lefts), Amount())


def _check_kept(run: Run, user: str, micro: int, key: str, now: datetime) -> None:
    """Refuse to grant what the cap could not pay beside what others were promised."""
    standing = read_standing(run, key)
    if standing is None:
        return
    own = read_budget(run, key, user) or Budget()
    others = Standing(standing.cap, standing.spent + promised(run, key, now, user))
    try:
        others.check(Amount.pure(own.left + micro))
    except OverBudget:
        free = show_epsilon(max(others.budget.left - own.left, 0))
        raise OverBudget(
            f"Of the cap of this data set epsilon {free} is neither spent nor granted to somebody; "
            "grant no more than that, or raise the cap first."
        ) from None


def check_user(run: Run, user: str) -> None:
    names = [name for (name,) in run("SELECT name FROM users")]
    if user not in names:
        raise UnknownName("user", user, names)


def own_account(run: Run, user: str, key: str, now: datetime, lock: str = "") -> OwnAccount:
    """What the user may spend on the population `key`; nothing where the grant has ended."""
    budget = read_budget(run, key, user, lock)
    if budget is None:
        everywhere = read_budget(run, EVERYWHERE, user, lock)
        return OwnAccount(EVERYWHERE, everywhere or Budget(), None, everywhere is not None)
    until = _until(run, user, key)
    if until is not None and now > until:
        return OwnAccount(key, Budget(budget.allowed, budget.spent, room=0), until, False)
    return OwnAccount(key, budget, until)


def read_budget(run: Run, holder: str, user: str, lock: str = "") -> Budget | None:
    select = f"SELECT allowed, spent FROM budgets WHERE kind = ? AND name = ?{lock}"
    rows = run(select, holder, user)
    return Budget(*rows[0]) if rows else None


def _until(run: Run, user: str, key: str) -> datetime | None:
    ties = read_ties(run)
    rows = run(
        "SELECT dataset, body FROM entries WHERE holder = ? AND kind = 'grant' "
        "ORDER BY number DESC",
        user,
    )
    for dataset, body in rows:
        if dataset is not None and ties.of(dataset) == key:
            until = json.loads(body).get("until")
            return None if until is None else datetime.fromisoformat(until)
    return None
