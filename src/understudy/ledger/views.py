"""What the steward sees of a ledger: who spent how much, on what, and when.

Questions and answers belong to the analyst who paid for them, and key hashes to nobody, so
none of these views holds an entry's body (threat 16).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from understudy.errors import Refused, UnknownName
from understudy.ledger.epsilon import show_epsilon
from understudy.ledger.journal import Budget
from understudy.ledger.ledger import Ledger

KINDS = {
    "open": "ledger opened",
    "user": "user added",
    "key": "new key",
    "enable": "user let in again",
    "disable": "user shut out",
    "grant": "grant",
    "dataset": "data set added",
    "cap": "cap raised",
    "reserve": "question paid",
    "release": "answered",
    "fail": "no answer",
    "spend": "spent outside",
}
SPENDING = ("reserve", "spend")


@dataclass(frozen=True)
class Line:
    """One entry without its body."""

    number: int
    at: str
    kind: str
    user: str | None
    dataset: str | None  # the public name; the fingerprint where there is none
    epsilon: str
    refers: int | None

    @property
    def words(self) -> str:
        return KINDS.get(self.kind, self.kind)


@dataclass(frozen=True)
class SpendingTotal:
    """What a user (None: a release or a table) spent on a data set."""

    user: str | None
    dataset: str
    epsilon: str
    entries: int


@dataclass(frozen=True)
class Account:
    """A user, the steward's way to see them."""

    name: str
    role: str
    active: bool
    allowed: str
    spent: str
    left: str


@dataclass(frozen=True)
class Cap:
    """A data set's cap by its names."""

    name: str
    allowed: str
    spent: str
    left: str


def dataset_names(ledger: Ledger) -> dict[str, str]:
    """Fingerprint -> public name(s)."""
    with ledger.journal.database.reading() as run:
        rows = run("SELECT dataset, body FROM entries WHERE kind = 'dataset' ORDER BY number")
    names: dict[str, str] = {}
    for fingerprint, body in rows:
        name = json.loads(body)["name"]
        names[fingerprint] = f"{names[fingerprint]}, {name}" if fingerprint in names else name
    return names


def dataset_fingerprint(ledger: Ledger, name: str) -> str:
    """The data set with this name or fingerprint; its cap is kept under the fingerprint."""
    with ledger.journal.database.reading() as run:
        rows = run("SELECT dataset, body FROM entries WHERE kind = 'dataset' ORDER BY number")
    known = [(str(fingerprint), str(json.loads(body)["name"])) for fingerprint, body in rows]
    matches = sorted(
        {fingerprint for fingerprint, called in known if name in (fingerprint, called)}
    )
    if not matches:
        raise UnknownName("data set", name, [called for _, called in known])
    if len(matches) > 1:
        raise Refused(
            f"`{name}` has been the name of several files; give a fingerprint instead: "
            f"{' or '.join(matches)}."
        )
    return matches[0]


def lines(ledger: Ledger, after: int = 0) -> Iterator[Line]:
    """Entries in order, after a number."""
    names = dataset_names(ledger)
    for e in ledger.entries(after):
        shown = None if e.dataset is None else names.get(e.dataset, e.dataset)
        yield Line(e.number, e.at, e.kind, e.user, shown, show_epsilon(e.micro), e.refers)


def latest(ledger: Ledger, before: int | None = None, count: int = 100) -> list[Line]:
    """The newest entries below a number, newest first."""
    with ledger.journal.database.reading() as run:
        last = int(run("SELECT max(number) FROM entries")[0][0] or 0)
    top = last + 1 if before is None else min(before, last + 1)
    newest = []
    for line in lines(ledger, max(0, top - 1 - count)):
        if line.number >= top:
            break
        newest.append(line)
    return newest[::-1]


def totals(ledger: Ledger) -> list[SpendingTotal]:
    """Spending per user and data set."""
    names = dataset_names(ledger)
    with ledger.journal.database.reading() as run:
        rows = run(
            "SELECT holder, dataset, sum(micro), count(*) FROM entries "
            "WHERE kind IN ('reserve', 'spend') GROUP BY holder, dataset"
        )
    spending = [
        SpendingTotal(user, names.get(dataset, str(dataset)), show_epsilon(int(micro)), int(count))
        for user, dataset, micro, count in rows
    ]
    return sorted(spending, key=lambda total: (total.user or "", total.dataset))


def accounts(ledger: Ledger) -> list[Account]:
    with ledger.journal.database.reading() as run:
        rows = run(
            "SELECT u.name, u.role, u.active, coalesce(b.allowed, 0), coalesce(b.spent, 0) "
            "FROM users u LEFT JOIN budgets b ON b.kind = 'user' AND b.name = u.name "
            "ORDER BY u.name"
        )
    return [
        Account(name, role, bool(active), *_shown(Budget(int(allowed), int(spent))))
        for name, role, active, allowed, spent in rows
    ]


def caps(ledger: Ledger) -> list[Cap]:
    return [
        Cap(name, *_shown(ledger.budget("dataset", fingerprint)))
        for fingerprint, name in dataset_names(ledger).items()
    ]


def _shown(budget: Budget) -> tuple[str, str, str]:
    return show_epsilon(budget.allowed), show_epsilon(budget.spent), show_epsilon(budget.left)
